"""What a site says of the iterations of a training, and of where its loss is."""

from __future__ import annotations

from typing import Any

from fedflow.board.presenters.pace import TrainingPace, pace
from fedflow.domain.records import Metric
from tests.board.seeds import HOST


def seconds(*values: Any, **meta: Any) -> Metric:
    points = tuple(enumerate(values))
    whole = {"metric_type": "ROUND_SECONDS", **meta}
    return Metric(namespace="train", name="round_seconds", points=points, meta=whole)


def loss(*values: Any) -> Metric:
    points = tuple(enumerate(values))
    meta = {"metric_type": "LOSS"}
    return Metric(namespace="train", name="loss", points=points, meta=meta)


def test_iterations_their_time_and_where_the_loss_is() -> None:
    found = pace([seconds(1.0, 3.0, of=30, loss_at=HOST.key)])
    assert found == TrainingPace(done=2, of=30, each_ms=2000, loss_at=HOST)
    assert found.left_ms == 56_000


def test_a_site_that_has_the_loss_names_no_other() -> None:
    found = pace([seconds(1.0, of=1, loss_at=HOST.key), loss(0.7)])
    assert found is not None
    assert (found.loss_at, found.losses, found.left_ms) == (None, (0.7,), 0)


def test_what_says_nothing_of_iterations_or_nonsense_is_no_pace() -> None:
    assert pace([]) is None
    assert pace([loss(0.7)]) is None
    assert pace([seconds("x", None, 1e300)]) is None
    found = pace([seconds(2.0, 2.0, of=1, loss_at="nobody")])
    assert found is not None
    assert (found.of, found.left_ms, found.loss_at) == (None, None, None)


def test_the_course_of_the_loss_is_a_line_from_its_highest_to_its_lowest() -> None:
    found = pace([seconds(1.0, 1.0, 1.0), loss(3.0, 2.0, 1.0)])
    assert found is not None
    assert found.line == "0.0,2.0 60.0,12.0 120.0,22.0"
    many = pace([seconds(1.0), loss(*range(1000))])
    assert many is not None
    assert 60 <= len(many.line.split()) < 120
    one = pace([seconds(1.0), loss(0.7)])
    assert one is not None
    assert one.line == ""
