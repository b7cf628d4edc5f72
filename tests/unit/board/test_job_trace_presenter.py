"""What the tab *Ledger* of a job shows."""

from __future__ import annotations

from fedflow.board.presenters.job_trace import MOST_VALUES, trace_view
from fedflow.wire.api.ledgers import JobLedger, MessageCount, PeerCounts, TaskLedger
from fedflow.wire.api.traces import JobTrace, SessionTrace, TracedValue

NONE = JobLedger(job_id="7")


def task(site: str, size: int, *, seconds: float = 58.0) -> TaskLedger:
    sent = MessageCount(name="w", is_sent=True, calls=2, size_bytes=size, first_ms=1, last_ms=2)
    peers = (
        PeerCounts(site="arbiter-1", receive_s=1.0, messages=(sent,)),
        PeerCounts(site="host-2", receive_s=41.2),
    )
    return TaskLedger(
        component="lr_0", version=0, site=site, status="success", seconds=seconds, peers=peers
    )


def session(site: str, *values: TracedValue) -> SessionTrace:
    return SessionTrace(component="lr_0", version=0, site=site, is_on=False, values=values)


def value(kind: str, size: int = 0, waited_s: float = 0.0) -> TracedValue:
    return TracedValue(
        time_ms=1, kind=kind, site="arbiter-1", name="w", size=size, waited_s=waited_s
    )


def test_a_site_sees_its_own_ledger_and_values_only() -> None:
    other = session("host-2", value("sent", 9))
    ledger = JobLedger(job_id="7", tasks=(task("guest-1", 30), task("host-2", 40)))
    found = trace_view(JobTrace(sessions=(session("guest-1"), other)), ledger, "guest-1")
    assert [line.message.size_bytes for line in found.lines] == [30]
    assert (found.is_on, found.recorded, found.largest) == (False, 0, ())


def test_the_peer_that_was_waited_for_longest_is_named_with_its_share() -> None:
    ledger = JobLedger(job_id="7", tasks=(task("guest-1", 1), task("guest-1", 1, seconds=0.0)))
    (wait,) = trace_view(JobTrace(), ledger, "guest-1").waits
    assert (wait.component, wait.peer, wait.share, wait.seconds) == ("lr_0", "host-2", 71, 58.0)


def test_the_largest_and_the_longest_come_first() -> None:
    sizes = [value("sent", size) for size in range(30)]
    waits = [value("received", 99, waited_s=seconds) for seconds in (0.0, 1.0, 3.0)]
    found = trace_view(JobTrace(sessions=(session("guest-1", *sizes, *waits),)), NONE, "guest-1")
    assert [line.value.size for line in found.largest] == list(range(29, 29 - MOST_VALUES, -1))
    assert [line.value.waited_s for line in found.longest] == [3.0, 1.0]


def test_a_job_is_recorded_before_its_first_session_begins() -> None:
    assert trace_view(JobTrace(is_on=True), NONE, "guest-1").is_on
