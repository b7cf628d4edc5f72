"""MySQL connections that break all the time: jobs end equally, and the servers keep answering."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import pymysql
import pytest

from fedflow.base.clock import pause
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.errors.store import StoreUnavailable
from tests.e2e.jobs import Json, empty_job, example, upload_data
from tests.e2e.servers import QUICK, Pair, mysql_database, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.mysql, pytest.mark.timeout(600)]

KILL_PAUSE_S = 0.5
MOST_KILLS = 200  #: so that a machine slower than their pause ends jobs too
FINAL = {"success", "failed", "canceled", "timeout"}


class Killer:
    """Kills every connection to some databases, often; the database server lives on."""

    def __init__(self, *databases: dict[str, str]) -> None:
        one = databases[0]
        self._names = [d["FEDFLOW__DATABASE__NAME"] for d in databases]
        self._connection = pymysql.connect(
            host=one["FEDFLOW__DATABASE__HOST"],
            port=int(one["FEDFLOW__DATABASE__PORT"]),
            user=one["FEDFLOW__DATABASE__USER"],
            password=one["FEDFLOW__DATABASE__PASSWD"].strip('"'),
            autocommit=True,
        )
        self.killed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Kill until the block ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            self._connection.close()

    def _run(self) -> None:
        while self.killed < MOST_KILLS and not pause(KILL_PAUSE_S, self._stop):
            with self._connection.cursor() as cursor:
                cursor.execute(
                    "SELECT id FROM information_schema.processlist WHERE db IN %s", (self._names,)
                )
                for (number,) in cursor.fetchall():
                    with suppress(pymysql.err.OperationalError):  # it is gone already
                        cursor.execute("KILL %s", (number,))
                        self.killed += 1


def submitted(pair: Pair, job: tuple[Json, Json]) -> str:
    """Return the id of a job that was submitted, if need be more than once."""

    def submit() -> str | None:
        with suppress(StoreUnavailable, SubmitRefused):
            return pair.guest.client.submit(*job).job_id
        return None

    return wait_for(submit, "a submit between two broken connections")


def has_ended(pair: Pair, job_id: str) -> bool:
    """Tell whether every site of a job shows its end; a server that cannot look tells nothing."""
    shares = pair.shares(job_id)
    return {"guest-9999", "host-10000"} <= shares.keys() and set(shares.values()) <= FINAL


def test_jobs_succeed_everywhere_while_database_connections_break(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with ExitStack() as stack:
        guest, host = (stack.enter_context(mysql_database()) for _ in range(2))
        folder = tmp_path_factory.mktemp("connections")
        pair = stack.enter_context(
            two_parties(folder, settings=QUICK, guest_settings=guest, host_settings=host)
        )
        upload_data(pair)
        killer = Killer(guest, host)
        with killer.at_work():
            chain = submitted(pair, empty_job(*[{"sleep_s": 0.2}] * 6))
            trained = submitted(pair, example(iterations=4))
            for job_id in (chain, trained):
                wait_for(partial(has_ended, pair, job_id), f"the end of {job_id}", within_s=120)
        assert killer.killed >= 10
        for job_id in (chain, trained):
            assert set(pair.ends(job_id).values()) == {"success"}, pair.views(job_id)
        for row in pair.guest.client.jobs(50).jobs:  # also those whose submit was not answered
            pair.ends(row.job_id)
        pair.wait_idle()
