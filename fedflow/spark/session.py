"""A task's connection to the Spark application of its job (`application.py`)."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.decoding import decode_as
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import (
    SparkExecutorsMissing,
    SparkLost,
    SparkMissing,
    SparkNotStarted,
)
from fedflow.sdk.context import Tracker
from fedflow.spark.errors import meaning_of, spark_errors
from fedflow.spark.progress import StageProgress
from fedflow.wire.spark_application import (
    FAILED,
    GATEWAY,
    LINE_BYTES,
    ClusterStatus,
    Failure,
    Gateway,
    Lease,
    error_of,
    read_private,
    socket_address,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.05  #: while the application starts, seconds between two looks
_WORD_S: Final = 3.0  #: what an application that ends gets to say why, seconds

_leases: Final[weakref.WeakSet[socket.socket]] = weakref.WeakSet()
_at_fork = threading.Lock()  #: held once, for ever: the hook is registered


class Wanted(Protocol):
    """What a task gets about its application; see `wire.task_spec.SparkSpec`."""

    @property
    def application(self) -> str:
        """Return the folder of the application."""

    @property
    def wait_s(self) -> float:
        """Return the longest wait for it and its executors, seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskName:
    """Which task connects."""

    job_id: str
    component: str
    version: int
    launch_id: str

    @property
    def group(self) -> str:
        """Return its job group: another attempt or launch of the task has another one."""
        return f"{self.job_id} {self.component} {self.version} {self.launch_id}"


class Session:
    """An open connection; made by `open_session`, closed by `close`.

    Spark jobs that the thread starts which opened it belong to the task's job group, and are
    cancelled when the task ends. Jobs of another thread do so between `with session.thread()`.
    """

    def __init__(
        self,
        *,
        spark: SparkSession,
        task: TaskName,
        gateway: Any,
        lease: socket.socket,
        folder: Path,
        sink: Tracker | None,
    ) -> None:
        self.spark = spark  #: its SQL settings and views are the task's own
        self.context: SparkContext = spark.sparkContext
        self._task = task
        self._gateway = gateway
        self._lease = lease
        self._folder = folder
        self._join_group()
        self._progress = StageProgress(self.context, group=task.group, sink=sink)

    def errors(self) -> AbstractContextManager[None]:
        """Return a context in which Spark's exceptions become those of fedflow.

        Raises (at its end): the FedflowError of a block, as it was. SparkLost: the driver is gone.
            SparkFailed: anything else. MemoryError: a block had too little.
        """
        return spark_errors(self._lost)

    def meaning_of(self, error: BaseException) -> Exception | None:
        """Return what an exception means if it is Spark's, else None."""
        return meaning_of(error, lost=self._lost)

    @contextlib.contextmanager
    def thread(self) -> Iterator[None]:
        """Let the Spark jobs of the calling thread belong to the task."""
        self._join_group()
        yield

    def end_progress(self) -> None:
        """Tell the sink what ran in all, and nothing more; once no work is left to do."""
        self._progress.close()

    def close(self) -> None:
        """End the connection; Spark jobs that still run are cancelled. The application lives on."""
        self._progress.close()
        _close_lease(self._lease)
        server = getattr(self.context, "_accumulatorServer", None)
        if server is not None:  # it looks twice a second whether it should end: not our time
            threading.Thread(target=_end_server, args=(server,), daemon=True).start()
        _forget(self._gateway)

    def _join_group(self) -> None:
        self.context.setJobGroup(self._task.group, self._task.component, interruptOnCancel=True)
        # Tasks of a job that run at once share the executors, rather than one after the other.
        self.context.setLocalProperty("spark.scheduler.pool", self._task.component)

    def _lost(self) -> FedflowError:
        return _why_lost(self._folder, self._lease, job_id=self._task.job_id)


def open_session(
    wanted: Wanted,
    task: TaskName,
    *,
    lives: Callable[[], bool],
    sink: Tracker | None = None,
    clock: Clock | None = None,
) -> Session:
    """Connect this process to the application; it waits until there is one, with executors.

    Args:
        lives: tells whether the application's process is there.
        sink: gets the progress of Spark's stages, if anybody wants it.

    Raises: SparkExecutorsMissing: there were not enough in time. JavaMissing, SparkMissing,
        SparkMasterUnreachable, SparkNotStarted, SparkWorkersDiffer: the application could not
        start. SparkLost: it has ended.
    """
    clock = clock or SystemClock()
    folder, deadline_s = Path(wanted.application), clock.monotonic_s() + wanted.wait_s
    begin_s = clock.monotonic_s()
    waiting = _Waiting(folder, task, clock=clock, deadline_s=deadline_s, wait_s=wanted.wait_s)
    gateway = waiting.for_gateway(lives)
    lease = waiting.for_executors()
    try:
        session = _connect(gateway, task, lease=lease, folder=folder, sink=sink)
    except BaseException:
        _close_lease(lease)
        raise
    logger.info("Connected to Spark in %.2f s", clock.monotonic_s() - begin_s)
    return session


