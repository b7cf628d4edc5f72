"""DataStatistics against numpy and scipy, and against published figures."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.statistics.data_statistics import DataStatistics
from fedflow.components.statistics.describing import BASIC, describe
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import run_component

HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
DATA = Path(__file__).parents[3] / "examples" / "data"


def run(
    columns: dict[str, Any] | pa.Table, path: Path, model: Model | None = None, **params: Any
) -> tuple[Table, Outputs]:
    store = MemoryTableStore()
    table = store.add(columns)
    inputs = Inputs(
        data={"data": [("intersection_0", table)]},
        model={} if model is None else {"data_statistics_0": model},
    )
    result = run_component(
        DataStatistics,
        sites=[HOST],
        work_dir=path,
        params={HOST: params},
        inputs={HOST: inputs},
        tables={HOST: store},
    )[HOST]
    if result.error is not None:
        raise result.error
    assert result.outputs is not None
    assert result.progress[-1:] in ((), (1.0,))
    return table, result.outputs


def sample(seed: int, *, rows: int = 400) -> NDArray[np.float64]:
    return np.random.default_rng(seed).gamma(2.0, 3.0, size=rows) - 4.0


def test_the_basic_statistics_equal_numpy_and_scipy() -> None:
    values = sample(1)
    found = describe(values, (*BASIC, "count", "variance"))
    expected = {
        "sum": values.sum(),
        "mean": values.mean(),
        "stddev": values.std(),
        "median": np.sort(values)[199],
        "min": values.min(),
        "max": values.max(),
        "missing_ratio": 0.0,
        "missing_count": 0.0,
        "skewness": stats.skew(values),
        "kurtosis": stats.kurtosis(values),
        "coefficient_of_variance": abs(values.std() / values.mean()),
        "count": 400.0,
        "variance": values.var(),
    }
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 50])
def test_the_bias_of_skewness_and_kurtosis_is_corrected_as_scipy_does(rows: int) -> None:
    values = sample(2, rows=rows)
    found = describe(values, ("skewness", "kurtosis"), bias=False)
    if rows == 1:
        assert found == {"skewness": 0.0, "kurtosis": 0.0}
        return
    expected = {
        "skewness": stats.skew(values, bias=False),
        "kurtosis": stats.kurtosis(values, bias=False),
    }
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("percent", [0, 1, 7, 25, 50, 95, 99.5, 100])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_a_quantile_is_the_value_of_its_rank(percent: float, rows: int) -> None:
    values = sample(3, rows=rows)
    rank = max(1, math.ceil(Fraction(str(percent)) * rows / 100))
    expected = np.sort(values)[rank - 1]
    assert describe(values, (f"{percent}%",)) == {f"{percent}%": expected}


def test_missing_and_abnormal_values_are_not_counted() -> None:
    values = np.array([1.0, np.nan, 3.0, -999.0, 5.0])
    found = describe(values, (*BASIC, "count"), abnormal={-999.0})
    assert found["count"] == 3
    assert found["missing_count"] == 2
    assert found["missing_ratio"] == 0.4
    assert found["mean"] == found["median"] == 3.0


def test_what_an_empty_column_has_no_value_for_is_null() -> None:
    found = describe(np.full(4, np.nan), (*BASIC, "count", "95%"))
    given = {name: value for name, value in found.items() if value is not None}
    assert given == {"sum": 0.0, "missing_count": 4.0, "missing_ratio": 1.0, "count": 0.0}


@pytest.mark.parametrize("value", [0.1, -1e300, 1e-300])
def test_equal_values_have_no_spread(value: float) -> None:
    found = describe(np.full(1000, value), BASIC)
    assert found["stddev"] == found["skewness"] == found["kurtosis"] == 0.0
    assert found["mean"] == value


def test_values_near_the_ends_of_floats_have_a_shape() -> None:
    for scale in (1e-200, 1e200):
        found = describe(sample(4) * scale, ("skewness", "kurtosis", "variance"))
        assert found["skewness"] == pytest.approx(stats.skew(sample(4)))
        assert found["kurtosis"] == pytest.approx(stats.kurtosis(sample(4)))
    assert found["variance"] is None  # beyond the greatest float


def test_the_example_of_the_host(tmp_path: Path) -> None:
    table = pyarrow.csv.read_csv(DATA / "breast_hetero_host.csv")
    given, outputs = run(table, tmp_path, statistics=["95%", "coefficient_of_variance", "stddev"])
    assert outputs.data == (given,)
    assert list(outputs.summary) == [f"x{i}" for i in range(20)]
    assert list(outputs.summary["x0"]) == [*BASIC, "95%"]
    for name, found in outputs.summary.items():
        values = table.column(name).to_numpy()
        assert found["skewness"] == pytest.approx(stats.skew(values), rel=1e-9)
        assert found["95%"] == np.sort(values)[math.ceil(0.95 * 569) - 1]
    json.dumps(outputs.summary, allow_nan=False)


def test_the_model_has_fates_fields(tmp_path: Path) -> None:
    columns = {"id": ["a", "b"], "x0": [1.0, 2.0], "x1": pa.nulls(2, pa.float64()), "x2": [7, 9]}
    _, outputs = run(columns, tmp_path, statistics="50%", column_indexes=[1], column_names=["x0"])
    model = outputs.model
    assert model is not None
    assert (model.meta_name, model.param_name) == ("StatisticMeta", "StatisticParam")
    assert model.meta == {
        "statistics": [*BASIC, "50%"],
        "static_columns": ["x0", "x1"],
        "quantile_error": 1e-4,
        "need_run": True,
    }
    assert set(model.param) == {"self_values", "host_values", "model_name"}
    assert model.param["model_name"] == "statistic_model"
    last = model.param["self_values"]["results"][-1]
    assert last == {"value_name": "50%", "col_names": ["x0", "x1"], "values": [1.0, None]}


def test_with_its_model_it_only_passes_the_data(tmp_path: Path) -> None:
    columns = {"id": ["a", "b"], "x0": [1.0, 2.0]}
    _, first = run(columns, tmp_path)
    given, outputs = run(columns, tmp_path, first.model)
    assert outputs == Outputs(data=(given,))
    given, outputs = run(columns, tmp_path, need_run=False)
    assert outputs == Outputs(data=(given,), passed=True)


def test_names_of_another_partys_columns_are_left_out(tmp_path: Path) -> None:
    columns = {"id": ["a", "b"], "x0": [1.0, 2.0], "x1": [3.0, 4.0]}
    _, outputs = run(columns, tmp_path, column_indexes=[1], column_names=["x9"])
    assert list(outputs.summary) == ["x1"]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"statistics": ["mode"]}, "statistics"),
        ({"statistics": "101%"}, "statistics"),
        ({"statistics": "٩٥%"}, "statistics"),
        ({"column_indexes": [3]}, "column_indexes"),
        ({"column_indexes": -2}, "column_indexes"),
        ({"column_indexes": [], "column_names": ["x9"]}, "column_names"),
        ({"quantile_error": 2}, "quantile_error"),
        ({"column_indexes": []}, "column_indexes"),
        ({"column_indexes": None, "column_names": None}, "column_indexes"),
    ],
)
def test_a_wrong_parameter_is_named(tmp_path: Path, params: dict[str, Any], path: str) -> None:
    with pytest.raises(BadParameter, match=path):
        run({"id": ["a"], "x0": [1.0]}, tmp_path, **params)


@pytest.mark.parametrize(
    "columns",
    [
        {"id": ["a"], "x0": ["text"]},
        {"id": ["a"], "x0": [math.inf]},
        {"id": pa.array([], pa.string()), "x0": pa.array([], pa.float64())},
        {"id": ["a"], "y": [1.0]},
    ],
)
def test_data_that_have_no_statistics_are_refused(tmp_path: Path, columns: dict[str, Any]) -> None:
    with pytest.raises(BadData):
        run(columns, tmp_path)
