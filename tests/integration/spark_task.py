"""A task's process for tests of Spark applications: `spark_task.py FOLDER NAME COMMAND [WAIT_S]`.

It prints a line for what it reached, and one with the error that it met.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.error import FedflowError
from fedflow.spark.session import Session, TaskName, open_session
from fedflow.wire.spark_application import PROCESS

LONG_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    application: str
    wait_s: float


class Metrics:
    """Keeps the points of the metric."""

    def __init__(self) -> None:
        self.points: list[Any] = []

    def metric(
        self, namespace: str, name: str, *, metric_type: str,
        points: Sequence[tuple[Any, Any]] = (), meta: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.points += [value for _, value in points]


def say(*words: object) -> None:
    print(*words, flush=True)


def count(session: Session) -> None:
    say("counted", session.spark.range(0, 1000, 1, 4).mapInArrow(_same, "id long").count())


def executors(session: Session) -> None:
    say("executors", session.context._jsc.sc().statusTracker().getExecutorInfos().__len__() - 1)


def hold(session: Session) -> None:
    """Run a job whose tasks last, until somebody ends it."""
    timer = threading.Thread(target=_say_when_running, args=(session,), daemon=True)
    timer.start()
    session.context.parallelize(range(2), 2).map(_sleep).collect()


def progress(session: Session) -> None:
    session.context.parallelize(range(2), 2).map(lambda _: _sleep(2.0)).collect()


def refuse(session: Session) -> None:
    session.spark.range(0, 10, 1, 2).mapInArrow(_refuse, "id long").count()


def divide(session: Session) -> None:
    session.context.parallelize(["secret cell"], 1).map(lambda cell: {}[cell]).collect()


def memory(session: Session) -> None:
    session.context.parallelize(range(2), 1).map(_no_memory).collect()


def active(session: Session) -> None:
    say("active", len(session.context._jsc.sc().statusTracker().getActiveJobIds()))


def settings(session: Session) -> None:
    say("shuffle", session.spark.conf.get("spark.sql.shuffle.partitions"))
    session.spark.conf.set("spark.sql.shuffle.partitions", "77")
    session.spark.range(1).createOrReplaceTempView("mine")
    say("views", len(session.spark.catalog.listTables()))


def properties(session: Session) -> None:
    for key, value in sorted(session.context.getConf().getAll()):
        say("property", key, value)


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _refuse(batches: Iterator[Any]) -> Iterator[Any]:
    raise CodecError(reason="row 7\nis not usable")
    yield from batches


def _no_memory(_: int) -> None:
    raise MemoryError


def _sleep(seconds: float) -> None:
    pause(seconds if seconds > 1 else LONG_S, threading.Event())


def _say_when_running(session: Session) -> None:
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + 30
    status = session.context._jsc.sc().statusTracker()
    while clock.monotonic_s() < deadline_s:
        if any(e.numRunningTasks() for e in status.getExecutorInfos()):
            say("running")
            return
        pause(0.02, never)


COMMANDS: dict[str, Callable[[Session], None]] = {
    f.__name__: f
    for f in (
        count, executors, hold, progress, refuse, divide, memory, active, settings, properties,
    )
}  # fmt: skip


def main(folder: Path, name: str, command: str, wait_s: float = 80.0) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="log %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    metrics = Metrics()
    try:
        session = open_session(
            Wanted(application=str(folder), wait_s=wait_s),
            TaskName(job_id="1", component=name, version=0, launch_id=str(os.getpid())),
            lives=(folder / PROCESS).exists,
            sink=metrics,
        )
        say("connected")
        with session.errors():
            COMMANDS[command](session)
        session.close()
    except FedflowError as exc:
        say("error", exc.name, exc.message)
    except MemoryError as exc:
        say("error", "MemoryError", exc)
    say("metrics", metrics.points)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4], *map(float, sys.argv[4:]))
