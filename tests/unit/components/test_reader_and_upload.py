"""Upload makes a table of a file, Reader brings a table into a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData, BoundTableChanged, TableExists, TableNotFound
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.io.download import Download, DownloadParams
from fedflow.components.io.reader import Reader, ReaderParams
from fedflow.components.io.upload import Upload, UploadParams
from fedflow.components.io.writer import Writer, WriterParams
from fedflow.domain.data.storages import Bound, Connection, LocalFiles, PathFile, bound_to_json
from fedflow.domain.records import TableRecord
from fedflow.domain.site import Role, Site
from fedflow.sdk import (
    Inputs,
    Table,
    TableKind,
    TableSchema,
    TableStore,
    check_params,
    spec_of,
)
from fedflow.tables.catalog import TableOrigin, schema_to_json
from fedflow.tables.local import LocalTableStore
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component
from fedflow.testing.tables import MemoryCatalog, local_store
from tests.support.previews import preview_of

LOCAL = Site(Role.LOCAL, "0")  # type: ignore[arg-type]
GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
ARBITER = Site(Role.ARBITER, "10000")  # type: ignore[arg-type]
NAMES = {"namespace": "experiment", "name": "guest"}
GUEST_CSV = Path(__file__).parents[3] / "examples" / "data" / "breast_hetero_guest.csv"


@pytest.fixture
def store(tmp_path: Path) -> LocalTableStore:
    return local_store(tmp_path / "tables")


def run(kind: type[Any], store: TableStore, folder: Path, site: Site, **params: Any) -> RunResult:
    return run_component(
        kind, sites=[site], work_dir=folder, params={site: params}, tables={site: store}
    )[site]


def upload(store: TableStore, folder: Path, **params: Any) -> RunResult:
    given = {"file": str(GUEST_CSV), "namespace": "experiment", "table_name": "guest"} | params
    return run(Upload, store, folder, LOCAL, **given)


def output(result: RunResult) -> Table | None:
    assert result.error is None
    assert result.outputs is not None
    (table,) = result.outputs.data
    return table


def test_an_uploaded_file_is_read_into_a_job(store: LocalTableStore, tmp_path: Path) -> None:
    uploaded = upload(store, tmp_path, head=1, partition=4)
    assert uploaded.error is None
    metric = uploaded.metrics["upload", "data_access"]
    assert (metric.metric_type, metric.points) == ("UPLOAD", [("count", 569)])
    assert uploaded.progress[-1] == 1.0

    read = run(Reader, store, tmp_path, GUEST, table={"namespace": "experiment", "name": "guest"})
    table = output(read)
    assert table is not None
    assert table.count == 569
    shown = read.metrics["reader_namespace", "reader_name"]
    assert shown.metric_type == "data_info"
    assert shown.points == []
    assert shown.meta["table_name"] == "guest"
    assert shown.meta["namespace"] == "experiment"
    assert (shown.meta["count"], shown.meta["partitions"]) == (569, 4)
    assert shown.meta["table_info"]["y"] == "1,0"
    assert len(shown.meta["table_info"]["x0"].split(",")) == 5
    assert set(shown.meta) == {
        "table_name",
        "namespace",
        "table_info",
        "anonymous_info",
        "attribute_info",
        "partitions",
        "storage_engine",
        "count",
    }


@pytest.mark.parametrize(
    ("text", "names", "told"),
    [
        (
            "133,1,0.5,1,0.5\n",
            ("133", "1", "0.5", "1_2", "0.5_2"),
            ["columns 4, 5 have a name that stands before", "the line is probably a row"],
        ),
        ("id,x,x,x_2,x\n", ("id", "x", "x_3", "x_2", "x_4"), ["columns 3, 5 have a name"]),
        ("id,,x,\n", ("id", "column_2", "x", "column_4"), ["columns 2, 4 have no name"]),
        ("id,id\n", ("id", "id_2"), ["column 2 has a name"]),
        ("id,1,2\n", ("id", "1", "2"), ["the line is probably a row"]),
        ("id,y,1\n", ("id", "y", "1"), []),
    ],
)
def test_any_first_line_is_a_head_with_a_warning(
    text: str,
    names: tuple[str, ...],
    told: list[str],
    store: LocalTableStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text + ",".join(f"c{i}" for i in range(len(names))) + "\n")
    found = upload(store, tmp_path, file=str(file), head=1)
    table = output(found)
    assert table is not None
    assert table.schema.names == names
    assert list(table.read().to_pydict().values()) == [[f"c{i}"] for i in range(len(names))]
    warned = [one.getMessage() for one in caplog.records if "DoubtfulHead" in one.getMessage()]
    assert len(warned) == len(told)
    assert all(sentence in line for sentence, line in zip(told, warned, strict=True))
    assert all("send head 0 (`--no-head`)" in one.hint for one in found.warnings)


def test_an_upload_over_a_table_needs_drop(store: LocalTableStore, tmp_path: Path) -> None:
    assert upload(store, tmp_path).error is None
    assert isinstance(upload(store, tmp_path).error, TableExists)
    assert isinstance(upload(store, tmp_path, drop=2).error, TableExists)  # fate_client 1.6's "no"
    assert upload(store, tmp_path, drop=1).error is None
    assert upload(store, tmp_path, destroy=True).error is None


@pytest.mark.parametrize(
    ("text", "params", "said"),
    [
        ("id;x\n1;2\n", {}, "--id-delimiter ';'"),
        ("id\tx\n1\t2\n", {}, "--id-delimiter $'\\t'"),
        ("id|x;y|z\n1|2|3\n", {}, "--id-delimiter '|'"),
        ("id,x\n1,2\n", {"id_delimiter": ";"}, "--id-delimiter ,"),
        ("1;2\n", {"head": 0}, "--id-delimiter ';'"),
        ("id;x\n1;2\n", {"id_delimiter": ";"}, None),
        ("id,x;y\n1,2\n", {}, None),
        ("id\n1\n", {}, None),
    ],
)
def test_a_first_line_with_another_delimiter_is_a_warning(
    store: LocalTableStore, tmp_path: Path, text: str, params: dict[str, Any], said: str | None
) -> None:
    (tmp_path / "d.csv").write_text(text)
    found = upload(store, tmp_path, file=str(tmp_path / "d.csv"), **params)
    assert found.error is None or "\t" in text  # a tab is in no column's name
    assert [warning.code for warning in found.warnings] == (["OtherDelimiter"] if said else [])
    assert said is None or said in found.warnings[0].hint


def test_a_parquet_file_has_no_delimiter_to_warn_of(store: LocalTableStore, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": ["a;b"], "x;y": [1]}), tmp_path / "d.parquet")
    assert not upload(store, tmp_path, file=str(tmp_path / "d.parquet")).warnings


def test_upload_parameters_reach_the_table(store: LocalTableStore, tmp_path: Path) -> None:
    source = tmp_path / "d.csv"
    source.write_text("a;1\na;2\n")
    result = upload(
        store,
        tmp_path,
        file=str(source),
        head=0,
        id_delimiter=";",
        extend_sid=1,
        auto_increasing_sid=1,
    )
    assert result.error is None
    table = store.open("experiment", "guest")
    entry = table.entry
    assert (entry.have_head, entry.extend_sid, entry.id_delimiter) == (False, True, ";")
    assert preview_of(table) == (("0", "a", "1"), ("1", "a", "2"))


def test_a_wrong_file_fails_the_upload_and_keeps_nothing(
    store: LocalTableStore, tmp_path: Path
) -> None:
    source = tmp_path / "d.csv"
    source.write_text("id,x\na,1\na,2\n")
    result = upload(store, tmp_path, file=str(source))
    assert isinstance(result.error, BadData)
    assert result.metrics == {}
    assert list((tmp_path / "tables").iterdir()) == []


def test_meta_goes_before_the_parameters_of_data_transform(
    store: LocalTableStore, tmp_path: Path
) -> None:
    meta = {"with_label": True, "label_name": "y", "data_type": "float64"}
    assert upload(store, tmp_path, with_meta=1, meta=meta).error is None
    entry = store.open("experiment", "guest").entry
    assert entry.extra is not None
    assert entry.extra["label_name"] == "y"
    assert entry.extra["header"][0] == "x0"
    assert entry.extra["meta"]["label_type"] == "int"
    read = run(Reader, store, tmp_path, GUEST, table=NAMES)
    raw = output(read)
    assert raw is not None
    anonymous = read.metrics["reader_namespace", "reader_name"].meta["anonymous_info"]
    assert (anonymous["x9"], anonymous["y"]) == ("guest_9999_x9", "guest_9999_y")
    inputs = {GUEST: Inputs(data={"data": [("reader_0", raw)]}, model={})}
    done = run_component(
        DataTransform, sites=[GUEST], work_dir=tmp_path, inputs=inputs, tables={GUEST: store},
        params={GUEST: {"with_label": False, "label_name": "nothing"}},
    )[GUEST]  # fmt: skip
    table = output(done)
    assert table is not None
    assert table.schema.label == "y"
    assert "y" not in table.schema.columns
    assert done.outputs is not None
    assert done.outputs.model is not None
    assert done.outputs.model.meta["with_label"] is True


def test_meta_that_somebody_broke_is_told_by_data_transform(
    store: LocalTableStore, tmp_path: Path
) -> None:
    upload(store, tmp_path)
    entry = store.open("experiment", "guest").entry
    broken = store.table_of(replace(entry, extra={"meta": {"data_type": ["x"]}}))
    inputs = {GUEST: Inputs(data={"data": [("reader_0", broken)]}, model={})}
    result = run_component(
        DataTransform, sites=[GUEST], work_dir=tmp_path, inputs=inputs, tables={GUEST: store}
    )[GUEST]
    assert isinstance(result.error, BadParameter)


def test_meta_without_its_label_column_is_refused(store: LocalTableStore, tmp_path: Path) -> None:
    result = upload(store, tmp_path, with_meta=1, meta={"with_label": True, "label_name": "z"})
    assert isinstance(result.error, BadData)


@pytest.mark.parametrize("header", ["a;b", ["a", "b"]])
def test_a_schema_names_the_columns_of_a_file_without_a_head(
    store: LocalTableStore, tmp_path: Path, header: object
) -> None:
    source = tmp_path / "d.csv"
    source.write_text("1;2;3\n")
    given = {"file": str(source), "head": 0, "id_delimiter": ";"}
    made = upload(store, tmp_path, **given, schema={"sid": "key", "header": header})
    assert made.error is None
    assert store.open("experiment", "guest").schema.names == ("key", "a", "b")


@pytest.mark.parametrize(
    "schema", [{"sid": "k"}, {"header": "a"}, {"sid": "k", "header": "a"}, {"sid": 1, "header": []},
               {"sid": "k", "header": ["a", "a"]}, {"sid": "k", "header": ["a", ""]}]
)  # fmt: skip
def test_a_schema_that_does_not_fit_is_refused(
    store: LocalTableStore, tmp_path: Path, schema: dict[str, Any]
) -> None:
    source = tmp_path / "d.csv"
    source.write_text("1,2,3\n")
    result = upload(store, tmp_path, file=str(source), head=0, schema=schema)
    assert isinstance(result.error, BadData)


def test_a_file_that_became_a_link_is_not_read(store: LocalTableStore, tmp_path: Path) -> None:
    link = tmp_path / "d.csv"
    link.symlink_to(GUEST_CSV)
    assert isinstance(upload(store, tmp_path, file=str(link)).error, BadData)


def test_an_engine_without_csv_import_says_so(tmp_path: Path) -> None:
    assert isinstance(upload(MemoryTableStore(), tmp_path).error, NotSupportedYet)


def test_a_relative_path_is_refused(store: LocalTableStore, tmp_path: Path) -> None:
    assert isinstance(upload(store, tmp_path, file="in.csv").error, BadParameter)


@pytest.mark.parametrize(
    "params",
    [
        {"head": 2},
        {"head": -1},
        {"partition": 0},
        {"partition": 1024},
        {"id_delimiter": ""},
        {"id_delimiter": "ab"},
        {"table_name": ""},
        {"drop": -1},
        {"extend_sid": "yes"},
        {"unknown": 1},
        {"schema": {"sid": "id", "header": "x"}},
        {"meta": {"data_type": "complex"}},
        {"meta": {"with_label": True, "label_name": ""}},
        {"meta": {"unknown": 1}},
        {"meta": {"id_range": -1}},
        {"meta": {"delimiter": ""}},
    ],
)
def test_wrong_upload_parameters_are_refused(params: dict[str, Any]) -> None:
    good = {"file": "/x.csv", "namespace": "n", "table_name": "t"}
    assert check_params(UploadParams, good, path="$").partition == 1
    with pytest.raises(BadParameter):
        check_params(UploadParams, good | params, path="$")


def test_reader_of_an_unknown_table_fails(store: LocalTableStore, tmp_path: Path) -> None:
    result = run(Reader, store, tmp_path, GUEST, table={"namespace": "n", "name": "t"})
    assert isinstance(result.error, TableNotFound)


def test_reader_needs_a_table_except_at_an_arbiter(store: LocalTableStore, tmp_path: Path) -> None:
    assert isinstance(run(Reader, store, tmp_path, GUEST).error, BadParameter)
    assert output(run(Reader, store, tmp_path, ARBITER)) is None


def test_reader_takes_an_output_of_an_earlier_job(tmp_path: Path) -> None:
    catalog = MemoryCatalog()
    store = local_store(tmp_path / "tables", catalog=catalog)
    upload(store, tmp_path)
    catalog.put_output("2026", "a_0", "data", store.open("experiment", "guest").entry)
    table = {"job_id": "2026", "component_name": "a_0", "data_name": "data"}
    read = run(Reader, store, tmp_path, GUEST, table=table)
    found = output(read)
    assert found is not None
    assert found.count == 569
    assert read.metrics["reader_namespace", "reader_name"].meta["table_name"] == "guest"
    unknown = run(Reader, store, tmp_path, GUEST, table={**table, "data_name": "model"})
    assert isinstance(unknown.error, TableNotFound)
    other = run(Reader, MemoryTableStore(), tmp_path, GUEST, table=table)
    assert isinstance(other.error, NotSupportedYet)


def bound(source: Path, **changes: Any) -> TableRecord:
    schema = schema_to_json(TableSchema(kind=TableKind.RAW, id="id", columns=("x",)))
    entry = TableRecord(
        namespace="n", name="b", address="f" * 32, schema=schema, count=0, partitions=3,
        id_delimiter=",", have_head=True, extend_sid=False, origin=TableOrigin.BIND, preview=(),
        created_ms=1, engine="PATH", source=str(source),
    )  # fmt: skip
    return replace(entry, **changes)


def test_reader_copies_a_bound_file(tmp_path: Path) -> None:
    source = tmp_path / "d.csv"
    source.write_text("id,x\n1,2\n3,4\n")
    catalog = MemoryCatalog()
    catalog.register(bound(source))
    store = local_store(tmp_path / "tables", catalog=catalog)
    read = run(Reader, store, tmp_path, GUEST, table={"namespace": "n", "name": "b"})
    table = output(read)
    assert table is not None
    assert table.read().to_pydict() == {"id": ["1", "3"], "x": ["2", "4"]}
    shown = read.metrics["reader_namespace", "reader_name"].meta
    assert (shown["namespace"], shown["table_name"], shown["count"]) == ("n", "b", 2)
    assert (shown["partitions"], shown["storage_engine"]) == (3, "PATH")


def test_reader_copies_a_bound_parquet_file(tmp_path: Path) -> None:
    source = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"id": [1, 3], "x": [2.5, None]}), source)
    catalog = MemoryCatalog()
    catalog.register(bound(source))
    store = local_store(tmp_path / "tables", catalog=catalog)
    table = output(run(Reader, store, tmp_path, GUEST, table={"namespace": "n", "name": "b"}))
    assert table is not None
    assert table.read().to_pydict() == {"id": ["1", "3"], "x": ["2.5", ""]}


def test_reader_copies_a_bound_file_of_tags_and_what_is_said_of_it(tmp_path: Path) -> None:
    source = tmp_path / "d.csv"
    source.write_text("u,a;b\nv,a,b\n")
    meta = {"input_format": "tag", "delimiter": ";"}
    catalog = MemoryCatalog()
    schema = schema_to_json(TableSchema(kind=TableKind.RAW, id="id", columns=("x0",)))
    catalog.register(bound(source, schema=schema, have_head=False, extra={"meta": meta}))
    store = local_store(tmp_path / "tables", catalog=catalog)
    table = output(run(Reader, store, tmp_path, GUEST, table={"namespace": "n", "name": "b"}))
    assert table is not None
    assert table.read().to_pydict() == {"id": ["u", "v"], "x0": ["a;b", "a,b"]}
    inputs = {GUEST: Inputs(data={"data": [("reader_0", table)]}, model={})}
    done = run_component(
        DataTransform, sites=[GUEST], work_dir=tmp_path, inputs=inputs, tables={GUEST: store}
    )[GUEST]
    made = output(done)
    assert made is not None
    assert made.schema.columns == ("a", "a,b", "b")


@pytest.mark.parametrize("text", [None, "id,y\n1,2\n", "id,x\n1,2\n1,3\n", "", "id,x\n"])
def test_a_bound_file_that_has_changed_fails_the_reader(tmp_path: Path, text: str | None) -> None:
    source = tmp_path / "d.csv"
    if text is not None:
        source.write_text(text)
    catalog = MemoryCatalog()
    catalog.register(bound(source))
    store = local_store(tmp_path / "tables", catalog=catalog)
    read = run(Reader, store, tmp_path, GUEST, table={"namespace": "n", "name": "b"})
    assert isinstance(read.error, BadData | BoundTableChanged)
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize("storage", [True, False])
def test_a_bound_file_that_became_a_link_is_not_read(tmp_path: Path, storage: bool) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(GUEST_CSV)
    catalog = MemoryCatalog()
    place = bound_to_json(Bound(address=PathFile(path=str(link)))) if storage else None
    catalog.register(bound(link, storage=place))
    store = local_store(tmp_path / "tables", catalog=catalog)
    read = run(Reader, store, tmp_path, GUEST, table={"namespace": "n", "name": "b"})
    assert isinstance(read.error, BadData)


# --- Download, Writer -----------------------------------------------------------------------------


def test_a_table_is_written_as_the_file_that_it_came_from(
    store: LocalTableStore, tmp_path: Path
) -> None:
    upload(store, tmp_path)
    target = tmp_path / "new" / "out.csv"
    given = {"namespace": "experiment", "table_name": "guest", "output_path": str(target)}
    result = run(Download, store, tmp_path, LOCAL, **given)
    assert result.error is None
    assert target.read_text() == GUEST_CSV.read_text()
    assert result.metrics["download", "data_access"].points == [("count", 569)]
    assert [p.name for p in target.parent.iterdir()] == ["out.csv"]
    assert target.stat().st_mode & 0o077 == 0
    assert run(Download, store, tmp_path, LOCAL, **given, delimiter=";").error is None
    assert target.read_text().startswith("id;y;x0;")


def test_a_download_follows_no_link(store: LocalTableStore, tmp_path: Path) -> None:
    upload(store, tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "precious").write_text("keep")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "real" / "precious")
    for path in (tmp_path / "link" / "precious", tmp_path / "file", Path("relative.csv")):
        given = {"namespace": "experiment", "table_name": "guest", "output_path": str(path)}
        result = run(Download, store, tmp_path, LOCAL, **given)
        assert isinstance(result.error, BadParameter)
    assert (tmp_path / "real" / "precious").read_text() == "keep"


def test_a_failed_download_leaves_no_file(store: LocalTableStore, tmp_path: Path) -> None:
    given = {"namespace": "n", "table_name": "t", "output_path": str(tmp_path / "d" / "o.csv")}
    assert isinstance(run(Download, store, tmp_path, LOCAL, **given).error, TableNotFound)
    assert not (tmp_path / "d").exists()
    upload(store, tmp_path)
    entry = store.open("experiment", "guest").entry
    (tmp_path / "tables" / entry.address / "rows.arrow").write_bytes(b"damaged")
    given |= {"namespace": "experiment", "table_name": "guest"}
    assert isinstance(run(Download, store, tmp_path, LOCAL, **given).error, BadData)
    assert list((tmp_path / "d").iterdir()) == []


def test_a_written_table_lives_on_without_the_first_one(
    store: LocalTableStore, tmp_path: Path
) -> None:
    upload(store, tmp_path, partition=7)
    given = {
        "namespace": "experiment", "table_name": "guest", "output_namespace": "o",
        "output_name": "copy",
    }  # fmt: skip
    result = run(Writer, store, tmp_path, LOCAL, **given)
    made = output(result)
    assert made is not None
    assert (made.namespace, made.name, made.count) == ("o", "copy", 569)
    assert isinstance(run(Writer, store, tmp_path, LOCAL, **given).error, TableExists)
    assert run(Writer, store, tmp_path, LOCAL, **given, drop=1).error is None
    store.drop("experiment", "guest")
    copy = store.open("o", "copy")
    assert copy.read().num_rows == 569
    assert copy.partitions == 7
    names = sorted(p.name for p in (tmp_path / "tables").iterdir())
    assert names == [copy.entry.address]


def test_an_unknown_table_is_neither_written_nor_downloaded(
    store: LocalTableStore, tmp_path: Path
) -> None:
    given = {"namespace": "n", "table_name": "t", "output_namespace": "o", "output_name": "c"}
    assert isinstance(run(Writer, store, tmp_path, LOCAL, **given).error, TableNotFound)
    memory = MemoryTableStore()
    assert isinstance(run(Writer, memory, tmp_path, LOCAL, **given).error, NotSupportedYet)
    del given["output_name"]
    given |= {"storage_engine": "LOCALFS", "address": {"path": "/x"}}
    assert isinstance(run(Writer, memory, tmp_path, LOCAL, **given).error, NotSupportedYet)


def test_a_table_is_written_to_another_storage(tmp_path: Path) -> None:
    catalog = MemoryCatalog()
    store = local_store(tmp_path / "tables", catalog=catalog)
    upload(store, tmp_path)
    place = {"path": str(tmp_path / "out"), "format": "parquet"}
    given = {
        "namespace": "experiment", "table_name": "guest", "storage_engine": "LOCALFS",
        "address": place,
    }  # fmt: skip
    assert isinstance(run(Writer, store, tmp_path, LOCAL, **given).error, BadData), "not told where"
    catalog.put_target(Connection(address=LocalFiles(path=place["path"])))
    result = run(Writer, store, tmp_path, LOCAL, **given)
    assert result.outputs is not None, result.error
    assert result.outputs.summary == {"count": 569, "storage_engine": "LOCALFS"}
    assert result.metrics["writer", "data_access"].points == [("count", 569)]
    written = parquet.read_table(tmp_path / "out")
    assert written.equals(store.open("experiment", "guest").read())
    assert isinstance(run(Writer, store, tmp_path, LOCAL, **given).error, TableExists)


@pytest.mark.parametrize("kind", [DownloadParams, WriterParams])
def test_wrong_parameters_of_transfers_are_refused(kind: type[Any]) -> None:
    good = {"namespace": "n", "table_name": "t"}
    good |= {"output_path": "/x"} if kind is DownloadParams else {
        "output_namespace": "o", "output_name": "u",
    }  # fmt: skip
    check_params(kind, good, path="$")
    for wrong in ({"table_name": None}, {"unknown": 1}, {"namespace": None}, {"delimiter": "ab"}):
        with pytest.raises(BadParameter):
            check_params(kind, good | wrong, path="$")


@pytest.mark.parametrize(
    "table",
    [{}, {"name": "t"}, {"namespace": "n"}, {"nam": "t"}, "t", {"job_id": "1"},
     {"job_id": "1", "component_name": "a"}, {"job_id": "1", "data_name": "data"}],
)  # fmt: skip
def test_wrong_reader_parameters_are_refused(table: object) -> None:
    with pytest.raises(BadParameter):
        check_params(ReaderParams, {"table": table}, path="$")


def test_numbers_as_names_are_names(store: LocalTableStore, tmp_path: Path) -> None:
    upload(store, tmp_path, namespace="1", table_name="2")
    read = run(Reader, store, tmp_path, GUEST, table={"namespace": 1, "name": 2})
    assert output(read) is not None


def test_the_declarations_are_those_of_fate() -> None:
    reader, made = spec_of(Reader), spec_of(Upload)
    assert (reader.module, [r.value for r in reader.roles]) == (
        "Reader",
        ["guest", "host", "arbiter"],
    )
    assert (made.module, [r.value for r in made.roles]) == ("Upload", ["local"])
    assert not reader.needs_input
    assert not made.needs_input
