"""Starts, finds again and ends the processes of Spark applications, one per party job.

Each has a folder below a root that belongs to this server alone, since applications and tasks meet
on one machine. The folder says which process it is (pid and start time), so a restarted server
adopts what runs. An application that has ended by itself leaves its folder with the reason until
the party job ends or gets another one. What the files say is in `wire/spark_application.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from fedflow.base.decoding import decode_as
from fedflow.base.errors.start import BadSetting
from fedflow.base.values import dataclass
from fedflow.domain.job.spark_options import SparkPlan
from fedflow.domain.records import Handle, JobKey
from fedflow.domain.site import Site
from fedflow.executor.limits import child_environment
from fedflow.executor.processes import handle_of, is_running
from fedflow.executor.termination import Termination
from fedflow.executor.watch import ProcessWatch
from fedflow.wire.spark_application import (
    APPLICATION,
    FAILED,
    PROCESS,
    ApplicationSpec,
    ProcessFile,
    read_private,
    write_private,
)

logger = logging.getLogger(__name__)

LOG: Final = "spark.log"  #: what applications of a party job print, in its log folder

_MODULE: Final = "fedflow.spark.application"
_PASSED: Final = (
    "HADOOP_CONF_DIR",
    "HADOOP_USER_NAME",
    "JAVA_HOME",
    "KRB5CCNAME",
    "KUBECONFIG",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_LOCAL_DIRS",
    "YARN_CONF_DIR",
)
"""Variables of the server that say where Java and the cluster are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplicationSettings:
    """What all applications of a server have in common. Raises: BadSetting: a relative path."""

    master: str
    home: str | None  #: folder of Spark; None: SPARK_HOME, or else the package pyspark
    python: str  #: of Spark's workers
    interpreter: str  #: of the application itself
    wait_s: float
    idle_timeout_s: float
    stop_grace_s: float

    def __post_init__(self) -> None:
        if self.home is not None and not Path(self.home).is_absolute():
            raise BadSetting(path="fate_on_spark.spark.home", reason="must be an absolute path")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Running:
    folder: Path
    handle: Handle


