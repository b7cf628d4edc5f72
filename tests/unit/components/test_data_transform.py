"""DataTransform on one party: labels, types, missing values, outliers, and transforming again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.error import FedflowError
from fedflow.components.features.data_transform import DataIO, DataTransform
from fedflow.components.features.data_transform_params import DataTransformParams
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table, TableKind, TableSchema, check_params
from fedflow.testing.run import RunResult, run_component
from fedflow.testing.tables import local_store

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
EXAMPLES = Path(__file__).parents[3] / "examples" / "data"


class Bench:
    """A store of local tables, and a way to run DataTransform on CSV text."""

    def __init__(self, folder: Path, module: type[Any] = DataTransform) -> None:
        self.folder = folder
        self._module = module
        self.store = local_store(folder / "tables")
        self._number = 0

    def table(self, text: str) -> Table:
        self._number += 1
        source = self.folder / "in.csv"
        source.write_text(text)
        return self.store.import_csv(source, namespace="n", name=f"t{self._number}")

    def result(self, table: Table | str, model: Model | None = None, **params: Any) -> RunResult:
        table = self.table(table) if isinstance(table, str) else table
        inputs = Inputs(
            data={"data": [("reader_0", table)]},
            model={} if model is None else {"data_transform_0": model},
        )
        return run_component(
            self._module,
            sites=[GUEST],
            work_dir=self.folder,
            params={GUEST: params},
            inputs={GUEST: inputs},
            tables={GUEST: self.store},
        )[GUEST]

    def run(self, table: Table | str, model: Model | None = None, **params: Any) -> Outputs:
        result = self.result(table, model, **params)
        if result.error is not None:
            raise result.error
        assert result.outputs is not None
        return result.outputs

    def rows(self, table: Table | str, model: Model | None = None, **params: Any) -> list[Any]:
        (out,) = self.run(table, model, **params).data
        assert out is not None
        return [tuple(row.values()) for row in out.read().to_pylist()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_guests_example_becomes_labelled_instances(bench: Bench) -> None:
    source = EXAMPLES / "breast_hetero_guest.csv"
    outputs = bench.run(source.read_text(), with_label=True)
    (table,) = outputs.data
    assert table is not None
    expected = np.loadtxt(source, delimiter=",", skiprows=1)
    assert table.schema == TableSchema(
        kind=TableKind.INSTANCES,
        id="id",
        label="y",
        columns=tuple(f"x{i}" for i in range(10)),
        anonymous=tuple(f"guest_9999_x{i}" for i in range(10)),
    )
    rows = table.read()
    assert rows.schema.field("y").type == pa.int64()
    assert rows.column("id").to_pylist() == [str(int(i)) for i in expected[:, 0]]
    for i, name in enumerate(table.schema.names[1:], start=1):
        assert np.array_equal(rows.column(name).to_numpy(), expected[:, i])
    assert outputs.summary == {}
    assert not outputs.passed


def test_the_label_may_stand_anywhere_under_any_name(bench: Bench) -> None:
    (table,) = bench.run(
        "id,a,G3,b\nu,1,7.5,2\n", with_label=True, label_name="G3", label_type="float"
    ).data
    assert table is not None
    assert table.schema.names == ("id", "G3", "a", "b")
    assert table.read().to_pylist() == [{"id": "u", "G3": 7.5, "a": 1.0, "b": 2.0}]


@pytest.mark.parametrize(
    ("label_type", "text", "value"),
    [
        ("int", "1", 1),
        ("int64", "-1", -1),
        ("long", "3.0", 3),
        ("float64", "0.5", 0.5),
        ("str", "M", "M"),
    ],
)
def test_labels_are_cast(bench: Bench, label_type: str, text: str, value: object) -> None:
    (row,) = bench.rows(f"id,y\nu,{text}\n", with_label=True, label_type=label_type)
    assert row == ("u", value)
    assert type(row[1]) is type(value)


def test_a_label_column_without_with_label_is_a_feature(bench: Bench) -> None:
    assert bench.rows("id,y,x\nu,1,2\n") == [("u", 1.0, 2.0)]


def test_a_missing_label_column_lists_the_columns_in_the_own_log_only(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BadData, match="no column 'y'") as caught:
        bench.run("id,x0,x1\nu,1,2\n", with_label=True)
    assert "x0" not in str(caught.value)  # other parties read it
    assert "x0, x1" in caplog.text


@pytest.mark.parametrize("cell", ["", "NA", "good", "1.5", "2e400"])
def test_a_bad_label_names_column_row_and_count_but_not_the_cell(bench: Bench, cell: str) -> None:
    with pytest.raises(BadData) as caught:
        bench.run(f"id,y,x\na,1,1\nb,{cell},1\nc,0,1\nd,{cell},1\n", with_label=True)
    assert caught.value.message == "column 'y': 2 of 4 cells hold no valid label, first in row 2."


@pytest.mark.parametrize(
    "cell", ["abc", "1,5", "--1", "1_000", "0x1F", "inf", "-inf", "1e999", "１"]
)
def test_a_bad_number_names_column_row_and_count_but_not_the_cell(bench: Bench, cell: str) -> None:
    cell = f'"{cell}"'
    with pytest.raises(BadData) as caught:
        bench.run(f"id,x,z\na,1,1\nb,2,1\nc,3,{cell}\nd,4,{cell}\n")
    assert caught.value.message == "column 'z': 2 of 4 cells hold no valid number, first in row 3."


def test_a_bad_number_in_a_late_batch_is_counted_over_the_whole_file(bench: Bench) -> None:
    lines = [f"{n},{n}" for n in range(150_000)]
    lines[70_000] = "70000,bad"
    lines[149_999] = "149999,bad"
    with pytest.raises(BadData, match="2 of 150000 cells hold no valid number, first in row 70001"):
        bench.run("id,x\n" + "\n".join(lines) + "\n")


def test_spellings_of_numbers_are_understood(bench: Bench) -> None:
    spellings = ["1", "+1", " 1 ", "1.", "1e0", "1.0", "0001", "10e-1"]
    rows = bench.rows("id,x\n" + "".join(f"{n},{s}\n" for n, s in enumerate(spellings)))
    assert [r[1] for r in rows] == [1.0] * len(spellings)


@pytest.mark.parametrize("cell", ["", "NULL", "null", "NA", " NA ", "nan", "NaN"])
def test_built_in_missing_texts_are_nan(bench: Bench, cell: str) -> None:
    rows = bench.rows(f"id,x\na,{cell}\nb,2\n")
    assert math.isnan(rows[0][1])
    assert rows[1] == ("b", 2.0)


@pytest.mark.parametrize("cell", ["None", "?", "missing", "n/a", "-"])
def test_other_texts_are_missing_only_when_listed(bench: Bench, cell: str) -> None:
    text = f"id,x\na,{cell}\nb,2\n"
    with pytest.raises(BadData):
        bench.run(text)
    assert math.isnan(bench.rows(text, missing_impute=[cell])[0][1])


def test_types_hold_for_all_features_or_for_one(bench: Bench) -> None:
    (table,) = bench.run(
        "id,A,b,c\nu,1,x,3\nv,NA,,4\n",
        data_type="int",
        exclusive_data_type={"B": "str", "C": "float", "no": "int"},
    ).data
    assert table is not None
    assert [f.type for f in table.read().schema][1:] == [pa.int64(), pa.string(), pa.float64()]
    assert table.read().to_pylist() == [
        {"id": "u", "A": 1, "b": "x", "c": 3.0},
        {"id": "v", "A": None, "b": "", "c": 4.0},
    ]


def test_whole_numbers_keep_all_their_digits(bench: Bench) -> None:
    rows = bench.rows("id,x\na,9223372036854775807\nb,-9223372036854775808\n", data_type="long")
    assert [r[1] for r in rows] == [2**63 - 1, -(2**63)]
    with pytest.raises(BadData):
        bench.run("id,x\na,9223372036854775808\n", data_type="long")


@pytest.mark.parametrize(
    ("method", "value"),
    [("min", 1.0), ("max", 6.0), ("mean", 3.0), ("designated", 9.0), (None, 9.0)],
)
def test_missing_cells_are_filled(bench: Bench, method: str | None, value: float) -> None:
    outputs = bench.run(
        "id,x,z\na,1,0\nb,2,0\nc,,0\nd,6,0\n",
        missing_fill=True,
        missing_fill_method=method,
        default_value=9 if method in (None, "designated") else 0,
    )
    (table,) = outputs.data
    assert table is not None
    assert table.read().column("x").to_pylist() == [1.0, 2.0, value, 6.0]
    assert outputs.model is not None
    imputer = outputs.model.param["imputer_param"]
    assert imputer["missing_replace_value"]["x"] == str(value)
    assert imputer["missing_value_ratio"] == {"x": 0.25, "z": 0.0}
    assert outputs.summary["missing_fill_info"]["missing_impute_value"]["x"] == value
    assert outputs.summary["missing_fill_info"]["missing_impute_rate"] == {"x": 0.25, "z": 0.0}


def test_each_feature_may_have_its_own_value(bench: Bench) -> None:
    text = "id,y,x,z\na,1,,\n"
    options: dict[str, Any] = {
        "missing_fill": True,
        "missing_fill_method": "designated",
        "with_label": True,
    }
    assert bench.rows(text, default_value=[5, "7"], **options) == [("a", 1, 5.0, 7.0)]
    with pytest.raises(BadData, match="3 values are designated for 2 features"):
        bench.run(text, default_value=[1, 2, 3], **options)


def test_listed_numbers_are_missing_in_every_spelling(bench: Bench) -> None:
    rows = bench.rows(
        "id,x\na,-9999\nb,-9999.0\nc,5\n",
        missing_fill=True,
        missing_fill_method="max",
        missing_impute=[-9999],
    )
    assert [r[1] for r in rows] == [5.0, 5.0, 5.0]


def test_a_column_without_numbers_has_no_mean_and_stays_missing(bench: Bench) -> None:
    options: dict[str, Any] = {"missing_fill": True, "missing_fill_method": "mean"}
    rows = bench.rows("id,x,z\na,,1\nb,NA,\n", **options)
    assert all(math.isnan(row[1]) for row in rows)
    assert [row[2] for row in rows] == [1.0, 1.0]
    with pytest.raises(BadData, match=r"column 'x'.*text has no mean"):
        bench.run("id,x\na,q\n", exclusive_data_type={"x": "str"}, **options)


def test_text_columns_are_filled_with_text(bench: Bench) -> None:
    rows = bench.rows(
        "id,x\na,\nb,q\n",
        data_type="str",
        missing_fill=True,
        missing_fill_method="designated",
        default_value="none",
    )
    assert rows == [("a", "none"), ("b", "q")]


@pytest.mark.parametrize(
    ("method", "value"), [("min", 1.0), ("max", 3.0), ("mean", 2.0), ("designated", 0.5)]
)
def test_outliers_are_replaced_by_what_the_others_say(
    bench: Bench, method: str, value: float
) -> None:
    outputs = bench.run(
        "id,x\na,1\nb,2\nc,3\nd,999\n",
        outlier_replace=True,
        outlier_replace_method=method,
        outlier_impute=["999"],
        outlier_replace_value=0.5,
    )
    (table,) = outputs.data
    assert table is not None
    assert table.read().column("x").to_pylist() == [1.0, 2.0, 3.0, value]
    assert outputs.summary == {"outlier_replace_rate": {"x": 0.25}}
    assert outputs.model is not None
    assert outputs.model.param["outlier_param"] == {
        "outlier_replace_value": {"x": str(value)},
        "outlier_value_ratio": {"x": 0.25},
    }


def test_missing_cells_are_filled_before_outliers_are_counted(bench: Bench) -> None:
    outputs = bench.run(
        "id,x\na,1\nb,3\nc,\nd,-1\n",
        missing_fill=True,
        missing_fill_method="designated",
        default_value=8,
        outlier_replace=True,
        outlier_replace_method="mean",
        outlier_impute=[-1],
    )
    (table,) = outputs.data
    assert table is not None
    assert table.read().column("x").to_pylist() == [1.0, 3.0, 8.0, 4.0]  # mean of 1, 3 and 8


def test_a_fill_value_that_is_an_outlier_is_replaced_too(bench: Bench) -> None:
    rows = bench.rows(
        "id,x\na,1\nb,\n",
        missing_fill=True,
        default_value=0,
        outlier_replace=True,
        outlier_replace_method="max",
        outlier_impute=[0],
    )
    assert rows == [("a", 1.0), ("b", 1.0)]


def test_the_built_in_outliers_are_the_missing_texts(bench: Bench) -> None:
    rows = bench.rows("id,x\na,4\nb,NA\n", outlier_replace=True, outlier_replace_method="max")
    assert rows == [("a", 4.0), ("b", 4.0)]


def test_statistics_span_all_batches(bench: Bench) -> None:
    count = 140_000
    lines = ["id,x"] + [f"{n},{n}" for n in range(count)]
    lines[5] = "4,"
    rows = bench.rows("\n".join(lines), missing_fill=True, missing_fill_method="mean")
    mean = (sum(range(count)) - 4) / (count - 1)
    assert rows[4][1] == pytest.approx(mean, rel=1e-12)


def test_the_model_repeats_parameters_and_says_what_was_learnt(bench: Bench) -> None:
    model = bench.run("id,y,a,b\nu,1,2,3\n", with_label=True).model
    assert model is not None
    assert (model.meta_name, model.param_name) == ("DataTransformMeta", "DataTransformParam")
    assert json.loads(json.dumps([dict(model.meta), dict(model.param)])) == [
        {
            "input_format": "dense",
            "delimitor": ",",
            "data_type": "float64",
            "exclusive_data_type": {},
            "tag_with_value": False,
            "tag_value_delimitor": ":",
            "with_label": True,
            "label_name": "y",
            "label_type": "int",
            "output_format": "dense",
            "with_match_id": False,
            "need_run": True,
            "imputer_meta": {"is_imputer": False, "strategy": "", "missing_value": []},
            "outlier_meta": {"is_outlier": False, "strategy": "", "outlier_value": []},
        },
        {
            "header": ["a", "b"],
            "anonymous_header": ["guest_9999_x0", "guest_9999_x1"],
            "sid_name": "id",
            "label_name": "y",
            "imputer_param": {"missing_replace_value": {}, "missing_value_ratio": {}},
            "outlier_param": {"outlier_replace_value": {}, "outlier_value_ratio": {}},
        },
    ]


def through_json(model: Model | None) -> Model:
    """Return the model as a server would hand it on: as JSON text."""
    assert model is not None
    meta, param = json.loads(json.dumps([dict(model.meta), dict(model.param)]))
    return Model(meta_name=model.meta_name, param_name=model.param_name, meta=meta, param=param)


def test_transforming_uses_the_fitted_order_values_and_parameters(bench: Bench) -> None:
    fitted = bench.run(
        "id,y,a,b\nu,1,2,10\nv,0,4,\n",
        with_label=True,
        missing_fill=True,
        missing_fill_method="mean",
        missing_impute=[-1],
        exclusive_data_type={"a": "int"},
    )
    model = through_json(fitted.model)
    rows = bench.rows("id,extra,b,a,y\np,text,,-1,1\nq,text,7,5,0\n", model)
    assert rows == [("p", 1, 3, 10.0), ("q", 0, 5, 7.0)]
    again = bench.run("id,y,b,a\np,1,1,1\n", model)
    assert again.model == model


def test_the_older_module_does_the_same_under_its_own_names(tmp_path: Path) -> None:
    older = Bench(tmp_path, DataIO)
    fitted = older.run("id,y,a,b\nu,1,2,3\n", with_label=True).model
    assert fitted is not None
    assert (fitted.meta_name, fitted.param_name) == ("DataIOMeta", "DataIOParam")
    assert "with_match_id" not in fitted.meta
    assert "anonymous_header" not in fitted.param
    assert older.rows("id,y,b,a\np,0,3,2\n", through_json(fitted)) == [("p", 0, 2.0, 3.0)]
    with pytest.raises(BadData, match="not DataTransformParam"):
        Bench(tmp_path).run("id,y,b,a\np,0,3,2\n", through_json(fitted))
    with pytest.raises(BadParameter, match="with_match_id"):
        older.run("id,a\nu,1\n", with_match_id=False)


def test_transforming_without_the_label_column_stays_unlabelled(bench: Bench) -> None:
    model = bench.run("id,y,a\nu,1,2\n", with_label=True).model
    (table,) = bench.run("id,a\np,3\n", through_json(model)).data
    assert table is not None
    assert table.schema.label is None
    assert table.read().to_pylist() == [{"id": "p", "a": 3.0}]


def test_transforming_without_a_fitted_column_names_it(bench: Bench) -> None:
    model = bench.run("id,a,b,c\nu,1,2,3\n").model
    with pytest.raises(BadData, match="2 columns of the model are missing: b, c"):
        bench.run("id,a\np,3\n", through_json(model))


@pytest.mark.parametrize(
    "model",
    [
        Model(meta_name="ScaleMeta", param_name="ScaleParam", meta={}, param={}),
        Model(meta_name="DataTransformMeta", param_name="DataTransformParam", meta={}, param={}),
    ],
)
def test_a_foreign_model_is_refused(bench: Bench, model: Model) -> None:
    with pytest.raises(BadData, match="the model input"):
        bench.run("id,a\np,3\n", model)


def test_need_run_false_passes_the_table_on(bench: Bench) -> None:
    table = bench.table("id,x\na,text\n")
    outputs = bench.run(table, need_run=False)
    assert outputs.data == (table,)
    assert outputs.passed
    assert outputs.model is None


def test_instances_are_not_transformed_twice(bench: Bench) -> None:
    (once,) = bench.run("id,x\na,1\n").data
    assert once is not None
    with pytest.raises(BadData, match="transformed before"):
        bench.run(once)


def test_no_table_is_bad_data(bench: Bench) -> None:
    result = run_component(DataTransform, sites=[GUEST], work_dir=bench.folder)[GUEST]
    assert isinstance(result.error, BadData)


def test_sparse_output_has_no_tiny_numbers(bench: Bench) -> None:
    rows = bench.rows("id,x\na,1e-9\nb,1e-7\nc,\n", output_format="sparse")
    assert [r[1] for r in rows[:2]] == [0.0, 1e-7]
    assert math.isnan(rows[2][1])


def test_progress_reaches_one_in_two_passes(bench: Bench) -> None:
    result = bench.result("id,x\na,1\n", missing_fill=True, missing_fill_method="max")
    assert result.progress == (0.5, 1.0)


def test_a_failed_run_leaves_no_table(bench: Bench) -> None:
    table = bench.table("id,x\na,bad\n")
    before = sorted((bench.folder / "tables").iterdir())
    assert bench.result(table).error is not None
    assert sorted((bench.folder / "tables").iterdir()) == before


@pytest.mark.parametrize(
    "params",
    [
        {"data_type": "complex"},
        {"missing_fill_method": "median"},
        {"exclusive_data_type": {"x": "date"}},
        {"with_label": "yes"},
        {"with_label": True, "label_name": ""},
        {"missing_fill": True, "default_value": None},
        {
            "outlier_replace": True,
            "outlier_replace_method": "designated",
            "outlier_replace_value": None,
        },
        {"delimiter": ","},
        {"delimitor": ""},
        {"tag_with_value": True, "tag_value_delimitor": ""},
        {"match_id_index": -1},
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        check_params(DataTransformParams, params, path="$")


def test_errors_are_fedflow_errors_only(bench: Bench) -> None:
    for text in ("id\na\n", "id,x\na,\n", "id,y\na,1\n"):
        result = bench.result(text, with_label=True)
        assert result.error is None or isinstance(result.error, FedflowError)
