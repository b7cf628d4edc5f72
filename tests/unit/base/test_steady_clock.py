"""Time as a server lived through it: no steps, no standstills."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from fedflow.base.clock import HOLD_S, SteadyClock


@dataclass
class Machine:
    """A machine's clocks; `step` puts the wall clock to another time."""

    wall_ms: int = 1_000_000_000
    up_s: float = 50.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_s(self) -> float:
        return self.up_s

    def live(self, seconds: float) -> None:
        self.up_s += seconds
        self.wall_ms += round(seconds * 1000)

    def step(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(machine: Machine) -> SteadyClock:
    clock = SteadyClock(machine)
    clock.tick()
    return clock


def beats(machine: Machine, clock: SteadyClock, seconds: int) -> list[int]:
    """Let a server live for a while; return the time after each second."""
    seen = []
    for _ in range(seconds):
        machine.live(1)
        clock.tick()
        seen.append(clock.now_ms())
    return seen


def test_it_is_the_wall_clock_as_long_as_nothing_happens(
    machine: Machine, clock: SteadyClock
) -> None:
    beats(machine, clock, 1000)
    machine.live(0.5)
    assert clock.now_ms() == machine.now_ms()
    assert clock.monotonic_s() == machine.monotonic_s()


def test_before_the_first_beat_it_is_the_wall_clock(machine: Machine) -> None:
    clock = SteadyClock(machine)
    machine.live(1000)
    assert clock.now_ms() == machine.now_ms()


@pytest.mark.parametrize("step_s", [600, -600, 7200])
def test_a_step_of_the_wall_clock_has_no_effect_at_once_and_is_made_up_for_slowly(
    machine: Machine, clock: SteadyClock, step_s: float
) -> None:
    machine.step(step_s)
    before = clock.now_ms()
    assert abs(clock.tick().behind_ms - step_s * 1000) <= 1
    seen = [before, *beats(machine, clock, 60)]
    passed = [later - earlier for earlier, later in itertools.pairwise(seen)]
    assert all(700 <= ms <= 1300 for ms in passed)
    beats(machine, clock, round(abs(step_s) * 4) + 10)
    assert abs(clock.now_ms() - machine.now_ms()) <= 10


def test_time_waits_for_the_next_beat_and_a_standstill_does_not_count(
    machine: Machine, clock: SteadyClock
) -> None:
    before = clock.now_ms()
    machine.live(90)
    assert clock.now_ms() == before + HOLD_S * 1000  # even before anything beats again
    beat = clock.tick()
    assert beat.still_s == 90 - HOLD_S
    assert clock.now_ms() == before + HOLD_S * 1000
    beats(machine, clock, 400)
    assert abs(clock.now_ms() - machine.now_ms()) <= 10


def test_a_late_beat_is_no_standstill(machine: Machine, clock: SteadyClock) -> None:
    machine.live(HOLD_S - 0.5)
    assert clock.now_ms() == machine.now_ms()
    assert clock.tick().still_s == 0


def test_a_server_that_ends_needs_no_beats(machine: Machine, clock: SteadyClock) -> None:
    clock.run_freely()
    machine.live(60)
    assert clock.now_ms() == machine.now_ms()
