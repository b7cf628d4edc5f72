"""A server that runs and answers, but cannot write to its store: the healthy party ends the job
within the lease and says why, and both agree once the store is back.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pymysql
import pytest

from fedflow.base.errors.parties import PartiesNotReady
from tests.e2e.jobs import empty_job
from tests.e2e.servers import (
    GUEST,
    HOST,
    QUICK,
    ROOT,
    Pair,
    Party,
    refusal_of,
    two_parties,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LEASE_S = 8
SETTINGS = {**QUICK, "FEDFLOW__SCHEDULING__LEASE_S": str(LEASE_S)}
STUCK = "answers, but has not been able to use its store for"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("stores"), settings=SETTINGS) as pair:
        yield pair


@contextmanager
def unwritable(party: Party) -> Iterator[None]:
    """Let no file of a running server grow, as on a full disk; what it reads stays readable."""
    assert party.process is not None
    process = psutil.Process(party.process.pid)
    process.rlimit(psutil.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def running(pair: Pair) -> str:
    pair.wait_connected()
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 60})).job_id
    for site in (GUEST, HOST):
        pair.of(site).wait_executor(job_id, component="empty_0", site=site)
    wait_for(lambda: set(pair.shares(job_id).values()) == {"running"}, "the job to run everywhere")
    return job_id


def ended(party: Party, job_id: str, site: str) -> bool:
    return party.shares(job_id).get(site) == "failed"


def test_a_host_that_cannot_write_is_given_up_within_the_lease_and_named(pair: Pair) -> None:
    job_id = running(pair)
    with unwritable(pair.host):
        wait_for(lambda: ended(pair.guest, job_id, "guest-9999"), "the end")
        ready = pair.host.readiness()
        assert (ready["ready"], ready["store"]) == (False, False)
        assert any(reason.startswith("store: no change can be") for reason in ready["reasons"])
        assert str(pair.host.home) not in str(ready)
        assert "free" in ready["cores"]
        reason = pair.guest.client.job(job_id).reason
        assert reason is not None
        assert f"host 10000 {STUCK}" in reason.message
        shown = pair.guest.client.parties.get("10000")
        assert shown.state != "closed"
        assert shown.last_error == "it answers, but its store cannot be used"
        refused = refusal_of(lambda: pair.guest.client.submit(*empty_job({})))
        assert isinstance(refused, PartiesNotReady)
        assert "10000 cannot take part" in refused.message
    assert set(pair.ends(job_id).values()) == {"failed"}
    pair.wait_connected()
    pair.host.wait_ready()


def test_a_host_gives_up_a_job_whose_initiator_cannot_write(pair: Pair) -> None:
    job_id = running(pair)
    with unwritable(pair.guest):
        wait_for(lambda: ended(pair.host, job_id, "host-10000"), "the end")
        reason = pair.host.client.job(job_id).reason
        assert reason is not None
        assert (reason.code, reason.site) == ("InitiatorLost", "guest-9999")
    assert set(pair.ends(job_id).values()) == {"failed"}
    pair.wait_connected()


@contextmanager
def read_only_mysql(folder: Path) -> Iterator[tuple[dict[str, str], pymysql.Connection]]:
    """Give settings of a database on a private server, and root's connection to that.

    Its user is not exempt from `read_only`, as root is.
    """
    if shutil.which("mariadbd") is None:
        pytest.skip("no mariadbd here")
    folder.mkdir()
    place = urlsplit(mysql_server("start", folder))
    host, port = place.hostname or "", place.port or 0
    try:
        with pymysql.connect(host=host, port=port, user="root", autocommit=True) as root:
            for statement in (
                "CREATE DATABASE stuck",
                "CREATE USER fedflow@'%' IDENTIFIED BY 'word'",
                "CREATE USER fedflow@localhost IDENTIFIED BY 'word'",
                "GRANT ALL ON stuck.* TO fedflow@'%'",
                "GRANT ALL ON stuck.* TO fedflow@localhost",
            ):
                run(root, statement)
            settings = {
                "ENGINE": "mysql", "NAME": "stuck", "HOST": host, "PORT": str(port),
                "USER": "fedflow", "PASSWD": "word",
            }  # fmt: skip
            yield {f"FEDFLOW__DATABASE__{k}": v for k, v in settings.items()}, root
    finally:
        mysql_server("stop", folder)


def mysql_server(verb: str, folder: Path) -> str:
    """Start or stop the private server; it is a child of the process that starts it."""
    words = [sys.executable, "-m", "tests.mysql_server", verb, str(folder)]
    return subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout


def run(connection: pymysql.Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.mysql
def test_a_host_whose_mysql_is_read_only_is_given_up_too(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("mysql")
    with (
        read_only_mysql(folder / "server") as (database, root),
        two_parties(folder, settings=SETTINGS, host_settings=database) as pair,
    ):
        job_id = running(pair)
        run(root, "SET GLOBAL read_only = 1")
        wait_for(lambda: ended(pair.guest, job_id, "guest-9999"), "the end")
        reason = pair.guest.client.job(job_id).reason
        assert reason is not None
        assert f"host 10000 {STUCK}" in reason.message
        ready = pair.host.readiness()
        assert (ready["ready"], ready["store"]) == (False, False)
        run(root, "SET GLOBAL read_only = 0")
        assert set(pair.ends(job_id).values()) == {"failed"}
        pair.host.wait_ready()
        pair.wait_connected()
        pair.wait_idle()
