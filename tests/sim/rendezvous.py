"""Rendezvous under adversarial schedules: members that come, leave, die, freeze and close.

The steps of each member are those of the product (`elastic.executor.steps`). Here they meet on one
heap of events: every read and write takes time, so that writes are lost, answers get lost, members
die between a write and its answer, clocks jump, and the store is away and comes back. One seed is
one run. After the faults all members that live must agree on one round.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from fedflow.base.errors.rendezvous import RendezvousClosed, RendezvousEnded, RendezvousTimeout
from fedflow.elastic.backend import StoredState, WrittenState
from fedflow.elastic.executor import Pause, ReadState, Step, Steps, WriteState, steps
from fedflow.elastic.member import MemberIdentity
from fedflow.elastic.operators import Operator, close, join, keep_alive, leave
from fedflow.elastic.state import Membership, RendezvousSettings, State, state_from_bytes
from tests.sim.schedules import Outcome
from tests.sim.trace import digest_of

BASE_MS: Final = 1_800_000_000_000
FAULTS_S: Final = 25.0  #: how long things go wrong
HEAL_S: Final = 240.0  #: within this time all that live must agree
_RETRY_S: Final = 0.5  #: before a call is made again that got no answer
_SHOWN: Final = 60

Life = Generator[Step, StoredState | WrittenState | None, None]


class Broken(AssertionError):
    """Something that must never happen."""


@dataclass
class Cell:
    """The store: one value, and what must hold of all values that it had."""

    size: int  #: most members of a round
    stored: tuple[bytes, str] | None = None
    tokens: count[int] = field(default_factory=count)
    state: State = field(default_factory=State)
    rounds: dict[int, tuple[dict[str, int], int]] = field(default_factory=dict)

    def write(self, state: bytes, token: str | None) -> bool:
        """Write by compare-and-set. Raises: Broken."""
        if token != (self.stored[1] if self.stored is not None else None):
            return False
        new = state_from_bytes(state)
        self._check(new)
        self.stored, self.state = (state, f"t{next(self.tokens)}"), new
        return True

    def _check(self, new: State) -> None:
        old = self.state
        _require(new.participants <= self.size, "more participants than are allowed")
        _require(new.round >= old.round, "a round came back")
        _require(new.closed or not old.closed, "a closed run opened again")
        if new.round == old.round:
            _require(new.complete or not old.complete, "a complete round became incomplete")
        else:
            _require(new.round == old.round + 1, "a round was left out")
        if not new.complete:
            return
        ranks, size = new.ranks, new.size
        if new.round not in self.rounds:
            _require(len(ranks) == size, "a round was complete without all its members")
            names = sorted(ranks)
            _require([ranks[n] for n in names] == list(range(size)), "ranks out of order")
            self.rounds[new.round] = (ranks, size)
        first, whole = self.rounds[new.round]
        _require(size == whole, "the size of a complete round changed")
        _require(ranks.items() <= first.items(), "the members of a complete round changed")


@dataclass
class Living:
    """A member that runs."""

    name: str
    life: Life
    skew_ms: int = 0  #: of its clock
    seen: tuple[int, int, int] | None = None  #: round, rank and size of what it works in
    frozen_until_s: float = 0.0


class Meeting:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"rendezvous {seed}")
        self.now_s = 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = count()
        self.people = rng.randint(3, 7)
        most = rng.randint(2, 7)
        self.settings = RendezvousSettings(
            run_id="r", min_members=rng.randint(1, min(most, 3)), max_members=most,
            join_timeout_s=rng.choice([8.0, 60.0]), last_call_s=rng.choice([0.0, 2.5, 2.5]),
            close_timeout_s=5.0, heartbeat_timeout_s=2.0, keep_alive_interval_s=1.0,
            keep_alive_attempts=3,
        )  # fmt: skip
        self.cell = Cell(size=most)
        self.living: dict[str, Living] = {}
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.steps = 0
        self.away_until_s = 0.0
        self.since_ms = 0
        self.step_ms = 0  #: of the store's clock
        self.healed = False
        self.own_clocks = rng.random() < 0.25
        self.strength = rng.random()
        self.closes = rng.random() < 0.15
        for _ in range(self.people):
            self.at(rng.random() * 3, self.begin)
        for kind in (self.crash, self.freeze, self.jump, self.lose_store, self.close_it):
            self.at(rng.random() * FAULTS_S, kind)

    # --- events

    def at(self, after_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (self.now_s + after_s, next(self.numbers), do))

    def run(self) -> float:
        """Run to the end; return how long members needed to agree, seconds. Raises: Broken."""
        while self.heap:
            at_s, _, do = heapq.heappop(self.heap)
            if not self.healed and at_s > FAULTS_S:
                self.heal()
            if self.healed and self.has_agreed():
                return self.now_s - FAULTS_S
            if at_s > FAULTS_S + HEAL_S:
                raise Broken(f"no agreement: {self.cell.state}")
            self.now_s = at_s
            self.steps += 1
            do()
        _require(self.has_agreed(), "nobody does anything any more")
        return self.now_s - FAULTS_S

    def heal(self) -> None:
        self.healed = True
        for one in self.living.values():
            one.skew_ms = 0

    def has_agreed(self) -> bool:
        """Tell whether all that live work in one round, or have ended as the run is closed."""
        state, alive = self.cell.state, list(self.living.values())
        if not self.settings.last_call_s:  # rounds begin without those who look once a second
            return True
        if state.closed:
            return not alive
        inside = [one for one in alive if one.seen is not None and one.seen[0] == state.round]
        wanted = min(len(alive), self.settings.max_members)
        if len(alive) < self.settings.min_members:
            return True
        return state.complete and len(inside) == wanted == state.size == state.participants

    # --- faults

    def crash(self) -> None:
        if self.healed:
            return
        if self.living:
            name = self.rng.choice(sorted(self.living))
            self.say(f"{name} dies")
            self.counts["crashes"] += 1
            del self.living[name]
            self.at(self.rng.random() * 6, self.begin)
        self.again(self.crash, 6)

    def freeze(self) -> None:
        if self.healed:
            return
        if self.living:
            one = self.living[self.rng.choice(sorted(self.living))]
            one.frozen_until_s = self.now_s + self.rng.random() * 8
            self.counts["late heartbeats"] += 1
            self.say(f"{one.name} stands still")
        self.again(self.freeze, 8)

    def jump(self) -> None:
        if self.healed:
            return
        step_ms = self.rng.randint(-20_000, 20_000)
        if self.own_clocks and self.living:
            self.living[self.rng.choice(sorted(self.living))].skew_ms = step_ms
        else:
            self.step_ms += step_ms
        self.counts["clock steps"] += 1
        self.again(self.jump, 15)

    def lose_store(self) -> None:
        if self.healed:
            return
        self.away_until_s = self.now_s + self.rng.random() * 6
        self.since_ms = self.store_ms() + int((self.away_until_s - self.now_s) * 1000)
        self.counts["store lost"] += 1
        self.say("the store is away")
        self.again(self.lose_store, 15)

    def close_it(self) -> None:
        if self.closes and self.living and not self.healed:
            one = self.living[self.rng.choice(sorted(self.living))]
            one.life = self.closing(one)
            self.counts["closes"] += 1
            self.say(f"{one.name} closes the run")
            self.resume(one, one.life, None)

    def again(self, kind: Callable[[], None], mean_s: float) -> None:
        self.at(self.rng.expovariate(1 / mean_s) / (0.2 + self.strength), kind)

    # --- members

    def begin(self) -> None:
        name = f"h{self.rng.randrange(100):02d}_{next(self.numbers)}"
        one = Living(name, life=iter(()))  # type: ignore[arg-type]
        one.life = self.life(one)
        self.living[name] = one
        self.counts["joins"] += 1
        self.resume(one, one.life, None)

    def life(self, one: Living) -> Life:
        """Join, work with heartbeats, and begin again when others wait or are gone."""
        while True:
            try:
                state = yield from self.do(join, one, self.settings.join_timeout_s)
            except RendezvousTimeout:
                continue
            except (RendezvousClosed, RendezvousEnded):
                self.end(one)
                return
            self.joined(one, state)
            while True:
                late = self.rng.random() < 0.05 and not self.healed
                yield Pause(self.rng.uniform(0.3, 1.1) + 3 * late)
                try:
                    state = yield from self.do(keep_alive, one, 2.0)
                except RendezvousTimeout:
                    continue
                leaves = not self.healed and self.rng.random() < 0.03
                ours = (
                    one.seen is not None and state.round == one.seen[0] and one.name in state.ranks
                )
                if leaves or state.closed or not ours or self.changes(state):
                    one.seen = None
                    with contextlib.suppress(RendezvousTimeout):
                        yield from self.do(leave, one, 5.0)
                    if leaves:
                        self.counts["exits"] += 1
                        self.say(f"{one.name} leaves")
                        yield Pause(self.rng.random() * 5)
                    break

    def closing(self, one: Living) -> Life:
        with contextlib.suppress(RendezvousTimeout):
            yield from self.do(close, one, 5.0)
        yield from self.life(one)

    def changes(self, state: State) -> bool:
        """Tell whether a round must give way: members of it are gone, or others wait."""
        return state.participants < state.size or bool(state.at(Membership.WAITING))

    def do(self, operator: Operator, one: Living, timeout_s: float) -> Steps:
        return steps(
            operator, member=MemberIdentity(name=one.name), settings=self.settings,
            timeout_s=timeout_s,
            monotonic_s=lambda: self.now_s, now_ms=lambda: self.store_ms() + one.skew_ms,
            rng=self.rng,
        )  # fmt: skip

    def joined(self, one: Living, state: State) -> None:
        ranks, size = self.cell.rounds[state.round]
        rank = state.ranks[one.name]
        _require(ranks.get(one.name) == rank, f"{one.name} has another rank than was stored")
        _require(size == state.size, f"{one.name} has another size than was stored")
        one.seen = (state.round, rank, size)
        self.counts["rounds joined"] += 1
        self.say(f"{one.name} has rank {rank} of {size} in round {state.round}")

    def end(self, one: Living) -> None:
        _require(self.cell.state.closed, f"{one.name} ended though the run is open")
        self.say(f"{one.name} ends")
        self.living.pop(one.name, None)

    # --- steps

    def resume(self, one: Living, life: Life, answer: StoredState | WrittenState | None) -> None:
        if one.life is not life or self.living.get(one.name) is not one:
            return  # it died, or does something else
        if one.frozen_until_s > self.now_s:
            wait_s = one.frozen_until_s - self.now_s
            self.at(wait_s, lambda: self.resume(one, life, answer))
            return
        try:
            step = life.send(answer)
        except StopIteration:
            return
        if isinstance(step, Pause):
            self.at(step.seconds, lambda: self.resume(one, life, None))
        else:
            self.at(self.delay_s(), lambda: self.serve(one, life, step))

    def serve(self, one: Living, life: Life, step: ReadState | WriteState) -> None:
        """Let the store answer a step; a call without an answer is made again."""
        if self.now_s < self.away_until_s:
            self.at(_RETRY_S, lambda: self.serve(one, life, step))
            return
        was_set = isinstance(step, WriteState) and self.cell.write(step.state, step.token)
        if isinstance(step, WriteState):
            self.counts["writes lost"] += not was_set
            if was_set and not self.healed and self.rng.random() < 0.03:
                self.counts["answers lost"] += 1
                self.at(_RETRY_S, lambda: self.serve(one, life, step))
                return
        stored = self.held(one)
        answer: StoredState | WrittenState | None = stored
        if isinstance(step, WriteState) and stored is not None:
            answer = WrittenState(stored=stored, was_set=was_set)
        self.at(self.delay_s(), lambda: self.resume(one, life, answer))

    def held(self, one: Living) -> StoredState | None:
        if self.cell.stored is None:
            return None
        state, token = self.cell.stored
        return StoredState(
            state=state, token=token, now_ms=self.store_ms() + one.skew_ms, since_ms=self.since_ms
        )

    def store_ms(self) -> int:
        return BASE_MS + int(self.now_s * 1000) + self.step_ms

    def delay_s(self) -> float:
        slow = not self.healed and self.rng.random() < 0.02
        return self.rng.random() * (2.0 if slow else 0.05)

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now_s:8.3f} {text}")


def run_seed(seed: int, *, whole_trace: bool = False) -> Outcome:
    """Run one schedule."""
    meeting, violation, needed_s = Meeting(seed), "", 0.0
    try:
        needed_s = meeting.run()
    except Broken as exc:
        violation = str(exc)
    shown = meeting.trace if whole_trace else meeting.trace[-_SHOWN:]
    return Outcome(
        seed=seed, what="rendezvous", digest=digest_of(meeting.trace), steps=meeting.steps,
        recovery_ms=int(needed_s * 1000), counts=meeting.counts, violation=violation,
        trace=tuple(shown) if violation or whole_trace else (),
    )  # fmt: skip


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)
