"""The Spark application of a job at one site: `python -m fedflow.spark.application FOLDER`.

It starts the driver with spark-submit, makes the SparkContext, and then only watches: tasks
connect to the driver by themselves (`session.py`) and run their Spark jobs there, each in a job
group of its own. Every task holds a *lease*, a connection to this process's unix socket; when it
closes, for whatever reason, the jobs of its group are cancelled. So nothing of a killed task
computes on.

The application ends on SIGTERM, when the driver or its context has ended, when its folder is gone
(no server knows it then), or when no task held a lease for `idle_timeout_s`; the driver ends with
it, also when this process is killed: the driver reads our pipe and exits at its end. `failed.json`
says why, for tasks that come too late.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from fedflow import __version__
from fedflow.base.clock import Clock, SystemClock
from fedflow.base.decoding import decode_as
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkLost, SparkNotStarted, SparkWorkersDiffer
from fedflow.spark.errors import last_line, text_of
from fedflow.spark.python_check import about_worker
from fedflow.spark.submission import is_loopback, start_driver
from fedflow.wire.spark_application import (
    APPLICATION,
    FAILED,
    GATEWAY,
    LINE_BYTES,
    SOCKET,
    ApplicationSpec,
    ClusterStatus,
    Gateway,
    Lease,
    failure_of,
    read_private,
    socket_address,
    write_private,
)

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.2  #: while tasks wait for executors, seconds between two looks
_CALM_S: Final = 5.0  #: else; a driver whose context has stopped is noticed within this time
_END_S: Final = 3.0  #: what the driver gets to end by itself, seconds
_GONE_S: Final = 1.0  #: what a driver that does not answer gets to be gone, seconds
_BACKLOG: Final = 64


class _Ended(BaseException):
    """This process was asked to end. No Exception, so that nothing on the way catches it."""


class _TooLate(BaseException):
    """The start took too long."""


@dataclass(slots=True, eq=False)
class _Holder:
    """A connected task; `group` is None until it has said it."""

    connection: socket.socket
    group: str | None = None
    waits: bool = True  #: it does not know yet that it may begin
    received: bytearray = field(default_factory=bytearray)


class Driver:
    """The driver as the application sees it, over py4j."""

    def __init__(self, gateway: Any, context: Any, *, is_local: bool) -> None:
        self._gateway = gateway
        self._context = context
        self._scala = context._jsc.sc()
        self._is_local = is_local

    @property
    def process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = self._gateway.proc
        return process

    @property
    def address(self) -> tuple[int, str]:
        """Return port and token of the gateway."""
        parameters = self._gateway.gateway_parameters
        return int(parameters.port), str(parameters.auth_token)

    def is_stopped(self) -> bool:
        """Tell whether the context has ended, as when the cluster dismissed the application."""
        return bool(self._scala.isStopped())

    def executors(self) -> int:
        """Return how many executors are there; a driver that computes itself counts as one."""
        if self._is_local:
            return 1
        return max(0, len(self._scala.statusTracker().getExecutorInfos()) - 1)

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group, also those that its abandoned threads would start later."""
        self._scala.cancelJobGroupAndFutureJobs(group)

    def check_workers(self, count: int) -> None:
        """Ask `count` workers for their release; it warms them. Raises: SparkWorkersDiffer."""
        try:
            found = set(self._context.parallelize(range(count), count).map(about_worker).collect())
        except Exception as exc:
            logger.exception("Spark's workers could not run fedflow.")
            raise SparkWorkersDiffer(reason=last_line(text_of(exc))) from exc
        if found != {__version__}:
            there = ", ".join(sorted(found))
            raise SparkWorkersDiffer(reason=f"they have fedflow {there}, not {__version__}")


