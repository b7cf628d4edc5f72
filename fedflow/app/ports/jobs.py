"""Parts of the store: jobs, tasks, and what they produced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from fedflow.domain.job.figures import Figure
from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.job_lines import EndedJob, EndedJobs, JobLine, StatusCount, Strip
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Engine,
    Handle,
    JobFilter,
    JobKey,
    JobRecord,
    Json,
    Metric,
    Moved,
    OutputTable,
    Stale,
    StoredModel,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.scheduling.history import Event, EventFilter
from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobEvent, JobStatus, TaskEvent, TaskStatus


class JobStore(Protocol):
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

    def status(self, key: JobKey) -> JobStatus | None:
        """Return how a share stands; cheaper than `get`."""

    def set_progress(self, key: JobKey, progress: int, *, now_ms: int) -> None:
        """Raise the progress (percent); a smaller value is ignored."""

    def set_description(self, key: JobKey, text: str, *, now_ms: int) -> None:
        """Store the notes of people about the job."""

    def set_name(self, key: JobKey, name: str, *, now_ms: int) -> None:
        """Store what people call the job here."""

    def set_figures(
        self, key: JobKey, component: str, figures: Sequence[Figure], *, now_ms: int
    ) -> None:
        """Store the figures of one component in place of its earlier ones."""

    def set_tag(self, key: JobKey, tag: str, *, now_ms: int) -> None:
        """Store what kind of job it turned out to be, for example `SUBMIT_FAILED`."""

    def add_warnings(self, key: JobKey, warnings: Sequence[JobWarning], *, now_ms: int) -> None:
        """Add to the warnings of a party job, each once. Without such a job, do nothing."""

    def set_warnings(self, key: JobKey, warnings: Sequence[JobWarning], *, now_ms: int) -> None:
        """Replace the warnings of a party job."""

    def taken_by(self, initiator: str) -> tuple[int, int]:
        """Return how many jobs of an initiator's party have not ended, and the bytes of all."""

    def grow(self, key: JobKey, more_bytes: int) -> None:
        """Let a job count for more bytes."""

    def set_conf(
        self, key: JobKey, conf: Json, parameters: Json, *, now_ms: int, more_bytes: int = 0
    ) -> None:
        """Store a changed runtime conf and the job parameters that follow from it here.

        `more_bytes` are added to what the job counts for.
        """

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
        more_bytes: int = 0,
    ) -> Moved | Stale:
        """Begin a new epoch of an ended job that holds no cores; its times and progress restart.

        `engine` None: the party job stays on its engine.
        """

    def take_cores(self, key: JobKey, *, now_ms: int) -> bool:
        """Take the cores and memory of a party job from its engine. Twice has no effect.

        False if too little is free for all party jobs that the job does not hold here yet, whatever
        engines they are on.
        """

    def return_cores(self, key: JobKey, *, now_ms: int) -> bool:
        """Give the cores and memory of a party job back; False if it holds none."""

    def shares(self, job_id: str) -> list[JobRecord]:
        """Return all party jobs of a job at this server, in the order of their sites."""

    def etag(self, job_id: str) -> str:
        """Return a text that is another one once a party job changed at this server, empty if
        there is none; cheaper than `shares`.
        """

    def engines(self, job_ids: Collection[str]) -> dict[JobKey, str]:
        """Return the engines of the party jobs of some jobs at this server."""

    def open_jobs(self) -> list[JobRecord]:
        """Return the jobs that have not ended, and ended ones that still hold cores."""

    def drop(self, job_id: str) -> int:
        """Forget all party jobs of a job at this server; return how many. They must have ended."""


