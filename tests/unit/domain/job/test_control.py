"""How far people let a job go: pauses and steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedflow.domain.job.control import (
    ALL_STEPS,
    FREE,
    Control,
    continued,
    held,
    is_stopped,
    steps_left,
)
from fedflow.domain.reason import PAUSED, Reason

WHY = Reason(code=PAUSED, message="paused by guest 9999")
controls = st.builds(
    Control,
    paused=st.none() | st.just(WHY),
    allowed=st.none() | st.integers(0, 9) | st.just(ALL_STEPS),
    held_ms=st.none() | st.integers(0, 99),
    rested_ms=st.integers(0, 99),
)


def test_a_job_without_steps_begins_everything_and_one_with_steps_nothing() -> None:
    assert steps_left(FREE, step=False, begun=3) is None
    assert steps_left(FREE, step=True, begun=0) == 0
    assert is_stopped(FREE, step=True, begun=0)
    assert not is_stopped(FREE, step=False, begun=0)


def test_continue_allows_one_more_component_of_a_job_that_goes_step_by_step() -> None:
    first = continued(FREE, steps=None, step=True, begun=0, now_ms=1)
    assert steps_left(first, step=True, begun=0) == 1
    assert steps_left(first, step=True, begun=1) == 0
    third = continued(first, steps=2, step=True, begun=1, now_ms=1)
    assert steps_left(third, step=True, begun=1) == 2
    everything = continued(third, steps=ALL_STEPS, step=True, begun=3, now_ms=1)
    assert steps_left(everything, step=True, begun=3) is None


def test_the_end_of_a_pause_allows_no_step_that_was_not_asked_for() -> None:
    paused = Control(paused=WHY, allowed=5)
    assert continued(paused, steps=None, step=True, begun=2, now_ms=1).allowed == 5
    free = continued(Control(paused=WHY), steps=None, step=False, begun=2, now_ms=1)
    assert steps_left(free, step=False, begun=2) is None


def test_steps_can_be_asked_of_a_paused_job_that_had_none() -> None:
    stepping = continued(Control(paused=WHY), steps=2, step=False, begun=3, now_ms=1)
    assert steps_left(stepping, step=False, begun=3) == 2
    assert steps_left(stepping, step=False, begun=5) == 0


def test_the_time_in_which_a_job_was_held_adds_up() -> None:
    control = held(Control(paused=WHY), now_ms=1_000)
    control = continued(control, steps=None, step=False, begun=0, now_ms=4_000)
    assert (control.held_ms, control.rested_ms) == (None, 3_000)
    control = held(replace(control, paused=WHY), now_ms=5_000)
    control = continued(control, steps=None, step=False, begun=0, now_ms=5_500)
    assert control.rested_ms == 3_500


def test_a_clock_that_was_set_back_takes_no_time_away() -> None:
    control = held(Control(paused=WHY), now_ms=1_000)
    assert continued(control, steps=None, step=False, begun=0, now_ms=400).rested_ms == 0


@given(
    controls,
    st.none() | st.integers(1, 9) | st.just(ALL_STEPS),
    st.booleans(),
    st.integers(0, 9),
)
def test_nothing_holds_a_job_that_was_just_continued(
    control: Control, steps: int | None, step: bool, begun: int
) -> None:
    after = continued(control, steps=steps, step=step, begun=begun, now_ms=100)
    assert not is_stopped(after, step=step, begun=begun)
    assert after.held_ms is None
    assert after.rested_ms >= control.rested_ms
