"""What a server answers, as frozen values. Times are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from fedflow.base.values import dataclass
from fedflow.domain.states import JOB_FINAL
from fedflow.wire.api import html
from fedflow.wire.api.tables import ProducedBy, TableColumn


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """A job that all its sites accepted."""

    job_id: str
    model_id: str = ""
    model_version: str = ""
    logs_directory: str = ""  #: at the server
    warnings: tuple[str, ...] = ()
    reused: Mapping[str, str] = field(default_factory=dict)  #: component -> job that made it

    def __repr__(self) -> str:
        return f"<Submitted job {self.job_id}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """How a job stands after it was stopped."""

    job_id: str
    status: str
    had_ended: bool = False  #: there was nothing to stop

    @property
    def is_final(self) -> bool:
        """Return whether the job has ended: else a party was not reached yet, or stops it now."""
        return self.status in {status.value for status in JOB_FINAL}

    def __repr__(self) -> str:
        return f"<Stopped job {self.job_id}: {self.status}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Uploaded:
    """A file that the server received; the job turns it into a table."""

    job_id: str
    namespace: str
    table_name: str

    def __repr__(self) -> str:
        return f"<Uploaded {self.namespace}.{self.table_name} by job {self.job_id}>"


# --- jobs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRow:
    """One site's share of a job, as a list of jobs shows it."""

    job_id: str
    role: str
    party_id: int | str
    status: str
    progress: int | float | None = None
    create_time: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    elapsed: int | None = None
    description: str | None = None
    partners: tuple[int | str, ...] = ()

    def __repr__(self) -> str:
        return f"<Job {self.job_id} at {self.role} {self.party_id}: {self.status}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Some jobs, newest first, and how many there are in all."""

    jobs: tuple[JobRow, ...]
    count: int

    def __repr__(self) -> str:
        return f"<{len(self.jobs)} of {self.count} jobs>"

    def _repr_html_(self) -> str:
        rows = [
            (j.job_id, f"{j.role} {j.party_id}", j.status, j.progress, j.description)
            for j in self.jobs
        ]
        return html.table(("job", "site", "status", "%", "notes"), rows, title=repr(self)[1:-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRow:
    """One attempt of a component at one site, as a list of tasks shows it."""

    job_id: str
    component_name: str
    role: str
    party_id: int | str
    status: str
    task_version: int = 0
    party_status: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    elapsed: int | None = None  #: milliseconds

    def __repr__(self) -> str:
        return f"<Task {self.component_name} at {self.role} {self.party_id}: {self.status}>"


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPage:
    """Some tasks, newest first, and how many there are in all."""

    tasks: tuple[TaskRow, ...]
    count: int

    def __repr__(self) -> str:
        return f"<{len(self.tasks)} of {self.count} tasks>"

    def _repr_html_(self) -> str:
        rows = [
            (t.job_id, t.component_name, f"{t.role} {t.party_id}", t.task_version, t.status)
            for t in self.tasks
        ]
        columns = ("job", "component", "site", "attempt", "status")
        return html.table(columns, rows, title=repr(self)[1:-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputTable:
    """A table that a component made."""

    job_id: str
    component_name: str
    role: str
    party_id: str
    data_name: str
    table_namespace: str
    table_name: str
    task_version: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependencies:
    """The DAG of a job at one site."""

    components: tuple[str, ...]  #: each after those that it depends on
    component_module: Mapping[str, str] = field(default_factory=dict)
    dependencies: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    component_need_run: Mapping[str, bool] = field(default_factory=dict)


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class TableInfo:
    """What the server knows of a table; a table that does not exist has `exists` False."""

    namespace: str
    name: str
    exists: bool
    count: int = 0  #: rows
    partitions: int = 0
    schema: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    engine: str = ""  #: storage engine: STANDALONE, PATH, MYSQL ...
    address: Mapping[str, Any] = field(default_factory=dict)  #: where the rows are
    enabled: bool = True  #: jobs may read it
    made_by: ProducedBy | None = None  #: None: no task that the server knows
    columns: Sequence[TableColumn] = ()  #: behind the id, at most 1,000

    def __repr__(self) -> str:
        rows = f"{self.count} rows" if self.exists else "does not exist"
        return f"<Table {self.namespace}.{self.name}: {rows}>"

    def _repr_html_(self) -> str:
        return html.facts(
            (("table", f"{self.namespace}.{self.name}"), ("exists", self.exists),
             ("rows", self.count), ("partitions", self.partitions), ("origin", self.origin))
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """The first rows of a table as the server shows them."""

    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    name: str = ""
    total: int | None = None  #: rows of the whole table

    def __repr__(self) -> str:
        return f"<Preview {self.name} {len(self.rows)} x {len(self.header)}>"

    def _repr_html_(self) -> str:
        return html.table(self.header, self.rows, title=self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """An earlier upload whose table still exists."""

    job_id: str
    namespace: str
    table_name: str
    count: int
    partitions: int
    notes: str = ""


# --- tracking, components -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric of one component at one site: points [key, value], and what they mean."""

    namespace: str
    name: str
    points: tuple[tuple[Any, Any], ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Return the metric's type in FATE's words, for example `LOSS`."""
        return str(self.meta.get("metric_type", ""))

    @property
    def is_summary(self) -> bool:
        """Tell whether the points are named values, not a curve."""
        return bool(self.points) and all(isinstance(key, str) for key, _ in self.points)

    def value(self, key: Any) -> Any:
        """Return the value at `key`. Raises: KeyError: there is none."""
        return dict(self.points)[key]

    def __repr__(self) -> str:
        return f"<Metric {self.namespace}/{self.name}: {len(self.points)} points>"

    def _repr_html_(self) -> str:
        title = f"{self.namespace} / {self.name}"
        return html.table(("at", "value"), self.points, title=title)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShare:
    """One site's share of a trained model, and what it is called."""

    param: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleInfo:
    """A component module: what runs where, what it takes and gives."""

    module: str
    roles: tuple[str, ...] = ()
    data_ports: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    summary: str = ""
    parameters: Mapping[str, Any] | None = field(default_factory=dict)  #: JSON schema
    provider: str = ""  #: registered provider that has it; empty: it comes with fedflow

    def __repr__(self) -> str:
        return f"<Module {self.module}>"
