"""What a member does next: from the state as it sees it to one action.

An operator is what the member wants: to join, to leave, to close, to stay. It is asked again after
each action, with the state as it is then. Source: PyTorch 2.13, elastic dynamic rendezvous.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from fedflow.base.values import dataclass
from fedflow.elastic.state import Membership, RendezvousSettings, State

ROLLBACK_S: Final = 5.0  #: how long after its deadline a join may still undo what it did


class Action(StrEnum):
    """What an operator decides."""

    KEEP_ALIVE = "keep_alive"
    ADD_TO_PARTICIPANTS = "add_to_participants"
    ADD_TO_WAIT_LIST = "add_to_wait_list"
    ADD_TO_REDUNDANCY_LIST = "add_to_redundancy_list"
    REMOVE_FROM_PARTICIPANTS = "remove_from_participants"
    REMOVE_FROM_WAIT_LIST = "remove_from_wait_list"
    REMOVE_FROM_REDUNDANCY_LIST = "remove_from_redundancy_list"
    MARK_COMPLETE = "mark_complete"
    MARK_CLOSED = "mark_closed"
    SYNC = "sync"  #: wait, and read again
    FINISH = "finish"
    END = "end"  #: closed while this member was redundant: nothing failed
    ERROR_CLOSED = "error_closed"
    ERROR_TIMEOUT = "error_timeout"


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What an operator knows."""

    state: State  #: without members that are dead
    name: str  #: of the member that decides
    settings: RendezvousSettings
    now_ms: int  #: on the clock that heartbeats are compared with
    late_s: float  #: seconds since the operator's own deadline; negative before it

    @property
    def membership(self) -> Membership | None:
        """Return the own membership; None: it is no member."""
        return self.state.membership_of(self.name)

    @property
    def is_due(self) -> bool:
        """Tell whether it is time for a heartbeat; never for who is no member."""
        own = self.state.members.get(self.name)
        interval_ms = self.settings.keep_alive_interval_s * 1000
        return own is not None and self.now_ms - own.heartbeat_ms >= interval_ms

    @property
    def has_room(self) -> bool:
        """Tell whether one more may take part."""
        return self.state.participants < self.settings.max_members


Operator = Callable[[View], Action]


def join(view: View) -> Action:
    """Take part in a round: finish once it is complete with this member."""
    state, membership = view.state, view.membership
    if state.closed:
        return Action.END if membership is Membership.REDUNDANT else Action.ERROR_CLOSED
    if membership is Membership.REDUNDANT:
        return Action.REMOVE_FROM_REDUNDANCY_LIST if view.has_room else _stay(view)
    if state.complete and membership is Membership.PARTICIPANT:
        return Action.FINISH
    if view.late_s > 0:
        return _roll_back(view)
    if state.complete:
        if membership is Membership.WAITING:
            return _stay(view)
        return Action.ADD_TO_WAIT_LIST if view.has_room else Action.ADD_TO_REDUNDANCY_LIST
    if membership is Membership.PARTICIPANT:
        return Action.MARK_COMPLETE if _is_decided(view) else _stay(view)
    # a further one would begin a round that has more than are allowed
    return Action.ADD_TO_PARTICIPANTS if view.has_room else _stay(view)


def leave(view: View) -> Action:
    """Leave the participants."""
    if view.membership is not Membership.PARTICIPANT:
        return Action.FINISH
    return Action.ERROR_TIMEOUT if view.late_s > 0 else Action.REMOVE_FROM_PARTICIPANTS


def close(view: View) -> Action:
    """Let there be no further rounds."""
    if view.state.closed:
        return Action.FINISH
    return Action.ERROR_TIMEOUT if view.late_s > 0 else Action.MARK_CLOSED


def keep_alive(view: View) -> Action:
    """Show that this member lives, if it is time to."""
    if not view.is_due:
        return Action.FINISH
    return Action.ERROR_TIMEOUT if view.late_s > 0 else Action.KEEP_ALIVE


def _stay(view: View) -> Action:
    return Action.KEEP_ALIVE if view.is_due else Action.SYNC


def _roll_back(view: View) -> Action:
    if view.late_s <= ROLLBACK_S:
        if view.membership is Membership.PARTICIPANT:
            return Action.REMOVE_FROM_PARTICIPANTS
        if view.membership is Membership.WAITING:
            return Action.REMOVE_FROM_WAIT_LIST
    return Action.ERROR_TIMEOUT


def _is_decided(view: View) -> bool:
    """Tell whether a round has enough participants, and no more are waited for."""
    state, settings = view.state, view.settings
    enough = settings.min_members <= state.participants <= settings.max_members
    return enough and state.deadline_ms is not None and view.now_ms > state.deadline_ms
