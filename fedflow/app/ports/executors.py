"""Starting and watching the processes of tasks, and the sessions of their data plane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from fedflow.base.errors.error import FedflowError
from fedflow.base.values import dataclass
from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.job.providers import ProviderManifest
from fedflow.domain.job.spark_options import SparkPlan
from fedflow.domain.records import Handle, JobKey, TaskKey
from fedflow.domain.site import Site

if TYPE_CHECKING:
    from fedflow.wire.api.traces import JobTrace

STARTING: Final = "it is starting"  #: why an executor cannot start processes yet


class Executor(Protocol):
    """Starts and stops the processes that run party tasks.

    The end of a process is passed to the callback that the composition root set: once for every
    handle.
    """

    def start(self, launch: Launch) -> None:
        """Start a process soon; its handle or failure arrives through the callbacks."""

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        """End a process and its group: SIGTERM, then after `grace_s` SIGKILL. Returns at once."""

    def adopt(self, launch_id: str, handle: Handle) -> bool:
        """Watch a process, if it is not watched already; False if it is gone."""


class Applications(Protocol):
    """The Spark applications of this server, one per party job that computes on Spark.

    They are processes of this machine, which outlive the server.
    """

    def ensure(self, job: JobKey, plan: SparkPlan) -> Path:
        """Return the folder of a party job's application, which is started if it does not run.

        It does not wait until it is ready. Raises: OSError: it cannot be started now.
        """

    def end(self, job: JobKey) -> None:
        """End a party job's application, if there is one. Returns at once; safe to do twice."""

    def running(self) -> list[JobKey]:
        """Return the party jobs with an application, also of an earlier server of this home."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """What runs the tasks of one server."""

    executor: Executor
    processes: LaunchRegistry
    sessions: Sessions
    applications: Applications | None  #: None: this party has no Spark cluster
    host: str  #: the name of this machine


class Launch(Protocol):
    """What the executor needs to start a party task; see `app/participant/launcher.py`."""

    @property
    def launch_id(self) -> str: ...

    @property
    def task(self) -> TaskKey: ...

    @property
    def module(self) -> str:
        """Return the name of the component."""

    @property
    def spec_path(self) -> Path: ...

    @property
    def log_dir(self) -> Path: ...

    @property
    def work_dir(self) -> Path: ...

    @property
    def provider(self) -> ProviderManifest | None:
        """Return the registered provider whose interpreter runs it; None: the server's own."""


class ExecutorEvents(Protocol):
    """What an executor tells about its processes."""

    def started(self, launch_id: str, handle: Handle) -> None: ...

    def not_started(self, launch_id: str, reason: str) -> None: ...

    def exited(self, launch_id: str, exit_code: int | None, signal: int | None) -> None:
        """A process is gone; both None if its status could not be learnt."""


class LaunchRegistry(Protocol):
    """Remembers which task a launch is for."""

    def expect(self, launch_id: str, task: TaskKey) -> None:
        """Note it before the launch, so that the executor's callbacks find the task."""

    def refused(self, launch_id: str, error: FedflowError) -> None:
        """A launch that was expected is not tried: its task fails with this error."""


class Sessions(Protocol):
    """The data plane's sessions, one per party task attempt.

    An `incarnation` is the number of a launch in that attempt, see `TaskRecord.launch`.
    """

    @property
    def run(self) -> str:
        """Return what names this run of the server; a later one has lost what had arrived."""

    def open_session(
        self, session: str, site: Site, *, token: str, sites: Sequence[Site], incarnation: int
    ) -> None: ...

    def close_session(self, session: str, site: Site, *, incarnation: int) -> None: ...

    def fail_site(self, session: str, site: Site, reason: str, *, incarnation: int) -> None: ...

    def ledger_of(
        self, session: str, site: Site, *, incarnation: int = 0
    ) -> tuple[PeerLedger, ...]:
        """Return what a site exchanged so far; nothing if this server knows no such session."""

    def trace_job(self, job_id: str, *, is_on: bool) -> None:
        """Record each value of a job's sessions here from now on, or no more."""

    def trace_of(self, job_id: str) -> JobTrace:
        """Return the counts of a job's sessions here, and the values that were recorded."""
