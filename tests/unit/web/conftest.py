"""An application over services that remember what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from fedflow.app.administration.providers import Providers
from fedflow.app.data.bindings import Binding
from fedflow.app.data.provenance import SourceTable
from fedflow.app.data.table_details import Details
from fedflow.app.initiator.submissions import Submitted
from fedflow.app.initiator.submitted_files import files_of
from fedflow.app.local_jobs.uploads import PastUpload
from fedflow.app.protocol.commands import Incoming
from fedflow.app.protocol.folders import Folders
from fedflow.app.queries.jobs import Stopped
from fedflow.base.clock import SystemClock
from fedflow.base.errors.data import FileNotAllowed, NoData, TableNotFound, TableNotTracked
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound, TaskNotFound
from fedflow.base.ids import PartyId
from fedflow.domain.data.storages import Connection, MysqlRows, Secrets
from fedflow.domain.data.table_lists import TableFilter, fits_table, table_page
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.lists import fits_job, fits_task, job_page, task_page
from fedflow.domain.records import (
    ColumnFacts,
    Connector,
    JobFilter,
    JobKey,
    JobRecord,
    Metric,
    OutputTable,
    Reply,
    StoredModel,
    TableRecord,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.web.relay import Relay
from fedflow.wire.task_report import EndReport, MetricBatch, RunningReport
from tests.support.providers import MemoryProviders
from tests.unit.web.applications import app_over

GUEST = Site(Role.GUEST, PartyId("9999"))
JOB_ID = "202611201000000000000"


def make_job(**changes: Any) -> JobRecord:
    job = JobRecord(
        key=JobKey(job_id=JOB_ID, site=GUEST),
        initiator=GUEST,
        status=JobStatus.RUNNING,
        epoch=0,
        dsl={"components": {"reader_0": {"module": "Reader"}}},
        conf={
            "dsl_version": 2,
            "component_parameters": {
                "role": {"guest": {"0": {"reader_0": {"table": {"name": "g", "namespace": "exp"}}}}}
            },
        },
        roles={"guest": ["9999"], "host": ["10000"]},
        cores=4,
        created_ms=1795168800000,
        updated_ms=1795168805000,
    )
    return replace(job, **changes)


def make_task(**changes: Any) -> TaskRecord:
    task = TaskRecord(
        key=TaskKey(job_id=JOB_ID, component="reader_0", version=0, site=GUEST),
        module="Reader",
        initiator=GUEST,
        status=TaskStatus.RUNNING,
        party_status=TaskStatus.RUNNING,
        parameters={},
        created_ms=1,
        updated_ms=2,
    )
    return replace(task, **changes)


def make_table(**changes: Any) -> TableRecord:
    table = TableRecord(
        namespace="exp",
        name="g",
        address="ab" * 16,
        schema={"kind": "raw", "id": "id", "columns": ["y", "x0"]},
        count=3,
        partitions=4,
        origin="upload",
        created_ms=1,
        preview=(("1", "0", "2.5"), ("2", "1", "3.5"), ("3", "1", "4.5")),
    )
    return replace(table, **changes)


SITE = Site(Role.GUEST, PartyId("9999"))
SUBMITTED = Submitted(
    job_id=JOB_ID,
    model_id="guest-9999#host-10000#model",
    model_version=JOB_ID,
    logs_directory="/srv/logs",
    warnings=(JobWarning(code="NoEffect", path="$.conf.x", message="w", hint="h"),),
    initiator=SITE,
    files=files_of(Folders(Path("/srv")), JOB_ID, SITE),
)


def _providers(modules: Any) -> Providers:
    memory = MemoryProviders()
    return Providers(modules, folders=memory, book=memory, host=memory, clock=SystemClock())


class FakeServices:
    """All use cases at once; `fail` makes the next call raise."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobs_known = [make_job()]
        self.tasks_known = [make_task()]
        self.tables_known = {("exp", "g"): make_table()}
        self.metrics_known = [
            Metric(
                namespace="train", name="loss", points=((1, 0.5), (0, 0.7)), meta={"name": "loss"}
            )
        ]
        self.model_known: StoredModel | None = None
        self.summary_known: Any = None
        self.has_outputs = True
        self.calls: list[tuple[Any, ...]] = []
        self.fail: Exception | None = None
        self.is_ready = True
        self.spool_dir = home / "spool"
        self.commands = self.workers = self.jobs = self.submissions = self.tracking = self
        self.explanations = self.histories = self
        self.documents = _Documents(self)
        self.data = SimpleNamespace(
            uploads=_Uploads(self), bindings=_Bindings(self), transfers=_Transfers(self),
            provenance=_Provenance(), table_schemas=_TableSchemas(self), tables=_Tables(self),
            table_details=_TableDetails(self), table_pages=_TablePages(self),
            connectors=_Connectors(self),
            worker_storages=_WorkerStorages(self),
        )  # fmt: skip
        self.info = self.modules = self
        self.administration = SimpleNamespace(providers=_providers(self))

    def note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.fail is not None:
            raise self.fail

    # commands, workers
    def hosts(self, party: str) -> bool:
        return party == "9999"

    def handle(self, incoming: Incoming) -> Reply:
        self.note("handle", incoming)
        return Reply(retcode=0, data={"name": incoming.name})

    def report(self, key: TaskKey, token: str, report: RunningReport | EndReport) -> None:
        self.note("report", key, token, report)

    def save_metrics(self, key: TaskKey, token: str, metrics: Sequence[MetricBatch]) -> None:
        self.note("save_metrics", key, token, metrics)

    def table_get(self, key: TaskKey, token: str, namespace: str, name: str) -> TableRecord:
        self.note("table_get", key, token, namespace, name)
        return self.tables_known[namespace, name]

    def table_create(self, key: TaskKey, token: str, table: TableRecord, *, drop: bool) -> None:
        self.note("table_create", key, token, table, drop)

    # jobs
    def submit(
        self, dsl: Any, conf: Any, *, keys: Sequence[str | None] = (), strict: bool = False
    ) -> Submitted:
        said = ("strict",) if strict else ()
        self.note("submit", dsl, conf, *(key for key in keys if key is not None), *said)
        return SUBMITTED

    def stop(self, job_id: str, status: str = "canceled") -> Stopped:
        self.note("stop", job_id, status)
        return Stopped(status=status, had_ended=job_id == "ended")

    def find(self, which: JobFilter) -> list[JobRecord]:
        self.note("find", which)
        return job_page([j for j in self.jobs_known if fits_job(which, j)], which)

    def page(self, which: JobFilter) -> tuple[list[JobRecord], int]:
        self.note("page", which)
        return self.find(which), len(self.find(replace(which, limit=10**9, offset=0)))

    def job(self, job_id: str) -> JobRecord:
        for job in self.jobs_known:
            if job.key.job_id == job_id:
                return job
        raise JobNotFound(job_id=job_id)

    def set_notes(
        self, job_id: str, role: str, party_id: str, *,
        notes: str | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self.job(job_id)
        self.note("set_notes", job_id, role, party_id, notes, name)

    def log_dir(self, job_id: str) -> Path:
        self.job(job_id)
        return self.home / "logs" / job_id

    def events(self, job_id: str, **page: Any) -> dict[str, Any]:
        self.job(job_id)
        self.note("events", job_id, page)
        return {"job_id": job_id, "events": [], "next": page["since"], "more": False}

    def explain(self, job_id: str) -> dict[str, Any]:
        return {"job_id": self.job(job_id).key.job_id, "waits": []}

    def status_view(self, job_id: str) -> dict[str, Any]:
        return {"job_id": self.job(job_id).key.job_id}

    # tracking (and `tasks` of jobs)
    def tasks(self, which: TaskFilter) -> list[TaskRecord]:
        return task_page([t for t in self.tasks_known if fits_task(which, t)], which)

    def task_page(self, which: TaskFilter) -> tuple[list[TaskRecord], int]:
        self.note("task_page", which)
        found = self.tasks(replace(which, limit=10**9, offset=0))
        return self.tasks(which), len(found)

    def default_site(self, job_id: str) -> Site:
        return self.job(job_id).initiator

    def task(self, job_id: str, component: str, site: Site) -> TaskRecord:
        for task in self.tasks_known:
            if (task.key.job_id, task.key.component, task.key.site) == (job_id, component, site):
                return task
        raise TaskNotFound(task=component)

    def metrics(self, job_id: str, component: str, site: Site) -> list[Metric]:
        self.note("metrics", job_id, component, site)
        return self.metrics_known

    def outputs(
        self, job_id: str, component: str, site: Site
    ) -> list[tuple[OutputTable, TableRecord | None]]:
        if not self.has_outputs:
            return []
        output = OutputTable(
            key=make_task().key, data_name="data", position=0, namespace="exp", name="g"
        )
        return [(output, self.tables_known.get(("exp", "g")))]

    def summary(self, job_id: str, component: str, site: Site) -> Any:
        return self.summary_known

    def model(self, job_id: str, component: str, site: Site) -> StoredModel | None:
        return self.model_known

    def parameters(self, job_id: str, component: str, site: Site) -> dict[str, Any]:
        return {"module": "Reader", "ReaderParam": {}}

    def components(self, job_id: str) -> list[str]:
        return list(self.job(job_id).dsl["components"])

    def write_archive(
        self, job_id: str, component: str, site: Site, target: IO[bytes], *, limit: int, head: bool
    ) -> None:
        self.note("write_archive", job_id, component, site, limit, head)
        if not self.has_outputs:
            raise NoData(reason="nothing")
        target.write(b"archive")

    # modules, info
    def describe(self) -> list[dict[str, Any]]:
        return [{"module": "HeteroLR", "aliases": ["lr"], "roles": ["guest"]}]

    def packages(self) -> dict[str, str]:
        return {}

    def registered(self) -> dict[str, Any]:
        return {}

    def versions(self) -> dict[str, str]:
        return {"FATE": "1.11.4", "FATEFlow": "1.11.2"}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        return self.is_ready, {"store": self.is_ready}


class _Documents:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def job_dependencies(self, job_id: str, site: Site) -> dict[str, Any]:
        self._all.note("job_dependencies", job_id, site)
        return {"component_list": ["reader_0"]}

    def dependencies(
        self, dsl: object, conf: object, site: Site, *, train_conf: object = None
    ) -> dict[str, Any]:
        self._all.note("dependencies", dsl, conf, site, train_conf)
        return {"component_list": []}

    def predict_dsl(
        self, train_dsl: object, components: Any, *, version: int
    ) -> Mapping[str, object]:
        self._all.note("predict_dsl", train_dsl, components, version)
        return {"components": {}}

    def check_component(self, name: str, module: str, conf: Mapping[str, Any]) -> None:
        self._all.note("check_component", name, module, conf)


class _Uploads:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_
        self.spool_dir = all_.spool_dir

    def submit(
        self, parameters: Mapping[str, Any], path: Path, *, keep_file: bool = False
    ) -> Submitted:
        content = path.read_bytes() if path.exists() else b""
        self._all.note("upload", dict(parameters), content, keep_file)
        return SUBMITTED

    def check_local(self, path: str) -> Path:
        if not path.startswith("/allowed/"):
            raise FileNotAllowed(path=path)
        return Path(path)

    def history(self, limit: int, job_id: str | None) -> list[PastUpload]:
        self._all.note("history", limit, job_id)
        table = make_table()
        past = PastUpload(
            job=make_job(description="my notes"), namespace=table.namespace, name=table.name,
            partitions=4, count=3, table=table,
        )  # fmt: skip
        return [past]


class _Bindings:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def bind(self, given: Binding) -> TableRecord:
        self._all.note("bind", given)
        return make_table(namespace=given.namespace, name=given.name)

    def try_connector(self, name: str, address: Mapping[str, Any]) -> list[str]:
        self._all.note("try_connector", name, dict(address))
        return ["id", "x"]


class _Connectors:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def put(
        self, name: str, engine: str, info: Mapping[str, Any], *, replaces: bool = True
    ) -> None:
        self._all.note("put_connector", name, engine, dict(info), replaces)

    def all(self) -> list[Connector]:
        return [Connector(name="c", engine="MYSQL", info={}, created_ms=1)]

    def delete(self, name: str) -> None:
        self._all.note("delete_connector", name)

    def get(self, name: str) -> Connector:
        info = {"host": "h", "port": 3306, "user": "root", "passwd": "pw", "db": "u:p@h"}
        return Connector(name=name, engine="MYSQL", info=info, created_ms=1)


class _WorkerStorages:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def connection(self, key: TaskKey, token: str, namespace: str, name: str) -> Connection:
        self._all.note("connection", key, token, namespace, name)
        address = MysqlRows(host="h", db="d", name="t")
        return Connection(address=address, secrets=Secrets(user="u", password="pw"))

    def target(self, key: TaskKey, token: str) -> Connection:
        self._all.note("target", key, token)
        address = MysqlRows(host="h", db="d", name="new")
        return Connection(address=address, secrets=Secrets(user="u", password="pw"))


class _Transfers:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def download(self, *names: str, delimiter: str | None = None) -> Submitted:
        self._all.note("download", *names, delimiter)
        return SUBMITTED

    def write(self, *names: str, **more: Any) -> Submitted:
        self._all.note("write", *names, more)
        return SUBMITTED


class _Provenance:
    def sources(self, namespace: str, name: str) -> list[SourceTable]:
        if name != "g":
            raise TableNotTracked(namespace=namespace, name=name)
        return [SourceTable(parent=("exp", "raw"), source=("old", "first"))]

    def jobs(self, namespace: str, name: str) -> list[str]:
        return ["1", "2"]


class _TableDetails:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def get(self, namespace: str, name: str) -> Details | None:
        table = self._all.tables_known.get((namespace, name))
        if table is None:
            return None
        key = TaskKey(job_id=JOB_ID, component="upload_0", version=0, site=SITE)
        maker = OutputTable(key=key, data_name="data", position=0, namespace="exp", name="g")
        column = ColumnFacts(name="y", kind="number", count=3, missing=0, mean=0.5)
        return Details(table=table, maker=maker, columns=[column])


class _TablePages:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def preview(self, table: TableRecord) -> Sequence[Sequence[str]]:
        return table.preview

    def listed(self, which: TableFilter) -> tuple[list[TableRecord], int]:
        self._all.note("listed", which)
        fit = [t for t in self._all.tables_known.values() if fits_table(which, t)]
        return table_page(fit, which), len(fit)


class _TableSchemas:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def update(self, namespace: str, name: str, schema: Mapping[str, Any]) -> TableRecord:
        self._all.note("update_schema", namespace, name, dict(schema))
        return make_table(extra={"meta": {"with_label": True}})

    def migrate(
        self, namespace: str, name: str, *, role: str, party_id: str, mapping: Mapping[str, Any]
    ) -> TableRecord:
        self._all.note("migrate", namespace, name, role, party_id, dict(mapping))
        return make_table(extra={"anonymous_header": ["guest_1_x0"]})


class _Tables:
    def __init__(self, all_: FakeServices) -> None:
        self._all = all_

    def write_archive(self, namespace: str, name: str, target: IO[bytes], *, head: bool) -> None:
        if self.get(namespace, name) is None:
            raise NoData(reason="no table")
        target.write(b"archive" if head else b"bare")

    def drop_outputs(
        self, job_id: str, *, site: Site | None = None, component: str | None = None
    ) -> list[TableRecord]:
        self._all.note("drop_outputs", job_id, site, component)
        if job_id != JOB_ID:
            raise JobNotFound(job_id=job_id)
        return [] if component == "none" else [make_table(namespace="out", name="a")]

    def set_disabled(
        self, namespace: str | None, name: str | None, *, disabled: bool
    ) -> list[TableRecord]:
        self._all.note("set_disabled", namespace, name, disabled)
        if name == "none":
            raise TableNotFound(namespace=namespace, name=name, party_id="0")
        return [make_table(disabled=disabled)]

    def drop_disabled(self) -> list[TableRecord]:
        return [t for t in self._all.tables_known.values() if t.disabled]

    def get(self, namespace: str, name: str) -> TableRecord | None:
        return self._all.tables_known.get((namespace, name))

    def drop(self, namespace: str, name: str) -> TableRecord:
        table = self._all.tables_known.pop((namespace, name), None)
        if table is None:
            raise TableNotFound(namespace=namespace, name=name, party_id="0")
        return table

    def of_job(self, job_id: str, site: Site) -> dict[str, Any]:
        return {"reader_0": {"input": {}, "output": {}}}


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_795_168_800_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000


@pytest.fixture
def services(tmp_path: Path) -> FakeServices:
    return FakeServices(tmp_path)


@pytest.fixture
def fixed_clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def app(services: FakeServices) -> Flask:
    return app_over(services)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def relay(app: Flask) -> Relay:
    return Relay(app)


@pytest.fixture
def known_error() -> FedflowError:
    return JobNotFound(job_id="j")
