"""Views of a running task are made anew as often as they are cheap."""

from __future__ import annotations

from dataclasses import replace

from fedflow.board.metric_pace import CHEAP, MetricPace
from fedflow.domain.states import TaskStatus
from tests.board import seeds
from tests.unit.app.fakes import FakeClock

TASK = replace(seeds.task(seeds.job(1), "a", "Reader"), party_status=TaskStatus.RUNNING)
ENDED = replace(TASK, party_status=TaskStatus.SUCCESS)
OTHER = replace(TASK, key=replace(TASK.key, version=TASK.key.version + 1))


def test_views_of_many_points_are_shown_for_a_while() -> None:
    clock = FakeClock()
    pace = MetricPace(clock)
    assert pace.mark_shown(TASK, 1) == 1
    pace.note(TASK, 1, points=50_000)
    for passed_ms, shown in ((0, 1), (49_000, 1), (2_000, 7)):
        clock.ms += passed_ms
        assert pace.mark_shown(TASK, 7) == shown


def test_views_of_few_points_are_never_old() -> None:
    pace = MetricPace(FakeClock())
    pace.note(TASK, 1, points=CHEAP)
    assert pace.mark_shown(TASK, 2) == 2


def test_the_end_of_a_task_and_another_attempt_are_shown_at_once() -> None:
    pace = MetricPace(FakeClock())
    pace.note(TASK, 1, points=50_000)
    assert pace.mark_shown(ENDED, 2) == 2
    assert pace.mark_shown(OTHER, 2) == 2


def test_the_views_that_were_made_last_count() -> None:
    pace = MetricPace(FakeClock())
    for mark in (1, 2):
        pace.note(TASK, mark, points=50_000)
    assert pace.mark_shown(TASK, 3) == 2
