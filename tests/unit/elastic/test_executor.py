"""Operators run to their end, over a back end in memory and a clock that tests turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from fedflow.base.errors.rendezvous import (
    RendezvousClosed,
    RendezvousEnded,
    RendezvousStateCorrupt,
    RendezvousTimeout,
    RendezvousUnreachable,
)
from fedflow.elastic.backend import Backend, StoredState, WrittenState
from fedflow.elastic.executor import SYNC_S, run, steps
from fedflow.elastic.member import MemberIdentity
from fedflow.elastic.memory import MemoryBackend
from fedflow.elastic.operators import Operator, close, join, keep_alive, leave
from fedflow.elastic.patience import PatientBackend
from fedflow.elastic.state import Membership, State, state_from_bytes, state_to_bytes
from fedflow.elastic.stored import text_of
from tests.unit.elastic.rendezvous import NOW_MS, SETTINGS, a_state


class Turned:
    """A timer whose pauses turn the clock; `between` is done before each."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.at_s = 0.0
        self.pauses: list[float] = []
        self._between = between

    def now_ms(self) -> int:
        return NOW_MS + int(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s

    def pause(self, seconds: float) -> None:
        self._between()
        self.pauses.append(seconds)
        self.at_s += seconds


def backend_with(state: State, timer: Turned) -> MemoryBackend:
    backend = MemoryBackend(timer.now_ms)
    backend.set_state(state_to_bytes(state), None)
    return backend


def do(
    operator: Operator, backend: Backend, timer: Turned, *, name: str = "a",
    timeout_s: float = 10.0,
) -> State:  # fmt: skip
    work = steps(
        operator, member=MemberIdentity(name=name), settings=SETTINGS, timeout_s=timeout_s,
        monotonic_s=timer.monotonic_s, now_ms=backend.now_ms, rng=Random(1),
    )  # fmt: skip
    return run(work, backend, timer)


def held(backend: MemoryBackend) -> State:
    found = backend.get_state()
    assert found is not None
    return state_from_bytes(found.state)


def test_the_first_member_makes_the_state_and_the_last_call_completes_the_round() -> None:
    timer = Turned()
    backend = MemoryBackend(timer.now_ms)

    def b_joins() -> None:
        if held(backend).participants == 1:
            backend.held = backend_with(a_state("ab", deadline_ms=NOW_MS + 3_000), timer).held

    timer = Turned(b_joins)
    backend = MemoryBackend(timer.now_ms)
    state = do(join, backend, timer)
    assert (state.complete, state.ranks) == (True, {"a": 0, "b": 1})
    assert timer.pauses == [SYNC_S] * 4  # until the deadline has passed


def test_a_join_that_is_too_late_leaves_nothing_behind() -> None:
    timer = Turned()
    backend = MemoryBackend(timer.now_ms)
    with pytest.raises(RendezvousTimeout, match="not complete after 10 s"):
        do(join, backend, timer)
    assert held(backend).members == {}
    assert 10 < timer.at_s <= 12


def test_a_member_keeps_alive_while_it_waits() -> None:
    timer = Turned()
    backend = MemoryBackend(timer.now_ms)
    with pytest.raises(RendezvousTimeout):
        do(join, backend, timer, timeout_s=60.0)
    assert timer.at_s > 60  # it was not taken for dead meanwhile


def test_a_redundant_member_gets_a_new_deadline_when_there_is_room() -> None:
    timer = Turned()
    backend = backend_with(a_state("bcd", redundant="a", complete=True), timer)

    def turn() -> None:
        state = held(backend)
        living = {n: replace(m, heartbeat_ms=timer.now_ms()) for n, m in state.members.items()}
        if timer.at_s >= 100:
            living.pop("d", None)
        backend.held = (text_of(state_to_bytes(replace(state, members=living))), "later")

    timer = Turned(turn)
    backend._now_ms = timer.now_ms
    with pytest.raises(RendezvousTimeout):
        do(join, backend, timer)
    assert 110 <= timer.at_s <= 113  # 10 s from when it left the list
    assert held(backend).membership_of("a") is None


def test_errors_have_their_names() -> None:
    timer = Turned()
    with pytest.raises(RendezvousClosed):
        do(join, backend_with(a_state("ab", closed=True), timer), timer)
    full = a_state("bcd", redundant="a", complete=True, closed=True)
    with pytest.raises(RendezvousEnded):
        do(join, backend_with(full, timer), timer)
    broken = MemoryBackend(timer.now_ms)
    broken.set_state(b"\x80\x04N.", None)
    with pytest.raises(RendezvousStateCorrupt):
        do(join, broken, timer)


def test_leaving_closing_and_staying_write_once() -> None:
    timer = Turned()
    backend = backend_with(a_state("ab", complete=True, ages_s={"a": 6}), timer)
    assert do(keep_alive, backend, timer).members["a"].heartbeat_ms == NOW_MS
    token = backend.held
    do(keep_alive, backend, timer)
    assert backend.held is token
    assert do(leave, backend, timer).ranks == {"b": 1}
    assert do(close, backend, timer).closed
    assert timer.pauses == []


class Overtaken(MemoryBackend):
    """Another member writes before each of the first `times` writes."""

    def __init__(self, timer: Turned, times: int) -> None:
        super().__init__(timer.now_ms)
        self.times, self.tries = times, 0

    def set_state(self, state: bytes, token: str | None) -> WrittenState | None:
        self.tries += 1
        if self.tries <= self.times:
            other = a_state("bc" if self.tries % 2 else "cd")
            self.held = (text_of(state_to_bytes(other)), f"other {self.tries}")
        return super().set_state(state, token)


def test_who_loses_a_write_decides_again_with_the_state_that_won() -> None:
    timer = Turned()
    backend = Overtaken(timer, times=5)
    state = do(join, backend, timer, timeout_s=100.0)
    assert (state.complete, state.ranks) == (True, {"a": 0, "b": 1, "c": 2})
    assert backend.tries == 6


def test_a_member_that_always_loses_gives_up_at_its_deadline() -> None:
    timer = Turned()
    with pytest.raises(RendezvousTimeout):
        do(close, Overtaken(timer, times=10**6), timer, timeout_s=5.0)
    assert 5 < timer.at_s < 6


def test_a_run_that_was_deleted_meanwhile_begins_anew() -> None:
    timer = Turned()
    backend = backend_with(a_state("b"), timer)

    class Deleting(Turned):
        def pause(self, seconds: float) -> None:
            if self.at_s == 0:
                backend.held = None
            super().pause(seconds)

    again = Deleting()
    backend._now_ms = again.now_ms
    with pytest.raises(RendezvousTimeout):
        do(join, backend, again)
    assert held(backend).at(Membership.PARTICIPANT) == set()


class Away(MemoryBackend):
    """A server that is not there until a time; the first write takes place, its answer is lost."""

    def __init__(self, timer: Turned, until_s: float) -> None:
        super().__init__(timer.now_ms)
        self.timer, self.until_s = timer, until_s

    def get_state(self) -> StoredState | None:
        if self.timer.at_s < self.until_s:
            raise RendezvousUnreachable(address="x", reason="away")
        return super().get_state()

    def set_state(self, state: bytes, token: str | None) -> WrittenState | None:
        written = super().set_state(state, token)
        if self.until_s:
            self.until_s = 0.0
            raise RendezvousUnreachable(address="x", reason="the answer was lost")
        return written


def test_a_patient_member_waits_for_its_server_and_is_there_once() -> None:
    timer = Turned()
    backend = Away(timer, until_s=30.0)
    state = do(close, PatientBackend(backend, timer, limit_s=60.0), timer, timeout_s=90.0)
    assert state.closed
    assert 30 <= timer.at_s < 32


def test_patience_ends() -> None:
    timer = Turned()
    with pytest.raises(RendezvousUnreachable):
        do(close, PatientBackend(Away(timer, until_s=99.0), timer, limit_s=60.0), timer)
    assert 60 <= timer.at_s < 61
