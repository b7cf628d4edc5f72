"""The aggregator's end of the rounds, as a state machine: events in, actions out; no clock, no I/O.

Phases: *gather* members until a round can begin; *recover* the state, if members have one that this
aggregator does not know; *collect* the stages of a round's sum; *spread* the last state; *over*.

Who is late at a stage's deadline, or gone, is left out of the round, which goes on with the others.
If too few are left it is given up: nothing of it was opened, and it begins anew under a larger
serial. A member is counted at most once, since a sum takes one vector per member and serial, and a
round is complete once its sum is combined. A member that was left out takes part again after it
has said `ready`; what it sends late is answered with a recall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from fedflow.components.horizontal.messages import (
    SERIALS_PER_LAUNCH,
    Finish,
    Question,
    Ready,
    Recall,
    Rejected,
    RoundStart,
    StateReply,
    SumReply,
    ToAggregator,
    ToMember,
    places,
    state_body,
    state_of,
)
from fedflow.components.horizontal.rounds import (
    FIRST_JOIN_S,
    HISTORY,
    Combiner,
    Newcomer,
    Participation,
    RoundRules,
    RoundState,
    Total,
    fewest,
    history_with,
    least_members,
)
from fedflow.components.horizontal.sums import PlainSum, SecureSum, Sum, decoded, plan_of
from fedflow.components.secure_aggregation.plan import SumPlan
from fedflow.sdk import (
    BadData,
    DishonestParty,
    PeerFailed,
    RoundsFailed,
    Site,
    TooFewInRound,
    TooFewMembers,
)

MOST_TRIES: Final = 10  #: of one round, one after the other
RECOVERY_S: Final = 5.0  #: least last call after a launch again: who has the latest state may come


class RoundPhase(Enum):
    """See the module."""

    GATHER = "gather"
    RECOVER = "recover"
    COLLECT = "collect"
    SPREAD = "spread"
    OVER = "over"


@dataclass(frozen=True, kw_only=True, slots=True)
class SendToMembers:
    """Send a message to some members."""

    to: tuple[Site, ...]
    message: ToMember


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """A round is complete: who took part, and what came of it."""

    participation: Participation
    state: RoundState


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something that people may want to know."""

    text: str


Action = SendToMembers | Completed | Note


