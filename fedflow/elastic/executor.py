"""Runs an operator: read, decide, act, write; who loses a write decides again.

`steps` is a generator, so nothing here waits or calls: it yields what it wants (`ReadState`,
`WriteState`, `Pause`) and is sent what came of it. `run` does that over a back end; the simulator
does it in any order it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Final, Protocol

from fedflow.base.errors.rendezvous import RendezvousClosed, RendezvousEnded, RendezvousTimeout
from fedflow.base.values import dataclass
from fedflow.elastic.actions import apply
from fedflow.elastic.backend import Backend, StoredState, WrittenState
from fedflow.elastic.cleaning import cleaned
from fedflow.elastic.member import MemberIdentity
from fedflow.elastic.operators import Action, Operator, View
from fedflow.elastic.state import RendezvousSettings, State, state_from_bytes, state_to_bytes

SYNC_S: Final = 1.0  #: pause before the state is read again
_RETRY_S: Final = 0.02  #: longest pause after the first lost write; doubles with each
_RETRY_MOST_S: Final = 0.64


class Timer(Protocol):
    """Time for one member."""

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never goes back."""

    def pause(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read what is stored; answered with a `StoredState`, or None."""


@dataclass(frozen=True, slots=True)
class WriteState:
    """Write a state; answered with a `WrittenState`, or None."""

    state: bytes
    token: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for so many seconds; answered with None."""

    seconds: float


Step = ReadState | WriteState | Pause
Steps = Generator[Step, StoredState | WrittenState | None, State]


def run(steps: Steps, backend: Backend, timer: Timer) -> State:
    """Run the steps of an operator to their end; return the state that it ended with.

    Raises: RendezvousClosed, RendezvousEnded, RendezvousTimeout, RendezvousStateCorrupt,
    RendezvousUnreachable, RendezvousNotAllowed.
    """
    answer: StoredState | WrittenState | None = None
    try:
        while True:
            step = steps.send(answer)
            answer = None
            if isinstance(step, Pause):
                timer.pause(step.seconds)
            else:
                answer = _call(step, backend)
    except StopIteration as end:
        state: State = end.value
        return state


def _call(step: ReadState | WriteState, backend: Backend) -> StoredState | WrittenState | None:
    if isinstance(step, ReadState):
        return backend.get_state()
    return backend.set_state(step.state, step.token)


def steps(
    operator: Operator, *, member: MemberIdentity, settings: RendezvousSettings, timeout_s: float,
    monotonic_s: Callable[[], float], now_ms: Callable[[], int], rng: Random,
) -> Steps:  # fmt: skip
    """Yield what an operator needs; return the state that it ended with.

    Raises: RendezvousClosed, RendezvousEnded, RendezvousTimeout, RendezvousStateCorrupt.
    """
    deadline_s = monotonic_s() + timeout_s
    lost = 0
    stored = _stored((yield ReadState()))
    while True:
        if stored is None:
            state, at_ms = State(), now_ms()
        else:
            state, at_ms = state_from_bytes(stored.state), stored.now_ms
            state = cleaned(state, settings, now_ms=at_ms, since_ms=stored.since_ms)
        late_s = monotonic_s() - deadline_s
        action = operator(
            View(state=state, name=member.name, settings=settings, now_ms=at_ms, late_s=late_s)
        )
        if action is Action.FINISH:
            return state
        _raise_if_error(action, settings, timeout_s)
        if action is Action.SYNC:
            yield Pause(SYNC_S)
            stored = _stored((yield ReadState()))
            continue
        if action is Action.REMOVE_FROM_REDUNDANCY_LIST:
            deadline_s = monotonic_s() + timeout_s
        new = apply(action, state, member, settings, now_ms=at_ms)
        answer = yield WriteState(state_to_bytes(new), stored.token if stored is not None else None)
        written = answer if isinstance(answer, WrittenState) else None
        stored = written.stored if written is not None else None
        if written is not None and written.was_set:
            lost = 0
            continue
        lost += 1
        yield Pause(rng.random() * min(_RETRY_S * 2**lost, _RETRY_MOST_S))
        stored = _stored((yield ReadState()))


def _stored(answer: StoredState | WrittenState | None) -> StoredState | None:
    return answer if isinstance(answer, StoredState) else None


def _raise_if_error(action: Action, settings: RendezvousSettings, timeout_s: float) -> None:
    if action is Action.ERROR_CLOSED:
        raise RendezvousClosed(run_id=settings.run_id)
    if action is Action.END:
        raise RendezvousEnded(run_id=settings.run_id)
    if action is Action.ERROR_TIMEOUT:
        raise RendezvousTimeout(run_id=settings.run_id, seconds=round(timeout_s))
