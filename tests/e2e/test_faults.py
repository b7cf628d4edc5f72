"""kill -9 of servers and executors at every stage, peers that are away, stops from either party.

Whatever happens: both parties end a job equally and in bounded time, a failure has a reason that
both can read, no process is left, and all cores are free again.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.errors.parties import PartiesNotReady
from fedflow.domain.site import Site
from fedflow.wire.api.jobs import JobStatusView
from tests.e2e.jobs import empty_job, example, upload_data
from tests.e2e.servers import (
    ARBITER,
    GUEST,
    HOST,
    HOST_ID,
    QUICK,
    Pair,
    Party,
    pass_time,
    refusal_of,
    standalone,
    two_parties,
    wait_for,
    zygote_of,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LEASE_S = 20
STAGES = ("submit", "reader_0", "intersection_0", "hetero_lr_0")
QUICK_PLACES = {("guest", "submit"), ("host", "intersection_0"), ("guest", "hetero_lr_0")}
PLACES = [
    pytest.param(
        which, stage, id=f"{which}-{stage}",
        marks=[] if (which, stage) in QUICK_PLACES else [pytest.mark.heavy],
    )
    for which in ("guest", "host")
    for stage in STAGES
]  # fmt: skip
SETTINGS = {
    **QUICK,
    "FEDFLOW__SCHEDULING__LEASE_S": str(LEASE_S),
    "FEDFLOW__SCHEDULING__CREATE_TIMEOUT_S": "4",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("faults"), settings=SETTINGS) as pair:
        upload_data(pair)
        yield pair


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    """Both servers, up, connected and idle before and after each test."""
    yield servers
    for party in servers.all:
        if party.process is None:
            party.start().wait_ready()
    servers.wait_connected()
    servers.wait_idle()


def submit(pair: Pair, *, iterations: int = 4) -> str:
    return pair.guest.client.submit(*example(iterations=iterations)).job_id


def wait_stage(pair: Pair, job_id: str, stage: str, site: Site) -> None:
    """Wait until a stage has begun at a site; `submit` is reached at once."""
    if stage != "submit":
        wait_for(lambda: begun(pair, job_id, stage, site), f"{stage} at {site}", within_s=60)


def wait_known(pair: Pair, job_id: str, stage: str, site: Site) -> int:
    """Return the pid of an executor at work that its server knows, so that a new one adopts it."""

    def runs() -> bool:
        tasks = pair.of(site).client.job(job_id).tasks
        return any((t.component, t.site, t.status) == (stage, site.key, "running") for t in tasks)

    wait_for(runs, f"{stage} at {site} to run")
    return pair.of(site).wait_executor(job_id, component=stage, site=site)


def begun(pair: Pair, job_id: str, stage: str, site: Site) -> bool:
    """Tell whether an executor is at work, or was: some stages last only milliseconds."""
    party = pair.of(site)
    if party.executors(job_id, component=stage, site=site):
        return True
    tasks = party.client.job(job_id).tasks
    return any((t.component, t.site) == (stage, site.key) and t.status != "waiting" for t in tasks)


def _cause(view: JobStatusView) -> tuple[str, str | None] | None:
    return None if view.reason is None else (view.reason.code, view.reason.site)


def agreed(pair: Pair, job_id: str, *, within_s: float = 120.0) -> JobStatusView:
    """Return the job once it has ended at both parties, with the same status and reason.

    Of a reason's sentence other parties may see less, see `domain/outside.py`.
    """
    pair.ends(job_id, within_s=within_s)
    first, *others = pair.views(job_id)
    for other in others:
        assert (other.status, _cause(other)) == (first.status, _cause(first))
    if not first.succeeded:
        assert first.reason is not None
        assert len(first.reason.message) > 10
    for view in (first, *others):
        unfinished = [t for t in view.tasks if t.status in ("waiting", "running")]
        assert not unfinished, f"shown as unfinished in an ended job: {unfinished}"
    return first


# --- servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "stage"), PLACES)
def test_the_parties_agree_after_a_server_was_killed_and_started_again(
    pair: Pair, which: str, stage: str
) -> None:
    job_id = submit(pair)
    wait_stage(pair, job_id, stage, GUEST if which == "guest" else HOST)
    victim: Party = getattr(pair, which)
    victim.restart(after_s=1.0)
    agreed(pair, job_id)


def test_the_parties_agree_after_both_servers_were_killed(pair: Pair) -> None:
    job_id = submit(pair)
    wait_stage(pair, job_id, "hetero_lr_0", HOST)
    for party in pair.all:
        party.kill()
    pass_time(0.5)
    for party in pair.all:
        party.start()
    for party in pair.all:
        party.wait_ready()
    agreed(pair, job_id)


def test_a_job_that_exchanges_nothing_survives_the_death_of_any_server(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 20.0}, {})).job_id
    for party, site in ((pair.host, HOST), (pair.guest, GUEST)):
        party.wait_executor(job_id, component="empty_0", site=site)
        party.restart(after_s=0.2)
    assert agreed(pair, job_id).succeeded


@pytest.mark.heavy
def test_a_standalone_server_ends_its_job_after_it_was_killed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with standalone(tmp_path_factory.mktemp("alone"), settings=SETTINGS) as pair:
        upload_data(pair)
        job_id = submit(pair)
        wait_stage(pair, job_id, "hetero_lr_0", ARBITER)
        pair.guest.restart(after_s=0.5)
        agreed(pair, job_id)
        pair.wait_idle()


def test_a_host_that_stays_away_is_given_up_and_agrees_when_it_returns(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    wait_stage(pair, job_id, "empty_0", HOST)
    pair.host.kill()
    view = pair.guest.client.wait(job_id, timeout_s=LEASE_S + 100)
    assert (view.status, view.reason.code) == ("failed", "PartyUnreachable")
    assert re.match("host 10000 (has not answered|could not be reached)", view.reason.message)
    pair.guest.wait_idle()
    assert pair.host.executors(job_id), "the host's executor lives on without its server"
    pair.host.start().wait_ready()
    assert agreed(pair, job_id).reason.code == "PartyUnreachable"


@pytest.mark.heavy
def test_a_host_ends_a_job_whose_initiator_stays_away(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    wait_stage(pair, job_id, "empty_0", GUEST)
    wait_stage(pair, job_id, "empty_0", HOST)
    pair.guest.kill()
    view = pair.host.client.wait(job_id, timeout_s=LEASE_S + 100)
    assert (view.status, view.reason.code) == ("failed", "InitiatorLost")
    assert "guest 9999" in view.reason.message
    pair.host.wait_idle()
    pair.guest.start().wait_ready()
    pair.ends(job_id)
    assert pair.guest.client.job(job_id).reason is not None


# --- executors ------------------------------------------------------------------------------------


def killed(pair: Pair, site: Site, stage: str) -> tuple[str, int]:
    """Kill an executor at work; return its job and when, ms. One that was faster is let go."""
    for _ in range(10):
        job_id = submit(pair)
        wait_stage(pair, job_id, stage, site)
        at_ms = SystemClock().now_ms()
        for pid in pair.of(site).executors(job_id, component=stage, site=site):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        view = agreed(pair, job_id)
        if not view.succeeded:
            return job_id, at_ms
    raise AssertionError(f"{stage} at {site} always ended before it could be killed")


@pytest.mark.parametrize(
    ("site", "stage"),
    [
        (GUEST, "intersection_0"),
        (GUEST, "hetero_lr_0"),
        (HOST, "intersection_0"),
        (HOST, "hetero_lr_0"),
        (ARBITER, "hetero_lr_0"),
    ],
    ids=str,
)
def test_a_killed_executor_ends_the_job_everywhere_with_its_name(
    pair: Pair, site: Site, stage: str, record_property: Callable[[str, Any], None]
) -> None:
    job_id, at_ms = killed(pair, site, stage)
    for view in pair.views(job_id):
        assert view.status == "failed"
        assert (view.reason.code, view.reason.site) == ("ExecutorDied", site.key)
        assert f"{stage} at {site}" in view.reason.message
        assert "killed by signal 9" in view.reason.message
        record_property("ended_after_ms", view.ended_ms - at_ms)
        assert view.ended_ms - at_ms < 60_000
    own = pair.of(site).client.job(job_id)
    assert own.first_error is not None
    assert (own.first_error.component, own.first_error.site) == (stage, site.key)


def test_an_executor_that_died_while_its_server_was_away_is_noticed(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    pid = wait_known(pair, job_id, "empty_0", HOST)
    pair.host.kill()
    os.kill(pid, signal.SIGKILL)
    pair.host.start().wait_ready()
    view = agreed(pair, job_id)
    assert (view.status, view.reason.code, view.reason.site) == (
        "failed", "ExecutorDied", HOST.key,
    )  # fmt: skip


def test_a_job_survives_the_death_of_the_zygote(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 1.5}, {})).job_id
    pair.guest.wait_executor(job_id, component="empty_0", site=GUEST)
    zygote = zygote_of(pair.guest)
    zygote.kill()
    assert agreed(pair, job_id).succeeded
    wait_for(lambda: zygote_of(pair.guest).pid != zygote.pid, "a new zygote")


# --- stops, peers that are away -------------------------------------------------------------------


@pytest.mark.parametrize(("which", "stage"), PLACES)
def test_a_job_is_canceled_everywhere_from_either_party(pair: Pair, which: str, stage: str) -> None:
    job_id = submit(pair, iterations=100)  # so that it does not end by itself before
    wait_stage(pair, job_id, stage, GUEST if which == "guest" else HOST)
    assert not getattr(pair, which).client.stop(job_id).had_ended
    view = agreed(pair, job_id)
    assert (view.status, view.reason.code) == ("canceled", "Stopped")
    assert view.reason.site in (("guest-9999",) if which == "guest" else (HOST.key, ARBITER.key))


def test_a_stop_of_an_ended_job_changes_nothing(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({})).job_id
    assert agreed(pair, job_id).succeeded
    for party in pair.all:
        assert party.client.stop(job_id).status == "success"
    assert agreed(pair, job_id).succeeded


def test_a_submit_while_the_peer_is_away_is_refused_and_leaves_nothing(pair: Pair) -> None:
    pair.host.stop()
    refused = refusal_of(lambda: pair.guest.client.submit(*empty_job({})))
    assert isinstance(refused, (PartiesNotReady, SubmitRefused))  # it may have answered just before
    assert "10000" in refused.message
    refused = refusal_of(lambda: pair.guest.client.submit(*empty_job({})))
    assert isinstance(refused, PartiesNotReady)
    assert "9999 cannot reach 10000 at 127.0.0.1:" in refused.message
    calls = pair.guest.client.parties
    wait_for(lambda: calls.ping(HOST_ID).party.state != "closed", "the circuit to open")
    assert [p.state for p in calls.all()] in (["open"], ["half_open"])  # a probe may be under way
    pair.guest.wait_idle()
    rows = pair.guest.post("/v1/job/query", {"role": "guest", "status": "failed"})["data"]
    assert rows[0]["f_tag"] == "submit_failed"  # the newest
    listed = pair.guest.client.jobs(100).jobs
    assert rows[0]["f_job_id"] not in {job.job_id for job in listed}
    pair.host.start().wait_ready()
    pair.wait_connected()
    assert [p.state for p in calls.all()] == ["closed"]
    job_id = pair.guest.client.submit(*empty_job({})).job_id
    assert agreed(pair, job_id).succeeded


def test_a_job_stopped_while_a_party_is_away_ends_there_when_it_returns(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    wait_stage(pair, job_id, "empty_0", HOST)
    pair.host.kill()
    assert not pair.guest.client.stop(job_id).had_ended
    wait_for(lambda: pair.guest.client.job(job_id).status == "canceled", "the end at the guest")
    pair.host.start().wait_ready()
    assert agreed(pair, job_id).status == "canceled"
