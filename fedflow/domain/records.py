"""What is stored: frozen values, one class per kind of row. All `_ms` are milliseconds since the
epoch.

Two halves, as in FATE Flow 2: the *party* half (`JobRecord`, `TaskRecord`) is what every site
knows of its own part; the *schedule* half (`ScheduledJob` and below) exists only at the initiator
and is what the scheduler decides on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import NOTHING, UNCOUNTED, Capacity, ComputeResources
from fedflow.domain.job.control import FREE, Control
from fedflow.domain.job.engines import STANDALONE
from fedflow.domain.job.figures import Figure
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus

Json = Any  #: a plain JSON value


@dataclass(frozen=True, kw_only=True, slots=True)
class JobKey:
    """One party job."""

    job_id: str
    site: Site


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskKey:
    """One attempt of a party task."""

    job_id: str
    component: str
    version: int
    site: Site

    @property
    def task_id(self) -> str:
        """Return FATE's task id, the same at all sites; one task's alone, see `session`."""
        return f"{self.job_id}_{self.component}"

    @property
    def session(self) -> str:
        """Return the federation session of this attempt, the same at all sites.

        It is this attempt's alone: ids of jobs are digits, and so is the version, so the first and
        the last `_` are where the component's name begins and ends.
        """
        return f"{self.task_id}_{self.version}"

    @property
    def job(self) -> JobKey:
        return JobKey(job_id=self.job_id, site=self.site)

    def __str__(self) -> str:
        return f"{self.component} (attempt {self.version}) of job {self.job_id} at {self.site}"


def percent(done: Collection[float]) -> int:
    """Return how far something is whose parts are done to these degrees, 0 to 1; whole percent."""
    return int(100 * sum(done) / max(1, len(done)) + 1e-9)


SUBMIT_FAILED = "submit_failed"  #: tag of a job that some site did not accept
JOB_END = "job_end"  #: tag of a job that ended, as FATE shows it

# --- the party half -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """A job as one of its sites knows it. `cores` and `memory` (MiB) are what it holds here while
    `in_use`.
    """

    key: JobKey
    initiator: Site
    status: JobStatus
    epoch: int
    dsl: Json
    conf: Json
    roles: Mapping[str, list[str]]
    cores: int
    created_ms: int
    updated_ms: int
    reason: Reason | None = None
    progress: int = 0  #: percent of the tasks that ended
    in_use: bool = False  #: the cores are taken
    applied_ms: int | None = None
    returned_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    memory: int = 0  #: MiB
    engine: str = (
        STANDALONE  #: whose these are; chosen when it was accepted, `domain/job/engines.py`
    )
    queued_ms: int = 0  #: when it began to wait here, in this epoch
    name: str = ""  #: for people, see `domain/job/names.py`
    figures: tuple[Figure, ...] = ()  #: of its components at this site, see `domain/job/figures.py`
    description: str = ""
    user: str = ""
    tag: str = ""
    warnings: tuple[JobWarning, ...] = ()
    parameters: Json = field(default_factory=dict)  #: this site's job parameters, under FATE's keys
    size_bytes: int = 0  #: about what is stored of another party's job, see `JobQuotas`
    train_conf: Json = field(default_factory=dict)  #: of a predict job: its model's training conf
    deadline_ms: int | None = None  #: when it ends by itself, as its initiator says; never stored

    @property
    def is_initiator(self) -> bool:
        return self.initiator == self.key.site

    @property
    def need(self) -> ComputeResources:
        """Return what it holds here while `in_use`, as an amount of all engines."""
        return self.share.on(self.engine)

    @property
    def share(self) -> ComputeResources:
        """Return the same as an amount of its engine."""
        return ComputeResources(cores=self.cores, memory=self.memory)

    @property
    def since_ms(self) -> int:
        """Return since when it has its status."""
        if self.ended_ms is not None:
            return self.ended_ms
        running = self.started_ms if self.status is JobStatus.RUNNING else None
        return running or self.queued_ms or self.created_ms

    @property
    def partners(self) -> frozenset[str]:
        """Return the ids of the other parties that take part."""
        every = {party for parties in self.roles.values() for party in parties}
        return frozenset(every - {self.key.site.party_id})


@dataclass(frozen=True, kw_only=True, slots=True)
class Handle:
    """A started process: trusted only together with its start time (clock ticks since boot)."""

    pid: int
    start_time: int
    host: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRecord:
    """One attempt of a task at one site.

    `status` is the federated status as the initiator sent it, `party_status` this site's own.
    `launch_id` names the process that may run this attempt and `token` is its secret; a newer
    launch replaces both. `handle` is set once the process exists and cleared when it is gone.
    """

    key: TaskKey
    module: str
    initiator: Site
    status: TaskStatus
    party_status: TaskStatus
    parameters: Json
    created_ms: int
    updated_ms: int
    reason: Reason | None = None
    launch_id: str | None = None
    token: str | None = None
    requested_ms: int | None = None  #: when its start was asked for
    handle: Handle | None = None
    progress: float = 0.0  #: 0 to 1, as the component tells
    started_ms: int | None = None
    ended_ms: int | None = None
    traceback: str = ""
    auto_retries: int = 0  #: how often it will be tried again if it fails
    auto_retry_delay_s: int = 0
    inherited_from: str = ""  #: id of the job that really ran it, empty if it is this one
    instance_id: str = (
        ""  #: the server of this party that runs it, see `domain/administration/servers.py`
    )
    launch: int = 0  #: how often an elastic job has started it again in this attempt
    absent: tuple[str, ...] = ()  #: upstream components without outputs, as the initiator says
    here: bool = True  #: False: another site's party task as it reported it, never stored
    engine: str | None = None  #: of the party job, in messages to people; never stored

    @property
    def since_ms(self) -> int:
        """Return since when it has its party status."""
        return self.ended_ms or self.started_ms or self.requested_ms or self.created_ms


# --- the schedule half --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledSite:
    """How far the job has come at one site."""

    site: Site
    phase: SitePhase
    retry_ms: int = 0
    denials: int = 0  #: how often cores were denied in a row
    reason: Reason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyTaskView:
    """One site's share of a task, as far as it decides what happens next."""

    status: TaskStatus
    reason: Reason | None = None
    since_ms: int = 0
    launch: int = 0  #: how often an elastic job has started it again in this attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledPartyTask(PartyTaskView):
    """One party task, as reported."""

    site: Site
    progress: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledTask:
    """The latest attempt of a task."""

    component: str
    version: int
    status: TaskStatus
    parties: tuple[ScheduledPartyTask, ...]
    reason: Reason | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    epoch: int = 0  #: of the job, when the attempt was made
    retries: int = 0  #: how many automatic retries of this epoch led to it
    infrastructure_retries: int = 0  #: those of them that a server's failure caused
    cache_key: str | None = None  #: of what its results depend on, see `domain/job/reuse.py`
    inherited_from: str = ""  #: id of the job that really ran it, empty if it is this one

    @property
    def done(self) -> float:
        """Return which part of it is done, 0 to 1: of what runs, the mean over its sites."""
        if self.ended_ms is not None:
            return 1.0
        return sum(party.progress for party in self.parties) / max(1, len(self.parties))

    def retries_left(self, allowed: int) -> int:
        """Return how many of the allowed retries are left after failures of the task itself."""
        return max(0, allowed - (self.retries - self.infrastructure_retries))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledJob:
    """A job at its initiator, with all its sites and tasks."""

    job_id: str
    initiator: Site
    status: JobStatus
    epoch: int
    dsl: Json
    conf: Json
    priority: int
    created_ms: int
    updated_ms: int
    sites: tuple[ScheduledSite, ...]
    tasks: tuple[ScheduledTask, ...]
    stop: StopRequest | None = None
    reason: Reason | None = None  #: why it waits, or why it ended
    started_ms: int | None = None
    ended_ms: int | None = None
    rerun_ms: int | None = None  #: when its epoch began, None in the first one
    control: Control = FREE  #: how far people let it go in this epoch

    @property
    def began_ms(self) -> int:
        """Return when the current epoch began: its timeouts count from there."""
        return self.created_ms if self.rerun_ms is None else self.rerun_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingJob:
    """A waiting job as the queue sees it: enough to choose whose turn it is."""

    job_id: str
    priority: int
    created_ms: int
    initiator: Site
    reason: Reason | None
    queued_ms: int = 0  #: since when it waits
    ask_ms: int = 0  #: it was denied, and asks again then
    need: ComputeResources = NOTHING  #: of this server's own engines


