"""A member's end of the rounds, as a state machine: events in, actions out; no clock, no I/O.

It says `ready`, and does what a start and the questions of its serial ask. Whatever is of an older
serial is ignored; a larger one ends what it was doing. After a recall, or if nothing is heard for
long, it says `ready` again, so that a message that was lost keeps nobody out for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from fedflow.components.horizontal.messages import (
    SERIALS_PER_LAUNCH,
    Question,
    Ready,
    Recall,
    Rejected,
    RoundStart,
    StateReply,
    SumReply,
    ToAggregator,
    ToMember,
    layout_at,
    state_body,
    state_of,
)
from fedflow.components.horizontal.rounds import FIRST_JOIN_S, Newcomer, RoundState
from fedflow.components.horizontal.sums import SecureMember, encoded, plan_of
from fedflow.components.secure_aggregation.messages import AGGREGATOR
from fedflow.components.secure_aggregation.plan import SumPlan
from fedflow.components.secure_aggregation.signatures import Signatures
from fedflow.sdk import DishonestParty, PeerFailed, RefusedByAggregator, Site, TooFewMembers

SILENCE_S: Final = 30.0  #: after which a member says `ready` again, at least; seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class SendToAggregator:
    """Send the aggregator a message."""

    message: ToAggregator


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Do the work of a round, and give the machine the contribution (`worked`)."""

    serial: int
    state: RoundState
    members: tuple[Site, ...]  #: that began the round


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """A state has come that was not known before."""

    state: RoundState


Action = SendToAggregator | Work | Took


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberSettings:
    """What a member's end is told of the run when it begins."""

    me: Site
    aggregator: Site
    session: str  #: of no other run's rounds
    secure: bool  #: this party's own setting; it takes part in no round of the other kind
    members: tuple[Site, ...] = ()  #: that may take part, this one too; empty: whoever is named
    least: int = 2  #: members of a round, at the beginning and to the end
    launch: int = 0
    silence_s: float | None = None  #: of the aggregator, then `ready` is said again; None: never
    signatures: Signatures | None = None  #: of a run whose rounds are signed
    threads: int = 1  #: that make masks


