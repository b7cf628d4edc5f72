"""A Spark cluster of this machine: a master and workers as processes on loopback.

`python -m tests.support.spark_cluster start FOLDER` starts one that outlives the command and
prints the URL of its master, `stop FOLDER` ends it; `bin/spark-cluster` makes the environment for
both. Tests use `SparkCluster`, whose processes end with the thread that started them, whatever
happens.

It is for tries and tests: the cluster knows no users and no passwords, so whoever has an account on
this machine may run programs on it, as the user who started it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
import psutil

from fedflow.base.clock import SystemClock, pause
from fedflow.base.decoding import decode_as
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkClusterFailed

HOST: Final = "127.0.0.1"
START_S: Final = 60.0  #: longest wait for the master and for each worker
STOP_S: Final = 20.0  #: from SIGTERM to SIGKILL

_LOOK_S: Final = 0.05  #: pause between two looks at a log or a process
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = re.compile(r"Successfully registered with master (\S+)")
_MEMORY: Final = re.compile(r"[1-9][0-9]*[mg]")
_STATE: Final = "cluster.json"
_DEFAULTS: Final = """\
spark.master.rest.enabled false
spark.ui.enabled false
spark.port.maxRetries 0
spark.worker.cleanup.enabled true
"""
_HOLD: Final = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

_clock = SystemClock()


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterProcess:
    """The master or a worker: a process that leads a session, in which its executors are too."""

    name: str
    pid: int
    started_s: float  #: since the epoch, to tell it from a later process of the same number
    log: Path

    @property
    def lives(self) -> bool:
        return _is_same(self.pid, self.started_s)


class _Member(msgspec.Struct, frozen=True):
    """A process, as `cluster.json` names it."""

    name: str
    pid: int
    started_s: float


class SparkCluster:
    """A master and `count` workers. A context manager. Everything it writes is below `folder`.

    Args:
        cores: of each worker, for executors.
        memory: of each worker, for executors, such as 512m or 2g.
        port: of the master; 0: the kernel chooses.
        detached: the processes live on when this one ends; `stop(folder)` ends them.

    Raises: SparkClusterFailed: there is no Spark or no Java, or something does not start; nothing
    runs then.
    """

    def __init__(
        self,
        folder: Path,
        *,
        count: int = 2,
        cores: int = 1,
        memory: str = "1g",
        port: int = 0,
        detached: bool = False,
    ) -> None:
        _check(count=count, cores=cores, memory=memory, port=port)
        self.folder = folder.absolute()
        self.home = spark_home()
        self.count, self.cores, self.memory = count, cores, memory
        self._detached = detached
        self._environment = _environment(self.folder, self.home)
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._made = 0
        self.workers: tuple[ClusterProcess, ...] = ()
        _make_folder(self.folder)
        self._master: ClusterProcess | None = None
        try:
            options = ("--host", HOST, "--port", str(port), "--webui-port", "0")
            self._master = self._start("master", _MASTER, options)
            self.master = self._wait_for(self._master, _URL)  #: its URL
            self.heal()
        except BaseException:
            self.close()
            raise

    def heal(self) -> None:
        """Start workers in the place of those that died, and wait until the master knows them."""
        living = tuple(worker for worker in self.workers if worker.lives)
        new = tuple(self._start_worker() for _ in range(self.count - len(living)))
        self.workers = living + new
        self._write_state()
        for worker in new:
            self._wait_for(worker, _REGISTERED)

    def kill(self, process: ClusterProcess) -> None:
        """Kill a worker with its executors (or the master), as a machine that loses its power."""
        end_session(process.pid, process.started_s)
        self._reap(process)

    def executors(self, worker: ClusterProcess | None = None) -> tuple[int, ...]:
        """Return the pids of the executors that run now, of one worker or of all."""
        of = self.workers if worker is None else (worker,)
        return tuple(
            process.pid
            for one in of
            if one.lives
            for process in _session(one.pid)
            if any(_EXECUTOR in word for word in _words(process))
        )

    def wait_until_idle(self, timeout_s: float = STOP_S) -> None:
        """Wait until no executor runs. Raises: TimeoutError: an application is still there."""
        if not _wait(lambda: not self.executors(), timeout_s):
            raise TimeoutError(f"executors still run: {self.executors()}")

    def close(self) -> None:
        """End all processes and wait for them; the logs stay."""
        members = (*self.workers, *((self._master,) if self._master else ()))
        _end(members)
        for member in members:
            self._reap(member)
        (self.folder / _STATE).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start_worker(self) -> ClusterProcess:
        self._made += 1
        name = f"worker-{self._made}"
        options = (
            *("--host", HOST, "--port", "0", "--webui-port", "0"),
            *("--cores", str(self.cores), "--memory", self.memory),
            *("--work-dir", str(self.folder / name), self.master),
        )
        worker = self._start(name, _WORKER, options)
        self.workers += (worker,)  # known to close() from here on
        return worker

    def _start(self, name: str, kind: str, options: Sequence[str]) -> ClusterProcess:
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_holder(self._detached), str(self.home / "bin/spark-class"), kind, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self.folder,
                start_new_session=True,
            )
        self._started[process.pid] = process
        started_s = psutil.Process(process.pid).create_time()
        return ClusterProcess(name=name, pid=process.pid, started_s=started_s, log=log)

    def _wait_for(self, process: ClusterProcess, pattern: re.Pattern[str]) -> str:
        found = ""

        def is_there() -> bool:
            nonlocal found
            match = pattern.search(process.log.read_text(errors="replace"))
            found = match[1] if match else ""
            return bool(found) or not process.lives

        _wait(is_there, START_S)
        if not found:
            last = process.log.read_text(errors="replace").strip().splitlines()[-5:]
            raise SparkClusterFailed(
                reason=f"its {process.name} did not come up ({process.log}): {' / '.join(last)}"
            )
        return found

    def _write_state(self) -> None:
        members = (*self.workers, *((self._master,) if self._master else ()))
        state = [_Member(one.name, one.pid, one.started_s) for one in members]
        (self.folder / _STATE).write_bytes(msgspec.json.encode(state))

    def _reap(self, process: ClusterProcess) -> None:
        started = self._started.pop(process.pid, None)
        if started is not None:
            started.wait()


def stop(folder: Path) -> bool:
    """End the cluster that was started in `folder`; tell whether there was one."""
    state = folder / _STATE
    if not state.exists():
        return False
    members = tuple(
        ClusterProcess(name=one.name, pid=one.pid, started_s=one.started_s, log=folder)
        for one in decode_as(state.read_bytes(), tuple[_Member, ...])
    )
    _end(members)
    state.unlink(missing_ok=True)
    return True


def end_session(pid: int, started_s: float) -> None:
    """Kill the process and all others of the session that it leads, whoever their parents are."""
    if not _is_same(pid, started_s):
        return
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).suspend()  # it starts nothing more, and its number stays taken
    while living := [one for one in _session(pid) if one.pid != pid]:
        for process in living:
            with contextlib.suppress(psutil.Error):
                process.kill()
        pause(_LOOK_S, threading.Event())
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).kill()


def java() -> Path | None:
    """Return the program that Spark runs, or None: there is no Java."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin/java" if home else shutil.which("java")
    return Path(found) if found and os.access(found, os.X_OK) else None


