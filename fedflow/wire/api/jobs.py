"""A job: how it stands, and what it was submitted with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from fedflow.domain.job.figures import Figure
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.states import JOB_FINAL, JobStatus, TaskStatus

if TYPE_CHECKING:
    from fedflow.domain import reason as stored

FOLLOWERS: Final = frozenset({"PeerFailed", "Stopped", "ExecutorDied"})
"""Reasons of a failed task that may only follow from another party's error."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why something waits or ended: a stable word, a sentence, and where it comes from."""

    code: str
    message: str
    site: str | None = None

    def __str__(self) -> str:
        return f"{self.site}: {self.message}" if self.site else self.message

    @classmethod
    def of(cls, reason: stored.Reason) -> Reason:
        """Return a stored reason as it is shown."""
        site = reason.site.key if reason.site else None
        return cls(code=reason.code, message=str(reason.message), site=site)


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which model a job makes, or uses."""

    model_id: str = ""
    model_version: str = ""


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that all its sites accepted. Folders and files are on the server."""

    SHOWN: ClassVar = "job_id model_id model_version logs_directory warnings reused"

    code: int = 0
    message: str = "success"
    job_id: str
    model_info: ModelInfo = ModelInfo()
    board_url: str = ""
    logs_directory: str = ""
    dsl_path: str = ""
    runtime_conf_path: str = ""
    runtime_conf_on_party_path: str = ""
    train_runtime_conf_path: str = ""
    pipeline_dsl_path: str = ""
    warnings: tuple[JobWarning, ...] = ()
    reused: Mapping[str, str] = {}  #: component -> id of the job that made its results

    @property
    def model_id(self) -> str:
        """Return the id of the job's model, empty if it has none."""
        return self.model_info.model_id

    @property
    def model_version(self) -> str:
        """Return the version of the job's model, empty if it has none."""
        return self.model_info.model_version

    def __repr__(self) -> str:
        return f"<Submitted job {self.job_id}>"


class Uploaded(Submitted, frozen=True, kw_only=True):
    """A job that makes, copies or writes a table."""

    SHOWN: ClassVar = "job_id namespace table_name"

    table_name: str
    namespace: str

    def __repr__(self) -> str:
        return f"<Uploaded {self.namespace}.{self.table_name} by job {self.job_id}>"


class Dependencies(
    msgspec.Struct, frozen=True, kw_only=True, rename={"components": "component_list"}
):
    """The DAG of a job at one site."""

    components: tuple[str, ...]  #: each after those that it depends on
    dependencies: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
    component_module: Mapping[str, str] = {}
    component_need_run: Mapping[str, bool] = {}


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """One site's share of one component."""

    component: str
    module: str
    site: str  #: `role-party_id`
    version: int
    status: str
    progress: float = 0.0  #: between 0 and 1
    started_ms: int | None = None
    ended_ms: int | None = None
    since_ms: int | None = None  #: since when it is as it is, as far as known
    deadline_ms: int | None = None  #: when it ends by itself, if it has not ended
    running_ms: int | None = None  #: for how long it has been running; None: it is not
    here: bool = True  #: this server has its log; False: the server of another party has it
    reason: Reason | None = None

    @property
    def elapsed_s(self) -> float | None:
        """Return how long it ran in seconds, None if it has not ended or never ran."""
        if self.started_ms is None or self.ended_ms is None:
            return None
        return (self.ended_ms - self.started_ms) / 1000

    def __repr__(self) -> str:
        return f"<Task {self.component} at {self.site}: {self.status}>"


class JobStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a person wants to see it: its status, why, and every task per site."""

    job_id: str
    status: str
    progress: int  #: percent
    reason: Reason | None = None
    since_ms: int | None = None  #: since when it is as it is
    deadline_ms: int | None = None  #: when it ends by itself, if it has not ended
    initiator: str  #: `role-party_id`
    roles: Mapping[str, tuple[str, ...]]
    created_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    warnings: tuple[JobWarning, ...] = ()
    components: tuple[str, ...] = ()  #: in the order in which they run
    tasks: tuple[TaskView, ...] = ()  #: the latest attempt of each, in that order
    name: str = ""  #: what people call it here
    figures: tuple[Figure, ...] = ()  #: results of its components at this site
    reused: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Component -> id of the job that made its results."""

    @property
    def is_final(self) -> bool:
        """Tell whether the job has ended."""
        return self.status in {status.value for status in JOB_FINAL}

    @property
    def succeeded(self) -> bool:
        """Tell whether the job ended well."""
        return self.status == JobStatus.SUCCESS.value

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the sites that have tasks, in order of their first task."""
        return tuple(dict.fromkeys(task.site for task in self.tasks))

    @property
    def first_error(self) -> TaskView | None:
        """Return the failed task that the others followed, None if none failed by itself.

        A task that was stopped because of another site does not count. The task at the site that
        the job's reason names comes first; one that only says that another party failed comes after
        those that have an own reason.
        """
        where = self.reason.site if self.reason else None
        failed = [
            t
            for t in self.tasks
            if t.reason and t.status in (TaskStatus.FAILED.value, TaskStatus.TIMEOUT.value)
            if t.reason.site in (None, t.site)
        ]
        if not failed:
            return None
        latest = max((t.ended_ms or 0 for t in failed), default=0)
        return min(
            failed,
            key=lambda t: (t.site != where,
                           t.reason is not None and t.reason.code in FOLLOWERS,
                           t.ended_ms if t.ended_ms is not None else latest),
        )  # fmt: skip

    def __repr__(self) -> str:
        ended = sum(t.ended_ms is not None for t in self.tasks)
        return f"<Job {self.job_id}: {self.status}, {ended} of {len(self.tasks)} tasks ended>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        why = str(self.reason) if self.reason and not self.succeeded else None
        head = html.facts(
            (("job", self.job_id), ("status", self.status), ("reason", why),
             ("progress", f"{self.progress} %"), ("initiator", self.initiator))
        )  # fmt: skip
        columns = ("component", "site", "status", "seconds", "reason")
        return head + html.table(columns, (_cells(task) for task in self.tasks))


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a job runs with at one site."""

    job_id: str
    dsl: Mapping[str, Any]
    runtime_conf: Mapping[str, Any]
    train_runtime_conf: Mapping[str, Any] = msgspec.field(default_factory=dict)
    model_info: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Conf of job {self.job_id}>"


class ComponentReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one component went at one site."""

    component_name: str
    index: int  #: depth in the DAG
    status: str
    start_time: int | None = None
    end_time: int | None = None
    elapsed: int | None = None  #: milliseconds


class ChangedParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of a conf after a change, and the components that it concerns."""

    job_parameters: Any = None
    component_parameters: Any = None
    components: tuple[str, ...] = ()


class CleanedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted. Tables as `namespace.name`."""

    tables: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  #: other jobs took them over, or read them
    metrics: int = 0


class JobTag(msgspec.Struct, frozen=True, kw_only=True):
    """A word that people gave to jobs of a server."""

    name: str
    job_count: int = 0


class JobTags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a server's jobs; those that most jobs have first."""

    tags: tuple[JobTag, ...]


class TagsOfJob(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a job, by name."""

    tags: tuple[str, ...]


def _cells(task: TaskView) -> tuple[Any, ...]:
    percent = f" {task.progress:.0%}" if task.status == TaskStatus.RUNNING.value else ""
    why = str(task.reason) if task.reason else ""
    return task.component, task.site, task.status + percent, task.elapsed_s, why
