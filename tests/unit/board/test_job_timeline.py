"""The time line of a job: attempts from records and history, epochs, bars, ticks."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.board.presenters import timeline
from fedflow.board.presenters.attempts import Attempt, Epoch, Phase, attempts, epochs
from fedflow.domain.reason import Reason
from fedflow.domain.scheduling.history import Event, Subject
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.board.seeds import GUEST, HOST, job
from tests.unit.board.test_job_dag import task

T0 = 1_000_000


def event(subject: Subject, at: int, old: str, new: str, **more: Any) -> Event:
    return Event(job_id="1", subject=subject, at_ms=T0 + at, old=old, new=new, **more)


def attempt(component: str, site: Site = GUEST, **more: Any) -> Attempt:
    made: dict[str, Any] = {"component": component, "version": 0, "site": site}
    return Attempt(**{**made, **more})


ONE = (
    Epoch(
        number=0,
        start_ms=T0,
        end_ms=T0 + 10_000,
        phases=(
            Phase(status="ready", start_ms=T0, end_ms=T0 + 100),
            Phase(status="waiting", start_ms=T0 + 100, end_ms=T0 + 1_000),
            Phase(status="running", start_ms=T0 + 1_000, end_ms=T0 + 10_000),
            Phase(status="success", start_ms=T0 + 10_000),
        ),
    ),
)


# --- attempts -------------------------------------------------------------------------------------


def test_earlier_attempts_of_other_sites_come_from_the_history() -> None:
    failed = Reason(code="BadData", message="no", site=HOST)
    of_host = {"site": HOST, "component": "a"}
    told = [
        event(Subject.TASK, 1, "waiting", "running", component="a", version=0),
        event(Subject.REPORT, 2, "waiting", "running", version=0, **of_host),
        event(Subject.REPORT, 5, "running", "failed", version=0, reason=failed, **of_host),
        event(Subject.TASK, 7, "waiting", "running", component="a", version=1),
        event(Subject.REPORT, 8, "waiting", "running", version=1, **of_host),
    ]
    latest = task("a", HOST, TaskStatus.RUNNING, version=1, started_ms=T0 + 7)
    found = {a.version: a for a in attempts([latest], told)}
    first, second = found[0], found[1]
    assert (first.status, first.asked_ms, first.began_ms, first.ended_ms) == (
        "failed", T0 + 1, T0 + 2, T0 + 5
    )  # fmt: skip
    assert (first.reason, first.because) == (failed, "")
    assert (second.status, second.began_ms, second.ended_ms) == ("running", T0 + 8, None)


def test_an_earlier_attempt_of_a_silent_site_ended_with_its_task() -> None:
    died = Reason(code="ExecutorDied", message="killed", site=GUEST)
    told = [
        event(Subject.TASK, 1, "waiting", "running", component="a", version=0),
        event(Subject.REPORT, 2, "waiting", "running", site=HOST, component="a", version=0),
        event(Subject.TASK, 5, "running", "failed", component="a", version=0, reason=died),
    ]
    silent, again = sorted(
        attempts([task("a", HOST, TaskStatus.RUNNING, version=1, started_ms=T0 + 7)], told),
        key=lambda a: a.version,
    )
    assert (silent.status, silent.began_ms, silent.ended_ms) == ("failed", T0 + 2, T0 + 5)
    assert (silent.shown, silent.because) == ("stopped", "guest 9999")  # it did nothing wrong
    assert again.status == "running"
    (alone,) = attempts([], told)
    assert alone.status == "running"  # its process may still be there


def test_a_late_event_does_not_open_an_attempt_that_has_ended() -> None:
    ended = task("a", GUEST, TaskStatus.SUCCESS, started_ms=T0, ended_ms=T0 + 9)
    told = [
        event(Subject.PARTY_TASK, 1, "waiting", "running", site=GUEST, component="a", version=0)
    ]
    (found,) = attempts([ended], told)
    assert (found.status, found.began_ms, found.ended_ms) == ("success", T0 + 1, T0 + 9)


# --- epochs ---------------------------------------------------------------------------------------


def test_a_rerun_begins_an_epoch_and_the_last_one_goes_on_until_now() -> None:
    moves = [("", "ready"), ("ready", "waiting"), ("waiting", "running"), ("running", "failed"),
             ("failed", "ready"), ("ready", "waiting"), ("waiting", "running")]  # fmt: skip
    told = [
        event(Subject.JOB, 10 * i, old, new, epoch=int(i >= 4))
        for i, (old, new) in enumerate(moves)
    ]
    found = epochs(job(epoch=1, status=JobStatus.RUNNING), told, T0 + 500)
    assert [(e.number, e.start_ms - T0, e.end_ms - T0) for e in found] == [(0, 0, 30), (1, 40, 500)]
    assert [p.status for p in found[0].phases] == ["ready", "waiting", "running", "failed"]
    assert found[1].phases[-1].end_ms is None


def test_a_site_without_the_initiator_reads_its_epochs_from_its_own_half() -> None:
    told = [
        event(Subject.SHARE, 0, "", "waiting", site=HOST),
        event(Subject.SHARE, 5, "waiting", "running", site=HOST),
        event(Subject.SHARE, 9, "running", "success", site=HOST),
    ]
    (found,) = epochs(job(), told, T0 + 500)
    assert (found.start_ms, found.end_ms) == (T0, T0 + 9)


@pytest.mark.parametrize("told", [[], [event(Subject.SHARE, 0, "", "success", site=GUEST)]])
def test_a_job_whose_history_was_forgotten_has_the_times_that_are_stored(told: list[Event]) -> None:
    of = job()
    (found,) = epochs(of, told, T0)
    assert (found.start_ms, found.end_ms) == (of.created_ms, of.ended_ms)
    assert [p.status for p in found.phases] == ["waiting", "running", "success"]


def test_a_job_that_never_started_has_an_axis_too() -> None:
    of = job(status=JobStatus.WAITING, started_ms=None, ended_ms=None)
    (found,) = epochs(of, [], of.created_ms + 5_000)
    drawn = timeline.by_component([], [found], order=("a",), upstream={}, now_ms=found.end_ms)
    assert found.end_ms - found.start_ms == 5_000
    assert [bar.what for bar in drawn.groups[0].lanes[0].bars] == ["wait"]


# --- bars -----------------------------------------------------------------------------------------


def test_a_component_waits_starts_and_runs_in_its_lane_at_each_site() -> None:
    found = [
        attempt("a", status="success", asked_ms=T0 + 1_000, began_ms=T0 + 1_500,
                ended_ms=T0 + 4_000),
        attempt("b", status="failed", asked_ms=T0 + 6_000, began_ms=T0 + 6_500,
                ended_ms=T0 + 9_000),
        attempt("b", HOST, status="running", asked_ms=T0 + 6_000, began_ms=T0 + 6_500),
    ]  # fmt: skip
    drawn = timeline.by_component(
        found, ONE, order=("a", "b"), upstream={"b": ("a",)}, now_ms=T0 + 10_000
    )
    own, first, second = drawn.groups
    assert [bar.what for bar in own.lanes[0].bars] == ["wait", "wait", "success"]
    assert [[bar.what for bar in lane.bars] for lane in first.lanes] == [
        ["wait", "start", "success"]
    ]
    assert [lane.site for lane in second.lanes] == [GUEST, HOST]
    wait = second.lanes[0].bars[0]
    assert (wait.what, wait.start_ms, wait.end_ms) == ("wait", T0 + 4_000, T0 + 6_000)
    running = second.lanes[1].bars[-1]
    assert (running.what, running.end_ms) == ("running", None)
    ends = [bar.x + bar.width for lane in second.lanes for bar in lane.bars]
    assert max(ends) <= drawn.width + 3
    assert drawn.height == sum(group.height for group in drawn.groups)


def test_what_has_no_inputs_yet_does_not_wait_for_resources() -> None:
    found = [attempt("a", status="running", asked_ms=T0, began_ms=T0), attempt("b")]
    drawn = timeline.by_component(
        found, ONE, order=("a", "b"), upstream={"b": ("a",)}, now_ms=T0 + 9_000
    )
    assert drawn.groups[2].lanes[0].bars == ()


def test_attempts_of_one_run_have_a_lane_each_and_none_waits_before_the_last_has_ended() -> None:
    times = {0: (1_000, 1_200, 3_000), 1: (5_000, 5_200, 6_000)}
    found = [
        attempt("a", site, version=version, status="failed", asked_ms=T0 + asked,
                began_ms=None if site == HOST and version else T0 + began, ended_ms=T0 + ended)
        for site in (GUEST, HOST) for version, (asked, began, ended) in times.items()
    ]  # fmt: skip
    drawn = timeline.by_component(found, ONE, order=("a",), upstream={}, now_ms=T0 + 9_000)
    lanes = drawn.groups[1].lanes
    assert [(lane.site, lane.version) for lane in lanes] == [
        (GUEST, 0), (GUEST, 1), (HOST, 0), (HOST, 1)
    ]  # fmt: skip
    assert len({lane.y for lane in lanes}) == 4
    by_lane = {(lane.site, lane.version): lane.bars for lane in lanes}
    wait = by_lane[GUEST, 1][0]
    assert (wait.what, wait.start_ms, wait.end_ms) == ("wait", T0 + 3_000, T0 + 5_000)
    end = by_lane[HOST, 1][-1]  # its process was never seen, but its end was
    assert (end.what, end.start_ms, end.end_ms) == ("failed", T0 + 6_000, T0 + 6_000)
    (_, guest, host) = timeline.by_site(found, ONE, now_ms=T0 + 9_000).groups
    for group in (guest, host):
        (lane,) = group.lanes
        assert [bar.what for bar in lane.bars if bar.height > 6] == ["failed", "failed"]


def test_a_rerun_needs_no_lane_of_its_own() -> None:
    later = Epoch(number=1, start_ms=T0 + 20_000, end_ms=T0 + 30_000, phases=ONE[0].phases)
    found = [
        attempt("a", status="failed", asked_ms=T0 + 1_000, ended_ms=T0 + 2_000),
        attempt("a", version=1, status="success", asked_ms=T0 + 21_000, ended_ms=T0 + 22_000),
    ]
    drawn = timeline.by_component(found, (*ONE, later), order=("a",), upstream={}, now_ms=T0)
    (lane,) = drawn.groups[1].lanes
    assert lane.version is None


def test_results_that_were_taken_over_took_no_time() -> None:
    found = [attempt("a", status="success", inherited_from="j0", ended_ms=T0)]
    drawn = timeline.by_component(found, ONE, order=("a",), upstream={}, now_ms=T0)
    assert drawn.groups[1].lanes[0].bars == ()
    assert drawn.attempts == tuple(found)


def test_what_was_canceled_before_it_began_has_its_mark() -> None:
    found = [attempt("a", status="canceled", ended_ms=T0 + 5_000)]
    drawn = timeline.by_component(found, ONE, order=("a",), upstream={"a": ("x",)}, now_ms=T0)
    assert [bar.what for bar in drawn.groups[1].lanes[0].bars] == ["canceled"]


def test_a_party_has_as_many_lanes_as_it_ran_executors_at_once() -> None:
    def ran(name: str, begin: int, end: int) -> Attempt:
        return attempt(name, status="success", began_ms=T0 + begin, ended_ms=T0 + end)

    found = [
        ran("a", 0, 1_000),
        ran("b", 500, 2_000),
        ran("c", 1_000, 3_000),
        ran("d", 2_500, 4_000),
    ]
    drawn = timeline.by_site([*found, attempt("e")], ONE, now_ms=T0 + 10_000)
    (_, group) = drawn.groups
    names = [[bar.attempt.component for bar in lane.bars if bar.attempt] for lane in group.lanes]
    assert names == [["a", "c"], ["b", "d"]]
    assert [lane.place for lane in group.lanes] == [1, 2]


def test_epochs_stand_beside_each_other_without_the_days_between_them() -> None:
    day = 86_400_000
    runs = [
        ONE[0], Epoch(number=1, start_ms=T0 + day, end_ms=T0 + day + 10_000, phases=ONE[0].phases)
    ]  # fmt: skip
    first, second = timeline.pieces(runs, timeline.WIDTH)
    assert first.width == second.width
    assert second.x > first.x + first.width
    assert second.x + second.width <= timeline.WIDTH + 1
    assert second.at(T0 + day) == second.x


@pytest.mark.parametrize("span_ms", [1, 7, 999, 61_000, 3_600_000, 90_000_000, 10**12])
@pytest.mark.parametrize("zoom", timeline.ZOOMS)
def test_an_axis_has_a_sensible_number_of_ticks(span_ms: int, zoom: int) -> None:
    run = Epoch(number=0, start_ms=0, end_ms=span_ms, phases=())
    (piece,) = timeline.pieces([run], timeline.WIDTH * zoom)
    assert 1 <= len(piece.ticks) <= 10 * zoom + 1
    gaps = {round(b.x - a.x) for a, b in zip(piece.ticks, piece.ticks[1:], strict=False)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_times_before_and_after_an_epoch_stay_on_the_axis() -> None:
    (piece,) = timeline.pieces(ONE, timeline.WIDTH)
    assert piece.at(0) == piece.x
    assert piece.at(T0 * 9) == piece.x + piece.width