def spark_home() -> Path:
    """Return `SPARK_HOME`, or the folder of the package pyspark. Raises: SparkClusterFailed."""
    given = os.environ.get("SPARK_HOME")
    package = None if given else importlib.util.find_spec("pyspark")
    home = Path(given) if given else Path(package.origin or "").parent if package else None
    if home is None:
        raise SparkClusterFailed(reason="there is no Spark: SPARK_HOME is not set, no pyspark")
    if not (home / "bin/spark-class").is_file():
        raise SparkClusterFailed(reason=f"{home} is no folder of Spark: it has no bin/spark-class")
    return home


def _check(*, count: int, cores: int, memory: str, port: int) -> None:
    if not 1 <= count <= 64:
        raise SparkClusterFailed(reason=f"it cannot have {count} workers, but 1 to 64")
    if not 1 <= cores <= 1024:
        raise SparkClusterFailed(reason=f"a worker cannot have {cores} cores, but 1 to 1024")
    if not _MEMORY.fullmatch(memory):
        raise SparkClusterFailed(reason=f"{memory!r} is no memory; say 512m or 2g")
    if not (port == 0 or 1024 <= port <= 65535):
        raise SparkClusterFailed(reason=f"{port} is no port for it; 0, or 1024 to 65535")
    if java() is None:
        raise SparkClusterFailed(reason="there is no Java: not at JAVA_HOME, not on the PATH")


