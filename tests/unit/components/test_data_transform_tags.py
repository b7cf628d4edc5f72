"""DataTransform of rows of tags and of svmlight's pairs, and of rows with match ids."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features import row_formats, tagged_rows
from fedflow.components.features.data_transform import DataIO, DataTransform
from fedflow.components.io.upload import Upload
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table
from fedflow.tables.local_table import LocalTable
from fedflow.testing.run import run_component
from fedflow.testing.tables import local_store

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
LOCAL = Site(Role.LOCAL, "0")  # type: ignore[arg-type]
DATA = Path(__file__).parent / "data"


class Bench:
    """Uploads text or files, and runs DataTransform on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = local_store(folder / "tables")
        self._number = 0

    def upload(self, content: str | Path, **params: Any) -> LocalTable:
        source = content if isinstance(content, Path) else self.folder / "in.csv"
        if isinstance(content, str):
            source.write_text(content)
        self._number += 1
        given = {"file": str(source), "namespace": "n", "table_name": f"t{self._number}", "head": 0}
        result = run_component(
            Upload, sites=[LOCAL], work_dir=self.folder, params={LOCAL: given | params},
            tables={LOCAL: self.store},
        )[LOCAL]  # fmt: skip
        if result.error is not None:
            raise result.error
        return self.store.open("n", f"t{self._number}")

    def run(
        self,
        table: Table | str,
        model: Model | None = None,
        module: type[Any] = DataTransform,
        **params: Any,
    ) -> Outputs:
        table = self.upload(table) if isinstance(table, str) else table
        inputs = Inputs(
            data={"data": [("reader_0", table)]},
            model={} if model is None else {"data_transform_0": model},
        )
        result = run_component(
            module, sites=[GUEST], work_dir=self.folder, params={GUEST: params},
            inputs={GUEST: inputs}, tables={GUEST: self.store},
        )[GUEST]  # fmt: skip
        if result.error is not None:
            raise result.error
        assert result.outputs is not None
        assert result.progress[-1] == 1.0
        return result.outputs

    def instances(self, table: Table | str, model: Model | None = None, **params: Any) -> Table:
        (out,) = self.run(table, model, **params).data
        assert out is not None
        return out


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def columns_of(table: Table) -> dict[str, list[Any]]:
    read: dict[str, list[Any]] = table.read().to_pydict()
    return read


def test_svmlight_rows_become_columns(bench: Bench) -> None:
    path = DATA / "svmlight_guest.csv"
    table = bench.instances(
        bench.upload(path), input_format="sparse", with_label=True, label_type="int"
    )
    lines = [line.split(",") for line in path.read_text().splitlines()]
    assert table.schema.names == ("id", "label", *(f"x{i}" for i in range(20)))
    assert table.schema.anonymous == tuple(f"guest_9999_x{i}" for i in range(20))
    found = columns_of(table)
    assert found["id"] == [line[0] for line in lines]
    assert found["label"] == [int(line[1]) for line in lines]
    for i in range(20):
        cells = [dict(item.split(":") for item in line[2:]) for line in lines]
        assert found[f"x{i}"] == [float(row.get(str(i), 0)) for row in cells]


def test_rows_of_different_lengths_are_uploaded_and_read(bench: Bench) -> None:
    text = "u,1,0:5,3:2.5\nv,0\nw,1,1:-1\n"
    raw = bench.upload(text)
    assert raw.schema.names == ("id", "x0")
    assert columns_of(raw)["x0"] == ["1,0:5,3:2.5", "0", "1,1:-1"]
    found = columns_of(bench.instances(raw, input_format="sparse", with_label=True))
    assert found == {
        "id": ["u", "v", "w"], "label": [1, 0, 1], "x0": [5.0, 0.0, 0.0], "x1": [0.0, 0.0, -1.0],
        "x2": [0.0, 0.0, 0.0], "x3": [2.5, 0.0, 0.0],
    }  # fmt: skip


def test_a_row_may_have_no_feature_at_all(bench: Bench) -> None:
    raw = bench.upload("u,a\nv\nw,b,a\n")
    assert columns_of(raw) == {"id": ["u", "v", "w"], "x0": ["a", "", "b,a"]}
    found = columns_of(bench.instances(raw, input_format="tag", data_type="int"))
    assert found == {"id": ["u", "v", "w"], "a": [1, 0, 1], "b": [0, 0, 1]}


