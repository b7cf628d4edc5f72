"""What an action makes of a state."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedflow.base.errors.rendezvous import RendezvousNotAllowed
from fedflow.elastic.cleaning import without
from fedflow.elastic.member import MemberIdentity
from fedflow.elastic.operators import Action
from fedflow.elastic.state import MAX_MEMBERS, Membership, Presence, RendezvousSettings, State

REMOVALS: Final = frozenset(
    {
        Action.REMOVE_FROM_PARTICIPANTS,
        Action.REMOVE_FROM_WAIT_LIST,
        Action.REMOVE_FROM_REDUNDANCY_LIST,
    }
)
_MEMBERSHIPS: Final = {
    Action.ADD_TO_WAIT_LIST: Membership.WAITING,
    Action.ADD_TO_REDUNDANCY_LIST: Membership.REDUNDANT,
    Action.ADD_TO_PARTICIPANTS: Membership.PARTICIPANT,
}


def apply(
    action: Action,
    state: State,
    member: MemberIdentity,
    settings: RendezvousSettings,
    *,
    now_ms: int,
) -> State:
    """Return the state after a member's action.

    Raises: RendezvousNotAllowed: the state holds no further member. ValueError: the action changes
    nothing (sync, finish, errors), or is the keep-alive of who is no member.
    """
    if action is Action.KEEP_ALIVE:
        own = state.members.get(member.name)
        if own is None:
            raise ValueError("a keep-alive of who is no member")
        return _with(state, member.name, replace(own, heartbeat_ms=now_ms))
    if action in REMOVALS:
        return without(state, [member.name], settings)
    if action is Action.MARK_CLOSED:
        return replace(state, closed=True)
    if action is Action.MARK_COMPLETE:
        return _complete(state)
    membership = _MEMBERSHIPS.get(action)
    if membership is None:
        raise ValueError(f"{action} changes no state")
    if member.name not in state.members and len(state.members) >= MAX_MEMBERS:
        raise RendezvousNotAllowed(reason=f"{MAX_MEMBERS} members are there already")
    own = Presence(membership=membership, heartbeat_ms=now_ms, address=member.address)
    state = _with(state, member.name, own)
    return (
        state
        if membership is not Membership.PARTICIPANT
        else _counted(state, settings, now_ms=now_ms)
    )


def _counted(state: State, settings: RendezvousSettings, *, now_ms: int) -> State:
    """Return a round with one more participant: the last that fits completes it."""
    if state.participants == settings.max_members:
        return _complete(state)
    if state.participants == settings.min_members:
        return replace(state, deadline_ms=now_ms + int(settings.last_call_s * 1000))
    return state


def _complete(state: State) -> State:
    ranks = {name: rank for rank, name in enumerate(sorted(state.at(Membership.PARTICIPANT)))}
    members = {
        name: replace(one, rank=ranks[name]) if name in ranks else one
        for name, one in state.members.items()
    }
    return replace(state, size=len(ranks), deadline_ms=None, members=members)


def _with(state: State, name: str, own: Presence) -> State:
    return replace(state, members={**state.members, name: own})
