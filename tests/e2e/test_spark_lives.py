"""Spark applications of a real server: kills and stops leave no driver, restarts lose no job."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from fedflow.base.decoding import decode_as
from fedflow.wire.spark_application import GATEWAY, PROCESS, ProcessFile
from tests.e2e.jobs import empty_job
from tests.e2e.servers import QUICK, Pair, standalone, wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.heavy,
    pytest.mark.timeout(600),
]

SETTINGS = {
    **QUICK,
    "FEDFLOW__FATE_ON_SPARK__SPARK__MASTER": "local[2]",
    "FEDFLOW__FATE_ON_SPARK__SPARK__STOP_GRACE_S": "5",
}
START_S = 180.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with standalone(tmp_path_factory.mktemp("spark_lives"), settings=SETTINGS) as pair:
        yield pair


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    """The server, up and idle before and after each test: no driver is left."""
    yield servers
    if servers.guest.process is None:
        servers.guest.start().wait_ready()
    servers.wait_idle()
    folders = servers.guest.home / "spark"
    wait_for(lambda: not list(folders.glob("*.*")), "the folders to go")


def submit(pair: Pair, *steps: float) -> str:
    """Submit a chain of components that last some seconds each, the guest's share on Spark."""
    dsl, conf = empty_job(*({"sleep_s": seconds} for seconds in steps), auto_retries=0)
    conf["job_parameters"]["role"] = {"guest": {"0": {"computing_engine": "SPARK"}}}
    return pair.guest.client.submit(dsl, conf).job_id


def application(pair: Pair, job_id: str) -> int:
    """Return the process of a job's Spark application, once its tasks can use it."""

    def look() -> int | None:
        for path in (pair.guest.home / "spark").glob(f"{job_id}-guest-9999.*"):
            if (path / GATEWAY).exists():
                return decode_as((path / PROCESS).read_bytes(), ProcessFile).pid
        return None

    return wait_for(look, "the application", within_s=START_S)


def drivers(pair: Pair) -> list[psutil.Process]:
    return [p for p in pair.guest.processes() if "java" in p.name()]


def wait_at_work(pair: Pair, job_id: str, component: str) -> None:
    """Wait until a component's task has its Spark session."""
    log = pair.guest.home / "logs" / job_id / "guest" / "9999" / component / "0" / "INFO.log"
    wait_for(
        lambda: log.exists() and "Connected to Spark" in log.read_text(),
        f"{component} to connect",
        within_s=START_S,
    )


def test_the_tasks_of_a_job_share_one_application_that_ends_with_the_job(pair: Pair) -> None:
    job_id = submit(pair, 0.0, 0.0, 0.0)
    pid = application(pair, job_id)
    assert len(drivers(pair)) == 1
    assert set(pair.ends(job_id).values()) == {"success"}
    wait_for(lambda: not psutil.pid_exists(pid) and not drivers(pair), "its end")
    logs = pair.guest.home / "logs" / job_id / "guest" / "9999"
    assert (logs / "spark.log").read_text().count("connects.") == 3


def test_a_stopped_job_leaves_no_driver(pair: Pair) -> None:
    job_id = submit(pair, 120.0)
    wait_at_work(pair, job_id, "empty_0")
    pair.guest.client.stop(job_id)
    assert set(pair.ends(job_id).values()) == {"canceled"}
    wait_for(lambda: not drivers(pair), "the end of the driver")


def test_a_job_that_is_stopped_before_its_driver_is_up_leaves_none(pair: Pair) -> None:
    job_id = submit(pair, 120.0)
    wait_for(lambda: drivers(pair), "a driver that starts", within_s=START_S)
    pair.guest.client.stop(job_id)
    assert set(pair.ends(job_id).values()) == {"canceled"}
    wait_for(lambda: not drivers(pair), "the end of the driver")


def test_a_killed_server_finds_application_and_task_again(pair: Pair) -> None:
    job_id = submit(pair, 15.0, 0.0)
    wait_at_work(pair, job_id, "empty_0")
    pid = application(pair, job_id)
    pair.guest.restart()
    assert psutil.pid_exists(pid)
    assert set(pair.ends(job_id).values()) == {"success"}
    logs = pair.guest.home / "logs" / job_id / "guest" / "9999"
    assert (logs / "spark.log").read_text().count("The application is ready.") == 1


def test_a_job_that_ended_while_its_server_was_away_leaves_no_driver(pair: Pair) -> None:
    job_id = submit(pair, 2.0)
    wait_at_work(pair, job_id, "empty_0")
    pair.guest.restart(after_s=4.0)
    assert set(pair.ends(job_id).values()) == {"success"}
    wait_for(lambda: not drivers(pair), "the end of the driver")


def test_a_job_whose_application_is_killed_goes_on_with_a_new_one(pair: Pair) -> None:
    job_id = submit(pair, 5.0, 0.0)
    wait_at_work(pair, job_id, "empty_0")
    os.kill(application(pair, job_id), signal.SIGKILL)
    assert set(pair.ends(job_id, within_s=300).values()) == {"success"}
    logs = pair.guest.home / "logs" / job_id / "guest" / "9999"
    assert (logs / "spark.log").read_text().count("The application is ready.") == 2