@pytest.mark.parametrize("input_format", ["tag", "sparse"])
def test_rows_of_ids_alone_have_no_feature(bench: Bench, input_format: str) -> None:
    with pytest.raises(BadData, match="no row has a feature"):
        bench.instances("u\nv\n", input_format=input_format)


def test_tags_lose_white_space_and_empty_items(bench: Bench) -> None:
    table = bench.instances(bench.upload(DATA / "tag.csv"), input_format="tag")
    assert table.schema.columns == tuple(
        sorted(["年龄2", "有车", "有房", "收入8000以上", "身高182"])
    )
    assert columns_of(table)["有车"] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("file", "delimitor", "separator"),
    [
        ("breast_hetero_host_tag_value.csv", ";", ":"),
        ("tag_value.csv", ",", ":"),
        ("mock_tag_hetero_host.csv", ";", None),
    ],
)
def test_the_official_tag_files_become_the_table_that_they_describe(
    bench: Bench, file: str, delimitor: str, separator: str | None
) -> None:
    table = bench.instances(
        bench.upload(DATA / file), input_format="tag", delimitor=delimitor,
        tag_with_value=separator is not None,
    )  # fmt: skip
    rows: list[dict[str, float]] = []
    for line in (DATA / file).read_text().splitlines():
        items = [i for i in line.split(",", 1)[1].split(delimitor) if i]
        pairs = [i.split(separator) if separator else [i, "1"] for i in items]
        rows.append({tag: float(value) for tag, value in pairs})
    header = sorted({tag for row in rows for tag in row})
    assert table.schema.columns == tuple(header)
    found = columns_of(table)
    for tag in header:
        assert found[tag] == [row.get(tag, 0.0) for row in rows]


def test_a_fitted_header_goes_before_new_tags(bench: Bench) -> None:
    how: dict[str, Any] = {"input_format": "tag", "tag_with_value": True, "delimitor": ";"}
    fitted = bench.run("u,b:1;a:2\n", **how)
    later = bench.instances("v,c:9;b:3\nw,d:1\n", fitted.model)
    assert columns_of(later) == {"id": ["v", "w"], "a": [0.0, 0.0], "b": [3.0, 0.0]}
    fitted = bench.run("u,2:1\n", input_format="sparse")
    later = bench.instances("v,7:9,0:4\n", fitted.model)
    assert columns_of(later) == {"id": ["v"], "x0": [4.0], "x1": [0.0], "x2": [0.0]}


def test_rows_to_be_predicted_may_lack_the_label(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = bench.run("u,1,0:1\nv,0,1:1\n", input_format="sparse", with_label=True)
    with caplog.at_level(logging.WARNING):
        later = bench.instances("w,0:3,1:4\n", fitted.model)
    assert later.schema.names == ("id", "x0", "x1")
    assert columns_of(later) == {"id": ["w"], "x0": [3.0], "x1": [4.0]}
    assert "unlabelled" in caplog.text
    again = bench.instances("w,1,0:3\n", fitted.model)
    assert again.schema.label == "label"


def test_missing_values_are_filled_in_tagged_rows_too(bench: Bench) -> None:
    done = bench.run(
        "u,a:1;b:NA\nv,a:3\n", input_format="tag", tag_with_value=True, delimitor=";",
        missing_fill=True, missing_fill_method="mean",
    )  # fmt: skip
    (table,) = done.data
    assert table is not None
    assert columns_of(table) == {"id": ["u", "v"], "a": [1.0, 3.0], "b": [0.0, 0.0]}
    assert done.summary["missing_fill_info"]["missing_impute_rate"] == {"a": 0.0, "b": 0.5}
    unfilled = bench.instances(
        "u,a:1;b:\nv,a:3\n", input_format="tag", tag_with_value=True, delimitor=";"
    )
    assert np.isnan(columns_of(unfilled)["b"][0])


def test_types_may_differ_between_tags(bench: Bench) -> None:
    table = bench.instances(
        "u,a:1;b:x\nv,a:2\n", input_format="tag", tag_with_value=True, delimitor=";",
        data_type="int", exclusive_data_type={"B": "str"},
    )  # fmt: skip
    assert columns_of(table) == {"id": ["u", "v"], "a": [1, 2], "b": ["x", "0"]}


def test_of_several_values_of_a_tag_the_last_one_counts(bench: Bench) -> None:
    table = bench.instances("u,0:1,0:2\n", input_format="sparse")
    assert columns_of(table) == {"id": ["u"], "x0": [2.0]}


def test_wide_rows_are_spread_some_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_formats, "CELLS_AT_ONCE", 12)
    text = "".join(f"r{i},{i % 5}:{i}\n" for i in range(23))
    table = bench.instances(text, input_format="sparse")
    found = columns_of(table)
    for k in range(5):
        assert found[f"x{k}"] == [float(i) if i % 5 == k else 0.0 for i in range(23)]
    broken = text + "z,1:oops\nz2,2:0x1\n"
    with pytest.raises(BadData, match="2 values of features are no valid number, first in row 24"):
        bench.run(broken, input_format="sparse")


