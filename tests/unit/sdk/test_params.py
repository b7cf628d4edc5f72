"""Declared parameters: every mistake is told with its place."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.ids import PartyId
from fedflow.sdk import Params, PlannedRun, Role, Site, check_params
from fedflow.sdk.params import MAX_MISTAKES, checks_run

GUEST, HOST = Site(Role.GUEST, PartyId("9999")), Site(Role.HOST, PartyId("10000"))


class Inner(Params, frozen=True, kw_only=True):
    """A block."""

    bits: Annotated[int, msgspec.Meta(ge=1024)] = 2048
    names: list[str] = msgspec.field(default_factory=list)


class Outer(Params, frozen=True, kw_only=True):
    """A component's parameters."""

    alpha: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    low: int = 0
    high: int = 1
    inner: Inner = Inner()

    def check(self) -> None:
        if self.low > self.high:
            raise ValueError("low: must not be above `high`")

    def check_run(self, run: PlannedRun) -> None:
        if len(run.sites_of(Role.HOST)) > 1:
            raise ValueError("role: one host only")


class Strict(Params, frozen=True, kw_only=True):
    """Parameters whose rules are all in `check`."""

    first: int = 1
    word: Literal["a", "b"] = "a"
    inner: Inner = Inner()

    def check(self) -> None:
        if self.first < 0:
            raise ValueError("first: must not be negative")
        if self.inner.bits > 4096:
            raise ValueError("inner.bits: at most 4096")
        if self.word == "b" and self.first == 1:
            raise ValueError("b needs another first")


class Needed(Params, frozen=True, kw_only=True):
    """Parameters without defaults."""

    column: str
    parts: int


def test_check_says_every_mistake_that_a_field_makes() -> None:
    given = {"first": -1, "inner": {"bits": 8192}}
    assert mistakes(Strict, given) == [
        ("$.first", "must not be negative"), ("$.inner.bits", "at most 4096"),
    ]  # fmt: skip
    assert mistakes(Strict, {"word": "b"}) == [("$", "b needs another first")]


def test_an_enumeration_is_told_with_its_words() -> None:
    ((where, what),) = mistakes(Strict, {"word": "c"})
    assert (where, what) == ("$.word", "Invalid enum value 'c'; known are a, b")


def mistakes(kind: type[Params], values: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(BadParameter) as caught:
        check_params(kind, values, path="$", **more)
    for path, reason in caught.value.mistakes:
        assert path in caught.value.message
        assert reason in caught.value.message
    return list(caught.value.mistakes)


def test_every_mistake_is_told_with_its_path() -> None:
    given = {
        "alpha": -1,
        "beta": 1,
        "gamma": 1,
        "low": "x",
        "inner": {"bits": 5, "names": ["a", 3], "other": None},
    }
    found = dict(mistakes(Outer, given))
    assert set(found) == {"$.alpha", "$", "$.low", "$.inner.bits", "$.inner.names[1]", "$.inner"}
    assert "known are alpha, low, high, inner" in found["$"]
    named = " ".join(reason for _, reason in mistakes(Outer, given))
    assert all(f"`{name}`" in named for name in ("beta", "gamma", "other"))
    assert given["inner"] == {"bits": 5, "names": ["a", 3], "other": None}


def test_all_missing_parameters_are_told_but_not_those_that_are_wrong() -> None:
    assert mistakes(Needed, {}) == [("$.column", "is missing"), ("$.parts", "is missing")]
    assert [path for path, _ in mistakes(Needed, {"parts": "x"})] == ["$.parts", "$.column"]


def test_a_rule_over_several_fields_is_told_at_the_field_that_it_names() -> None:
    assert mistakes(Outer, {"low": 5}) == [("$.low", "must not be above `high`")]


def test_a_planned_run_is_checked_beside_the_parameters() -> None:
    run = PlannedRun(site=GUEST, sites=(GUEST, HOST, Site(Role.HOST, PartyId("10001"))))
    assert mistakes(Outer, {"low": 5}, run=run) == [
        ("$.low", "must not be above `high`"),
        ("$", "role: one host only"),
    ]
    assert check_params(Outer, {}, path="$", run=PlannedRun(site=GUEST, sites=(GUEST, HOST)))
    assert checks_run(Outer)
    assert not checks_run(Inner)


def test_thousands_of_mistakes_are_not_all_told() -> None:
    assert len(mistakes(Outer, {f"x{n}": n for n in range(5_000)})) == MAX_MISTAKES