class Application:
    """Watches over one driver; everything happens in the thread that calls `serve`.

    The process works in the application's folder.
    """

    def __init__(
        self, spec: ApplicationSpec, driver: Driver, *, listener: socket.socket,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self._spec = spec
        self._driver = driver
        self._listener = listener
        self._clock = clock or SystemClock()
        self._holders: set[_Holder] = set()
        self._was_ready = False
        self._failure: FedflowError | None = None
        self._check: threading.Thread | None = None
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        self._idle_since_s = self._clock.monotonic_s()

    def serve(self) -> FedflowError:
        """Look after tasks until the application should end; return why it ends."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: self._woken.recv(64))
        with contextlib.suppress(AttributeError, OSError):  # without pidfd the pause is the limit
            ended = os.pidfd_open(self._driver.process.pid)
            self._selector.register(ended, selectors.EVENT_READ, lambda: None)
        while True:
            for key, _ in self._selector.select(self._pause_s()):
                key.data()
            status = self._driver.process.poll()
            if status is not None:
                return self._lost(f"its driver ended with status {status}")
            if self._driver.is_stopped():
                return self._lost("its context was stopped; the cluster may have dismissed it")
            if not os.path.exists(APPLICATION):
                return self._lost("its folder was removed")
            self._look()
            if self._failure is not None:
                return self._failure
            if self._is_idle():
                return self._lost(f"no task used it for {self._spec.idle_timeout_s:.0f} s")

    def _lost(self, reason: str) -> SparkLost:
        return SparkLost(job_id=self._spec.job_id, reason=reason)

    # --- leases ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        holder = _Holder(connection)
        self._holders.add(holder)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._receive(holder))

    def _receive(self, holder: _Holder) -> None:
        """Take what a task says; its end, and nonsense, end the lease."""
        try:
            data = holder.connection.recv(LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        holder.received += data
        line, newline, _ = bytes(holder.received).partition(b"\n")
        if not data or len(holder.received) > LINE_BYTES:
            self._release(holder)
        elif newline and holder.group is None:
            try:
                holder.group = decode_as(line, Lease).group
            except msgspec.MsgspecError as exc:
                logger.warning("A lease that says nonsense was closed: %s", exc)
                self._release(holder)
            else:
                logger.info("%s connects.", holder.group)
                self._tell(holder, self._standing())

    def _release(self, holder: _Holder) -> None:
        """End a lease, and the Spark jobs of its task that still run."""
        self._selector.unregister(holder.connection)
        holder.connection.close()
        self._holders.discard(holder)
        self._idle_since_s = self._clock.monotonic_s()
        if holder.group is not None:
            logger.info("%s is gone; its Spark jobs are cancelled.", holder.group)
            self._driver.cancel(holder.group)

    def _tell(self, holder: _Holder, standing: ClusterStatus) -> None:
        if not holder.waits:
            return
        holder.waits = not standing.ready and standing.failure is None
        try:
            holder.connection.send(msgspec.json.encode(standing) + b"\n")
        except OSError as exc:  # its end is read next; one that reads nothing learns nothing
            logger.info("%s does not listen: %s", holder.group, exc)

    # --- executors ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Tell those who wait how far the cluster is; check its workers once they are there."""
        if not any(h.waits and h.group for h in self._holders) and self._was_ready:
            return
        standing = self._standing()
        is_there = standing.executors >= standing.wanted
        if is_there and self._check is None and self._failure is None:
            self._check = threading.Thread(
                target=self._check_workers, args=(standing.executors,), name="spark-check",
                daemon=True,
            )  # fmt: skip
            self._check.start()
        for holder in list(self._holders):
            if holder.group is not None:
                self._tell(holder, standing)

    def _standing(self) -> ClusterStatus:
        executors = self._driver.executors()
        wanted = 1 if self._was_ready else self._spec.executors
        return ClusterStatus(
            ready=self._was_ready and executors >= wanted,
            executors=executors,
            wanted=wanted,
            failure=failure_of(self._failure) if self._failure is not None else None,
        )

    def _check_workers(self, count: int) -> None:
        try:
            self._driver.check_workers(count)
            self._was_ready = True
        except SparkWorkersDiffer as exc:
            self._failure = exc
        except Exception:
            logger.exception("The check of Spark's workers failed.")
            self._failure = SparkWorkersDiffer(reason="their check failed, see spark.log")
        self._wake.send(b"w")

    def _is_idle(self) -> bool:
        if self._holders:
            return False
        return self._clock.monotonic_s() - self._idle_since_s > self._spec.idle_timeout_s

    def _pause_s(self) -> float:
        """Return how long nothing needs to be looked at."""
        waits = any(h.waits for h in self._holders) or self._check is None
        return _LOOK_S if waits else min(_CALM_S, self._spec.idle_timeout_s)


def run_application(folder: Path) -> int:
    """Be the application of a folder until it should end; return the exit status."""
    signal.signal(signal.SIGTERM, _raise_ended)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o077)
    os.chdir(folder)
    spec = decode_as(read_private(folder / APPLICATION), ApplicationSpec)
    driver: Driver | None = None
    end: FedflowError = SparkLost(job_id=spec.job_id, reason="it was asked to end")
    try:
        with _bounded(spec.wait_s):
            gateway, context = start_driver(spec, folder)
        driver = Driver(gateway, context, is_local=spec.master.startswith("local"))
        with _listening(folder) as listener:
            _announce(spec, driver, folder)
            end = Application(spec, driver, listener=listener).serve()
    except _Ended:
        logger.info("The application was asked to end.")
    except _TooLate:
        end = SparkNotStarted(reason=f"it was not ready within {spec.wait_s:.0f} s")
    except FedflowError as exc:
        end = exc
    except Exception as exc:  # py4j's, of a driver that is going away
        logger.exception("The application failed.")
        end = SparkLost(job_id=spec.job_id, reason=_why_silent(driver, exc))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _leave_word(folder, end)
    _end_driver(driver)
    return 0 if isinstance(end, SparkLost) else 1


