"""Spark applications: how they start and fail, who may use them, and that nothing outlives them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fedflow.base.decoding import decode_as
from fedflow.base.ids import PartyId
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.spark_options import SparkPlan, SparkSite, plan_application
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role, Site
from fedflow.spark.applications import ApplicationSettings, SparkApplications
from fedflow.wire.spark_application import FAILED, GATEWAY, PROCESS, Failure, ProcessFile
from tests.support.executors import wait_until
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TASK = Path(__file__).parent / "spark_task.py"
JOB = JobKey(job_id="202611220001", site=Site(Role.GUEST, PartyId("9999")))
START_S = 180.0  #: other tests may keep all cores busy
SETTINGS = ApplicationSettings(
    master="local[2]",
    home=None,
    python=sys.executable,
    interpreter=sys.executable,
    wait_s=START_S,
    idle_timeout_s=60.0,
    stop_grace_s=5.0,
)
TEXT = "a b=\u00fc: \\ #!$(id) \U0001f600 'x'"  #: a property that no quoting may change
SITE = SparkSite(master="local[2]", nodes=1, tables_uri="/tmp", wait_s=START_S)


def plan(site: SparkSite = SITE, cores: int = 2, **spark_run: object) -> SparkPlan:
    return plan_application(JobParameters(spark_run=spark_run), site, cores=cores)


class House:
    """One server's applications, below a folder."""

    def __init__(self, folder: Path, settings: ApplicationSettings = SETTINGS) -> None:
        self.folder = folder
        self.applications = SparkApplications(
            folder / "spark", settings=settings, logs=lambda key: folder / "logs" / key.job_id
        )
        self.applications.open()

    @property
    def log(self) -> str:
        return (self.folder / "logs" / JOB.job_id / "spark.log").read_text()

    def processes(self, application: Path) -> list[psutil.Process]:
        """Return the application and what it started, its driver first of all."""
        leader = psutil.Process(self.pid(application))
        try:
            return [leader, *leader.children(recursive=True)]
        except psutil.NoSuchProcess:  # it ended meanwhile
            return [leader]

    def pid(self, application: Path) -> int:
        return decode_as((application / PROCESS).read_bytes(), ProcessFile).pid

    def failure(self, application: Path) -> Failure:
        wait_until((application / FAILED).exists, START_S)
        return decode_as((application / FAILED).read_bytes(), Failure)

    def close(self) -> None:
        """End all applications, whoever started them, and wait until nothing is left of them."""
        left = [
            process
            for path in (self.folder / "spark").glob("*")
            if (path / PROCESS).exists() and psutil.pid_exists(self.pid(path))
            for process in self.processes(path)
        ]
        for key in self.applications.running():
            self.applications.end(key)
        self.applications.close()
        wait_until(lambda: not living(left), 10)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of an application that several tests use."""
    folder = tmp_path_factory.mktemp("warm") / "a-folder-with-a-long-name" / ("x" * 100)
    folder.mkdir(parents=True)  # longer than the address of a socket may be
    house = House(folder)
    site = replace(SITE, conf={"spark.fedflow.text": TEXT})
    application = house.applications.ensure(JOB, plan(site))
    wait_until((application / GATEWAY).exists, START_S)
    yield application
    house.close()


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def run(
    application: Path, command: str, *, name: str = "a_0", wait_s: float = START_S
) -> list[str]:
    """Return the lines of a task that runs to its end."""
    done = subprocess.run(
        [sys.executable, str(TASK), str(application), name, command, str(wait_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=200,
        cwd=application.parent,
    )
    return done.stdout.splitlines()


@contextmanager
def started(
    application: Path, command: str, *, name: str = "b_0"
) -> Iterator[subprocess.Popen[str]]:
    """Start a task that lasts; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, str(TASK), str(application), name, command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=application.parent,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], begin: str) -> str:
    """Return the first line of a task that begins like this."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(begin):
            return line.strip()
    raise AssertionError(f"no line {begin!r} in {seen}")


def errors_of(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("error")]


# --- tasks ----------------------------------------------------------------------------------------


def test_tasks_share_one_application_and_keep_their_settings_to_themselves(warm: Path) -> None:
    first = run(warm, "settings")
    second = run(warm, "settings")
    for lines in (first, second):
        assert "shuffle 2" in lines
        assert "views 1" in lines
    assert "counted 1000" in run(warm, "count")


def test_the_start_is_bound_to_this_machine_when_the_cluster_is(warm: Path) -> None:
    lines = run(warm, "properties")
    assert "property spark.driver.host 127.0.0.1" in lines
    assert "property spark.authenticate true" in lines
    assert f"property spark.local.dir {warm / 'local'}" in lines
    assert len(list((warm / "local").glob("blockmgr-*"))) == 1
    assert "property spark.submit.deployMode client" in lines
    assert f"property spark.fedflow.text {TEXT}" in lines
    assert "property spark.app.name 202611220001#guest-9999" in lines


def test_an_error_of_a_block_arrives_as_what_it_was(warm: Path) -> None:
    lines = run(warm, "refuse")
    at = lines.index("error CodecError A value of another party cannot be read: row 7")
    assert lines[at + 1] == "is not usable."


def test_another_exception_of_a_block_keeps_its_text_in_this_partys_log(warm: Path) -> None:
    lines = run(warm, "divide")
    told = "A Spark job of the task failed: KeyError; the log of this party has its text."
    assert errors_of(lines) == [f"error SparkFailed {told}"]
    assert any("secret cell" in line for line in lines)


def test_a_block_without_memory_is_a_memory_error(warm: Path) -> None:
    (told,) = errors_of(run(warm, "memory"))
    assert told == "error MemoryError a worker of Spark ran out of memory"


def test_the_stages_of_a_task_are_told(warm: Path) -> None:
    lines = run(warm, "progress")
    assert any(line.startswith("log Spark stage") and "2 tasks" in line for line in lines)
    points = lines[-1]
    assert "'tasks': 2" in points


def test_a_killed_task_leaves_no_spark_job(warm: Path) -> None:
    with started(warm, "hold") as task:
        wait_for(task, "running")
        assert "active 1" in run(warm, "active")
        task.kill()
        wait_until(lambda: "active 0" in run(warm, "active"), 20)


def test_jobs_of_other_tasks_go_on_when_one_ends(warm: Path) -> None:
    with started(warm, "hold", name="c_0") as task:
        wait_for(task, "running")
        assert "active 1" in run(warm, "active", name="d_0")
        assert "active 1" in run(warm, "active", name="e_0")


def test_a_gateway_that_others_can_read_is_not_used(warm: Path) -> None:
    gateway = warm / GATEWAY
    gateway.chmod(0o644)
    try:
        (told,) = errors_of(run(warm, "count"))
    finally:
        gateway.chmod(0o600)
    assert told.startswith("error SparkLost")
    assert "others may read" in told


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_end_of_a_share_leaves_no_driver_and_no_folder(house: House) -> None:
    application = house.applications.ensure(JOB, plan())
    assert "counted 1000" in run(application, "count")
    processes = house.processes(application)
    assert any("java" in p.name() for p in processes)
    house.applications.end(JOB)
    wait_until(lambda: not living(processes), 10)
    wait_until(lambda: not application.exists(), 5)
    assert house.applications.running() == []


def test_an_application_that_is_ended_while_it_starts_leaves_nothing(house: House) -> None:
    application = house.applications.ensure(JOB, plan())
    wait_until(lambda: len(house.processes(application)) > 1, START_S)
    processes = house.processes(application)
    house.applications.end(JOB)
    wait_until(lambda: not living(processes), 15)


@pytest.mark.heavy
def test_a_task_of_a_killed_application_fails_and_the_next_gets_a_new_one(house: House) -> None:
    application = house.applications.ensure(JOB, plan())
    with started(application, "hold") as task:
        wait_for(task, "running")
        processes = house.processes(application)
        os.kill(house.pid(application), signal.SIGKILL)
        told = wait_for(task, "error")
    why = "its driver does not answer"
    assert told == f"error SparkLost The Spark application of job 1 died: {why}."
    wait_until(lambda: not living(processes), 10)
    again = house.applications.ensure(JOB, plan())
    assert again != application
    assert "counted 1000" in run(again, "count")


@pytest.mark.heavy
def test_a_driver_that_dies_is_told_to_its_tasks(house: House) -> None:
    application = house.applications.ensure(JOB, plan())
    with started(application, "hold") as task:
        wait_for(task, "running")
        driver = next(p for p in house.processes(application) if "java" in p.name())
        driver.kill()
        told = wait_for(task, "error")
    assert "its driver ended with status -9" in told
    assert told.startswith("error SparkLost")


@pytest.mark.heavy
def test_an_application_that_nobody_uses_ends_by_itself(tmp_path: Path) -> None:
    house = House(tmp_path, replace(SETTINGS, idle_timeout_s=0.5))
    try:
        application = house.applications.ensure(JOB, plan())
        failure = house.failure(application)
        assert failure.error == "SparkLost"
        assert failure.fields["reason"] == "no task used it for 0 s"
        (told,) = errors_of(run(application, "count"))
        assert "no task used it" in told
        assert house.applications.ensure(JOB, plan()) != application
    finally:
        house.close()


@pytest.mark.heavy
def test_an_application_that_no_server_knows_any_more_ends_by_itself(house: House) -> None:
    application = house.applications.ensure(JOB, plan())
    wait_until((application / GATEWAY).exists, START_S)
    processes = house.processes(application)
    shutil.rmtree(application)
    wait_until(lambda: not living(processes), 20)


@pytest.mark.heavy
def test_the_next_server_adopts_an_application_and_forgets_dead_ones(tmp_path: Path) -> None:
    before = House(tmp_path)
    application = before.applications.ensure(JOB, plan())
    other = replace(JOB, job_id="202611220002")
    dead = before.applications.ensure(other, plan())
    killed = before.processes(dead)
    os.kill(before.pid(dead), signal.SIGKILL)
    wait_until(lambda: not living(killed), 10)
    before.applications.close()  # as a server that is killed: it ends nothing
    after = House(tmp_path)
    try:
        assert after.applications.running() == [JOB]
        assert not dead.exists()
        assert after.applications.ensure(JOB, plan()) == application
        assert "counted 1000" in run(application, "count")
    finally:
        after.close()


# --- what keeps an application from starting ------------------------------------------------------


def failed_start(folder: Path, settings: ApplicationSettings, given: SparkPlan) -> tuple[str, str]:
    """Return name and sentence of the error that a task meets."""
    house = House(folder, settings)
    try:
        application = house.applications.ensure(JOB, given)
        (told,) = errors_of(run(application, "count"))
    finally:
        house.close()
    _, name, sentence = told.split(" ", 2)
    return name, sentence


def test_no_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    name, sentence = failed_start(tmp_path, SETTINGS, plan())
    assert name == "JavaMissing"
    assert "no program `java` is on the PATH" in sentence


def test_a_wrong_java_home_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    name, sentence = failed_start(tmp_path, SETTINGS, plan())
    assert name == "JavaMissing"
    assert "JAVA_HOME names a folder without the program bin/java" in sentence


def test_a_wrong_spark_home_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    name, sentence = failed_start(tmp_path, SETTINGS, plan())
    assert (name, sentence) == (
        "SparkMissing",
        "There is no usable Spark at this server: the folder of Spark has no program"
        " bin/spark-submit.",
    )


def test_a_spark_of_another_version_is_said(tmp_path: Path) -> None:
    home = tmp_path / "spark-3"
    (home / "bin").mkdir(parents=True)
    (home / "jars").mkdir()
    (home / "bin" / "spark-submit").write_text("#!/bin/sh\n")
    (home / "bin" / "spark-submit").chmod(0o755)
    (home / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    name, sentence = failed_start(tmp_path, replace(SETTINGS, home=str(home)), plan())
    assert name == "SparkMissing"
    assert "its folder holds Spark 3.5" in sentence


def test_a_master_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    settings = replace(SETTINGS, master="spark://127.0.0.1:1")
    name, sentence = failed_start(tmp_path, settings, plan())
    assert (name, sentence) == (
        "SparkMasterUnreachable",
        "The Spark master does not answer: Connection refused.",
    )


@pytest.mark.heavy
def test_a_master_that_says_nothing_is_not_waited_for_any_longer_than_set(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        settings = replace(SETTINGS, master=master, wait_s=6.0)
        name, sentence = failed_start(tmp_path, settings, plan())
    assert name == "SparkNotStarted"
    assert "it was not ready within 6 s" in sentence


def test_an_option_that_spark_does_not_know_is_said(tmp_path: Path) -> None:
    given = replace(plan(), options={"no-such-option": "1"})
    name, sentence = failed_start(tmp_path, SETTINGS, given)
    assert name == "SparkNotStarted"
    assert "no-such-option" in sentence


def test_a_property_that_spark_refuses_is_said(tmp_path: Path) -> None:
    given = replace(plan(), properties={**plan().properties, "spark.driver.memory": "16k"})
    name, sentence = failed_start(tmp_path, SETTINGS, given)
    assert name == "SparkNotStarted"
    assert "memory" in sentence.lower() or "heap" in sentence.lower()


@pytest.mark.heavy
def test_workers_without_python_are_told_of(tmp_path: Path) -> None:
    settings = replace(SETTINGS, python="/nowhere/python3")
    name, sentence = failed_start(tmp_path, settings, plan())
    assert name == "SparkWorkersDiffer"
    assert "its Python program is not there" in sentence


# --- a cluster ------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_share_takes_no_more_executors_than_it_has_cores(
    tmp_path: Path, spark_cluster: SparkCluster
) -> None:
    settings = replace(SETTINGS, master=spark_cluster.master)
    site = replace(SITE, master=spark_cluster.master, nodes=2)
    house = House(tmp_path, settings)
    try:
        application = house.applications.ensure(JOB, plan(site, cores=1))
        lines = run(application, "executors")
        assert "executors 1" in lines
        assert "counted 1000" in run(application, "count")
    finally:
        house.close()


@pytest.mark.heavy
def test_a_task_waits_for_executors_with_a_reason_and_not_for_ever(
    tmp_path: Path, spark_cluster: SparkCluster
) -> None:
    settings = replace(SETTINGS, master=spark_cluster.master)
    site = replace(SITE, master=spark_cluster.master, nodes=2)
    house = House(tmp_path, settings)
    try:
        given = plan(site, cores=3, **{"num-executors": 3, "executor-cores": 1})
        application = house.applications.ensure(JOB, given)
        with started(application, "count") as first:
            wait_for(first, "log b_0 waits for Spark executors: 2 of 3")
        lines = run(application, "count", wait_s=2)
        assert "log a_0 waits for Spark executors: 2 of 3" in lines
        assert errors_of(lines) == [
            "error SparkExecutorsMissing Spark gave 2 of 3 executors within 2 s."
        ]
    finally:
        house.close()


@pytest.mark.heavy
def test_a_lost_worker_does_not_keep_the_next_task_waiting(
    tmp_path: Path, spark_cluster: SparkCluster
) -> None:
    settings = replace(SETTINGS, master=spark_cluster.master)
    site = replace(SITE, master=spark_cluster.master, nodes=2)
    house = House(tmp_path, settings)
    try:
        given = plan(site, cores=2, **{"num-executors": 2})
        application = house.applications.ensure(JOB, given)
        assert "counted 1000" in run(application, "count")
        spark_cluster.kill(spark_cluster.workers[0])
        assert "counted 1000" in run(application, "count")
    finally:
        house.close()
        spark_cluster.heal()
