"""What a member does next, for every branch of the rules."""

from __future__ import annotations

import pytest

from fedflow.elastic.operators import Action, Operator, close, join, keep_alive, leave
from fedflow.elastic.state import State
from tests.unit.elastic.rendezvous import NOW_MS, a_state, seen

OLD = {"a": 5.0}  #: a heartbeat that is due
YOUNG = {"a": 4.9}


@pytest.mark.parametrize(
    ("state", "late_s", "action"),
    [
        # closed
        (a_state(closed=True), -1, Action.ERROR_CLOSED),
        (a_state("a", closed=True), -1, Action.ERROR_CLOSED),
        (a_state("abc", complete=True, closed=True), -1, Action.ERROR_CLOSED),
        (a_state("bc", waiting="a", closed=True), 99, Action.ERROR_CLOSED),
        (a_state("bcd", redundant="a", complete=True, closed=True), -1, Action.END),
        # on the redundancy list
        (a_state("bc", redundant="a", complete=True), -1, Action.REMOVE_FROM_REDUNDANCY_LIST),
        (a_state("bc", redundant="a"), 99, Action.REMOVE_FROM_REDUNDANCY_LIST),
        (a_state("bcd", redundant="a", complete=True, ages_s=OLD), 99, Action.KEEP_ALIVE),
        (a_state("bcd", redundant="a", complete=True, ages_s=YOUNG), 99, Action.SYNC),
        # a complete round
        (a_state("abc", complete=True), -1, Action.FINISH),
        (a_state("abc", complete=True), 99, Action.FINISH),
        (a_state("bc", complete=True), -1, Action.ADD_TO_WAIT_LIST),
        (a_state("bc", waiting="a", complete=True), -1, Action.SYNC),
        (a_state("bc", waiting="a", complete=True, ages_s=OLD), -1, Action.KEEP_ALIVE),
        (a_state("bcd", complete=True), -1, Action.ADD_TO_REDUNDANCY_LIST),
        (a_state("bcd", waiting="a", complete=True), -1, Action.SYNC),
        # past the join deadline
        (a_state("a"), 0.1, Action.REMOVE_FROM_PARTICIPANTS),
        (a_state("a"), 5.0, Action.REMOVE_FROM_PARTICIPANTS),
        (a_state("a"), 5.1, Action.ERROR_TIMEOUT),
        (a_state("bc", waiting="a", complete=True), 0.1, Action.REMOVE_FROM_WAIT_LIST),
        (a_state("bc", waiting="a", complete=True), 5.1, Action.ERROR_TIMEOUT),
        (a_state("bc", complete=True), 0.1, Action.ERROR_TIMEOUT),
        (a_state("b"), 0.1, Action.ERROR_TIMEOUT),
        (a_state("a"), 0.0, Action.SYNC),
        # an incomplete round
        (a_state(), -1, Action.ADD_TO_PARTICIPANTS),
        (a_state("b"), -1, Action.ADD_TO_PARTICIPANTS),
        (a_state("b", waiting="a"), -1, Action.ADD_TO_PARTICIPANTS),
        (a_state("bcd"), -1, Action.SYNC),
        (a_state("a"), -1, Action.SYNC),
        (a_state("a", ages_s=OLD), -1, Action.KEEP_ALIVE),
        (a_state("a", ages_s=YOUNG), -1, Action.SYNC),
        (a_state("ab", deadline_ms=NOW_MS), -1, Action.SYNC),
        (a_state("ab", deadline_ms=NOW_MS - 1), -1, Action.MARK_COMPLETE),
        (a_state("abc", deadline_ms=NOW_MS - 1), -1, Action.MARK_COMPLETE),
        (a_state("a", deadline_ms=NOW_MS - 1), -1, Action.SYNC),
        (a_state("abcd", deadline_ms=NOW_MS - 1), -1, Action.SYNC),
        (a_state("ab", deadline_ms=None), -1, Action.SYNC),
    ],
)
def test_a_member_joins_by_the_rules(state: State, late_s: float, action: Action) -> None:
    assert join(seen(state, late_s=late_s)) is action


@pytest.mark.parametrize(
    ("operator", "state", "late_s", "action"),
    [
        (leave, a_state("ab"), -1, Action.REMOVE_FROM_PARTICIPANTS),
        (leave, a_state("ab", complete=True), -1, Action.REMOVE_FROM_PARTICIPANTS),
        (leave, a_state("ab"), 0.1, Action.ERROR_TIMEOUT),
        (leave, a_state("b"), 99, Action.FINISH),
        (leave, a_state("b", waiting="a"), 99, Action.FINISH),
        (close, a_state(), -1, Action.MARK_CLOSED),
        (close, a_state(), 0.1, Action.ERROR_TIMEOUT),
        (close, a_state(closed=True), 99, Action.FINISH),
        (keep_alive, a_state("a", ages_s=OLD), -1, Action.KEEP_ALIVE),
        (keep_alive, a_state("a", ages_s=OLD), 0.1, Action.ERROR_TIMEOUT),
        (keep_alive, a_state("a", ages_s=YOUNG), 99, Action.FINISH),
        (keep_alive, a_state("b"), 99, Action.FINISH),
        (keep_alive, a_state("b", waiting="a", ages_s=OLD), -1, Action.KEEP_ALIVE),
    ],
)
def test_a_member_leaves_closes_and_stays_by_the_rules(
    operator: Operator, state: State, late_s: float, action: Action
) -> None:
    assert operator(seen(state, late_s=late_s)) is action
