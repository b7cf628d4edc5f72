"""Which error a failed task is said to have, and for how long the real one is waited for."""

from __future__ import annotations

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.job.dag import Dag
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import PartyTaskView
from fedflow.domain.scheduling.actions import Action, EndJob, SettleTask
from fedflow.domain.scheduling.decide import CAUSE_WAIT_MS, decide
from fedflow.domain.scheduling.views import JobView, SiteView, TaskView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
NOW_MS = 1_800_000_000_000
FOLLOWED = Reason(code="PeerFailed", message="host 10000 stopped taking part", site=GUEST)
CAUSE = Reason(code="ExecutorDied", message="killed by signal 9", site=HOST)
RUNNING = PartyTaskView(status=TaskStatus.RUNNING)


def failed(reason: Reason, since_ms: int = NOW_MS) -> PartyTaskView:
    return PartyTaskView(status=TaskStatus.FAILED, reason=reason, since_ms=since_ms)


def decided(
    guest: PartyTaskView,
    host: PartyTaskView,
    *,
    now_ms: int = NOW_MS,
    stop: StopRequest | None = None,
) -> list[Action]:
    task = TaskView(version=0, status=TaskStatus.RUNNING, parties={GUEST: guest, HOST: host})
    view = JobView(
        job_id="1",
        status=JobStatus.RUNNING,
        dag=Dag(names=("a",), edges=()),
        sites=tuple(
            SiteView(site=s, phase=SitePhase.GRANTED, heard_ms=now_ms) for s in (GUEST, HOST)
        ),
        tasks={"a": task},
        parallelism=1,
        created_ms=NOW_MS,
        timeout_ms=3_600_000,
        create_timeout_ms=10_000,
        lease_ms=60_000,
        stop=stop,
    )
    return decide(view, now_ms)


def test_a_task_that_only_followed_waits_for_the_word_of_the_other_site() -> None:
    assert decided(failed(FOLLOWED), RUNNING) == []
    assert decided(failed(FOLLOWED), RUNNING, now_ms=NOW_MS + CAUSE_WAIT_MS) == []


def test_it_does_not_wait_for_ever() -> None:
    actions = decided(failed(FOLLOWED), RUNNING, now_ms=NOW_MS + CAUSE_WAIT_MS + 1)
    assert actions[0] == SettleTask(
        component="a", version=0, status=TaskStatus.FAILED, reason=FOLLOWED
    )
    assert isinstance(actions[1], EndJob)


@pytest.mark.parametrize("since_ms", [NOW_MS - 5, NOW_MS + 5])
def test_the_cause_is_the_reason_whichever_report_came_first(since_ms: int) -> None:
    settle, end = decided(failed(FOLLOWED), failed(CAUSE, since_ms))
    assert isinstance(settle, SettleTask)
    assert settle.reason == CAUSE
    assert isinstance(end, EndJob)
    assert end.reason is not None
    assert (end.reason.code, end.reason.site) == ("ExecutorDied", HOST)


def test_an_own_error_ends_the_task_at_once() -> None:
    own = Reason(code="BadData", message="no label", site=GUEST)
    assert isinstance(decided(failed(own), RUNNING)[0], SettleTask)


def test_a_stop_is_not_held_up_by_a_site_that_followed_it() -> None:
    stop = StopRequest(
        status=JobStatus.CANCELED, reason=Reason(code="Stopped", message="by a user", site=HOST)
    )
    assert decided(failed(FOLLOWED), RUNNING, stop=stop) == [
        EndJob(status=JobStatus.CANCELED, reason=stop.reason)
    ]
