"""What the page `/board/rendezvous` shows: runs with their round, members, and who waits."""

from __future__ import annotations

from typing import Final

from fedflow.base.errors.rendezvous import RendezvousStateCorrupt
from fedflow.base.values import dataclass
from fedflow.domain.administration.rendezvous import Run
from fedflow.elastic.state import NO_RANK, Membership, Presence, State, state_from_bytes
from fedflow.elastic.stored import bytes_of

MOST_MEMBERS: Final = 100  #: of one run that are shown


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberLine:
    """One member of a run."""

    name: str
    rank: int | None  #: None: the round has none yet, or it waits
    waits: bool  #: for the next round, or for a place
    heartbeat_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """One run; without a state if what its members stored cannot be read."""

    run: Run
    state: State | None
    participants: int
    waiting: int
    members: tuple[MemberLine, ...]
    members_left: int  #: that are not shown


def run_view(run: Run) -> RunView:
    """Return what is shown of a run, participants by rank before those who wait."""
    try:
        state = state_from_bytes(bytes_of(run.text))
    except RendezvousStateCorrupt:
        return RunView(run=run, state=None, participants=0, waiting=0, members=(), members_left=0)
    lines = sorted(
        (_line(name, one) for name, one in state.members.items()),
        key=lambda line: (line.waits, -1 if line.rank is None else line.rank, line.name),
    )
    return RunView(
        run=run,
        state=state,
        participants=state.participants,
        waiting=len(lines) - state.participants,
        members=tuple(lines[:MOST_MEMBERS]),
        members_left=max(0, len(lines) - MOST_MEMBERS),
    )


def _line(name: str, one: Presence) -> MemberLine:
    return MemberLine(
        name=name,
        rank=None if one.rank == NO_RANK else one.rank,
        waits=one.membership is not Membership.PARTICIPANT,
        heartbeat_ms=one.heartbeat_ms,
    )