class RoundMember:
    """See the module. All methods take the time in seconds, of a clock that never goes back."""

    def __init__(
        self, newcomer: Newcomer, settings: MemberSettings, *, state: RoundState | None = None
    ) -> None:
        """Begin without a state, or with that of an earlier attempt."""
        self.state = state
        self.is_over = False
        self._newcomer = newcomer
        self._me = settings.me
        self._aggregator = settings.aggregator
        self._session = settings.session
        self._secure = settings.secure
        self._may_take_part = frozenset(site.key for site in settings.members)
        self._least = settings.least
        self._signatures = settings.signatures
        self._threads = settings.threads
        self._launch = settings.launch
        silence_s = settings.silence_s
        self._silence_s = None if silence_s is None else max(SILENCE_S, silence_s)
        self._serial = -1
        self._plan: SumPlan | None = None
        self._start: RoundStart | None = None
        self._masking: SecureMember | None = None
        self._asked: Any = None  #: the question that the contribution answers
        self._works = False
        self._took = ""  #: digest of the last state that came
        self._members: tuple[Site, ...] = ()
        self._gone: str | None = None  #: why the aggregator is gone; a later launch may come
        self._heard_s = 0.0  #: when the last message came
        self._quiet_at_s: float | None = None
        self._actions: list[Action] = []

    @property
    def deadline_s(self) -> float | None:
        """Return when `passed` must be called, if nothing else happens before."""
        return None if self.is_over else self._quiet_at_s

    def begin(self, now_s: float) -> list[Action]:
        """Say that this member is there."""
        self._heard_s = now_s
        self._say_ready()
        return self._taken(now_s)

    def received(self, message: ToMember, now_s: float) -> list[Action]:
        """Take a message. Raises: DishonestParty, RefusedByAggregator: this run ends."""
        self._heard_s = now_s
        if message.serial // SERIALS_PER_LAUNCH > max(0, self._serial) // SERIALS_PER_LAUNCH:
            self._gone = None  # it was launched again
        if message.serial < self._serial or self.is_over:
            return self._taken(now_s)
        if isinstance(message, RoundStart):
            self._take_start(message)
        elif isinstance(message, Question):
            if message.serial == self._serial:
                self._take_question(message)
        elif isinstance(message, Recall):
            self._take_recall(message)
        elif isinstance(message, Rejected):
            raise RefusedByAggregator(site=self._aggregator, reason=message.reason)
        elif self.state is not None and self.state.ended:
            self.is_over = True
        return self._taken(now_s)

    def worked(self, serial: int, arrays: Mapping[str, NDArray[Any]], now_s: float) -> list[Action]:
        """Take the contribution to the round of `serial`.

        Raises: NotEncodable: a number is too large. ValueError: other arrays than the layout's, or
            a number that is not finite.
        """
        plan, start = self._plan, self._start
        if serial != self._serial or not self._works or plan is None or start is None:
            return self._taken(now_s)
        self._works = False
        layout = layout_at(start.layout)
        vector = encoded(arrays, layout, rows=self._newcomer.rows, plan=plan)
        if self._masking is None:
            self._answer({"vector": vector})
        else:
            masking = self._masking
            self._tried(lambda: masking.masked(self._asked, vector))
        return self._taken(now_s)

    def departed(self, reason: str, now_s: float, *, elastic: bool) -> list[Action]:
        """Take that the aggregator's run has ended or is gone; it may return, or be back, if
        `elastic`.

        Raises: PeerFailed.
        """
        if elastic:
            self._gone = reason
            self._say_ready()  # to its next launch, which may have missed an earlier one
        elif self.state is None or not self.state.ended:
            raise PeerFailed(site=self._aggregator, reason=reason)
        else:
            self.is_over = True  # its `finish` would say nothing new
        return self._taken(now_s)

    def passed(self, now_s: float) -> list[Action]:
        """Take that time has passed. Raises: PeerFailed: nothing is heard for too long."""
        if self._silence_s is None or self._quiet_at_s is None or now_s < self._quiet_at_s:
            return []
        silent_s = now_s - self._heard_s
        if self.state is not None and self.state.ended and silent_s > FIRST_JOIN_S:
            self.is_over = True  # its `finish` is lost, and nobody comes who needs this state
            return []
        limit_s = 2 * FIRST_JOIN_S + 10 * self._silence_s
        if silent_s > limit_s:
            reason = self._gone or f"nothing was heard of it for {limit_s:.0f} s"
            raise PeerFailed(site=self._aggregator, reason=reason)
        self._say_ready()
        return self._taken(now_s)

    # --- messages ---------------------------------------------------------------------------------

    def _take_start(self, start: RoundStart) -> None:
        if start.serial == self._serial and self._start is not None and not start.state.ended:
            return
        try:
            state = state_of(start.state)
            layout = layout_at(start.layout)
        except ValueError as exc:
            raise self._dishonest(str(exc)) from exc
        self._serial = start.serial
        self._drop_round()
        self._start = start
        if self._took != state.digest:
            self._took = state.digest
            self._actions.append(Took(state=state))
        self.state = state
        if state.ended:
            self._say_ready()
            return
        if (reason := self._wrong_members(start)) is not None:
            raise self._dishonest(reason)
        if start.secure != self._secure:
            kind = "with" if start.secure else "without"
            raise self._dishonest(f"its sums are {kind} masks, this party's parameters differ")
        try:
            self._plan = plan_of(
                start.members,
                layout,
                session=self._session,
                serial=start.serial,
                least=start.least,
                fraction_bits=start.fraction_bits,
                signed=self._signatures is not None,
            )
            self._members = tuple(Site.from_key(key) for key in start.members)
        except ValueError as exc:
            raise self._dishonest(str(exc)) from exc
        if start.secure:
            masking = SecureMember(
                self._plan, self._me.key, signatures=self._signatures, threads=self._threads
            )
            self._masking = masking
            self._tried(masking.keys)
        else:
            self._begin_work(state)

    def _wrong_members(self, start: RoundStart) -> str | None:
        """Return why nobody may contribute to a round of these members, None if all may.

        Who chooses the members chooses whose sum is opened: not its own, and not of too few.
        """
        named = frozenset(start.members)
        if self._me.key not in named:
            return "it begins a round without this member, and tells it"
        if self._may_take_part and (strangers := sorted(named - self._may_take_part)):
            return f"it names {strangers[0]} as a member, which has no rows"
        if min(len(named), start.least) < min(self._least, len(self._may_take_part) or 2):
            return f"it begins a round of {len(named)} members, of which {start.least} must stay"
        return None

    def _take_question(self, question: Question) -> None:
        masking, state = self._masking, self.state
        if masking is None or state is None or self._works:
            return
        stage = question.body.get("stage") if isinstance(question.body, dict) else None
        if stage == "inputs":
            self._asked = question.body
            self._begin_work(state)
        elif stage == "shares":
            self._tried(lambda: masking.shares(question.body))
        elif stage == "confirmations":
            self._tried(lambda: masking.confirm(question.body))
        else:
            self._tried(lambda: masking.unmask(question.body))

    def _take_recall(self, recall: Recall) -> None:
        self._serial = recall.serial
        self._drop_round()
        if recall.with_state and self.state is not None:
            body = state_body(self.state)
            self._actions.append(
                SendToAggregator(message=StateReply(serial=recall.serial, state=body))
            )
            return
        self._say_ready()

    def _begin_work(self, state: RoundState) -> None:
        self._works = True
        self._actions.append(Work(serial=self._serial, state=state, members=self._members))

    def _tried(self, step: Any) -> None:
        """Answer with the next step of the sum; a round in which it is refused is dropped."""
        try:
            self._answer(step())
        except TooFewMembers:
            self._drop_round()
            self._say_ready()
        except DishonestParty as exc:
            self._drop_round()
            raise self._named(exc) from exc

    def _drop_round(self) -> None:
        self._start = self._plan = self._masking = self._asked = None
        self._works = False

    def _answer(self, body: Any) -> None:
        self._actions.append(SendToAggregator(message=SumReply(serial=self._serial, body=body)))

    def _say_ready(self) -> None:
        state = self.state
        self._actions.append(
            SendToAggregator(
                message=Ready(
                    launch=self._launch,
                    rows=self._newcomer.rows,
                    about=dict(self._newcomer.about),
                    round=-1 if state is None else state.round,
                    digest="" if state is None else state.digest,
                    ended=state is not None and state.ended,
                )
            )
        )

    def _dishonest(self, reason: str) -> DishonestParty:
        number = self.state.round if self.state else 0
        return DishonestParty(party=str(self._aggregator), round=number, reason=reason)

    def _named(self, error: DishonestParty) -> DishonestParty:
        """Return what a sum found, with the party and the round as people know them."""
        party, reason = str(error.fields["party"]), str(error.fields["reason"])
        if party == AGGREGATOR:
            return self._dishonest(reason)
        number = self.state.round if self.state else 0
        return DishonestParty(party=str(Site.from_key(party)), round=number, reason=reason)

    def _taken(self, now_s: float) -> list[Action]:
        if self._silence_s is not None:
            self._quiet_at_s = now_s + self._silence_s
        actions, self._actions = self._actions, []
        return actions
