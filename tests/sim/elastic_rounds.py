"""Rounds of members that come, go, freeze and lie: both state machines, a network, a clock, a seed.

Nothing here waits or computes: a schedule of seconds of adversity runs in milliseconds. What must
hold is checked while it runs, and a failure names the seed.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fedflow.components.horizontal import aggregator as aggregating
from fedflow.components.horizontal import member as membering
from fedflow.components.horizontal.messages import Ready, StateReply, SumReply
from fedflow.components.horizontal.packing import Layout
from fedflow.components.horizontal.rounds import (
    HISTORY,
    Elasticity,
    Newcomer,
    RoundRules,
    RoundState,
    Total,
)
from fedflow.sdk import FedflowError, RefusedByAggregator, Role, RoundsFailed, Site, TooFewInRound
from fedflow.sdk.errors import PeerFailed
from tests.sim.schedules import Outcome
from tests.sim.trace import digest_of

ROUNDS: Final = 6
LIMIT_S: Final = 20_000.0  #: of simulated time, after which a run hangs
DEADLINE_S: Final = 20.0
MOST_EVENTS: Final = 50_000
_SHOWN: Final = 60
CLEAR: Final = (TooFewInRound, RoundsFailed)


class Broken(AssertionError):
    """An invariant does not hold."""


def contribution_of(site: Site, index: int, count: int, state: RoundState) -> dict[str, Any]:
    """Return what an honest member gives: who it is, and which state it worked on."""
    who = np.zeros(count)
    who[index] = 1.0
    mark = int(state.digest[:6], 16)
    return {"who": who, "mark": np.array([float(mark)]), "value": np.array([index + state.round])}


class Adder:
    """Satisfies `Combiner`; checks every sum."""

    needs_singles = False

    def __init__(self, world: World) -> None:
        self._world = world

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        return None if newcomer.about == {} else "it says something"

    def mistake(self, state: RoundState) -> str | None:
        return "a lie" if "lie" in state.notes else None

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        return RoundState(round=0, arrays={"total": np.zeros(1)})

    def layout(self, state: RoundState) -> Layout:
        return {"who": (self._world.count,), "mark": (1,), "value": (1,)}

    def combine(self, state: RoundState, total: Total) -> RoundState:
        world = self._world
        indexes = sorted(world.sites.index(site) for site in total.counted)
        who = np.zeros(world.count)
        who[indexes] = 1.0
        if not np.array_equal(total.arrays["who"], who):
            if world.liar is not None:
                raise ValueError("somebody lies")
            raise Broken(f"counted {indexes}, the sum has {total.arrays['who']}")
        mark = len(indexes) * int(state.digest[:6], 16)
        if total.arrays["mark"][0] != mark:
            raise Broken("a member worked on another state")
        if total.arrays["value"][0] != sum(i + state.round for i in indexes):
            raise Broken("the sum is not that of those counted")
        number = state.round + 1
        arrays = {"total": state.arrays["total"] + total.arrays["value"]}
        return RoundState(round=number, arrays=arrays, ended=number == ROUNDS)


@dataclass(kw_only=True)
class Process:
    """A party's run: it lives, is frozen, or is gone."""

    launch: int = 0
    machine: Any = None
    frozen: bool = False
    cut: bool = False
    inbox: list[Callable[[], None]] = field(default_factory=list)
    error: FedflowError | None = None
    works: bool = False