# --- between parties ----------------------------------------------------------------------------


class CommandKind(StrEnum):
    """The commands that travel through the outbox; `app/initiator/initiator.py` applies their
    replies.
    """

    CREATE_JOB = "create_job"
    RERUN_JOB = "rerun_job"
    CREATE_TASK = "create_task"
    APPLY_CORES = "apply_cores"
    RETURN_CORES = "return_cores"
    START_JOB = "start_job"
    START_TASK = "start_task"
    SETTLE_TASK = "settle_task"
    END_JOB = "end_job"
    REPORT_TASK = "report_task"
    ASK_STOP = "ask_stop"
    COMMIT_MODEL = "commit_model"
    UNDO_MODEL = "undo_model"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command to another site that must arrive. `number` orders the commands of one job and
    party.
    """

    kind: CommandKind
    job_id: str
    source: Site
    destination: Site
    path: str  #: below /v1, for example `/party/<job>/<role>/<party>/create`
    body: Json
    request_id: str
    created_ms: int
    deadline_ms: int
    number: int = 0  #: given by the store
    attempts: int = 0
    due_ms: int = 0
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a party answered: FATE's return code, sentence and data, and an error's name."""

    retcode: int
    retmsg: str = "success"
    data: Json = None
    error: str = ""  #: class name in `base/errors/`, empty if it is none
    speaks: str | None = None  #: protocols of the answering server (`wire/versions.py`), if sent

    def said_by(self, site: Site) -> Message:
        """Return the sentence behind the name of the site that said it, without its full stop."""
        return Message("{site}: {message}", site, self.retmsg.removesuffix("."))


