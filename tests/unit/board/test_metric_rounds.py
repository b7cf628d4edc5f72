"""The table of who took part in the rounds of a horizontal training."""

from __future__ import annotations

from typing import Any

from fedflow.board.presenters.charts import Grid
from fedflow.board.presenters.metric_items import MetricItem
from fedflow.board.presenters.metric_rounds import participation


def t(text: str, **fields: Any) -> str:
    return text.format(**fields)


def table(*points: tuple[Any, Any]) -> Grid:
    item = MetricItem(
        kind="PARTICIPATION", model="participation", part="train", name="participation",
        points=points, meta={},
    )  # fmt: skip
    (view,) = participation([item], t)
    assert isinstance(view, Grid)
    return view


ALL = {"counted": {"guest-1": 10, "host-2": 20}, "left_out": {}}
ONE = {"counted": {"guest-1": 10}, "left_out": {"host-2": "its server is gone"}}


def test_rounds_with_the_same_members_are_one_row() -> None:
    found = table((0, ALL), (1, ALL), (2, ONE), (3, ALL))
    assert found.columns == ("Rounds", "guest 1", "host 2")
    assert found.rows == (
        ("0 - 1", 10, 20),
        ("2", 10, "left out: its server is gone"),
        ("3", 10, 20),
    )


def test_a_point_may_stand_for_several_rounds() -> None:
    assert table((0, {**ALL, "last": 4}), (5, ONE)).rows[0] == ("0 - 4", 10, 20)


def test_a_round_that_is_recorded_twice_and_what_is_no_round_are_left_out() -> None:
    found = table((0, ALL), (0, ONE), ("x", ALL), (1, "y"), (2, {"counted": 3}), (True, ALL))
    assert found.rows == (("0", 10, 20),)


def test_a_site_that_came_later_has_an_empty_cell_before() -> None:
    later = {"counted": {"guest-1": 10, "host-3": 5}, "left_out": {}}
    assert table((0, {"counted": {"guest-1": 10}}), (1, later)).rows == (
        ("0", 10, ""),
        ("1", 10, 5),
    )