class World:
    """All of it. `run` plays one schedule."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = self.random.randint(3, 7)
        self.sites = [
            Site(Role.GUEST if i == 0 else Role.HOST, str(100 + i)) for i in range(self.count)
        ]
        self.arbiter = Site(Role.ARBITER, "1")
        secure = self.random.random() < 0.04
        least = self.random.choice([2, 2, self.random.randint(2, self.count)])
        self.rules = RoundRules(
            secure=secure,
            fraction_bits=0,
            elastic=Elasticity(
                min_parties=least,
                round_deadline_s=DEADLINE_S,
                last_call_s=self.random.choice([0.0, 1.0, 5.0]),
                rejoin=self.random.random() < 0.9,
            ),
        )
        liars = self.random.random() < 0.25 and not secure
        self.liar = self.random.choice(self.sites) if liars else None
        self.now_s = 0.0
        self.completed: dict[int, list[str]] = {}
        self.arbiter_deaths = 0
        self.counts: Counter[str] = Counter()
        self.steps = 0
        self.trouble_s = 0.0  #: when the last fault began
        self.trace: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._processes = {site: Process() for site in (*self.sites, self.arbiter)}
        self._departed: set[Site] = set()

    def run(self) -> None:
        """Play the schedule. Raises: Broken."""
        for site in self._processes:
            self._after(self.random.uniform(0, 5), self._launcher(site))
        for _ in range(self.random.randint(0, 6)):
            self._after(self.random.uniform(0, 150), self._trouble)
        for _ in range(MOST_EVENTS):
            if not self._queue or self._is_over():
                break
            self.now_s, _, event = heapq.heappop(self._queue)
            if self.now_s > LIMIT_S:
                raise Broken("it hangs")
            self.steps += 1
            event()
        self.counts[f"end: {self._check_end()}"] += 1

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now_s:9.3f} {text}")

    # --- faults -----------------------------------------------------------------------------------

    def _trouble(self) -> None:
        both = self.random.random() < 0.2
        for site in self.random.sample(list(self._processes), 2 if both else 1):
            kind = self.random.choice(["kill", "kill", "freeze", "freeze", "cut", "old"])
            process = self._processes[site]
            lasts_s = self.random.choice([1.0, 10.0, 30.0, 60.0, 300.0])
            self.trouble_s = self.now_s
            self.counts[kind] += 1
            self.say(f"{kind} {site}, {lasts_s:g} s")
            if kind == "kill":
                self._kill(site, back_s=lasts_s if self.random.random() < 0.8 else None)
            elif kind == "freeze":
                process.frozen = True
                self._after(lasts_s, lambda site=site: self._thaw(site))
            elif kind == "cut":
                process.cut = True
                self._after(lasts_s, lambda site=site: setattr(self._processes[site], "cut", False))
            elif site != self.arbiter:
                self._deliver(site, self.arbiter, SumReply(serial=0, body={"vector": None}))

    def _kill(self, site: Site, *, back_s: float | None) -> None:
        process = self._processes[site]
        if process.machine is None or self._done(site):
            return
        if site == self.arbiter:
            self.arbiter_deaths += 1
        self._processes[site] = Process(launch=process.launch)
        self._depart(site, "it was killed")
        if back_s is None and site == self.arbiter:
            back_s = 5.0
        if back_s is not None:
            self._after(back_s, self._launcher(site, again=True))

    def _thaw(self, site: Site) -> None:
        process = self._processes[site]
        process.frozen = False
        waiting, process.inbox = process.inbox, []
        for event in waiting:
            event()
        self._tick(site)

    def _depart(self, site: Site, reason: str) -> None:
        self._departed.add(site)
        launch = self._processes[site].launch
        others = self.sites if site == self.arbiter else [self.arbiter]
        for other in others:
            self._after(
                self.random.uniform(0.01, 3),
                lambda other=other: self._notice(other, site, reason, launch=launch),
            )

    def _notice(self, other: Site, site: Site, reason: str, *, launch: int) -> None:
        if self._processes[site].launch != launch:
            return  # the data plane says so of the latest launch
        self._feed(
            other,
            lambda machine: (
                machine.departed(site, reason, self.now_s)
                if other == self.arbiter
                else machine.departed(reason, self.now_s, elastic=True)
            ),
        )

    # --- processes --------------------------------------------------------------------------------

    def _launcher(self, site: Site, *, again: bool = False) -> Callable[[], None]:
        def launch() -> None:
            old = self._processes[site]
            process = Process(launch=old.launch + again, cut=old.cut)
            self.say(f"launch {process.launch} of {site}")
            self._processes[site] = process
            self._departed.discard(site)
            if site == self.arbiter:
                process.machine = aggregating.Aggregator(
                    Adder(self),
                    rules=self.rules,
                    sites=self.sites,
                    session="simulated",
                    launch=process.launch,
                )
            else:
                process.machine = membering.RoundMember(
                    Newcomer(rows=self.sites.index(site) + 1, about={}),
                    membering.MemberSettings(
                        me=site,
                        aggregator=self.arbiter,
                        session="simulated",
                        secure=self.rules.secure,
                        launch=process.launch,
                        silence_s=DEADLINE_S,
                    ),
                )
            self._feed(site, lambda machine: machine.begin(self.now_s))

        return launch

    def _feed(self, site: Site, event: Callable[[Any], Sequence[Any]]) -> None:
        process = self._processes[site]
        if process.machine is None or process.error is not None or self._done(site):
            return
        if process.frozen or process.works:
            process.inbox.append(lambda: self._feed_now(site, process, event))
            return
        self._feed_now(site, process, event)

    def _feed_now(
        self, site: Site, process: Process, event: Callable[[Any], Sequence[Any]]
    ) -> None:
        if process is not self._processes[site] or process.error is not None or self._done(site):
            return
        if process.frozen or process.works:
            process.inbox.append(lambda: self._feed_now(site, process, event))
            return
        try:
            actions = event(process.machine)
        except FedflowError as exc:
            process.error = exc
            self.say(f"{site} fails: {exc}")
            self._check_error(site, exc)
            self._depart(site, str(exc))
            return
        for action in actions:
            self._do(site, process, action)
        if self._done(site):
            self._depart(site, "it ended")
            return
        deadline_s = process.machine.deadline_s
        if deadline_s is not None:
            self._after(max(0.0, deadline_s - self.now_s) + 1e-6, lambda: self._tick(site))

    def _tick(self, site: Site) -> None:
        process = self._processes[site]
        machine = process.machine
        if machine is None or process.frozen or process.works:
            return
        if machine.deadline_s is not None and self.now_s >= machine.deadline_s:
            self._feed(site, lambda found: found.passed(self.now_s))

    def _do(self, site: Site, process: Process, action: Any) -> None:
        if isinstance(action, aggregating.SendToMembers):
            for to in action.to:
                self._deliver(site, to, action.message)
        elif isinstance(action, aggregating.Completed):
            self._complete(action)
        elif isinstance(action, membering.SendToAggregator):
            self._deliver(site, self.arbiter, self._spoilt(site, action.message))
        elif isinstance(action, membering.Work):
            process.works = True
            slow = self.random.random() < 0.1
            seconds = self.random.uniform(0.1, 60 if slow else 5)
            self._after(seconds, lambda: self._worked(site, process, action))

    def _worked(self, site: Site, process: Process, work: membering.Work) -> None:
        process.works = False
        index = self.sites.index(site)
        arrays = contribution_of(site, index, self.count, work.state)
        waiting, process.inbox = process.inbox, []
        self._feed(site, lambda machine: machine.worked(work.serial, arrays, self.now_s))
        for event in waiting:
            event()

    def _deliver(self, source: Site, to: Site, message: Any) -> None:
        if self._processes[source].cut or self._processes[to].cut:
            return
        launch = self._processes[to].launch
        delay_s = self.random.choice([0.001, 0.01, 0.1, 2.0])

        def arrive() -> None:
            if self._processes[to].launch != launch:
                return  # it was sent to the run before
            if to == self.arbiter:
                self._feed(to, lambda machine: machine.received(source, message, self.now_s))
            else:
                self._feed(to, lambda machine: machine.received(message, self.now_s))

        self._after(delay_s, arrive)
        if isinstance(message, Ready) and self.random.random() < 0.1:
            self._after(delay_s + self.random.uniform(0, 30), arrive)

    def _spoilt(self, site: Site, message: Any) -> Any:
        """Return what a liar sends in place of a message."""
        if site != self.liar or self.random.random() < 0.5:
            return message
        if isinstance(message, SumReply):
            vector = message.body["vector"]
            bodies = [
                {"vector": vector[:-1]},
                {"vector": vector.astype(np.float64) * np.nan},
                {"vector": np.full_like(vector, 1 << 62)},
                {"vector": vector + 1},
                {},
                None,
            ]
            serial = message.serial + self.random.choice([0, 0, 0, 1, -1])
            return SumReply(serial=max(0, serial), body=self.random.choice(bodies))
        if isinstance(message, StateReply):
            return StateReply(
                serial=message.serial,
                state=type(message.state)(
                    round=message.state.round,
                    places=message.state.places,
                    notes={"lie": 1},
                    ended=message.state.ended,
                    vector=message.state.vector,
                ),
            )
        return message

    # --- invariants -------------------------------------------------------------------------------

    def _complete(self, action: aggregating.Completed) -> None:
        done = action.participation
        self.say(f"round {done.round} of {_named(done.counted)} without {_named(done.left_out)}")
        if len(done.counted) < max(2, self.rules.elastic.min_parties if self.rules.elastic else 2):
            raise Broken("a round is complete with too few members")
        if set(done.counted) & set(done.left_out):
            raise Broken("a member is counted and left out")
        if set(done.counted) | set(done.left_out) != set(self.sites):
            raise Broken("a member is neither counted nor left out")
        digests = self.completed.setdefault(done.round, [])
        digests.append(action.state.digest)
        if len(digests) > 1 + self.arbiter_deaths:
            raise Broken(f"round {done.round} is complete twice")

    def _check_error(self, site: Site, error: FedflowError) -> None:
        if site == self.arbiter and not isinstance(error, CLEAR):
            raise Broken(f"the aggregator failed with {error!r}") from error
        if site != self.arbiter and not isinstance(error, RefusedByAggregator | PeerFailed):
            raise Broken(f"{site} failed with {error!r}") from error
        if isinstance(error, RefusedByAggregator) and site != self.liar and self._allows_return():
            raise Broken(f"honest {site} was refused: {error}") from error

    def _allows_return(self) -> bool:
        return self.rules.elastic is not None and self.rules.elastic.rejoin

    def _done(self, site: Site) -> bool:
        machine = self._processes[site].machine
        if isinstance(machine, aggregating.Aggregator):
            return machine.phase is aggregating.RoundPhase.OVER
        return machine is not None and machine.is_over

    def _is_over(self) -> bool:
        arbiter = self._processes[self.arbiter]
        if arbiter.error is not None:
            return True
        if arbiter.machine is None:
            return False
        return all(
            self._done(site)
            or p.error is not None
            or (p.machine is None and site in self._departed)
            for site, p in self._processes.items()
        )

    def _check_end(self) -> str:
        arbiter = self._processes[self.arbiter]
        if arbiter.error is not None:
            return type(arbiter.error).__name__
        if not self._done(self.arbiter):
            raise Broken(f"no end after {self.now_s:.0f} s in {arbiter.machine.phase}")
        last: RoundState = arbiter.machine.state
        if last.round != ROUNDS or not last.ended:
            raise Broken(f"it ended after {last.round} rounds")
        covered = [n for e in last.notes[HISTORY] for n in range(e["first"], e["last"] + 1)]
        if covered != list(range(ROUNDS)):
            raise Broken(f"the history has the rounds {covered}")
        expected = sum(
            (number * len(entry["counted"]))
            + sum(self.sites.index(Site.from_key(key)) for key in entry["counted"])
            for entry in last.notes[HISTORY]
            for number in range(entry["first"], entry["last"] + 1)
        )
        if last.arrays["total"][0] != expected:
            raise Broken("the end is not the sum of the rounds in its history")
        for site in self.sites:
            machine = self._processes[site].machine
            if machine is not None and machine.is_over and machine.state.digest != last.digest:
                raise Broken(f"{site} ended with another state")
        return "success"

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_s + seconds, self._number, event))


def run_seed(seed: int, *, whole_trace: bool = False) -> Outcome:
    """Play one schedule."""
    world, violation = World(seed), ""
    try:
        world.run()
    except Exception as exc:  # whatever a machine raises is a violation
        violation = str(exc) if isinstance(exc, Broken) else repr(exc)
    shown = world.trace if whole_trace else world.trace[-_SHOWN:]
    return Outcome(
        seed=seed, what="rounds", digest=digest_of(world.trace), steps=world.steps,
        recovery_ms=int((world.now_s - world.trouble_s) * 1000), counts=world.counts,
        violation=violation, trace=tuple(shown) if violation or whole_trace else (),
    )  # fmt: skip


def _named(sites: Iterable[Site]) -> str:
    return ", ".join(map(str, sites)) or "nobody"
