"""The table of who took part in the rounds of a horizontal training."""

from __future__ import annotations

from typing import Any

from fedflow.board.presenters.charts import Chart, Grid, View
from fedflow.board.presenters.metric_items import MetricItem
from fedflow.board.presenters.metric_rounds import participation


def t(text: str, **fields: Any) -> str:
    return text.format(**fields)


def views(*points: tuple[Any, Any]) -> list[View]:
    item = MetricItem(
        kind="PARTICIPATION", model="participation", part="train", name="participation",
        points=points, meta={},
    )  # fmt: skip
    return participation([item], t)


def tables(*points: tuple[Any, Any]) -> list[Grid]:
    return [view for view in views(*points) if isinstance(view, Grid)]


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
    assert sites.columns == ("Site", "Counted", "Left out", "Not there", "Absent in")
    assert sites.rows == (
        ("guest 1", 7, 0, 0, ""),
        ("host 2", 5, 1, 1, "5 - 6"),
        ("host 3", 1, 0, 6, "0 - 5; back in round 6"),
    )


def test_a_site_that_was_absent_twice_has_both_and_when_it_was_back() -> None:
    points = [(0, ALL), (1, ONE), (2, {**ALL, "last": 3}), (4, ONE), (5, ONE), (6, ALL)]
    sites, _ = tables(*points)
    assert sites.rows[1][-1] == "1, 4 - 5; back in round 6"


def test_the_curve_of_a_site_falls_to_no_rows_where_it_did_not_count() -> None:
    chart, *_ = views((0, {**ALL, "last": 4}), (5, ONE), (6, ALL))
    assert isinstance(chart, Chart)
    host = chart.series[1]
    assert (host.name, host.x, host.y) == ("host 2", (0, 4, 5, 6), (20, 20, 0, 20))
    assert not isinstance(views((0, {**ALL, "last": 4}))[0], Chart)
