"""Tables: dropping what is not in use, keeping what running jobs need, disabling, listing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from msgspec import to_builtins

from fedflow.app.administration.permissions import PermissionRules
from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.data.allowed_storages import AllowedStorages
from fedflow.app.data.bindings import Binding, Bindings
from fedflow.app.data.connectors import Connectors
from fedflow.app.data.provenance import Provenance, SourceTable
from fedflow.app.data.table_details import TableDetails
from fedflow.app.data.table_schemas import TableSchemas
from fedflow.app.data.tables import Tables
from fedflow.app.local_jobs.transfers import Transfers
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.data import (
    BadData,
    BadStorage,
    BadTableName,
    ColumnsFixed,
    FileNotAllowed,
    NoData,
    PlaceNotAllowed,
    TableDisabled,
    TableExists,
    TableNotFound,
    TableNotTracked,
)
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import JobNotFound, SubmitRefused
from fedflow.base.errors.requests import BadRequest, MissingArgument, NotSupportedYet
from fedflow.base.ids import PartyId
from fedflow.domain.data.storage_places import Places
from fedflow.domain.data.storages import Connection
from fedflow.domain.data.table_names import REPLACED
from fedflow.domain.records import ColumnFacts, JobKey, OutputTable, TableRecord, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus
from fedflow.store.connector_key import KeyFile
from fedflow.wire.fields import table_schema_row
from tests.board import seeds
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl, table

READER = {"module": "Reader", "output": {"data": ["data"]}}
STEP = {
    "module": "Step", "input": {"data": {"data": ["r.data"]}}, "output": {"data": ["data"]},
}  # fmt: skip
LOCAL = Site(Role.LOCAL, PartyId("0"))


class NoArchives:
    """Remembers what was packed."""

    def __init__(self) -> None:
        self.packed: list[TableRecord] = []

    def write(self, target: IO[bytes], tables: Any, **_more: Any) -> None:
        self.packed += tables.values()
        target.write(b"tar")


@pytest.fixture
def archives() -> NoArchives:
    return NoArchives()


@pytest.fixture
def folders(alone: OneServer) -> Folders:
    folders = Folders(alone.home)
    folders.tables.mkdir()
    return folders


@pytest.fixture
def tables(alone: OneServer, folders: Folders, archives: NoArchives) -> Tables:
    alone.live()
    return Tables(
        store=alone.store, folders=folders, archives=archives,
        sources=AllowedFolders((folders.home / "data",)), clock=alone.clock, own_party="0",
    )  # fmt: skip


def put(alone: OneServer, folders: Folders, name: str, **changes: Any) -> Path:
    """Store a table `n.<name>` with a folder of rows, and return the folder."""
    record = replace(table("n", name, address=f"rows-{name}"), **changes)
    with alone.store.transaction() as tx:
        tx.tables.put(record)
    folder = folders.tables / record.address
    folder.mkdir(exist_ok=True)
    return folder


def get(alone: OneServer, namespace: str, name: str) -> TableRecord | None:
    with alone.store.read() as tx:
        return tx.tables.get(namespace, name)


def submit(alone: OneServer, *names: str, **components: Any) -> str:
    """Start a job whose reader `r` reads table `n.<name>` at guest and host."""
    reads = {"0": {"r": {"table": {"namespace": "n", "name": names[0]}}}}
    parameters = {"role": {"guest": reads, "host": reads}}
    components = components or {"r": READER, "a": STEP}
    job = alone.core.submissions.submit(dsl(**components), conf(parameters=parameters))
    return job.job_id


def made(
    alone: OneServer,
    job_id: str,
    component: str,
    name: str,
    site: Site = GUEST,
    version: int = 0,
    address: str = "",
) -> None:
    """Let an attempt of a component have made, or read, table `n.<name>`."""
    key = TaskKey(job_id=job_id, component=component, version=version, site=site)
    output = OutputTable(
        key=key, data_name="data", position=0, namespace="n", name=name, address=address
    )
    with alone.store.transaction() as tx:
        tx.tracking.put_output(output, now_ms=alone.clock.ms)


def upload(alone: OneServer, name: str, *, number: int, address: str) -> str:
    """Let an ended job have uploaded table `n.<name>`; return its id."""
    components = dsl(upload_0={"module": "Upload", "output": {"data": ["data"]}})
    job = seeds.job(number, key=JobKey(job_id=seeds.job_id(number), site=LOCAL), dsl=components)
    seeds.put(alone.store, job, seeds.task(job, "upload_0", "Upload"))
    made(alone, job.key.job_id, "upload_0", name, LOCAL, address=address)
    return job.key.job_id


def end(alone: OneServer, job_id: str) -> None:
    alone.core.jobs.stop(job_id)
    for site in (GUEST, HOST):
        assert alone.job(job_id, site).status is JobStatus.CANCELED


# --- dropping -------------------------------------------------------------------------------------


def test_a_dropped_table_is_gone_with_its_rows(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    folder = put(alone, folders, "t")
    assert tables.drop("n", "t").name == "t"
    assert not folder.exists()
    with pytest.raises(TableNotFound):
        tables.drop("n", "t")


def test_a_running_job_keeps_the_rows_of_a_table_that_is_dropped(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    folder = put(alone, folders, "t")
    job_id = submit(alone, "t")
    made(alone, job_id, "r", "t")
    tables.drop("n", "t")
    assert get(alone, "n", "t") is None
    with alone.store.read() as tx:
        (output,) = tx.tracking.outputs(job_id, "r", GUEST)
        assert tx.tables.get(output.namespace, output.name) is not None
    tables.drop_kept()
    assert folder.exists()
    end(alone, job_id)
    tables.drop_kept()
    assert not folder.exists()
    with pytest.raises(TableNotFound):
        tables.drop("n", "t")


def test_a_reader_at_work_does_not_bring_a_dropped_table_back(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    job_id = submit(alone, "t")
    key = TaskKey(job_id=job_id, component="r", version=0, site=GUEST)
    alone.report(key, "running")
    read = tables.drop("n", "t")
    output = {"data_name": "data", "position": 0, "table": to_builtins(read)}
    alone.report(key, "success", outputs=[output])
    assert get(alone, "n", "t") is None
    with alone.store.read() as tx:
        (found,) = tx.tracking.outputs(job_id, "r", GUEST)
    assert (found.namespace, found.name) == (REPLACED, "rows-t")


def test_outputs_of_a_running_job_are_kept_for_it(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    out = put(alone, folders, "out", origin="output")
    job_id = submit(alone, "t")
    made(alone, job_id, "a", "out")
    assert [t.name for t in tables.drop_outputs(job_id)] == ["out"]
    assert get(alone, "n", "out") is None
    assert out.exists()
    end(alone, job_id)
    tables.drop_kept()
    assert not out.exists()


def test_outputs_of_a_job_are_dropped_but_not_what_it_read(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    read, out = put(alone, folders, "t"), put(alone, folders, "out", origin="output")
    other = put(alone, folders, "b", origin="output")
    job_id = submit(alone, "t", r=READER, a=STEP, b=STEP)
    for component, name in (("r", "t"), ("a", "out"), ("b", "b")):
        made(alone, job_id, component, name)
    end(alone, job_id)
    assert [t.name for t in tables.drop_outputs(job_id, site=GUEST, component="a")] == ["out"]
    assert [f.exists() for f in (read, out, other)] == [True, False, True]
    assert tables.drop_outputs(job_id, site=HOST) == []
    assert [t.name for t in tables.drop_outputs(job_id)] == ["b"]
    assert read.exists()
    with pytest.raises(JobNotFound):
        tables.drop_outputs("none")


def test_outputs_of_every_attempt_are_dropped(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    job_id = submit(alone, "t", r=READER, a=STEP)
    outs = []
    for version, name in enumerate(("first", "second")):
        outs.append(put(alone, folders, name, origin="output"))
        made(alone, job_id, "a", name, version=version)
    end(alone, job_id)
    assert [t.name for t in tables.drop_outputs(job_id)] == ["first", "second"]
    assert [out.exists() for out in outs] == [False, False]


def test_an_output_that_another_job_took_over_stays_with_the_first_ones_outputs(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    out = put(alone, folders, "out", origin="output")
    first, second = submit(alone, "t"), submit(alone, "t")
    for job_id in (first, second):
        made(alone, job_id, "a", "out")
        end(alone, job_id)
    assert tables.drop_outputs(first) == []
    assert tables.drop_outputs(second) == []
    assert out.exists()


def test_rows_with_two_names_go_with_the_last_one(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    folder = put(alone, folders, "t")
    put(alone, folders, "u", address="rows-t")
    tables.drop("n", "t")
    assert folder.exists()
    tables.drop("n", "u")
    assert not folder.exists()


def test_dropping_a_bound_table_leaves_every_file(
    alone: OneServer, folders: Folders, tables: Tables, tmp_path: Path
) -> None:
    source = tmp_path / "d.csv"
    source.write_text("id\n1\n")
    other = put(alone, folders, "t")
    put(alone, folders, "b", engine="PATH", source=str(source), address="")
    tables.drop("n", "b")
    assert source.exists()
    assert other.exists()


# --- replacing ------------------------------------------------------------------------------------


def replaced(alone: OneServer, folders: Folders, name: str) -> tuple[str, Path]:
    """Replace table `n.<name>` as an upload does; return its job and the new rows."""
    key = TaskKey(job_id="upload", component="upload_0", version=0, site=LOCAL)
    new = replace(table("n", name, address="new"), count=9)
    (folders.tables / "new").mkdir()
    workers = alone.core.workers
    workers.authentic = lambda tx, key, token: None  # type: ignore[method-assign,assignment]
    workers.table_create(key, "token", new, drop=True)
    return key.job_id, folders.tables / "new"


def test_a_table_that_nobody_uses_is_replaced_at_once(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    old = put(alone, folders, "t")
    _, new = replaced(alone, folders, "t")
    assert (old.exists(), new.exists()) == (False, True)
    found = get(alone, "n", "t")
    assert found is not None
    assert found.count == 9


def test_a_job_keeps_the_rows_that_it_began_with(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    old = put(alone, folders, "t")
    job_id = submit(alone, "t")
    made(alone, job_id, "r", "t")
    alone.clock.ms += 1_000
    _, new = replaced(alone, folders, "t")
    assert old.exists()
    assert new.exists()
    with alone.store.read() as tx:
        (output,) = tx.tracking.outputs(job_id, "r", GUEST)
        kept = tx.tables.get(output.namespace, output.name)
        assert kept is not None
        assert (kept.namespace, kept.address, kept.count) == (REPLACED, "rows-t", 2)
        current = tx.tables.get("n", "t")
        assert current is not None
        assert current.count == 9
    tables.drop_kept()
    assert old.exists(), "the job has not ended"
    end(alone, job_id)
    alone.clock.ms += 1_000
    put(alone, folders, "u")
    submit(alone, "u")  # a job that began later does not keep them
    tables.drop_kept()
    assert not old.exists()
    assert new.exists()


# --- disabling ------------------------------------------------------------------------------------


def test_a_disabled_table_cannot_be_read_by_a_new_job(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    (disabled,) = tables.set_disabled("n", "t", disabled=True)
    assert disabled.name == "t"
    with pytest.raises(SubmitRefused, match="disabled"):
        submit(alone, "t")
    tables.set_disabled("n", "t", disabled=False)
    submit(alone, "t")


def test_whole_namespaces_are_disabled_and_dropped(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    put(alone, folders, "u")
    job_id = submit(alone, "u")
    assert {t.name for t in tables.set_disabled("n", None, disabled=True)} == {"t", "u"}
    assert {t.name for t in tables.drop_disabled()} == {"t", "u"}
    assert (folders.tables / "rows-u").exists(), "the job has not ended"
    end(alone, job_id)
    tables.drop_kept()
    assert not (folders.tables / "rows-u").exists()
    with pytest.raises(TableNotFound):
        tables.set_disabled("n", None, disabled=True)


# --- lists, archives ------------------------------------------------------------------------------


def test_a_jobs_tables_are_listed_by_component(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    job_id = submit(alone, "t")
    made(alone, job_id, "a", "out")
    assert tables.of_job(job_id, GUEST) == {
        "r": {"input": {"table": {"namespace": "n", "name": "t"}}, "output": {}},
        "a": {
            "input": {"data": ["r.data"]},
            "output": {"data": {"name": "out", "namespace": "n"}},
        },
    }
    with pytest.raises(JobNotFound):
        tables.of_job(job_id, LOCAL)


def test_only_a_table_that_is_there_is_packed(
    alone: OneServer, folders: Folders, tables: Tables, archives: NoArchives, tmp_path: Path
) -> None:
    put(alone, folders, "t")
    with (tmp_path / "x").open("wb") as target:
        tables.write_archive("n", "t", target, head=True)
        with pytest.raises(NoData):
            tables.write_archive("n", "u", target, head=True)
    assert [t.name for t in archives.packed] == ["t"]


def test_a_bound_file_that_is_not_allowed_any_more_is_not_packed(
    alone: OneServer, folders: Folders, tables: Tables, archives: NoArchives, tmp_path: Path
) -> None:
    data = folders.home / "data"
    data.mkdir()
    (data / "in.csv").write_text("id\n1\n")
    (data / "link.csv").symlink_to("/etc/passwd")
    put(alone, folders, "in", engine="PATH", source=str(data.resolve() / "in.csv"))
    put(alone, folders, "link", engine="PATH", source=str(data.resolve() / "link.csv"))
    put(alone, folders, "out", engine="PATH", source=str(tmp_path / "out.csv"))
    with (tmp_path / "x").open("wb") as target:
        tables.write_archive("n", "in", target, head=True)
        for name in ("link", "out"):
            with pytest.raises(FileNotAllowed):
                tables.write_archive("n", name, target, head=True)
    assert [t.name for t in archives.packed] == ["in"]


# --- provenance -----------------------------------------------------------------------------------


def test_a_table_is_traced_to_its_source_over_jobs(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    for name in ("t", "mid", "end"):
        put(alone, folders, name)
    provenance = Provenance(store=alone.store)
    with pytest.raises(TableNotTracked):
        provenance.sources("n", "t")
    first = submit(alone, "t")
    made(alone, first, "r", "t")
    made(alone, first, "a", "mid")
    alone.clock.ms += 1_000
    second = submit(alone, "mid")
    made(alone, second, "r", "mid")
    made(alone, second, "a", "end")
    assert provenance.sources("n", "t") == [SourceTable(parent=("n", "t"), source=("n", "t"))]
    assert provenance.sources("n", "mid") == [SourceTable(parent=("n", "t"), source=("n", "t"))]
    assert provenance.sources("n", "end") == [SourceTable(parent=("n", "mid"), source=("n", "t"))]
    assert provenance.jobs("n", "mid") == [first, second]
    assert provenance.jobs("n", "end") == [second]
    with pytest.raises(TableNotTracked):
        provenance.jobs("n", "none")


def test_a_new_table_of_a_name_does_not_come_from_where_the_old_one_came(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    """Uploaded, used, replaced by another upload; then dropped, and made by a component."""
    provenance = Provenance(store=alone.store)
    put(alone, folders, "t", address="old")
    first = upload(alone, "t", number=1, address="old")
    made(alone, submit(alone, "t"), "r", "t", address="old")
    maker = provenance.maker("n", "t")
    assert maker is not None
    assert maker.key.job_id == first

    tables.drop("n", "t")
    put(alone, folders, "t", address="new")
    assert provenance.maker("n", "t") is None, "it may have been bound"
    alone.clock.ms += 1_000
    second = upload(alone, "t", number=2, address="new")
    maker = provenance.maker("n", "t")
    assert maker is not None
    assert maker.key.job_id == second
    assert provenance.sources("n", "t") == []

    tables.drop("n", "t")
    put(alone, folders, "s", address="s")
    put(alone, folders, "t", address="newest")
    third = submit(alone, "s")
    made(alone, third, "r", "s", address="s")
    made(alone, third, "a", "t", address="newest")
    maker = provenance.maker("n", "t")
    assert maker is not None
    assert maker.key.component == "a"
    assert provenance.sources("n", "t") == [SourceTable(parent=("n", "s"), source=("n", "s"))]
    assert first in provenance.jobs("n", "t")


def test_the_outputs_of_an_old_job_do_not_take_away_the_table_that_replaced_theirs(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    job_id = submit(alone, "t")
    made(alone, job_id, "a", "out", address="old")
    end(alone, job_id)
    put(alone, folders, "out", address="new", origin="output")
    assert tables.drop_outputs(job_id) == []
    assert get(alone, "n", "out") is not None


def test_details_name_the_task_that_made_a_table_and_the_facts_of_its_columns(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    class Facts:
        def read(self, table: TableRecord) -> list[ColumnFacts]:
            return [ColumnFacts(name=table.name, kind="text", count=1, missing=0)]

    for name in ("t", "mid"):
        put(alone, folders, name)
    first = submit(alone, "t")
    made(alone, first, "r", "t")
    made(alone, first, "a", "mid")
    alone.clock.ms += 1_000
    made(alone, submit(alone, "mid"), "r", "mid")
    details = TableDetails(
        store=alone.store, provenance=Provenance(store=alone.store), facts=Facts()
    )
    read_only, output = details.get("n", "t"), details.get("n", "mid")
    assert read_only is not None
    assert read_only.maker is None, "a reader makes no table"
    assert output is not None
    assert output.maker is not None
    assert (output.maker.key.job_id, output.maker.key.component) == (first, "a")
    assert (output.table.name, output.columns[0].name) == ("mid", "mid")
    assert details.get("n", "none") is None


# --- outputs of earlier jobs ----------------------------------------------------------------------


def submit_after(alone: OneServer, **earlier: str) -> str:
    reads = {"0": {"r": {"table": earlier}}}
    parameters = {"role": {"guest": reads, "host": reads}}
    given = dsl(r=READER, a=STEP)
    return alone.core.submissions.submit(given, conf(parameters=parameters)).job_id


def test_a_reader_names_an_output_of_an_earlier_job(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    for name in ("t", "g", "h"):
        put(alone, folders, name)
    first = submit(alone, "t")
    made(alone, first, "a", "g")
    made(alone, first, "a", "h", HOST)
    earlier = {"job_id": first, "component_name": "a", "data_name": "data"}
    second = submit_after(alone, **earlier)
    for site, name in ((GUEST, "g"), (HOST, "h")):
        key = TaskKey(job_id=second, component="r", version=0, site=site)
        token = str(alone.task(key).token)
        found = alone.core.workers.output_get(key, token, first, "a", "data")
        assert found.name == name
    made(alone, second, "r", "g")
    assert Provenance(store=alone.store).jobs("n", "g") == [first, second]


@pytest.mark.parametrize(
    "wrong", [{"job_id": "none"}, {"component_name": "r"}, {"data_name": "model"}]
)
def test_an_output_that_is_not_there_refuses_the_job(
    alone: OneServer, folders: Folders, tables: Tables, wrong: dict[str, str]
) -> None:
    put(alone, folders, "t")
    first = submit(alone, "t")
    made(alone, first, "a", "t")
    made(alone, first, "a", "t", HOST)
    earlier = {"job_id": first, "component_name": "a", "data_name": "data", **wrong}
    with pytest.raises(SubmitRefused, match="No table"):
        submit_after(alone, **earlier)


def test_an_earlier_output_is_not_for_other_parties_where_tables_need_a_grant(
    alone: OneServer, folders: Folders, tables: Tables
) -> None:
    put(alone, folders, "t")
    put(alone, folders, "out", origin="output")
    first = submit(alone, "t")
    for site in (GUEST, HOST):
        made(alone, first, "a", "out", site)
    earlier = {"job_id": first, "component_name": "a", "data_name": "data"}
    alone.core.permissions.rules = PermissionRules(switch=True, dataset=True)
    submit_after(alone, **earlier)  # of the same initiator

    reads = {"0": {"r": {"table": earlier}}}
    given = conf(parameters={"role": {"host": reads}}, guest=[8888], host=[10000])
    given["initiator"]["party_id"] = 8888
    given["component_parameters"]["role"]["guest"] = {
        "0": {"r": {"table": {"namespace": "n", "name": "t"}}}
    }
    with pytest.raises(SubmitRefused, match=f"may not use an output of job {first}"):
        alone.core.submissions.submit(dsl(r=READER, a=STEP), given)


# --- binding --------------------------------------------------------------------------------------


class Files:
    """Knows the columns of every file."""

    def __init__(self) -> None:
        self.looked: list[tuple[Path, dict[str, Any]]] = []

    def probe(self, path: Path, **how: Any) -> tuple[Any, tuple[tuple[str, ...], ...]]:
        self.looked.append((path, how))
        return {"kind": "raw", "id": "id", "columns": ["x", "y"]}, (("1", "2", "3"),)


class NoStorages:
    """Nothing may be looked at."""

    def probe(self, connection: Connection, **_how: Any) -> Any:
        raise AssertionError("a storage was looked at")


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "d.csv"
    path.write_text("id,x,y\n1,2,3\n")
    return path


@pytest.fixture
def bindings(
    alone: OneServer, folders: Folders, tables: Tables, files: Files, csv: Path
) -> Bindings:
    return Bindings(
        alone.core.kernel,
        sources=AllowedFolders((csv.parent,)),
        files=files,
        probes=NoStorages(),
        connectors=Connectors(
            store=alone.store,
            sealer=lambda: KeyFile(folders.connector_key),
            allowed=AllowedStorages(folders=AllowedFolders((csv.parent,)), places=Places()),
            clock=alone.clock,
        ),
        new_address=lambda: "f" * 32,
        own_party="0",
    )


def binding(csv: Path, **changes: Any) -> Binding:
    return replace(
        Binding(engine="path", address={"path": str(csv)}, namespace="n", name="b"), **changes
    )


def test_a_file_is_bound_without_being_read(
    alone: OneServer, bindings: Bindings, files: Files, csv: Path
) -> None:
    bindings.bind(binding(csv, partitions=4, id_delimiter=";"))
    found = get(alone, "n", "b")
    assert found is not None
    assert (found.engine, found.source, found.origin) == ("PATH", str(csv), "table_bind")
    assert (found.partitions, found.preview) == (4, (("1", "2", "3"),))
    ((path, how),) = files.looked
    assert path == csv
    assert how == {
        "head": True, "id_delimiter": ";", "makes_ids": False, "names": None, "whole": False,
        "id_column": None, "features": None,
    }  # fmt: skip


def test_a_name_is_bound_again_only_on_demand(
    alone: OneServer, folders: Folders, bindings: Bindings, csv: Path
) -> None:
    rows = put(alone, folders, "b")
    with pytest.raises(TableExists):
        bindings.bind(binding(csv))
    assert rows.exists()
    bindings.bind(binding(csv, drop=True))
    bindings.bind(binding(csv, drop=True))
    assert not rows.exists()
    assert csv.exists()


def test_rows_of_a_stored_table_get_a_second_name(
    alone: OneServer, folders: Folders, tables: Tables, bindings: Bindings, csv: Path
) -> None:
    rows = put(alone, folders, "t", disabled=True)
    same = binding(csv, engine="STANDALONE", address={"namespace": "n", "name": "t"})
    bindings.bind(same)
    found = get(alone, "n", "b")
    assert found is not None
    assert (found.address, found.count, found.disabled) == ("rows-t", 2, False)
    tables.drop("n", "t")
    assert rows.exists()
    with pytest.raises(TableNotFound):
        bindings.bind(replace(same, name="c"))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"address": {}}, BadRequest),
        ({"address": {"path": 7}}, BadRequest),
        ({"address": {"path": "/etc/passwd"}}, FileNotAllowed),
        ({"address": {"path": "../x"}}, FileNotAllowed),
        ({"engine": "MYSQL"}, BadStorage),
        ({"engine": "EGGROLL"}, NotSupportedYet),
        ({"engine": "nonsense"}, BadRequest),
        ({"engine": "STANDALONE"}, BadRequest),
        ({"engine": "STANDALONE", "address": {"namespace": "n", "name": "-"}}, TableNotFound),
        ({"namespace": ""}, BadTableName),
        ({"name": "a\nb"}, BadTableName),
        ({"namespace": REPLACED}, BadTableName),
        ({"partitions": 0}, BadRequest),
        ({"with_meta": True, "meta": {"with_label": True, "label_name": "z"}}, BadData),
        ({"with_meta": True, "meta": {"data_type": "complex"}}, BadRequest),
        ({"with_meta": True, "meta": {"with_label": True, "label_name": ""}}, BadRequest),
        ({"with_meta": True, "meta": {"other": 1}}, BadRequest),
        ({"id_column": "x", "extend_sid": True}, BadRequest),
        ({"id_column": "x", "with_meta": True, "meta": {"input_format": "tag"}}, BadRequest),
        ({"head": False, "schema": {"header": 7}}, BadRequest),
        ({"head": False, "schema": {"header": "x,y"}, "id_column": "x"}, BadRequest),
        ({"head": False, "feature_column": "x0"}, BadRequest),
    ],
)
def test_a_wrong_binding_is_refused_and_leaves_nothing(
    alone: OneServer, bindings: Bindings, csv: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        bindings.bind(binding(csv, **changes))
    assert get(alone, "n", "b") is None


def test_columns_of_a_bound_file_are_chosen_by_name(
    alone: OneServer, bindings: Bindings, files: Files, csv: Path
) -> None:
    bindings.bind(binding(csv, id_column="y", feature_column="x, id"))
    how = files.looked[-1][1]
    assert (how["id_column"], how["features"]) == ("y", ("x", "id"))
    found = get(alone, "n", "b")
    assert found is not None
    assert found.storage == {
        "address": {"engine": "PATH", "path": str(csv)}, "connector": None,
        "id_column": "y", "feature_columns": ["x", "id"],
    }  # fmt: skip


def test_a_bound_file_without_a_head_takes_given_names(
    bindings: Bindings, files: Files, csv: Path
) -> None:
    bindings.bind(binding(csv, head=False, schema={"sid": "id", "header": "x,y"}))
    assert files.looked[-1][1]["names"] == ("id", "x", "y")


def test_a_bound_file_keeps_what_is_said_of_it(
    alone: OneServer, bindings: Bindings, files: Files, csv: Path
) -> None:
    meta = {"with_label": True, "label_name": "y"}
    bindings.bind(binding(csv, with_meta=True, meta=meta))
    found = get(alone, "n", "b")
    assert found is not None
    assert found.extra["header"] == ["x"]
    assert found.extra["label_name"] == "y"
    assert found.extra["meta"]["with_label"] is True
    assert files.looked[-1][1]["whole"] is False
    tags = {"input_format": "tag", "delimiter": ";"}
    bindings.bind(binding(csv, with_meta=True, meta=tags, head=False, drop=True))
    assert files.looked[-1][1]["whole"] is True


# --- schemas --------------------------------------------------------------------------------------

COLUMNS = {"kind": "raw", "id": "id", "columns": ["y", "x0"]}


@pytest.fixture
def schemas(alone: OneServer, folders: Folders, tables: Tables) -> TableSchemas:
    put(alone, folders, "t", schema=COLUMNS)
    return TableSchemas(store=alone.store, own_party="0")


def test_meta_is_merged_and_other_members_are_set(schemas: TableSchemas) -> None:
    schemas.update("n", "t", {"meta": {"a": 1, "b": 1}, "label_name": "y"})
    changed = schemas.update("n", "t", {"meta": {"b": 2}, "header": "y,x0", "sid": "id"})
    assert table_schema_row(changed) == {
        "header": "y,x0", "sid": "id", "label_name": "y", "meta": {"a": 1, "b": 2},
    }  # fmt: skip
    changed = schemas.update("n", "t", {"label_name": None, "meta": None})
    assert changed.extra == {"meta": {"a": 1, "b": 2}}


def test_columns_of_stored_rows_stay(schemas: TableSchemas) -> None:
    for wrong in ({"header": "a,b"}, {"sid": "x"}, {"header": ["y"]}):
        with pytest.raises(ColumnsFixed):
            schemas.update("n", "t", wrong)
    with pytest.raises(BadRequest):
        schemas.update("n", "t", {"meta": []})
    with pytest.raises(TableNotFound):
        schemas.update("n", "u", {})


def test_anonymous_names_follow_the_party_ids(schemas: TableSchemas) -> None:
    def migrate(mapping: dict[str, Any]) -> Any:
        given: dict[str, Any] = {"role": "guest", "party_id": "9999", "mapping": mapping}
        return table_schema_row(schemas.migrate("n", "t", **given))["anonymous_header"]

    assert migrate({"guest": {"9999": 1}, "host": {"9999": 2}}) == ["guest_1_x0", "guest_1_x1"]
    assert migrate({"guest": {"9999": 3}}) == ["guest_1_x0", "guest_1_x1"]
    assert migrate({"guest": {"1": "9999"}}) == ["guest_9999_x0", "guest_9999_x1"]
    for wrong in ({"guest": {"9999": "../x"}}, {"guest": {"9999": True}}, {"guest": {"9": None}}):
        if wrong != {"guest": {"9": None}}:
            with pytest.raises(BadRequest):
                migrate(wrong)


# --- out of the server ----------------------------------------------------------------------------


@pytest.fixture
def transfers(alone: OneServer, folders: Folders, tables: Tables) -> Transfers:
    put(alone, folders, "t")
    return Transfers(
        store=alone.store,
        submissions=alone.core.submissions,
        targets=AllowedFolders((folders.downloads,)),
        own_party="0",
    )


def parameters_of(alone: OneServer, job_id: str, component: str) -> Any:
    key = TaskKey(job_id=job_id, component=component, version=0, site=LOCAL)
    return alone.task(key).parameters


def test_a_download_is_a_local_job_with_a_checked_place(
    alone: OneServer, folders: Folders, transfers: Transfers
) -> None:
    job = transfers.download("n", "t", "out/t.csv", delimiter=";")
    assert parameters_of(alone, job.job_id, "download_0") == {
        "namespace": "n", "table_name": "t", "delimiter": ";",
        "output_path": str(folders.downloads / "out" / "t.csv"),
    }  # fmt: skip


def test_a_wrong_download_starts_nothing(alone: OneServer, transfers: Transfers) -> None:
    for path in ("/etc/cron.d/x", "../x", ""):
        with pytest.raises(PlaceNotAllowed):
            transfers.download("n", "t", path)
    with pytest.raises(TableNotFound):
        transfers.download("n", "u", "x.csv")
    with pytest.raises(BadRequest):
        transfers.download("n", "t", "x.csv", delimiter="ab")
    assert alone.executor.started == []


def test_a_second_name_is_a_local_job(alone: OneServer, transfers: Transfers) -> None:
    job = transfers.write("n", "t", output_namespace="o", output_name="u")
    given = parameters_of(alone, job.job_id, "writer_0")
    assert (given["output_namespace"], given["output_name"], given["drop"]) == ("o", "u", 0)


def test_rows_stay_while_they_are_written_elsewhere(
    folders: Folders, tables: Tables, transfers: Transfers
) -> None:
    transfers.write("n", "t", output_namespace="o", output_name="u")
    tables.drop("n", "t")
    assert (folders.tables / "rows-t").exists()


def test_a_wrong_second_name_starts_nothing(
    alone: OneServer, folders: Folders, tables: Tables, transfers: Transfers
) -> None:
    put(alone, folders, "u")

    def write(name: str | None = "v", **more: Any) -> None:
        transfers.write("n", "t", **{"output_namespace": "n", "output_name": name, **more})

    for raises, error in (
        (lambda: write("u"), TableExists),
        (lambda: write("t"), BadRequest),
        (lambda: write(None), MissingArgument),
        (lambda: write("a\nb"), BadTableName),
        (lambda: write(output_namespace=REPLACED), BadTableName),
        (lambda: write(storage_engine="MYSQL"), NotSupportedYet),
    ):
        with pytest.raises(error):
            raises()
    tables.set_disabled("n", "t", disabled=True)
    with pytest.raises(TableDisabled):
        write()
    assert alone.executor.started == []


def test_a_job_of_a_user_may_not_touch_files_of_the_server(alone: OneServer) -> None:
    for module in ("Upload", "Download", "Writer", "download"):
        given = dsl(x={"module": module})
        local = {**conf(), "initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]}}
        with pytest.raises(InvalidJobSpec, match="runs through /v1/data"):
            alone.core.submissions.submit(given, local)