class JobListStore(Protocol):
    """What lists of jobs show, without the jobs' documents."""

    def page(self, which: JobFilter) -> list[JobLine]:
        """Return a page of matching party jobs, in the filter's order, with their tags."""

    def counted(self, which: JobFilter) -> list[StatusCount]:
        """Return how many party jobs fit, by status, whatever statuses are asked for."""

    def strips(self, job_ids: Collection[str]) -> dict[JobKey, Strip]:
        """Return the components of the party jobs here of some jobs, with their latest status."""

    def of(self, job_ids: Collection[str]) -> list[JobLine]:
        """Return the lines of all party jobs here of some jobs, in no order."""

    def progress(self, job_ids: Collection[str]) -> dict[str, int]:
        """Return how much of some jobs that this server initiated is done: percent of the tasks."""

    def on_hold(self, job_ids: Collection[str]) -> set[str]:
        """Return those of some jobs that this server initiated which are paused."""

    def counts(self, since_ms: int) -> list[StatusCount]:
        """Return how many jobs that were created since a moment have each status here.

        A job with several party jobs here counts once per status that these have; jobs that were
        refused at the submit do not count.
        """

    def ended(
        self, which: EndedJobs, *, after: EndedJob | None = None, limit: int
    ) -> list[EndedJob]:
        """Return party jobs that ended, and jobs of this initiator that have none here, oldest
        first; those after `after` in that order.
        """


class JobTagStore(Protocol):
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


class EngineStore(Protocol):
    """Computing engines and their free cores (`t_engine_registry`)."""

    def put(
        self, name: str, cores: int, *, now_ms: int, memory: int = 0, cores_percent: float = 1.0
    ) -> None:
        """Register an engine, memory in MiB (0 = not counted).

        If it is known, what remains changes by the difference of the totals.
        """

    def get(self, name: str) -> Engine | None: ...


class TaskStore(Protocol):
    """The party half of tasks (`t_task`)."""

    def add(self, records: Sequence[TaskRecord]) -> None:
        """Store new attempts. Rows with the same key are kept as they are."""

    def get(self, key: TaskKey) -> TaskRecord | None: ...

    def statuses(self, key: JobKey) -> dict[str, tuple[int, TaskStatus]]:
        """Return version and federated status of a party task's latest attempts, by component."""

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
        ledger: tuple[PeerLedger, ...] = (),
    ) -> Moved | Stale:
        """Move the party status if it is still `seen`; sets started_ms or ended_ms as it fits, and
        the progress of what succeeded. An empty `ledger` leaves the stored one.
        """

    def ledgers(self, job_id: str) -> dict[TaskKey, tuple[PeerLedger, ...]]:
        """Return what the attempts of a job exchanged, of those that have ended and did so."""

    def set_status(self, key: TaskKey, status: TaskStatus, *, now_ms: int) -> None:
        """Store the federated status that the initiator sent."""

    def set_launch(
        self, key: TaskKey, launch_id: str, token: str, *, seen: str | None, now_ms: int,
        instance_id: str = "",
    ) -> bool:  # fmt: skip
        """Name the process that may run this attempt, and whose server; the task runs then.

        False if `seen` is not the launch that it has now, or the process of that exists.
        """

    def relaunch(self, key: TaskKey, launch: int, *, seen: TaskStatus, now_ms: int) -> bool:
        """Let an ended attempt wait for its start once more, as its launch of this number.

        False if it is not `seen` now, was launched more often before, or has a process. Raises:
        IllegalMove.
        """

    def set_absent(self, key: TaskKey, components: Sequence[str]) -> None:
        """Store which upstream components an attempt gets no outputs of."""

    def set_handle(self, key: TaskKey, launch_id: str, handle: Handle) -> bool:
        """Store the process of `launch_id`; False if another launch has replaced it."""

    def clear_handle(self, key: TaskKey, launch_id: str) -> bool:
        """Forget the process of `launch_id`, which is gone; False if another launch replaced it."""

    def set_progress(self, key: TaskKey, progress: float, *, now_ms: int) -> None: ...

    def etag(self, job_id: str) -> str:
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


class TrackingStore(Protocol):
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

    def metrics_etag(self, key: TaskKey) -> int:
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
        """Return the model of an attempt, by default the latest that has one."""

    def model_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        """Return the attempts that have a model, the latest one last."""


class SubmitKeyStore(Protocol):
    """Idempotency keys of submits (`t_submit_key`)."""

    def get(self, key: str) -> SubmitKey | None: ...

    def put(self, used: SubmitKey, *, instead_of: str | None = None) -> bool:
        """Store a key; False if it is used, unless for the job `instead_of`, which it replaces."""

    def drop(self, job_id: str, *, created_ms: int) -> None:
        """Forget the key of a job that was created at a moment, which is about the key's own."""

    def prune(self, older_than_ms: int) -> int:
        """Forget keys stored before a moment; return how many."""


class EventStore(Protocol):
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