class _Waiting:
    """The waits of one `open_session`, all until one deadline."""

    def __init__(
        self, folder: Path, task: TaskName, *, clock: Clock, deadline_s: float, wait_s: float
    ) -> None:
        self._folder = folder
        self._task = task
        self._clock = clock
        self._deadline_s = deadline_s
        self._wait_s = wait_s

    def for_gateway(self, lives: Callable[[], bool]) -> Gateway:
        """Return how to reach the driver, once the application has started it."""
        never = threading.Event()
        told = False
        while True:
            lived = lives()  # asked first: one that ended has left its word before
            try:
                raw = read_private(self._folder / GATEWAY)
            except FileNotFoundError:
                failure = _failure(self._folder)
                if failure is not None:
                    raise error_of(failure, job_id=self._task.job_id) from None
                if not lived:
                    raise self._lost("its process was killed") from None
            except OSError as exc:
                raise self._lost(f"its files cannot be trusted: {exc}") from exc
            else:
                return decode_as(raw, Gateway)
            # Its own time began a little later than ours, and it knows what it waited for.
            if self._clock.monotonic_s() > self._deadline_s + _WORD_S:
                raise SparkNotStarted(reason=f"it was not ready within {self._wait_s:.0f} s")
            if not told:
                logger.info("%s waits for the Spark application", self._task.component)
                told = True
            pause(_LOOK_S, never)

    def for_executors(self) -> socket.socket:
        """Return the lease, once the application says that work may begin."""
        lease = self._open_lease()
        standing = ClusterStatus()
        try:
            lease.sendall(msgspec.json.encode(Lease(group=self._task.group)) + b"\n")
            for standing in self._standings(lease):
                if standing.failure is not None:
                    raise error_of(standing.failure, job_id=self._task.job_id)
                if standing.ready:
                    return lease
            if standing.executors >= standing.wanted:
                within = f"{self._wait_s:.0f} s"
                raise SparkNotStarted(reason=f"its executors did not answer within {within}")
            raise SparkExecutorsMissing(
                there=standing.executors, wanted=standing.wanted, seconds=f"{self._wait_s:.0f}"
            )
        except OSError as exc:
            raise _why_lost(self._folder, lease, job_id=self._task.job_id) from exc
        except BaseException:
            _close_lease(lease)
            raise

    def _open_lease(self) -> socket.socket:
        opened = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _close_in_forks(lease)
        try:
            lease.connect(socket_address(self._folder, opened))
        except OSError as exc:
            lease.close()
            raise _why_lost(self._folder, None, job_id=self._task.job_id) from exc
        finally:
            os.close(opened)
        return lease

    def _standings(self, lease: socket.socket) -> Iterator[ClusterStatus]:
        """Yield what the application says until the deadline. Raises: ConnectionError."""
        poll, received, told = select.poll(), bytearray(), ""
        poll.register(lease, select.POLLIN)
        while (left_s := self._deadline_s - self._clock.monotonic_s()) > 0:
            if not poll.poll(math.ceil(left_s * 1000)):
                return
            data = lease.recv(LINE_BYTES)
            if not data:
                raise ConnectionError("the application closed the lease")
            received += data
            *lines, rest = bytes(received).split(b"\n")
            received = bytearray(rest)
            for line in lines:
                standing = decode_as(line, ClusterStatus)
                yield standing
                said = f"executors: {standing.executors} of {standing.wanted}"
                if standing.executors >= standing.wanted:
                    said = "executors to load their libraries"
                if said != told:
                    told = said
                    logger.info("%s waits for Spark %s", self._task.component, said)

    def _lost(self, reason: str) -> SparkLost:
        return SparkLost(job_id=self._task.job_id, reason=reason)


def _connect(
    found: Gateway, task: TaskName, *, lease: socket.socket, folder: Path, sink: Tracker | None
) -> Session:
    """Connect to a driver that has a context already."""
    os.environ.update(
        {
            "PYSPARK_GATEWAY_PORT": str(found.port),
            "PYSPARK_GATEWAY_SECRET": found.token,
            "PYSPARK_PIN_THREAD": "true",
            "PYSPARK_PYTHON": found.python,
            "SPARK_HOME": found.home,
        }
    )
    if found.loopback:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise SparkMissing(reason=f"the Python package {exc.name} is not installed") from exc
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with spark_errors(lambda: _why_lost(folder, lease, job_id=task.job_id)):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
            jvm = gateway.jvm
            there = jvm.org.apache.spark.SparkContext.getOrCreate()
            java = jvm.org.apache.spark.api.java.JavaSparkContext(there)
            conf = SparkConf(_jvm=jvm, _jconf=java.getConf())
            context = SparkContext(gateway=gateway, jsc=java, conf=conf)
            spark = SparkSession(context).newSession()
            return Session(
                spark=spark, task=task, gateway=gateway, lease=lease, folder=folder, sink=sink
            )
    finally:
        del os.environ["PYSPARK_GATEWAY_SECRET"], os.environ["PYSPARK_GATEWAY_PORT"]
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)  # the context has put its own there


def _forget(gateway: Any) -> None:
    """Close the connections to the driver, and let pyspark forget that there was one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway.close()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _end_server(server: Any) -> None:
    server.shutdown()
    server.server_close()


def _why_lost(folder: Path, lease: socket.socket | None, *, job_id: str) -> FedflowError:
    """Return why there is no application any more; one that just ends is given time to say it."""
    if lease is not None:
        poll = select.poll()
        poll.register(lease, select.POLLIN)
        with contextlib.suppress(OSError):
            poll.poll(_WORD_S * 1000)
        _close_lease(lease)
    failure = _failure(folder)
    if failure is not None:
        return error_of(failure, job_id=job_id)
    return SparkLost(job_id=job_id, reason="its driver does not answer")


def _failure(folder: Path) -> Failure | None:
    """Return why an application has ended, None if it has not said it."""
    try:
        return decode_as(read_private(folder / FAILED), Failure)
    except (OSError, msgspec.MsgspecError):
        return None


def _close_in_forks(lease: socket.socket) -> None:
    """Keep a lease out of forked processes: it must end with this one, even if those live on."""
    if _at_fork.acquire(blocking=False):
        os.register_at_fork(after_in_child=_close_leases)
    _leases.add(lease)


def _close_leases() -> None:
    for lease in list(_leases):
        lease.close()


def _close_lease(lease: socket.socket) -> None:
    _leases.discard(lease)
    lease.close()
