"""ColumnExpand adds columns to raw rows, and DataTransform knows them by their own names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features.column_expand import ColumnExpand, ColumnExpandParams
from fedflow.components.features.data_transform import DataTransform
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table, TableKind, TableSchema, check_params
from fedflow.testing.run import run_component
from fedflow.testing.tables import local_store

HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]


class Bench:
    """A store of local tables, and a way to run both modules on CSV text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = local_store(folder / "tables")
        self._number = 0

    def table(self, text: str, **how: Any) -> Table:
        self._number += 1
        source = self.folder / "in.csv"
        source.write_text(text)
        return self.store.import_csv(source, namespace="n", name=f"t{self._number}", **how)

    def run(
        self, module: type[Any], table: Table, model: Model | None = None, **params: Any
    ) -> Outputs:
        inputs = Inputs(
            data={"data": [("reader_0", table)]}, model={} if model is None else {"m": model}
        )
        result = run_component(
            module, sites=[HOST], work_dir=self.folder, params={HOST: params},
            inputs={HOST: inputs}, tables={HOST: self.store},
        )[HOST]  # fmt: skip
        if result.error is not None:
            raise result.error
        assert result.outputs is not None
        return result.outputs

    def expand(self, table: Table, model: Model | None = None, **params: Any) -> Table:
        (made,) = self.run(ColumnExpand, table, model, **params).data
        assert made is not None
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_new_columns_stand_behind_the_others(bench: Bench) -> None:
    raw = bench.table("id,y,a\nu,1,2\nv,0,3\n")
    done = bench.run(ColumnExpand, raw, append_header=["p", "q"], fill_value=[0, "x"])
    (table,) = done.data
    assert table is not None
    assert table.read().to_pydict() == {
        "id": ["u", "v"], "y": ["1", "0"], "a": ["2", "3"], "p": ["0", "0"], "q": ["x", "x"],
    }  # fmt: skip
    assert table.schema.kind is TableKind.RAW
    assert table.schema.anonymous == ("", "", "host_10000_exp_0", "host_10000_exp_1")
    assert done.model == Model(
        meta_name="ColumnExpandMeta",
        param_name="ColumnExpandParam",
        meta={
            "append_header": ["p", "q"], "method": "manual", "fill_value": ["0", "x"],
            "need_run": True,
        },
        param={"header": ["y", "a", "p", "q"]},
    )  # fmt: skip


def test_data_transform_keeps_the_anonymous_names(bench: Bench) -> None:
    raw = bench.table("id,a,y,b\nu,2,1,3\n")
    table = bench.expand(raw, append_header=["p"])
    table = bench.expand(table, append_header=["q"], fill_value=7)
    done = bench.run(DataTransform, table, with_label=True)
    (made,) = done.data
    assert made is not None
    assert made.schema.columns == ("a", "b", "p", "q")
    assert made.schema.anonymous == (
        "host_10000_x0", "host_10000_x1", "host_10000_exp_0", "host_10000_exp_1",
    )  # fmt: skip
    assert made.read().to_pydict()["p"] == [1e-8]
    assert done.model is not None
    assert done.model.param["anonymous_header"] == list(made.schema.anonymous)


def test_a_model_decides_columns_and_values(bench: Bench) -> None:
    fitted = bench.run(ColumnExpand, bench.table("id,a\nu,1\n"), append_header=["p"], fill_value=5)
    assert fitted.model is not None
    later = bench.run(ColumnExpand, bench.table("id,a\nv,2\n"), fitted.model, append_header=["z"])
    (table,) = later.data
    assert table is not None
    assert table.read().to_pydict() == {"id": ["v"], "a": ["2"], "p": ["5"]}
    assert later.model == fitted.model


def test_without_names_the_rows_stay_as_they_are(bench: Bench) -> None:
    table = bench.expand(bench.table("id,a\nu,1\n"))
    assert table.read().to_pydict() == {"id": ["u"], "a": ["1"]}


def test_need_run_false_passes_the_table(bench: Bench) -> None:
    raw = bench.table("id,a\nu,1\n")
    done = bench.run(ColumnExpand, raw, append_header=["p"], need_run=False)
    assert done.passed
    assert done.data == (raw,)
    assert done.model is None


def test_what_the_upload_said_is_kept(bench: Bench) -> None:
    extra = {"meta": {"with_label": True, "label_name": "a"}, "header": ["b"], "label_name": "a"}
    raw = bench.table("id,a,b\nu,1,2\n", describe=lambda _: extra)
    table = bench.expand(raw, append_header=["p"])
    (made,) = bench.run(DataTransform, table).data
    assert made is not None
    assert (made.schema.label, made.schema.columns) == ("a", ("b", "p"))
    assert table.entry.extra["header"] == ["b", "p"]  # type: ignore[attr-defined]


def test_wrong_tables_and_models_are_refused(bench: Bench) -> None:
    with pytest.raises(BadData, match="1 of the new columns exist already"):
        bench.expand(bench.table("id,a\nu,1\n"), append_header=["a"])
    with pytest.raises(BadData, match="without column names"):
        bench.expand(bench.table("u,0:1\nv,1:1,2:3\n", head=False), append_header=["a"])
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("a",))
    with bench.store.create(schema) as writer:
        instances = writer.close()
    with pytest.raises(BadData, match="transformed before"):
        bench.expand(instances, append_header=["b"])
    raw = bench.table("id,a\nu,1\n")
    for meta_name in ("OtherMeta", "ColumnExpandMeta"):
        other = Model(
            meta_name=meta_name, param_name=meta_name.replace("Meta", "Param"),
            meta={"append_header": ["p"], "fill_value": []}, param={},
        )  # fmt: skip
        with pytest.raises(BadData, match="the model input"):
            bench.expand(raw, other)


@pytest.mark.parametrize(
    "params",
    [{"append_header": ["a", "a"]}, {"append_header": [" "]}, {"append_header": ["a\x1b"]},
     {"method": "auto"}, {"append_header": ["a"], "fill_value": [1, 2]},
     {"append_header": ["a"], "fill_value": "x\ny"}],
)  # fmt: skip
def test_wrong_parameters_are_refused(params: Mapping[str, Any]) -> None:
    with pytest.raises(BadParameter):
        check_params(ColumnExpandParams, params, path="$")
