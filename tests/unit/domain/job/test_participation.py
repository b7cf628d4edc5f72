"""Which rounds of a training a site missed."""

from __future__ import annotations

from typing import Any

from fedflow.domain.job.participation import MissedRounds, missed_rounds, rounds_of


def point(first: int, counted: str, *, last: int | None = None, **left_out: str) -> tuple[Any, Any]:
    value = {"counted": dict.fromkeys(counted, 1), "left_out": left_out}
    return first, value if last is None else {**value, "last": last}


def missed(*points: tuple[Any, Any]) -> list[MissedRounds]:
    return list(missed_rounds(rounds_of(points), "abc"))


def test_rounds_that_a_site_missed_one_after_the_other_are_one_stretch() -> None:
    found = missed(
        point(0, "abc", last=2), point(3, "ab", c="late"), point(4, "a", b="dead", c="late"),
        point(5, "abc"), point(6, "ab", c="late", last=9),
    )  # fmt: skip
    assert found == [
        MissedRounds(site="b", first=4, last=4, reason="dead"),
        MissedRounds(site="c", first=3, last=4, reason="late"),
        MissedRounds(site="c", first=6, last=9, reason="late"),
    ]


def test_a_site_that_is_not_named_was_missing_too() -> None:
    assert missed(point(0, "ab"), point(1, "abc")) == [
        MissedRounds(site="c", first=0, last=0, reason="")
    ]


def test_another_reason_begins_another_stretch() -> None:
    found = missed(point(0, "ab", c="dead"), point(1, "ab", c="late"))
    assert [(one.first, one.reason) for one in found] == [(0, "dead"), (1, "late")]