# --- resources, leases --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A computing engine of this server, its cores and its memory (MiB, 0 = not counted)."""

    name: str
    cores: int
    remaining_cores: int
    memory: int = 0
    remaining_memory: int = 0
    cores_percent: float = 1.0  #: share of the cores that one job may hold

    @property
    def capacity(self) -> Capacity:
        """Return what there is in all."""
        return Capacity(
            cores=self.cores,
            memory=self.memory,
            cores_percent=self.cores_percent,
            engine=self.name,
        )

    @property
    def free(self) -> ComputeResources:
        """Return what of it may be taken now; what is not counted is always there."""
        memory = self.remaining_memory if self.memory else UNCOUNTED
        return ComputeResources(cores=self.remaining_cores, memory=memory)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Somebody's claim until `expires_ms`; `token` grows with every change of owner (fencing)."""

    name: str
    owner: str
    token: int
    expires_ms: int


# --- tracking and tables ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric of one attempt: its points [key, value] in order, and its meta."""

    namespace: str
    name: str
    points: tuple[tuple[Json, Json], ...] = ()
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRecord:
    """A data set of this party: where it lies and what people may see of it without opening it.

    `schema` is the table's own JSON description, `preview` the first rows as text if it
    is bound; other tables have them in a file beside their rows.
    """

    namespace: str
    name: str
    address: str  #: folder below the table root, a random id
    schema: Json
    count: int
    partitions: int
    origin: str  #: upload, output or reader
    created_ms: int
    preview: tuple[tuple[str, ...], ...] = ()
    id_delimiter: str = ","
    have_head: bool = True
    extend_sid: bool = False  #: the ids were made at upload
    engine: str = "STANDALONE"  #: or PATH: a file of this machine that readers copy from
    source: str | None = None  #: absolute path of a bound file
    storage: Json = None  #: where else the rows are, without credentials
    disabled: bool = False  #: jobs may not read it
    extra: Json = None  #: members of FATE's schema beyond the column names: `meta` and others


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnFacts:
    """What the cells of one column of a table amount to; counted while the table was written."""

    name: str
    kind: str  #: `number` or `text`
    count: int  #: rows
    missing: int  #: empty cells, `NULL`, `null`, `NA`, NaN
    least: float | None = None  #: None: no number in it, or an infinite one
    greatest: float | None = None
    mean: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Connector:
    """How to reach another storage. Stored ones are sealed: see `app/data/connectors.py`."""

    name: str  #: of a connector of one table: a dot and the table's address
    engine: str
    info: Json  #: members in FATE's words, or one member `sealed`: all of them, encrypted
    created_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputTable:
    """Which table an attempt produced under a declared output name."""

    key: TaskKey
    data_name: str
    position: int
    namespace: str
    name: str
    address: str = ""  #: of its rows; the table of that name may have others by now. Empty: unknown

    def is_of(self, table: TableRecord) -> bool:
        """Tell whether a table of this name has the rows that were produced."""
        return self.address in ("", table.address)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """The model of one attempt: two plain JSON objects with their names."""

    key: TaskKey
    alias: str
    meta_name: str
    param_name: str
    meta: Json
    param: Json


