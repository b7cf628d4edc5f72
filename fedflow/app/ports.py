"""What the use cases need from the outside: one Protocol per neighbour.

The store is used in transactions: `with store.transaction() as tx:` writes (one writer at a time on
SQLite), `with store.read() as tx:` only reads. Everything done on one `tx` happens together or not
at all; nothing on the network is called inside. Status changes are compare-and-set and answer
`Moved` or `Stale`; an impossible move raises IllegalMove.

Long, as it is a list: first the parts of the store, up to `Tx` and `Store`, then all else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Protocol

from fedflow.base.errors.error import FedflowError
from fedflow.domain.administration.accounts import Account, AccountRole, AccountSession
from fedflow.domain.administration.records import (
    Grant,
    RegisteredServer,
    RegisteredService,
    SiteKey,
)
from fedflow.domain.administration.servers import Instance
from fedflow.domain.data.caches import CacheFilter, StoredCache
from fedflow.domain.data.storages import Connection
from fedflow.domain.data.table_lists import TableFilter
from fedflow.domain.job.control import Control
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.providers import Manifest, RegisteredProvider
from fedflow.domain.job.resources import Amount
from fedflow.domain.job.spark_options import SparkPlan
from fedflow.domain.job_lines import JobLine, StatusCount
from fedflow.domain.models.lists import ModelLine, ModelList
from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelTag,
    ModelVersion,
)
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    ColumnFacts,
    Command,
    Connector,
    Engine,
    Handle,
    JobFilter,
    JobKey,
    JobRecord,
    Json,
    Lease,
    Metric,
    Moved,
    OutputTable,
    Reply,
    ScheduledJob,
    ScheduledSite,
    ScheduledTask,
    Stale,
    StoredModel,
    TableRecord,
    TaskFilter,
    TaskKey,
    TaskRecord,
    WaitingJob,
)
from fedflow.domain.scheduling.history import Event, EventFilter
from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobEvent, JobStatus, TaskEvent, TaskStatus


class Jobs(Protocol):
    """The party half of jobs (`t_job`)."""

    def add(self, record: JobRecord) -> None:
        """Store a new job. A row with the same key is kept as it is."""

    def get(self, key: JobKey) -> JobRecord | None: ...

    def find(self, which: JobFilter) -> list[JobRecord]:
        """Return a page of matching jobs, in the filter's order."""

    def count(self, which: JobFilter) -> int:
        """Return how many jobs match, whatever `limit` and `offset` say."""

    def move(
        self,
        key: JobKey,
        event: JobEvent,
        *,
        seen: JobStatus,
        now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale:
        """Move the job if its status is still `seen`; sets started_ms or ended_ms as it fits."""

    def set_progress(self, key: JobKey, progress: int, *, now_ms: int) -> None:
        """Raise the progress (percent); a smaller value is ignored."""

    def set_description(self, key: JobKey, text: str, *, now_ms: int) -> None:
        """Store the notes of people about the job."""

    def set_tag(self, key: JobKey, tag: str, *, now_ms: int) -> None:
        """Store what kind of job it turned out to be, for example `SUBMIT_FAILED`."""

    def set_conf(self, key: JobKey, conf: Json, parameters: Json, *, now_ms: int) -> None:
        """Store a changed runtime conf and the job parameters that follow from it here."""

    def reopen(
        self,
        key: JobKey,
        *,
        seen: JobStatus,
        epoch: int,
        conf: Json,
        parameters: Json,
        cores: int,
        now_ms: int,
        memory: int = 0,
        engine: str | None = None,
    ) -> Moved | Stale:
        """Begin a new epoch of an ended job that holds no cores; its times and progress restart.

        `engine` None: the share stays on its engine.
        """

    def take_cores(self, key: JobKey, *, now_ms: int) -> bool:
        """Take the cores and memory of a share from its engine. Twice has no effect.

        False if too little is free for all shares that the job does not hold here yet, whatever
        engines they are on.
        """

    def return_cores(self, key: JobKey, *, now_ms: int) -> bool:
        """Give the cores and memory of a share back; False if it holds none."""

    def shares(self, job_id: str) -> list[JobRecord]:
        """Return all shares of a job at this server, in the order of their sites."""

    def mark(self, job_id: str) -> str:
        """Return a text that is another one once a share of a job changed at this server, empty if
        there is none; cheaper than `shares`.
        """

    def engines(self, job_ids: Collection[str]) -> dict[JobKey, str]:
        """Return the engines of the shares of some jobs at this server."""

    def unfinished(self) -> list[JobRecord]:
        """Return the jobs that have not ended, and ended ones that still hold cores."""

    def drop(self, job_id: str) -> int:
        """Forget all shares of a job at this server; return how many. They must have ended."""


class JobLists(Protocol):
    """What lists of jobs show, without the jobs' documents."""

    def page(self, which: JobFilter) -> list[JobLine]:
        """Return a page of matching shares, in the filter's order, with their tags."""

    def progress(self, job_ids: Collection[str]) -> dict[str, int]:
        """Return how much of some jobs that this server initiated is done: percent of the tasks."""

    def counts(self, since_ms: int) -> list[StatusCount]:
        """Return how many jobs that were created since a moment have each status here.

        A job with several shares here counts once per status that these have; jobs that were
        submitted in vain do not count.
        """


class JobTags(Protocol):
    """Words that people give to jobs of this server (`t_job_tag`)."""

    def add(self, job_id: str, name: str, *, now_ms: int) -> bool:
        """Give a tag to a job; False if it has it."""

    def remove(self, job_id: str, name: str) -> bool:
        """Take a tag from a job; False if it does not have it."""

    def of(self, job_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the tags of those of some jobs that have any, in the order of their names."""

    def all(self, *, limit: int) -> list[tuple[str, int]]:
        """Return tags and how many jobs have each; those that most have first."""

    def drop(self, job_id: str) -> int:
        """Take all tags from a job; return how many."""


class Engines(Protocol):
    """Computing engines and their free cores (`t_engine_registry`)."""

    def put(
        self, name: str, cores: int, *, now_ms: int, memory: int = 0, cores_percent: float = 1.0
    ) -> None:
        """Register an engine, memory in MiB (0 = not counted).

        If it is known, what remains changes by the difference of the totals.
        """

    def get(self, name: str) -> Engine | None: ...


class Tasks(Protocol):
    """The party half of tasks (`t_task`)."""

    def add(self, records: Sequence[TaskRecord]) -> None:
        """Store new attempts. Rows with the same key are kept as they are."""

    def get(self, key: TaskKey) -> TaskRecord | None: ...

    def statuses(self, key: JobKey) -> dict[str, tuple[int, TaskStatus]]:
        """Return version and federated status of a share's latest attempts, by component."""

    def find(self, which: TaskFilter) -> list[TaskRecord]:
        """Return a page of matching attempts, in the filter's order."""

    def count(self, which: TaskFilter) -> int:
        """Return how many attempts match, whatever `limit` and `offset` say."""

    def move_party(
        self,
        key: TaskKey,
        event: TaskEvent,
        *,
        seen: TaskStatus,
        now_ms: int,
        reason: Reason | None = None,
        traceback: str = "",
    ) -> Moved | Stale:
        """Move the party status if it is still `seen`; sets started_ms or ended_ms as it fits."""

    def set_status(self, key: TaskKey, status: TaskStatus, *, now_ms: int) -> None:
        """Store the federated status that the initiator told."""

    def set_launch(
        self, key: TaskKey, launch_id: str, token: str, *, seen: str | None, now_ms: int,
        instance_id: str = "",
    ) -> bool:  # fmt: skip
        """Name the process that may run this attempt, and whose server.

        False if `seen` is not the launch that it has now, or the process of that exists.
        """

    def set_absent(self, key: TaskKey, components: Sequence[str]) -> None:
        """Store which upstream components an attempt gets no outputs of."""

    def set_handle(self, key: TaskKey, launch_id: str, handle: Handle) -> bool:
        """Store the process of `launch_id`; False if another launch has replaced it."""

    def clear_handle(self, key: TaskKey, launch_id: str) -> bool:
        """Forget the process of `launch_id`, which is gone; False if another launch replaced it."""

    def set_progress(self, key: TaskKey, progress: float, *, now_ms: int) -> None: ...

    def mark(self, job_id: str) -> str:
        """Return a text that is another one once a task of a job moved, began or came further
        here; cheaper than `find`.
        """

    def live(self) -> list[TaskRecord]:
        """Return attempts with a process, and attempts whose start was asked for and that have
        not ended.
        """

    def placed(self) -> dict[tuple[str, Site], str]:
        """Return, by session and site, which server runs the attempts that `live` returns."""

    def drop(self, job_id: str) -> int:
        """Forget all attempts of a job at this server; return how many."""


class Schedules(Protocol):
    """The schedule half: jobs that this server initiated."""

    def add(self, job: ScheduledJob) -> None: ...

    def get(self, job_id: str) -> ScheduledJob | None: ...

    def epoch(self, job_id: str) -> int | None:
        """Return the current epoch of a job; cheaper than `get`."""

    def status(self, job_id: str) -> JobStatus | None:
        """Return how a job stands; cheaper than `get`."""

    def mark(self, job_id: str) -> str:
        """Return a text that is another one once a job, its reason or a task's progress changed;
        cheaper than `get`. Moves of tasks and sites are told by `Events.last_number`.
        """

    def active(self) -> list[str]:
        """Return the ids of jobs that have not ended, oldest first."""

    def move(
        self,
        job_id: str,
        event: JobEvent,
        *,
        seen: JobStatus,
        now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale: ...

    def set_reason(self, job_id: str, reason: Reason | None, *, now_ms: int) -> None:
        """Store why the job is not moving."""

    def rerun(self, job_id: str, *, seen: JobStatus, epoch: int, now_ms: int) -> Moved | Stale:
        """Begin a new epoch of an ended job: stop request, reason and times are forgotten."""

    def set_conf(self, job_id: str, conf: Json, *, now_ms: int) -> None:
        """Store a changed runtime conf."""

    def add_attempt(self, job_id: str, task: ScheduledTask, *, now_ms: int) -> bool:
        """Store a further attempt in its task's place; False if it exists."""

    def set_site(self, job_id: str, site: ScheduledSite, *, seen: SitePhase, now_ms: int) -> bool:
        """Replace one site's state if its phase is still `seen`."""

    def ask_stop(self, job_id: str, stop: StopRequest, *, now_ms: int) -> bool:
        """Store that the job shall end; False if it has ended or was asked before."""

    def set_control(
        self,
        job_id: str,
        control: Control,
        *,
        seen: Control,
        now_ms: int,
        told: Reason | None = None,
    ) -> bool:
        """Replace how far a job may go, if it is still `seen` and the job has not ended.

        A job whose control has `held_ms` is none of the queue's. `told` goes into the history.
        """

    def start_task(self, job_id: str, component: str, version: int, *, now_ms: int) -> bool:
        """Move a waiting task to running; False if it is not waiting."""

    def end_task(
        self,
        job_id: str,
        component: str,
        version: int,
        status: TaskStatus,
        *,
        reason: Reason | None,
        now_ms: int,
    ) -> bool:
        """Move a task to a final status; False if it has one."""

    def report(
        self,
        job_id: str,
        component: str,
        version: int,
        site: Site,
        status: TaskStatus,
        *,
        reason: Reason | None,
        progress: float | None,
        now_ms: int,
    ) -> Moved | Stale:
        """Store what a site reports about its share. A late or repeated report is Stale."""

    def made(self, cache_keys: Collection[str], *, limit: int) -> list[tuple[str, str, str]]:
        """Return job, component and cache key of tasks that succeeded with one of some keys.

        Newest jobs first, at most `limit`; attempts that were replaced do not count.
        """

    def drop(self, job_id: str) -> bool:
        """Forget a job with its sites and tasks; False if there is none. It must have ended."""


class Queue(Protocol):
    """Who waits for cores and memory, at the initiator and at a site; and what to look at.

    It reads what `Schedules` and `Jobs` write. Everything it returns is bounded by `limit`, or by
    how much runs, never by how many jobs wait.
    """

    def enter(
        self, job_id: str, need: Amount, *, queued_ms: int, deadline_ms: int, look_ms: int
    ) -> None:
        """Store what a waiting job needs of this server's own engines, and when to look at it."""

    def look_later(self, job_id: str, look_ms: int) -> None:
        """Look at a waiting job again at `look_ms`, as nothing could be done with it now."""

    def ask_later(self, job_id: str, ask_ms: int) -> None:
        """A waiting job was denied: it may ask again from `ask_ms` on."""

    def get(self, job_id: str) -> WaitingJob | None:
        """Return a job that waits, None if it does not."""

    def moving(self) -> list[str]:
        """Return the jobs that do more than wait: they are ready or run, or ask a site for cores,
        hold some, or were denied.
        """

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        """Return waiting jobs whose look time has come, the longest ago first."""

    def of_lost(self, party_id: str, *, limit: int) -> list[str]:
        """Return jobs that have not ended and need a party."""

    def oldest(self, *, limit: int) -> list[WaitingJob]:
        """Return the jobs that wait longest, that one first."""

    def first(self, free: Amount, now_ms: int, *, limit: int, offset: int = 0) -> list[WaitingJob]:
        """Return jobs that may ask now and fit into what is free: by priority, then age."""

    def needing(self, job_ids: Collection[str], parties: Collection[str]) -> set[str]:
        """Return those of some jobs that need any of some parties."""

    def under_way(self) -> list[WaitingJob]:
        """Return waiting jobs that ask a site, or hold a grant; `need` is what they still need of
        this server's own engines.
        """

    def denied(self) -> dict[str, int]:
        """Return how many waiting jobs were denied at each party."""

    def page(self, *, starving_before_ms: int, limit: int, offset: int = 0) -> list[WaitingJob]:
        """Return waiting jobs in the order in which they go (see `domain/scheduling/queue.py`)."""

    def unstopped(self, *, limit: int) -> list[WaitingJob]:
        """Return waiting jobs that nobody has stopped yet."""

    def count(self) -> int:
        """Return how many jobs of this initiator wait."""

    def parties(self) -> list[str]:
        """Return the parties of jobs that have not ended, each once."""

    def moving_with(self, party_id: str, now_ms: int) -> list[str]:
        """Return the jobs that a party must hear of each time: all that do more than wait, and
        those that wait beyond their deadline, as held ones do.
        """

    def waiting_with(self, party_id: str, *, after: str, limit: int) -> list[str]:
        """Return ids of waiting jobs that need a party, in the order of their ids, after one."""

    def deny(self, key: JobKey, *, now_ms: int) -> None:
        """Note that a share asked for cores here in vain."""

    def claims(self, *, asked_since_ms: int, queued_before_ms: int) -> list[WaitingJob]:
        """Return the jobs that were denied here since a moment and wait since before another.

        `need` is what they need here in all, `initiator` whose they are.
        """

    def moving_shares(self) -> list[JobRecord]:
        """Return the shares at this server that do more than wait: they run, hold cores, or have
        ended and still hold some.
        """

    def waiting_shares(self, *, after: str, limit: int) -> list[JobRecord]:
        """Return waiting shares that hold nothing, in the order of job ids, after one."""

    def began_ms(self) -> int | None:
        """Return when the oldest job that has not ended here was created, None if all have."""


class Outbox(Protocol):
    """Commands that must arrive, in order per (job, destination party)."""

    def put(self, commands: Sequence[Command]) -> None:
        """Store commands in order; each gets a number."""

    def heads(
        self, destination: str, *, now_ms: int, skip: frozenset[str], limit: int
    ) -> list[Command]:
        """Return, for one party, the oldest command of each job, of those that are due.

        A job in `skip` (one of its commands is on its way) is left out. A command that waits for
        its retry holds back the later ones of its job, so that order is kept.
        """

    def destinations(self) -> list[str]:
        """Return the party ids that commands wait for."""

    def next_due_ms(self, destination: str, *, skip: frozenset[str] = frozenset()) -> int | None:
        """Return when the next command for a party is due, or None if there is none.

        Jobs in `skip` are left out, as in `heads`.
        """

    def of_job(self, job_id: str, parties: Collection[str]) -> list[Command]:
        """Return what waits of one job for some parties, oldest first."""

    def remove(self, number: int) -> None: ...

    def retry(self, number: int, *, due_ms: int, error: str) -> None:
        """Count a failed attempt and try again at `due_ms`."""

    def release(self, destination: str | None, *, now_ms: int) -> None:
        """Let all commands for a party, or for all of them, be due now if they are due later."""

    def overdue(
        self, destination: str, *, now_ms: int, create_within_ms: int, skip: frozenset[str],
        limit: int,
    ) -> list[Command]:  # fmt: skip
        """Return, as `heads` does but due or not, those whose deadline has passed.

        A command to create a job is overdue `create_within_ms` after it was made, at the latest.
        """

    def next_deadline_ms(
        self, destination: str, *, create_within_ms: int, skip: frozenset[str] = frozenset()
    ) -> int | None:  # fmt: skip
        """Return when the next command for a party will be `overdue`, None if there is none."""

    def size(self) -> int: ...

    def sizes(self) -> dict[str, int]:
        """Return how many commands wait, by party."""


class Received(Protocol):
    """Replies to requests that were carried out, so that a repeat has no second effect."""

    def get(self, request_id: str) -> Reply | None: ...

    def put(self, request_id: str, reply: Reply, *, now_ms: int) -> None: ...

    def prune(self, older_than_ms: int) -> int:
        """Forget replies stored before a moment; return how many."""


class Leases(Protocol):
    """Claims with an end."""

    def renew(self, name: str, owner: str, *, expires_ms: int, now_ms: int) -> Lease | None:
        """Take or extend a claim; None if another owner holds it and it has not expired."""

    def get(self, name: str) -> Lease | None: ...

    def holds(self, name: str, token: int) -> bool:
        """Tell whether a claim is still that of `token`; if so, nobody takes it over before this
        transaction has ended.
        """

    def release(self, name: str, owner: str) -> None: ...


class Instances(Protocol):
    """The servers of this party (`t_server_instance`)."""

    def now_ms(self) -> int:
        """Return the time of the database, which is the same for all servers that use it."""

    def beat(self, instance: Instance) -> int:
        """Store a server with the database's time as its beat, and return that time.

        `started_ms` 0 means now.
        """

    def all(self) -> list[Instance]:
        """Return all servers, the one that started first is the first."""

    def prune(self, older_than_ms: int) -> int:
        """Forget the servers that did not beat since a moment; return how many."""


class Tracking(Protocol):
    """What runs produced."""

    def add_metric(self, key: TaskKey, metric: Metric, *, now_ms: int) -> None:
        """Append points to a metric and merge its meta."""

    def metrics(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> list[Metric]:
        """Return the metrics of an attempt, by default the latest one, in the order in which they
        were first written.
        """

    def metric_types(self, keys: Collection[TaskKey]) -> dict[TaskKey, set[str]]:
        """Return which types of metrics (`metric_type` in the meta) some attempts have; those
        without any are left out.
        """

    def metrics_of(
        self, keys: Collection[TaskKey], types: Collection[str]
    ) -> dict[TaskKey, list[Metric]]:
        """Return the metrics of some attempts that have one of some types, in the order of
        `metrics`; attempts without any are left out.
        """

    def metric_mark(self, key: TaskKey) -> int:
        """Return a number that grows with every point of an attempt that is added, 0 without."""

    def drop_metrics(self, job_id: str, component: str | None, site: Site) -> int:
        """Delete the metrics of all attempts of one component, or of all; return how many."""

    def count_metrics(self, job_id: str) -> int:
        """Return how many metrics all attempts of a job have, at all sites."""

    def put_output(self, output: OutputTable, *, now_ms: int) -> None: ...

    def every_output(self, job_id: str) -> list[OutputTable]:
        """Return the output tables of all attempts of a job at all sites."""

    def drop(self, job_id: str) -> None:
        """Forget metrics, outputs, summaries and models of all attempts of a job; tables stay."""

    def uses_of_table(self, namespace: str, name: str) -> list[OutputTable]:
        """Return every output, of any attempt, that is this table, in the order of their
        writing.
        """

    def move_table(self, job_id: str, *, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Let the outputs of a job that were table `old` (namespace, name) be table `new`."""

    def outputs(
        self, job_id: str, component: str | None, site: Site, *, version: int | None = None
    ) -> list[OutputTable]:
        """Return the output tables by component and position: of each component's latest attempt
        that has any, or of one attempt.
        """

    def output_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        """Return the attempts that have output tables, the latest one last."""

    def put_summary(self, key: TaskKey, summary: Any, *, now_ms: int) -> None: ...

    def summary(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> Any | None:
        """Return the summary of an attempt, by default the latest that has one."""

    def put_model(self, model: StoredModel, *, now_ms: int) -> None: ...

    def model(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> StoredModel | None:
        """Return the model share of an attempt, by default the latest that has one."""

    def model_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        """Return the attempts that have a model share, the latest one last."""


class Tables(Protocol):
    """The data sets of this party (`t_storage_table_meta`)."""

    def put(self, record: TableRecord) -> None:
        """Store a table. Raises: TableExists."""

    def get(self, namespace: str, name: str) -> TableRecord | None: ...

    def drop(self, namespace: str, name: str) -> TableRecord | None:
        """Forget a table and return what it was."""

    def find(self, namespace: str | None = None, *, limit: int = 1000) -> list[TableRecord]: ...

    def listed(self, which: TableFilter) -> list[TableRecord]:
        """Return the tables of a filter's page, without their previews."""

    def count(self, which: TableFilter) -> int:
        """Return how many tables fit a filter, whatever its page."""

    def disabled(self) -> list[TableRecord]:
        """Return the tables that jobs may not read, by namespace and name."""

    def set_disabled(self, namespace: str, name: str, *, disabled: bool) -> bool:
        """Forbid or allow jobs to read a table; False if there is none."""

    def set_extra(self, namespace: str, name: str, extra: Any) -> bool:
        """Store what FATE's schema holds beyond column names; False if there is no table."""

    def at_address(self, address: str) -> list[tuple[str, str]]:
        """Return namespace and name of all tables whose rows lie in a folder."""

    def of_connector(self, connector: str) -> list[tuple[str, str]]:
        """Return namespace and name of the bound tables that a connector is needed for."""


class Connectors(Protocol):
    """Ways to other storages (`t_storage_connector`)."""

    def put(self, connector: Connector) -> None:
        """Store a connector; it replaces the one with its name."""

    def get(self, name: str) -> Connector | None: ...

    def all(self) -> list[Connector]:
        """Return all connectors by name, those of single tables too."""

    def drop(self, name: str) -> bool:
        """Forget a connector; False if there is none."""


class Permissions(Protocol):
    """What other parties may use here (`t_permission`)."""

    def add(self, grants: Sequence[Grant], *, now_ms: int) -> None:
        """Store grants; those that exist are left as they are."""

    def remove(self, grants: Sequence[Grant]) -> int:
        """Forget grants; return how many there were."""

    def of(self, party_id: str) -> list[Grant]:
        """Return what a party may use, sorted."""

    def parties(self) -> list[str]:
        """Return the parties that may use anything, sorted."""


class SiteKeys(Protocol):
    """Public keys of other parties (`t_site_key_info`)."""

    def put(self, key: SiteKey) -> None:
        """Store a key; it replaces the party's former one."""

    def get(self, party_id: str) -> SiteKey | None: ...

    def drop(self, party_id: str) -> bool:
        """Forget a key; False if there is none."""


class Registry(Protocol):
    """Other programs of this party (`t_server_registry_info`, `t_service_registry_info`)."""

    def put_server(self, server: RegisteredServer, *, now_ms: int) -> None:
        """Store where a server listens; it replaces the one with its name."""

    def servers(self) -> list[RegisteredServer]:
        """Return all servers by name."""

    def put_service(self, service: RegisteredService, *, now_ms: int) -> None:
        """Store a service; it replaces the one with its server and name."""

    def services(self, name: str) -> list[RegisteredService]:
        """Return the services of this name, by server."""


class Models(Protocol):
    """Versions of models, one share per site (`t_machine_learning_model_info` and its parts)."""

    def put(self, version: ModelVersion) -> None:
        """Store a version; it replaces the one with its key, but keeps when that was created."""

    def get(self, key: ModelKey) -> ModelVersion | None:
        """Return a version, also one that is not ready."""

    def find(self, which: ModelFilter) -> list[ModelVersion]:
        """Return matching versions, newest first."""

    def unready(self, older_than_ms: int) -> list[ModelKey]:
        """Return the versions that were prepared before a moment and cannot be used yet."""

    def set_ready(self, key: ModelKey, *, now_ms: int) -> bool:
        """Make a prepared version usable; False if there is none."""

    def drop(self, key: ModelKey) -> bool:
        """Forget a version with its components and checkpoints; False if there is none."""

    def put_component(self, component: ModelComponent) -> None:
        """Store a component's model; it replaces the one with its key and component."""

    def components(self, key: ModelKey) -> list[ModelComponent]:
        """Return the component models, by component name."""

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a step in place of the same step, and of what older attempts had from it on."""

    def checkpoints(self, key: ModelKey, component: str | None = None) -> list[Checkpoint]:
        """Return checkpoints by component and step."""

    def referenced(self, digests: Collection[str]) -> set[str]:
        """Return those of some blobs (sha256) that a component or checkpoint needs."""


class ModelLists(Protocol):
    """What lists of model versions show, without their documents. Newest first."""

    def page(self, which: ModelList) -> list[ModelLine]:
        """Return a page of the versions that fit and can be used."""

    def count(self, which: ModelList) -> int:
        """Return how many fit, on all pages."""

    def tags(self, versions: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the tags of those of some versions that have any, in the order of their names."""

    def modules(self) -> list[str]:
        """Return the modules that wrote models which are here."""


class ModelTags(Protocol):
    """Names that people give to model versions (`t_tags`, `t_model_tag`)."""

    def create(self, name: str, description: str, *, now_ms: int) -> bool:
        """Make a tag; False if there is one of this name."""

    def get(self, name: str) -> ModelTag | None: ...

    def find(self, part: str = "", *, limit: int = 1000) -> list[ModelTag]:
        """Return the tags whose name has this part, newest first."""

    def update(self, name: str, *, new_name: str, description: str, now_ms: int) -> bool:
        """Rename and describe a tag; False if there is none, or another has the new name."""

    def drop(self, name: str) -> bool:
        """Forget a tag, also at its versions; False if there is none."""

    def attach(self, name: str, model_version: str, *, now_ms: int) -> bool:
        """Give an existing tag to a version; False if it has it, or there is no such tag."""

    def detach(self, name: str, model_version: str) -> bool:
        """Take a tag from a version; False if it does not have it."""

    def of_version(self, model_version: str) -> list[ModelTag]:
        """Return a version's tags, by name."""

    def versions(self, name: str) -> list[str]:
        """Return the versions that have a tag, oldest attachment first."""


class Caches(Protocol):
    """What components keep at their own site for later jobs (`t_cache_record`)."""

    def put(self, cache: StoredCache) -> None:
        """Store a cache; it replaces one of the same attempt and name."""

    def find(self, which: CacheFilter) -> list[StoredCache]:
        """Return matching caches of the latest attempts that made any, oldest first."""

    def drop(self, which: CacheFilter) -> list[StoredCache]:
        """Forget matching caches of all attempts, and return them."""


class Submits(Protocol):
    """Idempotency keys of submits (`t_submit_key`)."""

    def get(self, key: str) -> SubmitKey | None: ...

    def put(self, used: SubmitKey, *, instead_of: str | None = None) -> bool:
        """Store a key; False if it is used, unless for the job `instead_of`, which it replaces."""

    def prune(self, older_than_ms: int) -> int:
        """Forget keys stored before a moment; return how many."""


class Events(Protocol):
    """The history of jobs (`t_job_event`). The store itself adds an event with every change of a
    status, in the transaction of that change.
    """

    def add(self, *events: Event) -> None:
        """Add what is no change of a status; later transactions see it."""

    def find(self, which: EventFilter) -> list[Event]:
        """Return matching events, each with the epoch of the job that it fell into."""

    def last_number(self, job_id: str) -> int:
        """Return the number of a job's newest event, 0 if it has none; cheaper than `find`."""

    def drop(self, job_id: str) -> int:
        """Forget the history of a job; return how many events it had."""


class Accounts(Protocol):
    """Accounts of the board (`t_account`) and sessions of browsers (`t_account_session`)."""

    def add(self, account: Account) -> bool:
        """Store a new account; False if the name is taken."""

    def get(self, name: str) -> Account | None: ...

    def all(self) -> list[Account]:
        """Return all accounts by name."""

    def set_role(self, name: str, role: AccountRole, *, now_ms: int) -> bool:
        """Give an account another role; False if there is no such account."""

    def set_password(self, name: str, password: str, *, now_ms: int) -> bool:
        """Store the hash of another password; False if there is no such account."""

    def drop(self, name: str) -> bool:
        """Forget an account and its sessions; False if there is none."""

    def put_session(self, session: AccountSession) -> None: ...

    def session(self, digest: str) -> AccountSession | None: ...

    def sessions(self, name: str) -> list[AccountSession]:
        """Return the sessions of an account, oldest first, those that have ended too."""

    def seen(self, digest: str, *, now_ms: int) -> None:
        """Note when a session was used last, if it is still there."""

    def end_session(self, digest: str) -> bool:
        """Forget a session; False if there is none."""

    def end_sessions(self, name: str) -> int:
        """Forget all sessions of an account; return how many there were."""

    def prune_sessions(self, *, seen_before_ms: int, created_before_ms: int) -> int:
        """Forget sessions that were last used, or began, before a moment; return how many."""


class Tx(Protocol):
    """One transaction on the store."""

    events: Events

    jobs: Jobs
    job_lists: JobLists
    job_tags: JobTags
    engines: Engines
    tasks: Tasks
    schedules: Schedules
    queue: Queue
    outbox: Outbox
    received: Received
    leases: Leases
    instances: Instances
    tracking: Tracking
    tables: Tables
    caches: Caches
    connectors: Connectors
    models: Models
    model_lists: ModelLists
    model_tags: ModelTags
    permissions: Permissions
    site_keys: SiteKeys
    registry: Registry
    submits: Submits
    accounts: Accounts


class Store(Protocol):
    """The memory of one server."""

    def transaction(self) -> AbstractContextManager[Tx]:
        """Return a context for reads and writes; an exception inside undoes all. Not re-entrant."""

    def read(self) -> AbstractContextManager[Tx]:
        """Return a context for reads."""

    def close(self) -> None: ...


class PartyServers(Protocol):
    """The servers of this party, as this one of them sees them; see
    `domain/administration/servers.py`.
    """

    @property
    def own_id(self) -> str:
        """Return what this server is called among them."""

    @property
    def leads(self) -> bool:
        """Tell whether this server is the one that schedules."""

    @property
    def has_others(self) -> bool:
        """Tell whether another server is alive."""

    def is_here(self, instance_id: str) -> bool:
        """Tell whether this server looks after an attempt that names a server."""

    def lost_for_s(self, instance_id: str) -> int | None:
        """Return for how many seconds a server has been lost, None if it is not."""

    def look(self, instance_id: str) -> None:
        """Let another server look at its executors now."""

    def guarded(self, store: Store) -> Store:
        """Return the store for what only the leader does: its transactions raise NotLeading."""


class PartyClient(Protocol):
    """Delivers one command to another party's server."""

    def call(
        self,
        source: Site | None,
        destination: str,
        path: str,
        body: Any,
        *,
        request_id: str,
        job_id: str,
        deadline_s: float,
    ) -> Reply:
        """Send once and return the answer. Raises: PartyUnreachable, NoRoute, BadPacket."""

    def knows(self, party_id: str) -> bool:
        """Tell whether there is a route to the party."""

    def is_local(self, party_id: str) -> bool:
        """Tell whether this server hosts the party."""


class Executor(Protocol):
    """Starts and stops the processes that run party tasks.

    The end of a process is told to the callback that the composition root set: once for every
    handle.
    """

    def start(self, launch: Launch) -> None:
        """Start a process soon; its handle or failure arrives through the callbacks."""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        """End a process and its group: SIGTERM, then after `grace_s` SIGKILL. Returns at once."""

    def adopt(self, launch_id: str, handle: Handle) -> bool:
        """Watch a process, if it is not watched already; False if it is gone."""


class Applications(Protocol):
    """The Spark applications of this server, one per share of a job that computes on Spark.

    They are processes of this machine, which outlive the server.
    """

    def ensure(self, job: JobKey, plan: SparkPlan) -> Path:
        """Return the folder of a share's application, which is started if it does not run.

        It does not wait until it is ready. Raises: OSError: it cannot be started now.
        """

    def end(self, job: JobKey) -> None:
        """End a share's application, if there is one. Returns at once; safe to do twice."""

    def running(self) -> list[JobKey]:
        """Return the shares with an application, also those of an earlier server of this home."""


class Launch(Protocol):
    """What the executor needs to start a party task; see `app/party/launcher.py`."""

    @property
    def launch_id(self) -> str: ...

    @property
    def task(self) -> TaskKey: ...

    @property
    def spec_path(self) -> Path: ...

    @property
    def log_dir(self) -> Path: ...

    @property
    def work_dir(self) -> Path: ...

    @property
    def provider(self) -> Manifest | None:
        """Return the registered provider whose interpreter runs it; None: the server's own."""


class ExecutorEvents(Protocol):
    """What an executor tells about its processes."""

    def started(self, launch_id: str, handle: Handle) -> None: ...

    def not_started(self, launch_id: str, reason: str) -> None: ...

    def exited(self, launch_id: str, exit_code: int | None, signal: int | None) -> None:
        """A process is gone; both None if its status could not be learnt."""


class LaunchBook(Protocol):
    """Remembers which task a launch is for."""

    def expect(self, launch_id: str, task: TaskKey) -> None:
        """Note it before the launch, so that the executor's callbacks find the task."""

    def refused(self, launch_id: str, error: FedflowError) -> None:
        """A launch that was expected is not tried: its task fails with this error."""


class Sessions(Protocol):
    """The data plane's sessions, one per party task attempt."""

    @property
    def run(self) -> str:
        """Return what names this run of the server; a later one has lost what had arrived."""

    def open_session(
        self, session: str, site: Site, *, token: str, sites: Sequence[Site]
    ) -> None: ...

    def close_session(self, session: str, site: Site) -> None: ...

    def fail_site(self, session: str, site: Site, reason: str) -> None: ...


class Wakeup(Protocol):
    """Tells the threads that something changed; they look into the store for what."""

    def schedule(self, job_id: str) -> None:
        """A job should be looked at."""

    def queue(self) -> None:
        """Cores became free: waiting jobs should be looked at."""

    def outbox(self, destinations: Sequence[str]) -> None:
        """Commands wait for these parties."""

    def job_changed(self, job_id: str) -> None:
        """A job's status changed: those who wait for it may look."""


class ModelBlobs(Protocol):
    """Contents of models, by their sha256 (hex)."""

    def put(self, content: bytes) -> str:
        """Store contents durably and return their digest; twice has no effect. Raises: DiskFull."""

    def get(self, sha256: str) -> bytes:
        """Return contents that were checked. Raises: BlobDamaged: they are gone or changed."""

    def has(self, sha256: str) -> bool:
        """Tell whether there are contents, without reading them."""

    def old(self, older_than_ms: int) -> Iterator[str]:
        """Yield the digests of what was last put before a moment."""

    def remove(self, sha256: str, *, older_than_ms: int) -> bool:
        """Delete contents unless they were put again since; False if they were, or are gone."""


class ArchiveFiles(Protocol):
    """What a model archive holds."""

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths of all files."""

    def read(self, path: str, *, limit: int = ...) -> bytes:
        """Return a file of at most `limit` bytes. Raises: BadModelArchive."""


class ModelArchives(Protocol):
    """Files in one archive, from and for other servers."""

    def write(
        self, target: IO[bytes], files: Iterable[tuple[str, bytes]], *, modified_ms: int
    ) -> None:
        """Write files by path; the same files give the same bytes."""

    def open(self, source: IO[bytes]) -> AbstractContextManager[ArchiveFiles]:
        """Return an archive's files. Raises: BadModelArchive: it is not to be trusted."""


class ExternalModels(Protocol):
    """A store of model archives that several servers may share."""

    def put(
        self, party_model_id: str, model_version: str, source: IO[bytes], *, sha256: str
    ) -> None:
        """Store an archive, in place of an older one. Raises: ModelStoreUnavailable."""

    def digest(self, party_model_id: str, model_version: str) -> str | None:
        """Return the sha256 of a stored archive, None if there is none."""

    def get(self, party_model_id: str, model_version: str, target: IO[bytes]) -> bool:
        """Write an archive to `target`; False if there is none. Raises: ModelStoreUnavailable."""


class BoundFiles(Protocol):
    """Looks at files of this machine that become tables without being copied."""

    def look(
        self, path: Path, *, head: bool, id_delimiter: str, makes_ids: bool,
        names: tuple[str, ...] | None, whole: bool, id_column: str | None,
        features: tuple[str, ...] | None,
    ) -> tuple[Any, tuple[tuple[str, ...], ...]]:  # fmt: skip
        """Return the schema of a file, and its first rows as text; `whole`: what follows the id is
        one text. `id_column` (None: the first) and `features` (None: all others) are what is read.
        Raises: BadData.
        """


class StorageLook(Protocol):
    """Looks at storages of others that become tables without being copied."""

    def look(
        self, connection: Connection, *, head: bool, id_delimiter: str, makes_ids: bool,
        names: tuple[str, ...] | None,
    ) -> tuple[Any, tuple[tuple[str, ...], ...]]:  # fmt: skip
        """Return the schema of a table as it would be read, and its first rows as text.

        It takes a bounded time, and memory of another process. Raises: StorageUnreachable,
        StorageRefused, StorageMissing, BadData, NotSupportedYet.
        """


class TableFacts(Protocol):
    """Knows what was counted of tables when they were written."""

    def read(self, table: TableRecord) -> Sequence[ColumnFacts]:
        """Return the facts of the columns behind the id, as far as they were counted."""


class TableWindows(Protocol):
    """Reads some rows in the middle of a table of this server."""

    def read(
        self, table: TableRecord, *, offset: int, limit: int, columns: Sequence[int]
    ) -> Sequence[Sequence[str]]:
        """Return rows as text, in the given columns (0 = the id). Raises: BadData: damaged."""


class Archives(Protocol):
    """Packs tables into one file for download."""

    def write(
        self,
        target: IO[bytes],
        tables: Mapping[str, TableRecord],
        *,
        limit: int,
        head: bool,
        modified_ms: int,
    ) -> None:
        """Write a tar.gz of tables by output name; `limit` rows each, -1 = all. Raises: NoData."""


class Catalog(Protocol):
    """The component modules of this server."""

    def modules(self) -> Mapping[str, Any]:
        """Return `domain.job.spec.ModuleInfo` by lower-case name and alias."""

    def check(
        self,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
        provider: str | None = None,
    ) -> None:
        """Check parameters, and the run that is planned with them if one is given.

        `provider` is what the job asks for, as `name@version`.

        Raises: BadParameter: with all mistakes. UnknownComponent.
        """


class ProviderFolders(Protocol):
    """Folders of this machine with components."""

    def read(self, path: str) -> Manifest:
        """Return what a folder says of itself. Raises: ProviderRefused."""


class ProviderBook(Protocol):
    """Remembers the registered providers of this server."""

    def all(self) -> Sequence[RegisteredProvider]:
        """Return them in the order of their registration."""

    def put(self, provider: RegisteredProvider) -> None:
        """Add a version of a provider, in place of an earlier one; it becomes the last one."""

    def remove(self, name: str, version: str) -> bool:
        """Forget a version; False if it was not there."""


class ProviderHost(Protocol):
    """Asks the interpreters of providers about their components."""

    def describe(self, manifest: Manifest) -> list[dict[str, Any]]:
        """Return what `components.registry.describe` says of each. Raises: ProviderRefused."""

    def check(
        self,
        manifest: Manifest,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
    ) -> None:
        """Check parameters as `Catalog.check`. Raises: BadParameter, ProviderRefused."""


class ProviderChoice(Protocol):
    """Knows which provider runs a module."""

    def provider_of(self, module: str, asked: str | None) -> Manifest | None:
        """Return the registered provider of a module, in the version that is asked for as
        `name@version`; None: it comes with fedflow. Raises: ProviderRefused: there is no such one.
        """


class ParameterBook(Protocol):
    """Knows the parameters of the component modules."""

    def parameters(self, module: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return FATE's name of the parameters, and all of them: `given` over the defaults.

        Raises: UnknownComponent.
        """
