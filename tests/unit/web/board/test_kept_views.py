"""Views of a running task are made anew as often as they are cheap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedflow.domain.records import Metric
from fedflow.domain.states import TaskStatus
from fedflow.web.board.kept_views import CHEAP, KeptViews
from fedflow.web.board.shapes.charts import Group
from tests.board import seeds
from tests.unit.app.fakes import FakeClock

TASK = replace(seeds.task(seeds.job(1), "a", "Reader"), party_status=TaskStatus.RUNNING)
ENDED = replace(TASK, party_status=TaskStatus.SUCCESS)


class Looks:
    """Counts how often metrics were read."""

    def __init__(self, points: int) -> None:
        self.clock = FakeClock()
        self.kept = KeptViews(self.clock)
        self.points = points
        self.reads = 0

    def read(self) -> list[Metric]:
        self.reads += 1
        return [Metric(namespace="n", name="m", points=((0, 0),) * self.points)]

    def get(self, mark: int, language: str = "en") -> tuple[Group, ...]:
        return self.kept.get(
            TASK, mark, language, self.read,
            lambda found: (Group(key=str(len(found[0].points)), title="", views=()),),
        )  # fmt: skip


def test_metrics_are_read_once_per_mark_and_language() -> None:
    looks = Looks(1)
    for mark, language in ((1, "en"), (1, "en"), (1, "zh"), (2, "en"), (1, "en")):
        assert looks.get(mark, language)[0].key == "1"
    assert looks.reads == 3


def test_views_of_many_points_are_shown_for_a_while() -> None:
    looks = Looks(50_000)
    assert looks.kept.patient(TASK, 1) == 1
    looks.get(1)
    for passed_ms, shown in ((0, 1), (49_000, 1), (2_000, 7)):
        looks.clock.ms += passed_ms
        assert looks.kept.patient(TASK, 7) == shown


def test_views_of_few_points_are_never_old() -> None:
    looks = Looks(CHEAP)
    looks.get(1)
    assert looks.kept.patient(TASK, 2) == 2


def test_the_end_of_a_task_is_shown_at_once() -> None:
    looks = Looks(50_000)
    looks.get(1)
    assert looks.kept.patient(ENDED, 2) == 2


@pytest.mark.parametrize(("others", "reads"), [(3, 1), (20, 2)])
def test_few_views_are_kept(others: int, reads: int) -> None:
    looks = Looks(1)
    for mark in (0, *range(1, others), 0):
        looks.get(mark)
    assert looks.reads == others - 1 + reads