class Sort(StrEnum):
    """By what a list may be ordered, in FATE's words."""

    JOB_ID = "job_id"
    VERSION = "task_version"  #: of tasks; jobs have none
    CREATED = "create_time"
    STARTED = "start_time"
    ENDED = "end_time"
    ELAPSED = "elapsed"
    ACTIVITY = "activity"  #: of jobs: what has not ended, then by the end; tasks have none


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """In which order a list is shown; `domain/lists.py` says what follows of it."""

    by: Sort = Sort.CREATED
    descending: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Between:
    """A time (ms) or span (ms) that lies in a range, both ends included; never without a value."""

    by: Sort
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """Which jobs to list; None means any. A `_part` is a text that the value contains."""

    job_id: str | None = None
    roles: tuple[Role, ...] | None = None
    party_id: str | None = None
    statuses: tuple[JobStatus, ...] | None = None
    refused: bool = True  #: also those refused at the submit (tagged `SUBMIT_FAILED`)
    or_refused: bool = False  #: also all of those, whatever the statuses asked for
    job_id_part: str | None = None
    party_id_part: str | None = None
    description_part: str | None = None
    partner_part: str | None = None  #: contained in one of `JobRecord.partners`
    tag: str | None = None  #: one that people gave it, see `domain/job_lines.py`
    any_part: str | None = None  #: contained in its id, its notes, a partner, its party or a tag
    between: tuple[Between, ...] = ()
    order: Order = Order()
    limit: int = 1000
    offset: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFilter:
    """Which attempts to list; None means any. Only the latest version unless `all_versions`."""

    job_id: str | None = None
    component: str | None = None
    roles: tuple[Role, ...] | None = None
    party_id: str | None = None
    statuses: tuple[TaskStatus, ...] | None = None
    all_versions: bool = False
    order: Order | None = None  #: None: in the order in which they were added
    limit: int = 10_000
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """A compare-and-set took place; `status` is the new one."""

    status: JobStatus | TaskStatus


@dataclass(frozen=True, slots=True)
class Stale:
    """Somebody else moved it first; nothing was changed."""
