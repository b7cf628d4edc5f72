"""Upload makes a table of a file, Reader brings a table into a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors import BadData, BadParameter, NotSupportedYet, TableExists, TableNotFound
from fedflow.components.io.reader import Reader, ReaderParams
from fedflow.components.io.upload import Upload, UploadParams
from fedflow.domain.site import Role, Site
from fedflow.sdk import Table, TableStore, check_params, spec_of
from fedflow.tables.local import LocalTableStore
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component
from fedflow.testing.tables import local_store

LOCAL = Site(Role.LOCAL, "0")  # type: ignore[arg-type]
GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
ARBITER = Site(Role.ARBITER, "10000")  # type: ignore[arg-type]
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


def test_an_upload_over_a_table_needs_drop(store: LocalTableStore, tmp_path: Path) -> None:
    assert upload(store, tmp_path).error is None
    assert isinstance(upload(store, tmp_path).error, TableExists)
    assert isinstance(upload(store, tmp_path, drop=2).error, TableExists)  # fate_client 1.6's "no"
    assert upload(store, tmp_path, drop=1).error is None
    assert upload(store, tmp_path, destroy=True).error is None


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
    entry = store.open("experiment", "guest").entry
    assert (entry.have_head, entry.extend_sid, entry.id_delimiter) == (False, True, ";")
    assert entry.preview == (("0", "a", "1"), ("1", "a", "2"))


def test_a_wrong_file_fails_the_upload_and_keeps_nothing(
    store: LocalTableStore, tmp_path: Path
) -> None:
    source = tmp_path / "d.csv"
    source.write_text("id,x\na,1\na,2\n")
    result = upload(store, tmp_path, file=str(source))
    assert isinstance(result.error, BadData)
    assert result.metrics == {}
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize(
    "params", [{"with_meta": True}, {"schema": {"header": "a"}}, {"storage_address": {"path": "x"}}]
)
def test_upload_options_of_a_later_version_say_so(
    store: LocalTableStore, tmp_path: Path, params: dict[str, Any]
) -> None:
    assert isinstance(upload(store, tmp_path, **params).error, NotSupportedYet)


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


def test_reader_by_job_id_says_it_is_not_done_yet(store: LocalTableStore, tmp_path: Path) -> None:
    table = {"job_id": "2026", "component_name": "a_0", "data_name": "data"}
    assert isinstance(run(Reader, store, tmp_path, GUEST, table=table).error, NotSupportedYet)


@pytest.mark.parametrize("table", [{}, {"name": "t"}, {"namespace": "n"}, {"nam": "t"}, "t"])
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
