"""What becomes of a state when members leave it, by themselves or because they are dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedflow.base.clock import is_older
from fedflow.elastic.state import Membership, RendezvousSettings, State


def cleaned(state: State, settings: RendezvousSettings, *, now_ms: int, since_ms: int = 0) -> State:
    """Return a state without the members whose last heartbeat is too old.

    Nobody is dead for what was not written before `since_ms`, when nothing could be written.
    """
    dead = [
        name
        for name, one in state.members.items()
        if is_older(max(one.heartbeat_ms, since_ms), settings.silence_ms, now_ms)
    ]
    return without(state, dead, settings) if dead else state


def without(state: State, names: Iterable[str], settings: RendezvousSettings) -> State:
    """Return a state that some members have left.

    A complete round that nobody is left in gives way to the next one. A round that lacks its
    minimum again waits without a deadline.
    """
    gone = {name for name in names if name in state.members}
    if not gone:
        return state
    took_part = bool(gone & state.at(Membership.PARTICIPANT))
    left = {name: one for name, one in state.members.items() if name not in gone}
    state = replace(state, members=left)
    if not took_part:
        return state
    if state.complete:
        if state.participants == 0:
            return replace(state, size=0, round=state.round + 1)
    elif state.participants < settings.min_members:
        return replace(state, deadline_ms=None)
    return state
