"""What the tab *Trace* of a job shows."""

from __future__ import annotations

from fedflow.board.presenters.job_trace import MOST_VALUES, trace_view
from fedflow.wire.api.traces import JobTrace, PeerTraffic, SessionTrace, TracedValue


def session(site: str, *values: TracedValue) -> SessionTrace:
    peer = PeerTraffic(site="arbiter-1", sent=2, sent_bytes=30)
    return SessionTrace(
        component="lr_0", version=0, site=site, is_on=False, peers=(peer,), values=values
    )


def value(kind: str, size: int = 0, waited_s: float = 0.0) -> TracedValue:
    return TracedValue(
        time_ms=1, kind=kind, site="arbiter-1", name="w", size=size, waited_s=waited_s
    )


def test_a_site_sees_its_own_sessions_only() -> None:
    other = session("host-2", value("sent", 9))
    found = trace_view(JobTrace(sessions=(session("guest-1"), other)), "guest-1")
    assert [line.peer.sent_bytes for line in found.lines] == [30]
    assert (found.is_on, found.recorded, found.largest) == (False, 0, ())


def test_the_largest_and_the_longest_come_first() -> None:
    sizes = [value("sent", size) for size in range(30)]
    waits = [value("received", 99, waited_s=seconds) for seconds in (0.0, 1.0, 3.0)]
    found = trace_view(JobTrace(sessions=(session("guest-1", *sizes, *waits),)), "guest-1")
    assert [line.value.size for line in found.largest] == list(range(29, 29 - MOST_VALUES, -1))
    assert [line.value.waited_s for line in found.longest] == [3.0, 1.0]


def test_counts_are_shown_though_no_value_was_recorded() -> None:
    found = trace_view(JobTrace(sessions=(session("guest-1"),)), "guest-1")
    assert (len(found.lines), found.is_on) == (1, False)


def test_a_job_is_recorded_before_its_first_session_begins() -> None:
    assert trace_view(JobTrace(is_on=True), "guest-1").is_on
