"""The state of a rendezvous, which all members share, and its compact bytes.

The bytes are JSON: `[version, round, size, deadline_ms, closed, base_ms, members]`, where a
member is `[name, address, membership, rank, heartbeat_ms - base_ms]`. 1,000 members with the
longest names and addresses need less than 160 KB. Whoever can write to a run can write any bytes,
so everything is checked before it is used; nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import Annotated, Final

import msgspec

from fedflow.base.errors.rendezvous import RendezvousStateCorrupt
from fedflow.base.values import dataclass
from fedflow.domain.administration.rendezvous import MAX_STATE_BYTES
from fedflow.elastic.member import ADDRESS, NAME

MAX_MEMBERS: Final = 1_000
MAX_BYTES: Final = MAX_STATE_BYTES
NO_RANK: Final = -1
_VERSION: Final = 1
_MAX_MS: Final = 2**50  #: the year 37,000


class Membership(IntEnum):
    """What a member is in a round. It has one membership, or is no member."""

    PARTICIPANT = 0  #: takes part
    WAITING = 1  #: takes part in the next round
    REDUNDANT = 2  #: as many as are allowed take part already


@dataclass(frozen=True, kw_only=True, slots=True)
class RendezvousSettings:
    """What all members of a run were started with; times in seconds, > 0."""

    run_id: str
    min_members: int  #: a round needs so many, >= 1
    max_members: int  #: and has at most so many, <= 1,000
    join_timeout_s: float = 600.0  #: how long a member waits for a round
    last_call_s: float = 30.0  #: how long a round that has its minimum waits for more
    close_timeout_s: float = 30.0  #: how long closing, or leaving, may take
    heartbeat_timeout_s: float = 5.0  #: how long a heartbeat may take
    keep_alive_interval_s: float = 5.0  #: between two heartbeats
    keep_alive_attempts: int = 3  #: a member that missed so many is dead

    def __post_init__(self) -> None:
        """Raises: ValueError: a number out of range."""
        if not 1 <= self.min_members <= self.max_members <= MAX_MEMBERS:
            raise ValueError(
                f"members from {self.min_members} to {self.max_members}: "
                f"1 <= minimum <= maximum <= {MAX_MEMBERS}"
            )
        times = (
            self.join_timeout_s, self.close_timeout_s, self.heartbeat_timeout_s,
            self.keep_alive_interval_s,
        )  # fmt: skip
        if not all(0 < time < 1e7 for time in times) or not 0 <= self.last_call_s < 1e7:
            raise ValueError("timeouts of a rendezvous are seconds, more than 0")
        if not 1 <= self.keep_alive_attempts <= 1_000:
            raise ValueError("keep_alive_attempts: from 1 to 1,000")

    @property
    def silence_ms(self) -> int:
        """Return after how long a silent member is dead, milliseconds."""
        return int(self.keep_alive_interval_s * self.keep_alive_attempts * 1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """What the state holds of one member."""

    membership: Membership
    heartbeat_ms: int  #: last sign of life, milliseconds since the epoch
    address: str = ""
    rank: int = NO_RANK  #: of a participant of a complete round


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A rendezvous at one moment."""

    round: int = 0
    size: int = 0  #: participants when the round became complete; 0: it is not
    deadline_ms: int | None = None  #: when a round that has its minimum becomes complete
    closed: bool = False  #: there are no further rounds
    members: Mapping[str, Presence] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Tell whether participants and ranks of the round are decided."""
        return self.size > 0

    def at(self, membership: Membership) -> frozenset[str]:
        """Return the names of those who are members in one way."""
        return frozenset(name for name, one in self.members.items() if one.membership is membership)

    def membership_of(self, name: str) -> Membership | None:
        """Return a member's membership, None: it is no member."""
        found = self.members.get(name)
        return None if found is None else found.membership

    @property
    def participants(self) -> int:
        """Return how many take part."""
        return sum(one.membership is Membership.PARTICIPANT for one in self.members.values())

    @property
    def ranks(self) -> dict[str, int]:
        """Return the ranks of a complete round's participants, by name."""
        return {
            n: one.rank
            for n, one in self.members.items()
            if one.membership is Membership.PARTICIPANT
        }


class _Member(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=NAME)]
    address: Annotated[str, msgspec.Meta(pattern=ADDRESS)]
    membership: Membership
    rank: Annotated[int, msgspec.Meta(ge=NO_RANK, lt=MAX_MEMBERS)]
    heartbeat: Annotated[int, msgspec.Meta(ge=0, le=_MAX_MS)]


class _State(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=_VERSION, le=_VERSION)]
    round: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_MEMBERS)]
    deadline_ms: Annotated[int, msgspec.Meta(ge=0, le=_MAX_MS)] | None
    closed: bool
    base_ms: Annotated[int, msgspec.Meta(ge=0, le=_MAX_MS)]
    members: Annotated[list[_Member], msgspec.Meta(max_length=MAX_MEMBERS)]


_decoder: Final = msgspec.json.Decoder(_State)


def state_to_bytes(state: State) -> bytes:
    """Return a state as bytes.

    Raises: RendezvousStateCorrupt: more members than a state holds.
    """
    if len(state.members) > MAX_MEMBERS:
        raise RendezvousStateCorrupt(reason=f"more than {MAX_MEMBERS} members")
    base_ms = min((one.heartbeat_ms for one in state.members.values()), default=0)
    members = [
        _Member(name, one.address, one.membership, one.rank, one.heartbeat_ms - base_ms)
        for name, one in sorted(state.members.items())
    ]
    return msgspec.json.encode(
        _State(_VERSION, state.round, state.size, state.deadline_ms, state.closed, base_ms, members)
    )


def state_from_bytes(raw: bytes) -> State:
    """Return the state of bytes. Raises: RendezvousStateCorrupt: they are not those of a state."""
    if len(raw) > MAX_BYTES:
        raise RendezvousStateCorrupt(reason=f"{len(raw)} bytes")
    try:
        found = _decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise RendezvousStateCorrupt(reason=f"not the bytes of a state: {exc}") from None
    state = State(
        round=found.round,
        size=found.size,
        deadline_ms=found.deadline_ms,
        closed=found.closed,
        members={
            one.name: Presence(
                membership=one.membership,
                heartbeat_ms=found.base_ms + one.heartbeat,
                address=one.address,
                rank=one.rank,
            )
            for one in found.members
        },
    )
    if fault := _fault(state, len(found.members)):
        raise RendezvousStateCorrupt(reason=fault)
    return state


def _fault(state: State, listed: int) -> str | None:
    """Return what contradicts itself in a state; None: nothing."""
    if len(state.members) != listed:
        return "a member has two places"
    ranks = [one.rank for one in state.members.values() if one.rank != NO_RANK]
    if not state.complete:
        return "ranks before the round is complete" if ranks else None
    names = sorted(state.at(Membership.PARTICIPANT))
    own = [state.members[name].rank for name in names]
    if not names or state.deadline_ms is not None:
        return "complete without participants, or with a deadline"
    if len(ranks) != len(own) or own != sorted(set(own)) or own[0] < 0 or own[-1] >= state.size:
        return "the ranks are not those of sorted names"
    return None