@pytest.mark.parametrize(
    ("text", "params", "says"),
    [
        ("u,1,0:1\nv,1,nonsense\n", {}, "1 items are not <number>:<value>, first in row 2"),
        ("u,1,-1:1\n", {}, "first in row 1"),
        ("u,1,a:1\n", {}, "not <number>"),
        ("u,1,0:1\nv,1,0:x\nw,1,0:y\n", {}, "2 values of features are no valid number, .* row 2"),
        ("u,1,0:1\nv,q,0:1\n", {}, "1 of 2 cells hold no valid label, first in row 2"),
        ("u,1\nv,0\n", {}, "no row has a feature"),
        ("u,a\n", {"input_format": "tag", "tag_with_value": True}, "not <tag>:<value>"),
        ("u,1,id\nv,1,b\n", {"input_format": "tag"}, "a feature is named"),
        ("u,1,label\nv,1,b\n", {"input_format": "tag"}, "a feature is named"),
    ],
)
def test_wrong_rows_are_told_with_their_count(
    bench: Bench, text: str, params: Mapping[str, Any], says: str
) -> None:
    how: dict[str, Any] = {
        "input_format": "sparse",
        "with_label": params.get("tag_with_value") is None,
    } | dict(params)
    with pytest.raises(BadData, match=says):
        bench.run(text, **how)


def test_a_row_too_short_for_its_label_is_told(bench: Bench) -> None:
    how: dict[str, Any] = {"input_format": "tag", "with_label": True, "with_match_id": True}
    with pytest.raises(BadData, match="1 of 2 rows lack an item before the features"):
        bench.run("u,m,1,a\nv,m\n", **how)


def test_too_many_columns_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadData, match="20001 different features, more than 20000"):
        bench.run("u,20000:1\n", input_format="sparse")
    monkeypatch.setattr(tagged_rows, "MAX_CELLS", 5)
    with pytest.raises(BadData, match="2 rows of 3 features are more than 5 cells"):
        bench.run("u,a,b\nv,c,a\n", input_format="tag")


def test_dense_rows_in_one_text_are_parted(bench: Bench) -> None:
    raw = bench.upload("id,y;a;b\nu,1;2;3\nv,0;4;NA\n", head=1)
    assert raw.schema.columns == ("y;a;b",)
    table = bench.instances(raw, delimitor=";", with_label=True, missing_fill=True)
    assert columns_of(table) == {"id": ["u", "v"], "y": [1, 0], "a": [2.0, 4.0], "b": [3.0, 0.0]}
    headless = bench.upload("u|1;2\nv|3;4\n", id_delimiter="|")
    table = bench.instances(headless, delimitor=";")
    assert columns_of(table) == {"id": ["u", "v"], "x0": [1.0, 3.0], "x1": [2.0, 4.0]}


def test_dense_rows_of_other_lengths_are_told(bench: Bench) -> None:
    with pytest.raises(BadData, match="2 of 3 rows have not 2 cells between ',', first row 2"):
        bench.run("u,1,2\nv,1,2,3\nw,1\n")