class Aggregator:
    """See the module. All methods take the time in seconds, of a clock that never goes back."""

    def __init__(
        self,
        combiner: Combiner,
        *,
        rules: RoundRules,
        sites: Sequence[Site],
        session: str,
        launch: int = 0,
        threads: int = 1,
    ) -> None:
        """`sites` are all members that may come; `session` is of no other run's rounds.

        `threads` make the masks that are removed.
        """
        self.phase = RoundPhase.GATHER
        self.state: RoundState | None = None
        self._combiner = combiner
        self._rules = rules
        self._sites = {site.key: site for site in sites}
        self._session = session
        self._launch = launch
        self._threads = threads
        self._serial = launch * SERIALS_PER_LAUNCH
        self._deadline_s: float | None = None
        self._since_s = 0.0  #: when the phase began
        self._ready: dict[Site, Ready] = {}
        self._launches: dict[Site, int] = {}  #: the latest that was heard of
        self._gone: dict[Site, tuple[float, str]] = {}  #: ended or lost, since when and why
        self._late: dict[Site, tuple[float, str]] = {}  #: silent, since when and why
        self._banned: dict[Site, str] = {}
        self._sum: Sum | None = None
        self._plan: SumPlan | None = None
        self._rows: dict[str, int] = {}  #: of the members of the round that runs
        self._tries = 0
        self._asked: list[Site] = []  #: for their state, the last one now
        self._spread: set[Site] = set()  #: have the last state
        self._actions: list[Action] = []

    @property
    def deadline_s(self) -> float | None:
        """Return when `passed` must be called, if nothing else happens before."""
        return self._deadline_s

    @property
    def serial(self) -> int:
        """Return the number of what was begun last."""
        return self._serial

    # --- events -----------------------------------------------------------------------------------

    def begin(self, now_s: float) -> list[Action]:
        """Begin to gather members."""
        self._enter(RoundPhase.GATHER, now_s)
        if self._launch:
            self._send(self._sites.values(), Recall(serial=self._serial))
        return self._taken()

    def received(self, site: Site, message: ToAggregator, now_s: float) -> list[Action]:
        """Take a message. Raises: FedflowError: the run fails."""
        if site not in self._banned and self.phase is not RoundPhase.OVER:
            if isinstance(message, Ready):
                self._take_ready(site, message, now_s)
            elif isinstance(message, StateReply):
                self._take_state(site, message, now_s)
            else:
                self._take_answer(site, message, now_s)
            self._advance(now_s)
        return self._taken()

    def damaged(self, site: Site, reason: str, now_s: float) -> list[Action]:
        """Take what is no message. Raises: FedflowError: the run fails."""
        if site not in self._banned and self.phase is not RoundPhase.OVER:
            self._ban(site, reason, now_s)
            self._advance(now_s)
        return self._taken()

    def departed(self, site: Site, reason: str, now_s: float) -> list[Action]:
        """Take that a member's run has ended or is gone. Raises: PeerFailed, TooFewInRound."""
        if self.phase is RoundPhase.OVER or site in self._banned:
            return self._taken()
        if self._rules.elastic is None and not (
            self.phase is RoundPhase.SPREAD and site in self._spread
        ):
            raise PeerFailed(site=site, reason=reason)
        if site not in self._gone:
            self._note(f"{site} is gone: {reason}")
        self._gone.setdefault(site, (now_s, reason))
        self._ready.pop(site, None)
        self._check_enough_left(now_s)
        if self.phase is RoundPhase.GATHER and len(self._ready) < self._least:
            self._set_deadline(now_s)
        self._advance(now_s)
        return self._taken()

    def passed(self, now_s: float) -> list[Action]:
        """Take that time has passed. Raises: TooFewInRound, RoundsFailed."""
        if self.phase is not RoundPhase.OVER:
            self._advance(now_s)
        return self._taken()

    # --- members ----------------------------------------------------------------------------------

    def _take_ready(self, site: Site, ready: Ready, now_s: float) -> None:
        if ready.launch < self._launches.get(site, 0):
            return
        restarted = ready.launch > self._launches.get(site, ready.launch)
        absent = site in self._gone or site in self._late or restarted
        elastic = self._rules.elastic
        if absent and elastic is not None and not elastic.rejoin:
            self._refuse(site, "who was left out does not take part again: rejoin is off")
            return
        self._launches[site] = ready.launch
        if self.state is not None:
            reason = self._combiner.admit(self.state, _newcomer(ready))
            if reason is not None:
                self._refuse(site, reason)
                return
        if absent:
            self._note(f"{site} is back")
        if self._collects(site) and (restarted or site in self._gone):
            self._gone.setdefault(site, (now_s, "it was launched again"))
        else:
            self._gone.pop(site, None)
        self._late.pop(site, None)
        self._ready[site] = ready
        if self.phase is RoundPhase.SPREAD and self.state is not None:
            if ready.ended and ready.digest == self.state.digest:
                self._spread.add(site)
            else:
                self._send([site], self._last_start())

    def _take_answer(self, site: Site, answer: SumReply, now_s: float) -> None:
        if answer.serial > self._serial:
            self._ban(site, "it answers a round that has not begun", now_s)
        elif self._sum is None or not self._collects(site) or site.key in self._sum.lost:
            self._send([site], Recall(serial=self._serial))
        elif answer.serial == self._serial:
            try:
                if not self._sum.receive(site.key, answer.body):
                    self._send([site], Recall(serial=self._serial))
            except DishonestParty as exc:
                self._blame(site, exc, now_s)

    def _take_state(self, site: Site, reply: StateReply, now_s: float) -> None:
        if self.phase is not RoundPhase.RECOVER or reply.serial != self._serial:
            return
        wanted = self._ready.get(site)
        if not self._asked or self._asked[-1] != site or wanted is None:
            return
        try:
            state = state_of(reply.state)
        except ValueError as exc:
            self._ban(site, str(exc), now_s)
            return
        if state.digest != wanted.digest or state.round != wanted.round:
            self._ban(site, "it sends another state than it said it had", now_s)
            return
        reason = self._combiner.mistake(state)
        if reason is not None:
            self._ban(site, reason, now_s)
            return
        self.state = state
        self._note(f"training goes on with the state after {state.round} rounds, from {site}")
        self._admit_all()
        self._begin_round(now_s)

    def _admit_all(self) -> None:
        for site, ready in list(self._ready.items()):
            if self.state is not None:
                reason = self._combiner.admit(self.state, _newcomer(ready))
                if reason is not None:
                    self._refuse(site, reason)

    def _refuse(self, site: Site, reason: str) -> None:
        if self._rules.elastic is None:
            raise BadData(where=f"{site}'s data or model", reason=reason)
        self._note(f"{site} cannot take part: {reason}")
        self._banned[site] = reason
        self._ready.pop(site, None)
        self._send([site], Rejected(serial=self._serial, reason=reason[:2000]))

    def _blame(self, site: Site, error: DishonestParty, now_s: float) -> None:
        """Give the round up, without whoever broke its rules from now on."""
        named = next((s for key, s in self._sites.items() if key == error.fields["party"]), site)
        self._ban(named, str(error.fields["reason"]), now_s)
        if self.phase is RoundPhase.COLLECT:
            self._give_up(f"{named} broke the rules: {error.fields['reason']}", now_s)

    def _ban(self, site: Site, reason: str, now_s: float) -> None:
        if self._rules.elastic is None:
            number = self.state.round if self.state else 0
            raise DishonestParty(party=str(site), round=number, reason=reason)
        self._refuse(site, reason)
        self._gone.setdefault(site, (now_s, reason))
        self._check_enough_left(now_s)

    def _collects(self, site: Site) -> bool:
        """Tell whether a member's answers to the round that runs are still due."""
        return (
            self.phase is RoundPhase.COLLECT and self._plan is not None and self._plan.has(site.key)
        )

    def _check_enough_left(self, now_s: float) -> None:
        """Raises: TooFewInRound: all others are gone, so waiting would not help."""
        elastic = self._rules.elastic
        if elastic is None or self.phase is RoundPhase.SPREAD:
            return
        left = [s for s in self._sites.values() if s not in self._gone and s not in self._banned]
        if len(left) < max(2, elastic.min_parties):
            raise self._too_few(len(left), now_s)

    def _too_few(self, have: int, now_s: float) -> TooFewInRound:
        missing = {**{s: (now_s, r) for s, r in self._banned.items()}, **self._late, **self._gone}
        for site in self._sites.values():
            if site not in self._ready and site not in missing:
                missing[site] = (self._since_s, "it did not come")
        told = "; ".join(
            f"{site} for {now_s - since_s:.0f} s ({reason})"
            for site, (since_s, reason) in sorted(missing.items(), key=lambda one: one[0].order)
        )
        return TooFewInRound(
            have=have,
            least=self._least,
            round=self.state.round if self.state else 0,
            missing=told or "nobody is known to be",
        )

    @property
    def _least(self) -> int:
        return least_members(self._rules, len(self._sites))

    # --- what follows -----------------------------------------------------------------------------

    def _advance(self, now_s: float) -> None:
        """Go on as far as it goes without a further event."""
        is_late = self._deadline_s is not None and now_s >= self._deadline_s
        if self.phase is RoundPhase.GATHER:
            self._gather(now_s, is_late=is_late)
        elif self.phase is RoundPhase.RECOVER:
            holder = self._asked[-1]
            if is_late or holder not in self._ready:
                if is_late:
                    self._miss(holder, "it did not send its state", now_s)
                self._recover_or_begin(now_s)
        elif self.phase is RoundPhase.COLLECT:
            self._collect(now_s, is_late=is_late)
        elif self.phase is RoundPhase.SPREAD:
            due = [s for s in self._ready if s not in self._spread and s not in self._gone]
            if not due or is_late:
                self._send(self._sites.values(), Finish(serial=self._serial))
                self._enter(RoundPhase.OVER, now_s)

    def _gather(self, now_s: float, *, is_late: bool) -> None:
        elastic = self._rules.elastic
        usable = [s for s in self._sites.values() if s not in self._banned]
        if elastic is None:
            if len(self._ready) == len(usable):
                self._recover_or_begin(now_s)
            return
        count = len(self._ready)
        expected = [s for s in usable if s not in self._gone and s not in self._late]
        full = count >= len(expected) or count >= (elastic.max_parties or len(usable))
        if count < self._least:
            if is_late:
                raise self._too_few(count, now_s)
            return
        last_call_s = elastic.last_call_s
        if self._launch and self.state is None:
            last_call_s = max(last_call_s, RECOVERY_S)
        if self._deadline_s is not None and self._deadline_s > now_s + last_call_s:
            self._deadline_s = now_s + last_call_s
        if full or is_late or last_call_s == 0:
            for site in expected:
                if site not in self._ready:
                    self._miss(site, "it was not ready", now_s)
            self._recover_or_begin(now_s)

    def _recover_or_begin(self, now_s: float) -> None:
        if self.state is None:
            holder = self._best_holder()
            if holder is not None:
                self._serial += 1
                self._asked.append(holder)
                self._enter(RoundPhase.RECOVER, now_s)
                self._send([holder], Recall(serial=self._serial, with_state=True))
                return
            found = {site: _newcomer(ready) for site, ready in self._ready.items()}
            self.state = self._combiner.begin(found)
        self._begin_round(now_s)

    def _best_holder(self) -> Site | None:
        """Return who has the highest state; of several of one round that of most, not yet asked."""
        holders: dict[tuple[int, str], list[Site]] = {}
        for site, ready in self._ready.items():
            if 0 <= ready.round <= self._rules.most_rounds and ready.digest:
                holders.setdefault((ready.round, ready.digest), []).append(site)
        ranked = sorted(
            holders.items(), key=lambda one: (one[0][0], len(one[1]), one[0][1]), reverse=True
        )
        for _, sites in ranked:
            for site in sites:
                if site not in self._asked:
                    return site
        return None

    def _begin_round(self, now_s: float) -> None:
        state = self.state
        if state is None:
            raise RuntimeError("no round without a state")
        self._serial += 1
        if state.ended:
            self._enter(RoundPhase.SPREAD, now_s)
            self._spread = set()
            self._send(
                (s for s in self._sites.values() if s not in self._banned), self._last_start()
            )
            return
        members = self._chosen()
        if len(members) < self._least:
            self._enter(RoundPhase.GATHER, now_s)
            return
        start = self._start(state, members)
        self._rows = {site.key: self._ready[site].rows for site in members}
        self._plan = plan_of(
            start.members,
            self._combiner.layout(state),
            session=self._session,
            serial=self._serial,
            least=start.least,
            fraction_bits=self._rules.fraction_bits,
            signed=self._rules.signed,
        )
        if self._rules.secure:
            self._sum = SecureSum(self._plan, threads=self._threads)
        else:
            keeps = self._combiner.needs_singles
            self._sum = PlainSum(self._plan, rows=self._rows, keeps=keeps)
        self._enter(RoundPhase.COLLECT, now_s)
        self._send(members, start)

    def _chosen(self) -> list[Site]:
        elastic = self._rules.elastic
        most = len(self._sites) if elastic is None else elastic.max_parties or len(self._sites)
        return [site for site in self._sites.values() if site in self._ready][:most]

    def _start(self, state: RoundState, members: Sequence[Site]) -> RoundStart:
        return RoundStart(
            serial=self._serial,
            state=state_body(state),
            members=sorted(site.key for site in members),
            layout=places(self._combiner.layout(state)),
            least=fewest(self._rules, len(members)),
            secure=self._rules.secure,
            fraction_bits=self._rules.fraction_bits,
        )

    def _last_start(self) -> RoundStart:
        if self.state is None:
            raise RuntimeError("no state to spread")
        return RoundStart(
            serial=self._serial,
            state=state_body(self.state),
            members=[],
            layout=[],
            least=2,
            secure=self._rules.secure,
            fraction_bits=self._rules.fraction_bits,
        )

    def _collect(self, now_s: float, *, is_late: bool) -> None:
        while self.phase is RoundPhase.COLLECT and self._sum is not None:
            waiting = [k for k in self._sum.due if self._sites[k] not in self._gone]
            if not self._sum.is_complete and waiting and not is_late:
                return
            for key in waiting if is_late and not self._sum.is_complete else ():
                stage = self._sum.stage
                self._miss(self._sites[key], f"too late with {stage.value if stage else ''}", now_s)
            is_late = False
            try:
                questions = self._sum.close_stage()
            except TooFewMembers as exc:
                self._give_up(str(exc.fields["reason"]), now_s)
                return
            except DishonestParty as exc:
                self._blame(self._sites.get(str(exc.fields["party"]), self._first), exc, now_s)
                return
            if self._sum.stage is None:
                self._combine(now_s)
                return
            self._set_deadline(now_s)
            self._ask(questions)

    @property
    def _first(self) -> Site:
        return next(iter(self._sites.values()))

    def _ask(self, questions: Mapping[str, object]) -> None:
        """Send every member its question; one that several have is sent once."""
        groups: dict[int, list[str]] = {}
        for key, body in questions.items():
            groups.setdefault(id(body), []).append(key)
        for keys in groups.values():
            body = questions[keys[0]]
            self._send([self._sites[k] for k in keys], Question(serial=self._serial, body=body))

    def _combine(self, now_s: float) -> None:
        state, found, plan = self.state, self._sum, self._plan
        if state is None or found is None or plan is None:
            raise RuntimeError("no sum to combine")
        layout = self._combiner.layout(state)
        counted = {self._sites[key]: self._rows[key] for key in found.inputs}
        arrays, rows = decoded(found.sum(), layout, plan=plan)
        singles = {}
        if isinstance(found, PlainSum):
            for key, vector in found.singles.items():
                singles[self._sites[key]] = decoded(vector, layout, plan=plan)[0]
        total = Total(arrays=arrays, rows=rows, counted=counted, singles=singles)
        try:
            if rows != sum(counted.values()):
                raise ValueError(f"{rows} rows in the sum, {sum(counted.values())} were announced")
            following = self._combiner.combine(state, total)
        except ValueError as exc:
            self._give_up(str(exc), now_s)
            return
        if following.round != state.round + 1:
            raise RuntimeError("the next state is not of the next round")
        participation = Participation(
            round=state.round,
            counted=counted,
            left_out=self._left_out(counted),
            seconds=now_s - self._since_s,
        )
        history = history_with(state.notes, participation)
        self.state = replace(following, notes={**following.notes, HISTORY: history})
        self._tries = 0
        self._actions.append(Completed(participation=participation, state=self.state))
        self._go_on(now_s)

    def _left_out(self, counted: Mapping[Site, int]) -> dict[Site, str]:
        known = {
            **self._banned,
            **{s: r for s, (_, r) in (*self._late.items(), *self._gone.items())},
        }
        return {
            site: known.get(site, "it came after the round began")
            for site in self._sites.values()
            if site not in counted
        }

    def _give_up(self, reason: str, now_s: float) -> None:
        """Begin the round anew, with those that are left."""
        number = self.state.round if self.state else 0
        self._note(f"round {number} is given up and begins anew: {reason}")
        self._tries += 1
        if self._rules.elastic is None or self._tries >= MOST_TRIES:
            raise RoundsFailed(round=number, tries=self._tries, reason=reason)
        self._go_on(now_s)

    def _go_on(self, now_s: float) -> None:
        """Begin what follows a round: all that are ready take part in it."""
        self._sum = self._plan = None
        for site in self._ready:
            self._gone.pop(site, None)
        self._enter(RoundPhase.GATHER, now_s)
        state = self.state
        if (state is not None and state.ended) or len(self._ready) >= self._least:
            self._begin_round(now_s)

    def _miss(self, site: Site, reason: str, now_s: float) -> None:
        """Leave a member out that is silent, until it says `ready` again."""
        self._note(f"{site} is left out: {reason}")
        self._late.setdefault(site, (now_s, reason))
        self._ready.pop(site, None)

    def _enter(self, phase: RoundPhase, now_s: float) -> None:
        self.phase = phase
        self._since_s = now_s
        self._set_deadline(now_s)

    def _set_deadline(self, now_s: float) -> None:
        elastic = self._rules.elastic
        self._deadline_s = None
        if elastic is not None and self.phase is not RoundPhase.OVER:
            wait_s = elastic.round_deadline_s
            if self.phase is RoundPhase.GATHER and self.state is None:
                wait_s = max(wait_s, FIRST_JOIN_S)
            self._deadline_s = now_s + wait_s

    def _send(self, to: Iterable[Site], message: ToMember) -> None:
        self._actions.append(SendToMembers(to=tuple(to), message=message))

    def _note(self, text: str) -> None:
        self._actions.append(Note(text=text))

    def _taken(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions


def _newcomer(ready: Ready) -> Newcomer:
    return Newcomer(rows=ready.rows, about=ready.about)
