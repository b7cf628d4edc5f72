"""What every test is held to: no thread and no process may be left behind. And a Spark cluster."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings
from pyspark import SparkContext
from pyspark.sql import SparkSession
from xdist.scheduler import LoadFileScheduling

from tests.support.spark_cluster import SparkCluster, java

_OWN = (
    "fedflow",
    "scheduler",
    "detector",
    "outbox-sender",
    "heartbeat",
    "clock",
    "executor",
    "data-plane",
)
_GRACE_S = 30.0  #: of what ends by itself after a test, on a busy machine

settings.register_profile("fedflow", deadline=None)  # how long an example takes, the machine says
settings.load_profile("fedflow")
_END_S = 60.0  #: of a Spark driver, on a busy machine
_LONGEST = Path(__file__).with_name("longest.txt")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker ends long after the others."""
    if not hasattr(config, "workerinput"):
        return  # one process: the order is as it is written
    files = [file for together in _longest() for file in together]
    gone = [file for file in files if not (config.rootpath / file).exists()]
    if gone:
        raise pytest.UsageError(f"{_LONGEST.name} names files that are not there: {gone}")
    rank = {file: number for number, file in enumerate(files)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Hand out whole files, and those of one line of `longest.txt` to the same worker."""
    return _ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


class _ByFile(LoadFileScheduling):
    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._first = {file: together[0] for together in _longest() for file in together}

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return self._first.get(file, file)


def _longest() -> list[list[str]]:
    """Return the files of each line of `longest.txt`."""
    return [line.split() for line in _LONGEST.read_text().splitlines() if not line.startswith("#")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collections, and keep them out of every later one.

    Modules and tests stay to the end, so that there is nothing to find among them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _short_lived_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let every JVM compile quickly and collect with one thread: none of them lives long.

    A folder as JAVA_HOME, as servers pass it on to their applications, unlike options for Java.
    """
    real = java()
    if real is None:
        yield
        return
    program = tmp_path_factory.mktemp("java") / "bin/java"
    program.parent.mkdir()
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real))} {options} "$@"\n')
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(program.parents[1]))
        yield


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Return a Spark cluster with two workers of one core; who kills one calls `heal` at the end.

    Tests that use it are marked with `spark`.
    """
    assert java() is not None, "no Java: apt install openjdk-17-jre-headless; `bin/test` does it"
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster
        cluster.wait_until_idle(_GRACE_S)  # else a test left an application behind


@pytest.fixture(scope="session")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a Spark whose workers are two threads of its driver, and ends it after all tests.

    For what does not depend on where workers are. Tests that use it are marked with `spark`; a
    fixture that asks for it by name must not be of function scope.
    """
    assert java() is not None, "no Java: apt install openjdk-17-jre-headless; `bin/test` does it"
    folder = tmp_path_factory.mktemp("local-spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_DIRS", str(folder))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # work functions of tests
        patch.chdir(folder)
        session = (
            SparkSession.builder.master("local[2]")
            .appName("tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the driver ends with its input
    gateway.proc.wait(_END_S)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    threads = {t.ident for t in threading.enumerate()}
    processes = _children()
    yield
    if "leaks" in request.keywords:
        return
    deadline = time.monotonic() + _GRACE_S
    while True:
        left = [
            t.name
            for t in threading.enumerate()
            if t.ident not in threads and t.name.startswith(_OWN)
        ]
        left += list((_children() - processes).elements())
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert not left, f"left behind: {', '.join(left)}"


def _children() -> Counter[str]:
    """Return the command lines below this process; one that replaced its like counts as it."""
    return Counter(_name(p) for p in _below(os.getpid()) if _alive(p))


def _below(pid: int) -> Iterator[psutil.Process]:
    """Yield all processes below one, but not those below a JVM, as they end with it: Spark keeps
    Python workers and executors for later. The kernel's own lists: a look at all processes takes
    5 ms, and this is done twice for each of thousands of tests.
    """
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, psutil.Error):
            for child in map(int, children.read_text().split()):
                process = psutil.Process(child)
                yield process
                if process.name() != "java":
                    yield from _below(child)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        words = [word for word in process.cmdline() if not word.isdigit()]  # without descriptors
        return " ".join(words)[:200]
    except psutil.Error:
        return str(process.pid)
