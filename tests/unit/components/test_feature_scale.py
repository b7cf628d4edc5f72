"""FeatureScale against numpy and scikit-learn: methods, limits, columns, models, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.preprocessing import minmax_scale, scale

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features.moments import Moments
from fedflow.components.features.scale import FeatureScale
from fedflow.sdk import Model, Outputs, TableKind, TableSchema
from tests.unit.components.one_party import Party, rows_of, schema_of

Floats = NDArray[np.float64]


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def data(party: Party, *, rows: int = 200) -> tuple[Any, Floats]:
    generator = np.random.default_rng(3)
    x = generator.normal(5.0, 3.0, size=(rows, 3))
    columns = {"id": [f"i{i}" for i in range(rows)], "y": [i % 2 for i in range(rows)]}
    columns |= {f"x{j}": x[:, j] for j in range(3)}
    return party.table(columns, anonymous=("g0", "g1", "g2")), x


def matrix(outputs: Outputs, names: tuple[str, ...] = ("x0", "x1", "x2")) -> Floats:
    rows = rows_of(outputs)
    return np.column_stack([rows[name] for name in names])


def test_standard_scale_is_scikit_learns(party: Party) -> None:
    table, x = data(party)
    outputs = party.run(FeatureScale, table)
    np.testing.assert_allclose(matrix(outputs), scale(x), rtol=1e-12, atol=1e-12)
    assert rows_of(outputs)["y"] == table.read().column("y").to_pylist()
    assert schema_of(outputs) == table.schema


def test_min_max_scale_is_scikit_learns(party: Party) -> None:
    table, x = data(party)
    result = party.result(FeatureScale, table, method="MIN_MAX_SCALE")
    assert result.outputs is not None
    np.testing.assert_allclose(matrix(result.outputs), minmax_scale(x), rtol=1e-12, atol=1e-15)
    metric = result.metrics["train", "scale"]
    assert (metric.metric_type, metric.points) == ("SCALE", [])
    assert metric.meta["method"] == "min_max_scale"
    assert list(result.progress) == sorted(result.progress)
    assert result.progress[-1] == 1.0


def test_summary_and_model_hold_what_was_learnt(party: Party) -> None:
    table, x = data(party)
    outputs = party.run(FeatureScale, table, scale_col_indexes=[1])
    x1 = x[:, 1]
    assert outputs.summary == {
        "x1": {
            "column_upper": x1.max(),
            "column_lower": x1.min(),
            "mean": pytest.approx(x1.mean(), rel=1e-12),
            "std": pytest.approx(x1.std(), rel=1e-12),
        }
    }
    model = outputs.model
    assert model is not None
    assert (model.meta_name, model.param_name) == ("ScaleMeta", "ScaleParam")
    assert model.param == {"col_scale_param": outputs.summary, "header": ["x0", "x1", "x2"]}
    assert model.meta == {
        "method": "standard_scale",
        "mode": "normal",
        "area": "null",
        "scale_column": ["x1"],
        "feat_upper": ["None"] * 3,
        "feat_lower": ["None"] * 3,
        "with_mean": True,
        "with_std": True,
        "need_run": True,
    }


def test_only_the_chosen_columns_change(party: Party) -> None:
    table, x = data(party)
    got = matrix(party.run(FeatureScale, table, scale_col_indexes=[2], scale_names=["x0"]))
    np.testing.assert_array_equal(got[:, 1], x[:, 1])
    np.testing.assert_allclose(got[:, [0, 2]], scale(x[:, [0, 2]]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("mean", "std"), [(False, True), (True, False), (False, False)])
def test_mean_and_deviation_can_be_left_alone(party: Party, mean: bool, std: bool) -> None:
    table, x = data(party)
    got = matrix(party.run(FeatureScale, table, with_mean=mean, with_std=std))
    expected = scale(x, with_mean=mean, with_std=False) / (x.std(axis=0) if std else 1.0)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_limits_clip_before_anything_is_learnt(party: Party) -> None:
    table, x = data(party)
    got = matrix(party.run(FeatureScale, table, feat_upper=7, feat_lower=[None, 4.0, 3.5]))
    clipped = np.minimum(x, 7.0)
    clipped[:, 1] = np.maximum(clipped[:, 1], 4.0)
    clipped[:, 2] = np.maximum(clipped[:, 2], 3.5)
    np.testing.assert_allclose(got, scale(clipped), rtol=1e-12, atol=1e-12)


def test_a_list_of_limits_may_have_one_per_scaled_column(party: Party) -> None:
    table, x = data(party)
    outputs = party.run(
        FeatureScale, table, method="min_max_scale", scale_col_indexes=[2], feat_upper=[6.0]
    )
    assert outputs.summary["x2"]["column_upper"] == 6.0
    got = matrix(outputs)[:, 2]
    np.testing.assert_allclose(got, minmax_scale(np.minimum(x[:, 2], 6.0)), atol=1e-15)


def test_capped_limits_are_quantiles(party: Party) -> None:
    table, x = data(party)
    outputs = party.run(
        FeatureScale, table, method="min_max_scale", mode="cap", feat_upper=0.9, feat_lower=0.1
    )
    ordered = np.sort(x, axis=0)
    low, high = ordered[19], ordered[179]  # ranks 20 and 180 of 200
    np.testing.assert_allclose(
        matrix(outputs), (np.clip(x, low, high) - low) / (high - low), atol=1e-15
    )


def test_a_constant_column_becomes_zero(party: Party) -> None:
    table = party.table({"id": ["a", "b"], "x0": [4.0, 4.0]})
    assert rows_of(party.run(FeatureScale, table))["x0"] == [0.0, 0.0]
    assert rows_of(party.run(FeatureScale, table, method="min_max_scale"))["x0"] == [0.0, 0.0]


def test_missing_values_are_left_out_and_stay(party: Party) -> None:
    table = party.table({"id": ["a", "b", "c"], "x0": [1.0, float("nan"), 3.0], "k": [1, 2, None]})
    rows = rows_of(party.run(FeatureScale, table))
    assert rows["x0"][0] == -1.0
    assert np.isnan(rows["x0"][1])
    assert rows["k"][:2] == [-1.0, 1.0]
    assert np.isnan(rows["k"][2])


def fitted(party: Party, **params: Any) -> Model:
    table = party.table({"id": ["a", "b", "c"], "x0": [0.0, 1.0, 2.0], "x1": [1.0, 1.0, 4.0]})
    model = party.run(FeatureScale, table, **params).model
    assert model is not None
    return model


def test_a_model_scales_as_it_learnt_and_clips_to_what_it_has_seen(party: Party) -> None:
    other = party.table({"id": ["u", "v"], "x1": [1.0, 9.0], "new": [5.0, 5.0], "x0": [-8.0, 1.0]})
    minmax = party.run(FeatureScale, other, model=fitted(party, method="min_max_scale"))
    assert rows_of(minmax) == {
        "id": ["u", "v"],
        "x1": [0.0, 1.0],
        "new": [5.0, 5.0],
        "x0": [0.0, 0.5],
    }
    standard = rows_of(party.run(FeatureScale, other, model=fitted(party)))
    assert standard["x0"] == [pytest.approx(-1 / np.sqrt(2 / 3)), 0.0]
    assert standard["x1"] == [pytest.approx(-1 / np.sqrt(2)), pytest.approx(2 / np.sqrt(2))]


def test_a_model_whose_columns_are_missing_is_refused(
    party: Party, caplog: pytest.LogCaptureFixture
) -> None:
    other = party.table({"id": ["u"], "x0": [1.0]})
    error = party.fails(FeatureScale, other, model=fitted(party))
    assert isinstance(error, BadData)
    assert "1 columns of the model are missing: x1" in error.message
    assert "columns of the table: x0" in caplog.text


@pytest.mark.parametrize(
    "param",
    [
        {},
        {"col_scale_param": {"x0": 1}},
        {"col_scale_param": {"x0": {"column_lower": "a", "column_upper": 1}}},
        {"col_scale_param": {"x0": {"column_lower": 0, "column_upper": float("nan")}}},
    ],
)
def test_a_damaged_model_is_refused(party: Party, param: dict[str, Any]) -> None:
    table = party.table({"id": ["u"], "x0": [1.0]})
    meta = {"method": "standard_scale"}
    model = Model(meta_name="ScaleMeta", param_name="ScaleParam", meta=meta, param=param)
    assert isinstance(party.fails(FeatureScale, table, model=model), BadData)


@pytest.mark.parametrize("method", ["standard_scale", "min_max_scale"])
def test_values_whose_spread_is_no_number_are_refused(party: Party, method: str) -> None:
    table = party.table({"id": ["a", "b"], "x": [1e308, -1e308]})
    error = party.fails(FeatureScale, table, method=method)
    assert isinstance(error, BadData)
    assert "column 'x': its values (2 rows) are too large" in error.message
    large = party.table({"id": ["a", "b"], "x": [1e300, 0.0]})
    assert rows_of(party.run(FeatureScale, large, method="min_max_scale"))["x"] == [1.0, 0.0]


def test_a_model_of_another_component_is_refused(party: Party) -> None:
    table = party.table({"id": ["u"], "x0": [1.0]})
    model = Model(meta_name="OtherMeta", param_name="OtherParam", meta={}, param={})
    assert (
        "holds OtherParam, not ScaleParam" in party.fails(FeatureScale, table, model=model).message
    )


def test_names_that_the_table_lacks_are_left_out(
    party: Party, caplog: pytest.LogCaptureFixture
) -> None:
    table, x = data(party)
    params = {"scale_col_indexes": [], "scale_names": ["z"]}
    np.testing.assert_array_equal(matrix(party.run(FeatureScale, table, **params)), x)
    assert "featurescale_0.scale_names: 1 of 1 chosen columns are not" in caplog.text


def test_no_method_or_no_need_leaves_the_rows(party: Party) -> None:
    table, x = data(party)
    outputs = party.run(FeatureScale, table, method=None)
    assert outputs.data == (table,)
    assert outputs.model is not None
    again = party.run(FeatureScale, table, model=outputs.model)
    np.testing.assert_array_equal(matrix(again), x)
    assert party.run(FeatureScale, table, need_run=False) == Outputs(data=(table,), passed=True)


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"method": "log"}, "method"),
        ({"mode": "hard"}, "mode"),
        ({"mode": "cap", "feat_upper": 3}, "feat_upper"),
        ({"feat_upper": 1, "feat_lower": 2}, "feat_lower"),
        ({"feat_upper": [1.0, 1.0, 1.0], "feat_lower": 2}, "feat_lower"),
        ({"feat_upper": [1.0, 1.0]}, "feat_upper"),
        ({"scale_col_indexes": 3}, "scale_col_indexes"),
        ({"scale_col_indexes": [3]}, "scale_col_indexes"),
    ],
)
def test_wrong_parameters_are_named(party: Party, params: dict[str, Any], path: str) -> None:
    table, _ = data(party)
    try:
        error: Exception = party.fails(FeatureScale, table, **params)
    except BadParameter as exc:  # before the start
        error = exc
    assert isinstance(error, BadParameter)
    assert path in str(error)


def test_columns_without_numbers_are_refused_with_their_counts(party: Party) -> None:
    text = party.table({"id": ["a"], "x0": ["red"]})
    assert "column 'x0' is string" in party.fails(FeatureScale, text).message
    empty = party.table({"id": ["a", "b"], "x0": [float("nan")] * 2})
    assert "column 'x0': it has no numbers to learn from (2 rows)" in (
        party.fails(FeatureScale, empty).message
    )


def test_infinite_values_of_all_blocks_are_counted(party: Party) -> None:
    values = np.zeros(70_000)
    values[[3, 69_999]] = np.inf
    table = party.table({"id": [str(i) for i in range(70_000)], "x0": values})
    assert "column 'x0' has 2 infinite values" in party.fails(FeatureScale, table).message


def test_moments_do_not_depend_on_the_blocks() -> None:
    values = np.random.default_rng(1).normal(1e6, 1e-2, 1000)
    moments = Moments()
    for block in np.split(values, [1, 10, 500]):
        moments.add(block)
    assert moments.mean == pytest.approx(values.mean(), rel=1e-15)
    assert moments.std == pytest.approx(values.std(), rel=1e-9)


def test_an_absent_table_gives_no_output(party: Party) -> None:
    assert party.run(FeatureScale, None) == Outputs()


def test_match_ids_and_weights_are_kept(party: Party) -> None:
    rows = pa.table({"sid": ["1"], "mid": ["m"], "y": [1], "w": [0.5], "x": [3.0]})
    schema = TableSchema(
        kind=TableKind.INSTANCES,
        id="sid",
        match_id="mid",
        label="y",
        weight="w",
        columns=("x",),
    )
    outputs = party.run(FeatureScale, party.stored(rows, schema))
    assert schema_of(outputs) == schema
    assert rows_of(outputs) == {"sid": ["1"], "mid": ["m"], "y": [1], "w": [0.5], "x": [0.0]}