def test_the_header_in_one_text_must_name_its_columns(bench: Bench) -> None:
    for header in ("a;a", "a;", "a;id"):
        with pytest.raises(BadData, match="twice, or not at all"):
            bench.run(bench.upload(f"id,{header}\nu,1;2\n", head=1), delimitor=";")


# --- match ids ------------------------------------------------------------------------------------


def test_the_first_column_behind_the_key_is_the_match_id(bench: Bench) -> None:
    path = DATA / "breast_hetero_guest_sample_id.csv"
    done = bench.run(bench.upload(path, head=1), with_label=True, with_match_id=True)
    (table,) = done.data
    assert table is not None
    assert table.schema.names[:3] == ("mock_id", "id", "y")
    assert (table.schema.match_id, len(table.schema.columns)) == ("id", 10)
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    found = columns_of(table)
    assert found["mock_id"] == [line[0] for line in lines]
    assert found["id"] == [line[1] for line in lines]
    assert done.model is not None
    assert done.model.meta["with_match_id"] is True
    later = bench.instances(
        bench.upload(
            "mock_id,id,y\nq,m,1\n".replace("y", ",".join(["y", *table.schema.columns])).replace(
                "1\n", "1" + ",0" * 10 + "\n"
            ),
            head=1,
        ),
        done.model,
    )
    assert later.schema.match_id == "id"
    assert columns_of(later)["id"] == ["m"]


@pytest.mark.parametrize(
    ("params", "match_id", "columns"),
    [
        ({"match_id_name": "n"}, "n", ("m", "a")),
        ({"match_id_index": 1}, "n", ("a",)),
        ({"match_id_name": "m"}, "m", ("n", "a")),
        ({}, "m", ("n", "a")),
    ],
)
def test_the_match_id_is_chosen_by_name_or_place(
    bench: Bench, params: Mapping[str, Any], match_id: str, columns: tuple[str, ...]
) -> None:
    raw = bench.upload("k,m,n,y,a\nu,7,8,1,0.5\n", head=1)
    table = bench.instances(raw, with_match_id=True, with_label=True, **params)
    assert (table.schema.match_id, table.schema.columns) == (match_id, columns)


@pytest.mark.parametrize(
    "params",
    [{"match_id_name": "z"}, {"match_id_index": 9}, {"match_id_name": "y", "with_label": True}],
)
def test_a_match_id_that_is_not_there_is_refused(bench: Bench, params: Mapping[str, Any]) -> None:
    with pytest.raises(BadData):
        bench.run(bench.upload("k,m,y\nu,7,1\n", head=1), with_match_id=True, **params)


def test_a_label_before_the_match_id_is_not_taken_for_it(bench: Bench) -> None:
    text = "k,y,m,a\nu,1,7,2\n"
    table = bench.instances(bench.upload(text, head=1), with_match_id=True, with_label=True)
    assert table.schema.names == ("k", "m", "y", "a")
    meta = {"with_match_id": True, "with_label": True}
    raw = bench.upload(text, head=1, with_meta=1, meta=meta)
    assert raw.entry.extra is not None
    assert raw.entry.extra["match_id_name"] == "m"
    assert bench.instances(raw).schema.names == ("k", "m", "y", "a")


def test_missing_match_ids_are_counted(bench: Bench) -> None:
    raw = bench.upload("k,m,a\nu,7,1\nv,,1\nw,NA,1\n", head=1)
    with pytest.raises(BadData, match="2 of 3 cells hold no valid match id, first in row 2"):
        bench.run(raw, with_match_id=True)


def test_tagged_rows_begin_with_match_ids_and_label(bench: Bench) -> None:
    how: dict[str, Any] = {"with_match_id": True, "with_label": True, "input_format": "sparse"}
    table = bench.instances("u,m,1,0:5\nv,m,0\n", **how)
    assert table.schema.names == ("id", "match_id", "label", "x0")
    assert columns_of(table)["match_id"] == ["m", "m"]
    named = bench.instances("u,l,m,1,0:5\n", **how, match_id_name="phone", match_id_index=1)
    assert named.schema.names == ("id", "phone", "label", "x0")
    assert columns_of(named)["phone"] == ["m"]


