"""What many people look at is made once in a while for all of them."""

from __future__ import annotations

from fedflow.web.board.shared_look import SharedLook
from tests.unit.app.fakes import FakeClock


def test_a_value_is_made_again_only_when_it_is_old() -> None:
    clock = FakeClock()
    shared, made = SharedLook(clock), iter(range(10))
    assert [shared.get("a", lambda: next(made)) for _ in range(3)] == [0, 0, 0]
    assert shared.get("b", lambda: next(made)) == 1
    clock.ms += 1_600
    assert shared.get("a", lambda: next(made)) == 2


def test_many_keys_are_forgotten_in_time() -> None:
    shared = SharedLook(FakeClock())
    for number in range(1_000):
        shared.get(number, lambda: "x")
    assert len(shared._kept) < 100