def _make_folder(folder: Path) -> None:
    state = folder / _STATE
    if state.exists():
        members = decode_as(state.read_bytes(), tuple[_Member, ...])
        if any(_is_same(one.pid, one.started_s) for one in members):
            raise SparkClusterFailed(reason=f"one runs in {folder} already")
    for part in ("conf", "local"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "conf/spark-defaults.conf").write_text(_DEFAULTS)


def _environment(folder: Path, home: Path) -> Mapping[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    return {
        **kept,
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PYSPARK_PYTHON": sys.executable,
    }


def _holder(detached: bool) -> tuple[str, ...]:
    """Return the words that let a process die with the thread that started it (Linux)."""
    if detached or sys.platform != "linux":
        return ()
    return (sys.executable, "-S", "-c", _HOLD, str(os.getpid()))


def _end(members: Sequence[ClusterProcess]) -> None:
    for member in members:
        if member.lives:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGTERM)
    _wait(lambda: not any(list(_session(member.pid)) for member in members), STOP_S)
    for member in members:
        for process in _session(member.pid):
            with contextlib.suppress(psutil.Error):
                process.kill()


def _session(leader: int) -> Iterator[psutil.Process]:
    """Yield the processes of a session that are not dead."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _is_same(pid: int, started_s: float) -> bool:
    try:
        process = psutil.Process(pid)
        return process.create_time() == started_s and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _wait(is_done: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = _clock.monotonic_s() + timeout_s
    while not is_done():
        if _clock.monotonic_s() > deadline_s:
            return False
        pause(_LOOK_S, threading.Event())
    return True


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="bin/spark-cluster",
        description="A Spark cluster on this machine's loopback address, for tries and tests. "
        "It knows no passwords: every user of this machine may run programs on it.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start a cluster and print the URL of its master")
    start.add_argument("--workers", type=int, default=2, help="how many (default: 2)")
    start.add_argument("--cores", type=int, default=1, help="of each worker (default: 1)")
    start.add_argument("--memory", default="1g", help="of each worker's executors (default: 1g)")
    start.add_argument("--port", type=int, default=0, help="of the master (default: a free one)")
    start.add_argument("folder", type=Path, help="for its logs and the files of its executors")
    end = commands.add_parser("stop", help="end the cluster that was started in a folder")
    end.add_argument("folder", type=Path)
    given = parser.parse_args(words)
    try:
        return _start(given) if given.command == "start" else _stop(given.folder)
    except (FedflowError, OSError) as error:
        print(error, getattr(error, "hint", ""), file=sys.stderr)
        return 1


def _start(given: argparse.Namespace) -> int:
    cluster = SparkCluster(
        given.folder,
        count=given.workers,
        cores=given.cores,
        memory=given.memory,
        port=given.port,
        detached=True,
    )
    print(cluster.master)
    return 0


def _stop(folder: Path) -> int:
    if not stop(folder):
        print(f"No cluster was started in {folder}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
