"""How a server keeps the processes of Spark applications, with programs that need no Java."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fedflow.base.decoding import decode_as
from fedflow.base.ids import PartyId
from fedflow.domain.job.spark_options import SparkPlan
from fedflow.domain.records import Handle, JobKey
from fedflow.domain.site import Role, Site
from fedflow.executor.termination import Termination
from fedflow.spark import applications as spark_applications
from fedflow.spark.applications import ApplicationSettings, SparkApplications
from fedflow.wire.spark_application import FAILED, PROCESS, ProcessFile, write_private
from tests.support.executors import wait_until

JOB = JobKey(job_id="202611220001", site=Site(Role.GUEST, PartyId("9999")))
PLAN = SparkPlan(options={}, properties={}, executors=1, cores=1, partitions=1)
WAIT_S = 60.0


class Home:
    """A server's folder, and applications that only wait."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "spark"
        self.logs = folder / "logs"
        self.program = folder / "program"
        self.pids = folder / "pids"
        self.program.write_text(f'#!/bin/sh\necho $$ >> "{self.pids}"\nexec sleep 300\n')
        self.program.chmod(0o755)
        self.on_log: Callable[[], None] = lambda: None

    def open(self) -> SparkApplications:
        settings = ApplicationSettings(
            master="local[1]",
            home=None,
            python="/nowhere",
            interpreter=str(self.program),
            wait_s=1,
            idle_timeout_s=1,
            stop_grace_s=5,
        )
        applications = SparkApplications(self.root, settings=settings, logs=self._logs)
        applications.open()
        return applications

    def process(self, application: Path) -> psutil.Process:
        return psutil.Process(decode_as((application / PROCESS).read_bytes(), ProcessFile).pid)

    def processes(self) -> list[psutil.Process]:
        """Return all that started and did not end."""
        found = []
        for pid in self.pids.read_text().split() if self.pids.exists() else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(pid)))
        return found

    def _logs(self, job: JobKey) -> Path:
        self.on_log()
        return self.logs


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    for process in home.processes():
        process.kill()


def test_an_application_that_cannot_be_noted_is_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        if path.name == PROCESS:
            wait_until(home.pids.exists, WAIT_S)
            raise OSError(errno.ENOSPC, "No space left on device")
        write_private(path, content)

    monkeypatch.setattr(spark_applications, "write_private", full)
    applications = home.open()
    try:
        with pytest.raises(OSError, match="No space left"):
            applications.ensure(JOB, PLAN)
        assert applications.running() == []
        wait_until(lambda: not home.processes(), WAIT_S)
        wait_until(lambda: not list(home.root.iterdir()), WAIT_S)
    finally:
        applications.close()


def test_an_end_does_not_take_the_folder_of_an_application_that_starts_meanwhile(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    applications = home.open()
    applications.ensure(JOB, PLAN)
    begun, may_go, made = threading.Event(), threading.Event(), list[Path]()
    new = threading.Thread(target=lambda: made.append(applications.ensure(JOB, PLAN)), name="new")

    def in_the_middle() -> None:  # the new folder is there, its process is not
        begun.set()
        assert may_go.wait(WAIT_S)

    def meanwhile(handle: Handle, *, grace_s: float) -> None:  # the former is not known any more
        home.on_log = in_the_middle
        new.start()
        assert begun.wait(WAIT_S)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(
                Termination, "stop", lambda self, *given, **named: meanwhile(*given, **named)
            )
            applications.end(JOB)
        may_go.set()
        new.join()
        assert applications.running() == [JOB]
        assert home.process(made[0]).is_running()
        applications.end(JOB)
    finally:
        may_go.set()
        applications.close()


def test_the_next_server_ends_an_application_that_said_it_failed_and_still_runs(
    home: Home,
) -> None:
    before = home.open()
    application = before.ensure(JOB, PLAN)
    process = home.process(application)
    write_private(application / FAILED, b"{}")
    before.close()
    after = home.open()
    try:
        assert after.running() == []
        wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE or not process.is_running(), 10)
        wait_until(lambda: not application.exists(), WAIT_S)
    except psutil.NoSuchProcess:
        wait_until(lambda: not application.exists(), WAIT_S)
    finally:
        after.close()
