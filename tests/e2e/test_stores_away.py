"""A server that runs and answers, but cannot write to its store: the healthy party ends the job
within the lease and says why, and both agree once the store is back.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from fedflow.base.errors.parties import PartiesNotReady
from tests.e2e.jobs import empty_job
from tests.e2e.servers import GUEST, HOST, QUICK, Pair, Party, refusal_of, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

LEASE_S = 8
STUCK = "answers, but has not been able to use its store for"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    settings = {**QUICK, "FEDFLOW__SCHEDULING__LEASE_S": str(LEASE_S)}
    with two_parties(tmp_path_factory.mktemp("stores"), settings=settings) as pair:
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
        wait_for(lambda: ended(pair.guest, job_id, "guest-9999"), "the end", within_s=4 * LEASE_S)
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
        wait_for(lambda: ended(pair.host, job_id, "host-10000"), "the end", within_s=4 * LEASE_S)
        reason = pair.host.client.job(job_id).reason
        assert reason is not None
        assert (reason.code, reason.site) == ("InitiatorLost", "guest-9999")
    assert set(pair.ends(job_id).values()) == {"failed"}
    pair.wait_connected()