def test_made_ids_make_the_old_ones_match_ids(bench: Bench) -> None:
    raw = bench.upload("id,y,a\nu,1,2\nu,0,3\n", head=1, extend_sid=1)
    table = bench.instances(raw, with_label=True, with_match_id=True)
    assert table.schema.names == ("extend_sid", "id", "y", "a")
    assert columns_of(table)["id"] == ["u", "u"]
    assert len(set(columns_of(table)["extend_sid"])) == 2


# --- what the upload says -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "upload", "meta", "names", "shown"),
    [
        ("u,1,0:5\nv,0,1:2\n", {}, {"input_format": "svmlight", "with_label": True},
         ("id", "label", "x0", "x1"), {"label_name": "label", "header": []}),
        ("u,a;b\nv,b\n", {}, {"input_format": "tag", "delimiter": ";"}, ("id", "a", "b"), {}),
        ("u,m=1;a=2\nv,m=3\n", {},
         {"input_format": "tag", "delimiter": ";", "tag_with_value": True,
          "tag_value_delimiter": "="}, ("id", "a", "m"), {}),
        ("u,m,0:5\n", {"extend_sid": 1}, {"input_format": "sparse", "id_range": 2},
         ("extend_sid", "match_id", "x0"), {}),
        ("id,m,n,y,a\nu,1,2,0,3\n", {"head": 1},
         {"with_match_id": True, "id_list": ["id", "n", "m"], "with_label": True},
         ("id", "n", "y", "a"), {"header": ["a"], "match_id_name": "n", "label_name": "y"}),
        ("id,m,n,y,a\nu,1,2,0,3\n", {"head": 1}, {"with_match_id": True, "id_range": 2},
         ("id", "m", "y", "a"), {"header": ["y", "a"], "match_id_name": "m"}),
        ("id,y,a\nu,1,3\nu,1,4\n", {"head": 1, "auto_increasing_sid": 1}, {"with_label": True},
         ("extend_sid", "id", "y", "a"), {"match_id_name": "id", "header": ["a"]}),
    ],
)  # fmt: skip
def test_an_upload_with_meta_says_how_rows_are_read(
    bench: Bench, text: str, upload: Mapping[str, Any], meta: Mapping[str, Any],
    names: tuple[str, ...], shown: Mapping[str, Any],
) -> None:  # fmt: skip
    raw = bench.upload(text, with_meta=1, meta=meta, **upload)
    assert raw.entry.extra is not None
    assert {name: raw.entry.extra[name] for name in shown} == shown
    assert bench.instances(raw, label_name="other", delimitor="!").schema.names == names


def test_parameters_that_the_upload_contradicts_are_named(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    meta = {"with_label": True, "label_name": "y"}
    raw = bench.upload("id,y,yy\nu,1,0\n", head=1, with_meta=1, meta=meta)
    bench.run(raw, label_name="yy", with_label=True)
    (told,) = [r.getMessage() for r in caplog.records if "is not used" in r.getMessage()]
    assert ".label_name: 'yy' is not used: the upload of table " in told
    assert told.endswith(" says 'y' (Overruled)")


def test_data_io_reads_what_an_upload_says_of_match_ids(bench: Bench) -> None:
    raw = bench.upload("id,m,a\nu,1,2\n", head=1, with_meta=1, meta={"with_match_id": True})
    done = bench.run(raw, module=DataIO)
    (table,) = done.data
    assert table is not None
    assert table.schema.names == ("id", "m", "a")
    assert done.model is not None
    assert "with_match_id" not in done.model.meta


@pytest.mark.parametrize(
    "meta",
    [{"with_match_id": True, "id_list": ["z"]},
     {"with_match_id": True, "id_list": ["y"], "with_label": True},
     {"with_match_id": True, "id_range": 3}],
)  # fmt: skip
def test_meta_that_names_no_id_column_is_refused(bench: Bench, meta: Mapping[str, Any]) -> None:
    with pytest.raises(BadData):
        bench.upload("id,y,a\nu,1,2\n", head=1, with_meta=1, meta=meta)


def test_a_match_id_beyond_the_leading_ones_is_refused(bench: Bench) -> None:
    raw = bench.upload(
        "u,m,0:1\n", with_meta=1,
        meta={"input_format": "sparse", "with_match_id": True, "id_range": 1},
    )  # fmt: skip
    with pytest.raises(BadParameter):
        bench.run(raw, match_id_index=1)