def _announce(spec: ApplicationSpec, driver: Driver, folder: Path) -> None:
    port, token = driver.address
    gateway = Gateway(
        port=port,
        token=token,
        home=os.environ["SPARK_HOME"],
        python=spec.python,
        loopback=is_loopback(spec.master),
    )
    write_private(folder / GATEWAY, msgspec.json.encode(gateway))
    logger.info("The application is ready.")


@contextlib.contextmanager
def _listening(folder: Path) -> Iterator[socket.socket]:
    """Open the socket of leases in a folder, whose path may be longer than an address can be."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(socket_address(folder, opened))
            listener.listen(_BACKLOG)
            yield listener
    finally:
        with contextlib.suppress(FileNotFoundError):
            (folder / SOCKET).unlink()
        os.close(opened)


@contextlib.contextmanager
def _bounded(wait_s: float) -> Iterator[None]:
    """Raise `_TooLate` inside if the block takes longer; only in the main thread."""
    signal.signal(signal.SIGALRM, _raise_late)
    signal.setitimer(signal.ITIMER_REAL, wait_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _raise_ended(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it comes again until we are gone
    raise _Ended


def _raise_late(number: int, frame: FrameType | None) -> None:
    raise _TooLate


def _why_silent(driver: Driver | None, error: Exception) -> str:
    """Return why a call to the driver failed; one that dies just now is given time to be gone."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        if driver is not None:
            return f"its driver ended with status {driver.process.wait(_GONE_S)}"
    return f"its driver does not answer ({type(error).__name__})"


def _end_driver(driver: Driver | None) -> None:
    """End the driver: it exits when its standard input closes, and notifies the cluster."""
    if driver is None:  # one that just begins is among our group, as everything that we started
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGTERM)
        return
    process = driver.process
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _leave_word(folder: Path, error: FedflowError) -> None:
    """Say why there is no application any more."""
    logger.info("The application ends: %s", error.message)
    with contextlib.suppress(OSError):
        write_private(folder / FAILED, msgspec.json.encode(failure_of(error)))
        (folder / GATEWAY).unlink(missing_ok=True)


def main(arguments: list[str], *, run: Callable[[Path], int] = run_application) -> int:
    """Run `FOLDER`."""
    if len(arguments) != 1:
        print("usage: python -m fedflow.spark.application FOLDER", file=sys.stderr)
        return 2
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="[%(levelname)s] [%(asctime)s] - %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    return run(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
