"""The table of who took part in the rounds of a horizontal training."""

from __future__ import annotations

from typing import Any

from fedflow.board.presenters.charts import Grid
from fedflow.board.presenters.metric_items import MetricItem
from fedflow.board.presenters.metric_rounds import participation


def t(text: str, **fields: Any) -> str:
    return text.format(**fields)


def tables(*points: tuple[Any, Any]) -> list[Grid]:
    item = MetricItem(
        kind="PARTICIPATION", model="participation", part="train", name="participation",
        points=points, meta={},
    )  # fmt: skip
    found = participation([item], t)
    return [view for view in found if isinstance(view, Grid)]


def table(*points: tuple[Any, Any]) -> Grid:
    _, view = tables(*points)
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


def test_the_rounds_of_each_site_are_counted() -> None:
    later = {"counted": {"guest-1": 10, "host-3": 5}, "left_out": {}}
    sites, _ = tables((0, {**ALL, "last": 4}), (5, ONE), (6, later))
    assert sites.columns == ("Site", "Counted", "Left out", "Not there")
    assert sites.rows == (("guest 1", 7, 0, 0), ("host 2", 5, 1, 1), ("host 3", 1, 0, 6))
