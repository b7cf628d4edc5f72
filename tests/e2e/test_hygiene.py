"""Descriptors and threads of two servers do not grow with the number of jobs they have run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.e2e.jobs import empty_job
from tests.e2e.servers import Pair, Party, two_parties, wait_for, zygote_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

AT_ONCE = 8  #: jobs
SLACK = 8  #: connections and threads that a busy moment more may need


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("hygiene")) as pair:
        yield pair


def run_jobs(pair: Pair, count: int) -> None:
    """Run small jobs, some at once, and wait until nothing of them is left."""

    def run(_: int) -> str:
        job = pair.guest.client.submit(*empty_job({}))
        return pair.guest.client.wait(job.job_id, timeout_s=300).status

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert set(pool.map(run, range(count))) == {"success"}
    pair.wait_idle()


def held(party: Party) -> tuple[int, int]:
    """Return how many descriptors and threads a server has."""
    assert party.process is not None
    process = psutil.Process(party.process.pid)
    return process.num_fds(), process.num_threads()


@pytest.mark.parametrize(
    ("first", "second"), [(40, 80), pytest.param(100, 200, marks=pytest.mark.heavy)]
)
def test_descriptors_and_threads_stay_as_many_as_after_the_first_jobs(
    pair: Pair, first: int, second: int
) -> None:
    run_jobs(pair, first)
    before = [held(party) for party in pair.all]
    run_jobs(pair, second - first)
    after = [held(party) for party in pair.all]
    for (descriptors, threads), (more_descriptors, more_threads) in zip(before, after, strict=True):
        assert more_descriptors <= descriptors + SLACK, (before, after)
        assert more_threads <= threads + SLACK, (before, after)


def test_a_party_is_idle_only_when_no_process_is_to_come(pair: Pair) -> None:
    guest = pair.guest
    run_jobs(pair, 1)  # so that the server knows the parameters, and does not ask the zygote
    zygote = zygote_of(guest)
    with ThreadPoolExecutor(1) as pool:
        zygote.suspend()
        try:
            job_id = guest.client.submit(*empty_job({})).job_id
            wait_for(lambda: any((guest.home / "jobs" / job_id).rglob("spec-*.json")), "a launch")
            guest.client.stop(job_id)
            assert set(pair.ends(job_id).values()) == {"canceled"}
            idle = pool.submit(guest.wait_idle, within_s=60.0)
            with pytest.raises(TimeoutError):
                idle.result(3.0)
        finally:
            zygote.resume()
        idle.result()
    assert not guest.executors(job_id)
