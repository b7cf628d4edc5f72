"""Requests per minute of two looks at serving processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflow.app.models.serving_views import FRESH_S, KEPT_S, ServingViews
from fedflow.app.ports.serving import ServingProcessState
from fedflow.client.serving_servers import HttpServingServers
from fedflow.wire.prometheus_text import Sample
from tests.unit.app.fakes import FakeClock


class Counting(HttpServingServers):
    """Serving processes whose counts a test sets."""

    def __init__(self) -> None:
        super().__init__(["one:1", "two:2"], token=None)
        self.counts: dict[str, float] = {"one:1": 0, "two:2": 0}
        self.looks = 0

    def states(self) -> Any:
        self.looks += 1
        return [
            ServingProcessState(address=address, samples=_samples(count))
            for address, count in self.counts.items()
        ]


def _samples(count: float) -> Sequence[Sample]:
    labels = {"service": "credit", "version": "v1", "kind": "single"}
    return [Sample(name="fedflow_serving_requests_total", labels=labels, value=count)]


def test_without_serving_processes_there_is_nothing() -> None:
    assert ServingViews(servings=None, clock=FakeClock()).overview() is None


def test_requests_per_minute_are_of_all_processes() -> None:
    servings, clock = Counting(), FakeClock()
    views = ServingViews(servings=servings, clock=clock)
    first = views.overview()
    assert first is not None
    assert first.per_minute == {}
    clock.ms += 30_000
    servings.counts = {"one:1": 20, "two:2": 10}
    second = views.overview()
    assert second is not None
    assert second.per_minute == {"credit": 60.0}
    clock.ms += 30_000
    servings.counts = {"one:1": 5, "two:2": 10}  # one was started anew
    third = views.overview()
    assert third is not None
    assert third.per_minute == {"credit": 15.0}
    clock.ms += int(KEPT_S + 60) * 1000
    fourth = views.overview()
    assert fourth is not None
    assert fourth.per_minute == {}


def test_processes_are_asked_once_for_many_who_look() -> None:
    servings, clock = Counting(), FakeClock()
    views = ServingViews(servings=servings, clock=clock)
    for _ in range(5):
        views.overview()
    assert servings.looks == 1
    views.overview(now=True)
    clock.ms += int(FRESH_S * 1000)
    views.overview()
    assert servings.looks == 3
