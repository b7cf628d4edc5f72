"""What many people look at is made once for all of them, and kept for the next look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest
from flask import Flask

from fedflow.board.recent import RecentOfApp, RecentValues
from tests.unit.app.fakes import FakeClock

WAIT_S = 60.0


def numbers() -> Callable[[], int]:
    """Return what gives another number each time that it is called."""
    made = count()
    return lambda: next(made)


def test_a_value_is_made_once_per_key() -> None:
    recent, make = RecentValues[str, int](4), numbers()
    assert [recent.get(key, make) for key in ("a", "a", "b", "a")] == [0, 0, 1, 0]


def test_nothing_is_a_value_too() -> None:
    recent = RecentValues[str, int | None](4)
    assert recent.get("a", lambda: None) is None
    assert recent.get("a", lambda: 1) is None


def test_a_value_is_made_again_only_when_it_is_old() -> None:
    clock = FakeClock()
    recent, make = RecentValues[str, int](4, fresh_s=1.5, clock=clock), numbers()
    seen = []
    for passed_ms in (0, 1_499, 1, 0):
        clock.ms += passed_ms
        seen.append(recent.get("a", make))
    assert seen == [0, 0, 1, 1]


def test_a_value_that_took_long_is_as_new_as_another() -> None:
    clock = FakeClock()
    recent, make = RecentValues[str, int](4, fresh_s=1.5, clock=clock), numbers()

    def slowly() -> int:
        clock.ms += 60_000
        return make()

    assert [recent.get("a", slowly) for _ in range(2)] == [0, 0]


def test_the_values_that_were_asked_for_last_are_kept() -> None:
    recent, make = RecentValues[str, int](2), numbers()
    assert [recent.get(key, make) for key in "abacab"] == [0, 1, 0, 2, 0, 3]


def test_what_could_not_be_made_is_tried_again() -> None:
    recent = RecentValues[str, int](4)
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 7) == 7


class Key(str):
    """A key that tells when it is looked up."""

    def __new__(cls, text: str, looked: Callable[[], None]) -> Key:
        made = super().__new__(cls, text)
        made.looked = looked
        return made

    looked: Callable[[], None]

    def __hash__(self) -> int:
        self.looked()
        return super().__hash__()


def test_who_asks_while_a_value_is_made_gets_that_one() -> None:
    recent, make = RecentValues[str, int](4), numbers()
    asked = threading.Event()
    got: list[int] = []
    other = threading.Thread(target=lambda: got.append(recent.get(Key("a", asked.set), make)))

    def slowly() -> int:
        other.start()
        assert asked.wait(WAIT_S)
        return make()

    got.append(recent.get("a", slowly))
    other.join(WAIT_S)
    assert got == [0, 0]


def test_another_key_does_not_wait() -> None:
    recent = RecentValues[str, int](4)
    got: list[int] = []
    other = threading.Thread(target=lambda: got.append(recent.get("b", lambda: 1)))

    def slowly() -> int:
        other.start()
        other.join(WAIT_S)
        return len(got)

    assert recent.get("a", slowly) == 1


def test_each_application_keeps_its_own() -> None:
    recent, make = RecentOfApp[str, int](name="numbers", limit=4), numbers()
    seen = []
    for app in (one := Flask("one"), Flask("two"), one):
        with app.app_context():
            seen.append(recent.get("a", make))
    assert seen == [0, 1, 0]