class SparkApplications:
    """See `fedflow.app.ports.executors.Applications`. `open` starts its threads, `close` ends them
    only.
    """

    def __init__(
        self, root: Path, *, settings: ApplicationSettings, logs: Callable[[JobKey], Path]
    ) -> None:
        """`logs` returns the log folder of a party job."""
        self._root = root
        self._settings = settings
        self._logs = logs
        self._lock = threading.Lock()
        self._running: dict[JobKey, _Running] = {}
        self._termination = Termination()
        self._watch = ProcessWatch(self._exited)

    def open(self) -> None:
        """Find the applications that an earlier server of this home left. Raises: OSError."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._termination.open()
        self._watch.open()
        for folder in sorted(path for path in self._root.iterdir() if path.is_dir()):
            self._adopt(folder)

    def close(self) -> None:
        """End the threads; stops that are under way are finished, other applications live on."""
        self._watch.close()
        self._termination.close(grace_s=self._settings.stop_grace_s)

    def ensure(self, job: JobKey, plan: SparkPlan) -> Path:
        """Return the folder of a party job's application, started if it does not run."""
        with self._lock:
            found = self._running.get(job)
            if found is not None and _serves(found):
                return found.folder
            running = self._start(job, plan)
            self._running[job] = running
        if found is not None:  # it ends, or has ended; something that it started may be left
            self._termination.stop(found.handle, grace_s=self._settings.stop_grace_s)
        self._look_after(running.folder, running.handle)
        logger.info(
            "Spark application of %s at %s starts as process %s",
            job.job_id,
            job.site,
            running.handle.pid,
            extra={"action": "start_spark", "job_id": job.job_id},
        )
        return running.folder

    def end(self, job: JobKey) -> None:
        """End a party job's application, if there is one, and forget what earlier ones left."""
        with self._lock:  # one that starts meanwhile has a folder that is not to be removed
            found = self._running.pop(job, None)
            ended = [folder for folder in self._folders(job) if not self._lives(folder)]
        if found is not None:
            self._termination.stop(found.handle, grace_s=self._settings.stop_grace_s)
            logger.info(
                "Spark application of %s at %s ends",
                job.job_id,
                job.site,
                extra={"action": "end_spark", "job_id": job.job_id},
            )
        for folder in ended:
            shutil.rmtree(folder, ignore_errors=True)

    def running(self) -> list[JobKey]:
        """Return the party jobs that have an application, also from an earlier server."""
        with self._lock:
            return list(self._running)

    def _start(self, job: JobKey, plan: SparkPlan) -> _Running:
        folder = self._new_folder(job)
        log = self._logs(job) / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        given = self._settings
        spec = ApplicationSpec(
            job_id=job.job_id,
            name=f"{job.job_id}#{job.site.role.value}-{job.site.party_id}",
            master=given.master,
            home=given.home or os.environ.get("SPARK_HOME"),
            python=given.python,
            log=str(log),
            options=dict(plan.options),
            properties=dict(plan.properties),
            executors=plan.executors,
            wait_s=given.wait_s,
            idle_timeout_s=given.idle_timeout_s,
        )
        write_private(folder / APPLICATION, msgspec.json.encode(spec))
        handle = self._spawn(folder, log)
        process = ProcessFile(
            job_id=job.job_id,
            site=job.site.key,
            pid=handle.pid,
            start_time=handle.start_time,
            host=handle.host,
        )
        try:
            write_private(folder / PROCESS, msgspec.json.encode(process))
        except OSError:  # such as a full disk: no server would find it again
            self._look_after(folder, handle)
            self._termination.stop(handle, grace_s=0)
            raise
        return _Running(folder=folder, handle=handle)

    def _spawn(self, folder: Path, log: Path) -> Handle:
        """Start the process, which leads a session of its own; it outlives this server.

        Raises: OSError.
        """
        environment = child_environment(
            {name: os.environ[name] for name in _PASSED if name in os.environ}
        )
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            self._settings.interpreter,
            [self._settings.interpreter, "-m", _MODULE, str(folder)],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        handle = handle_of(pid)
        if handle is None:  # not waited for, so it is there even if it has ended
            raise ProcessLookupError(f"process {pid} is gone")
        return handle

    def _look_after(self, folder: Path, handle: Handle) -> None:
        """Watch a process that was just started, so that its end is waited for."""
        if not self._watch.add(folder.name, handle):  # it has ended already
            with contextlib.suppress(ChildProcessError):
                os.waitpid(handle.pid, os.WNOHANG)

    def _new_folder(self, job: JobKey) -> Path:
        numbers = [int(path.name.rpartition(".")[2]) for path in self._folders(job)]
        folder = self._root / f"{_name(job)}.{max(numbers, default=0) + 1}"
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def _folders(self, job: JobKey) -> list[Path]:
        """Return the folders of all applications that a party job had."""
        begin = f"{_name(job)}."
        found = [path for path in self._root.glob("*.*") if path.name.startswith(begin)]
        return [path for path in found if path.name.removeprefix(begin).isdigit()]

    def _adopt(self, folder: Path) -> None:
        process = _process_of(folder)
        if process is None or not self._lives(folder):
            shutil.rmtree(folder, ignore_errors=True)
            return
        handle = _handle(process)
        try:
            job = JobKey(job_id=process.job_id, site=Site.from_key(process.site))
        except ValueError:
            logger.warning("%s is of no job; its process is ended.", folder)
            self._termination.stop(handle, grace_s=self._settings.stop_grace_s)
            return
        self._watch.add(folder.name, handle)
        if (folder / FAILED).exists():  # it is about to end, if nothing keeps it
            self._termination.stop(handle, grace_s=self._settings.stop_grace_s)
            return
        with self._lock:
            self._running[job] = _Running(folder=folder, handle=handle)
        logger.info("Spark application of %s at %s was found again", job.job_id, job.site)

    def _exited(self, name: str, handle: Handle) -> None:
        """Reap a process; what it says stays as long as its party job may want to read it."""
        with contextlib.suppress(ChildProcessError):  # it was started by an earlier server
            os.waitpid(handle.pid, os.WNOHANG)
        if not any(name.startswith(f"{_name(job)}.") for job in self.running()):
            shutil.rmtree(self._root / name, ignore_errors=True)

    def _lives(self, folder: Path) -> bool:
        process = _process_of(folder)
        return process is not None and is_running(_handle(process))


def _serves(found: _Running) -> bool:
    """Tell whether an application runs, and is not about to end."""
    return is_running(found.handle) and not (found.folder / FAILED).exists()


def _name(job: JobKey) -> str:
    return f"{job.job_id}-{job.site.key}"


def _process_of(folder: Path) -> ProcessFile | None:
    try:
        return decode_as(read_private(folder / PROCESS), ProcessFile)
    except (OSError, msgspec.MsgspecError):
        return None


def _handle(process: ProcessFile) -> Handle:
    return Handle(pid=process.pid, start_time=process.start_time, host=process.host)
