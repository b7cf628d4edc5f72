"""What actions and the end of members make of a state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.rendezvous import RendezvousNotAllowed
from fedflow.elastic.actions import apply
from fedflow.elastic.cleaning import cleaned, without
from fedflow.elastic.member import MemberIdentity
from fedflow.elastic.operators import Action
from fedflow.elastic.state import (
    MAX_MEMBERS,
    NO_RANK,
    Membership,
    Presence,
    State,
    state_from_bytes,
    state_to_bytes,
)
from tests.unit.elastic.rendezvous import NOW_MS, SETTINGS, a_state

A = MemberIdentity(name="a", address="10.0.0.1:29400")
LATER_MS = NOW_MS + 3_000


def after(action: Action, state: State, member: MemberIdentity = A) -> State:
    return apply(action, state, member, SETTINGS, now_ms=LATER_MS)


def test_a_keep_alive_renews_only_the_own_heartbeat() -> None:
    state = after(Action.KEEP_ALIVE, a_state("ab"))
    assert (state.members["a"].heartbeat_ms, state.members["b"].heartbeat_ms) == (LATER_MS, NOW_MS)


def test_a_participant_leaves_the_wait_list_and_shows_its_address() -> None:
    state = after(Action.ADD_TO_PARTICIPANTS, a_state(waiting="a"))
    assert (state.at(Membership.PARTICIPANT), state.at(Membership.WAITING)) == ({"a"}, set())
    assert state.members["a"] == Presence(
        membership=Membership.PARTICIPANT, heartbeat_ms=LATER_MS, address="10.0.0.1:29400"
    )
    assert state.deadline_ms is None


def test_the_minimum_begins_the_last_call_and_the_maximum_ends_it() -> None:
    two = after(Action.ADD_TO_PARTICIPANTS, a_state("b"))
    assert (two.complete, two.deadline_ms) == (False, LATER_MS + 30_000)
    three = after(Action.ADD_TO_PARTICIPANTS, a_state("cb", deadline_ms=NOW_MS))
    assert (three.complete, three.deadline_ms) == (True, None)
    assert three.ranks == {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize(
    ("action", "membership"),
    [
        (Action.ADD_TO_WAIT_LIST, Membership.WAITING),
        (Action.ADD_TO_REDUNDANCY_LIST, Membership.REDUNDANT),
    ],
)
def test_lists_take_a_member_with_its_heartbeat(action: Action, membership: Membership) -> None:
    state = after(action, a_state("bcd", complete=True))
    assert (state.membership_of("a"), state.members["a"].heartbeat_ms) == (membership, LATER_MS)
    assert state.ranks == {"b": 0, "c": 1, "d": 2}


@pytest.mark.parametrize(
    ("action", "state"),
    [
        (Action.REMOVE_FROM_WAIT_LIST, a_state("bc", waiting="a", complete=True)),
        (Action.REMOVE_FROM_REDUNDANCY_LIST, a_state("bc", redundant="a", complete=True)),
    ],
)
def test_who_leaves_a_list_changes_nothing_else(action: Action, state: State) -> None:
    left = after(action, state)
    assert left == a_state("bc", complete=True)  # its size stays, too


def test_a_complete_round_becomes_complete_once_and_closing_changes_nothing_else() -> None:
    state = after(Action.MARK_COMPLETE, a_state("ba", deadline_ms=NOW_MS, waiting="c"))
    assert (state.complete, state.deadline_ms, state.ranks) == (True, None, {"a": 0, "b": 1})
    assert state.members["c"].rank == NO_RANK
    closed = after(Action.MARK_CLOSED, state)
    assert closed == replace(state, closed=True)


def test_a_round_that_lacks_its_minimum_again_has_no_deadline() -> None:
    assert without(a_state("ab", deadline_ms=NOW_MS), "a", SETTINGS).deadline_ms is None
    assert without(a_state("abc", deadline_ms=NOW_MS), "a", SETTINGS).deadline_ms == NOW_MS
    waiting = a_state("ab", waiting="c", deadline_ms=NOW_MS)
    assert without(waiting, "c", SETTINGS).deadline_ms == NOW_MS


def test_the_last_to_leave_a_complete_round_begins_the_next_one() -> None:
    state = without(a_state("ab", waiting="c", complete=True, round_=4), "a", SETTINGS)
    assert (state.round, state.complete, state.ranks) == (4, True, {"b": 1})
    state = without(state, "b", SETTINGS)
    assert (state.round, state.complete, state.at(Membership.WAITING)) == (5, False, {"c"})


@pytest.mark.parametrize(("age_s", "lives"), [(15.0, True), (15.001, False)])
def test_a_silent_member_is_dead_after_three_intervals(age_s: float, lives: bool) -> None:
    state = a_state("ab", waiting="c", redundant="d", ages_s=dict.fromkeys("abcd", age_s))
    assert set(cleaned(state, SETTINGS, now_ms=NOW_MS).members) == (set("abcd") if lives else set())


def test_dead_participants_leave_as_others_do() -> None:
    state = a_state("ab", complete=True, round_=1, ages_s={"a": 16, "b": 16})
    assert cleaned(state, SETTINGS, now_ms=NOW_MS) == State(round=2)
    state = a_state("ab", deadline_ms=NOW_MS, ages_s={"a": 16})
    assert cleaned(state, SETTINGS, now_ms=NOW_MS) == a_state("b")


def test_a_full_state_refuses_a_further_member_with_a_name() -> None:
    one = Presence(membership=Membership.WAITING, heartbeat_ms=NOW_MS)
    full = State(members={f"m{number}": one for number in range(MAX_MEMBERS)})
    with pytest.raises(RendezvousNotAllowed, match="1000 members"):
        after(Action.ADD_TO_PARTICIPANTS, full)


@pytest.mark.parametrize(
    "action",
    [Action.SYNC, Action.FINISH, Action.END, Action.ERROR_CLOSED, Action.ERROR_TIMEOUT,
     Action.KEEP_ALIVE],
)  # fmt: skip
def test_what_changes_nothing_cannot_be_applied(action: Action) -> None:
    with pytest.raises(ValueError):
        after(action, a_state("b"))


CHANGES = [
    Action.ADD_TO_PARTICIPANTS,
    Action.ADD_TO_WAIT_LIST,
    Action.ADD_TO_REDUNDANCY_LIST,
    Action.REMOVE_FROM_PARTICIPANTS,
    Action.MARK_CLOSED,
]


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from("abcd")), max_size=20))
def test_whatever_members_do_the_bytes_can_be_read(steps: list[tuple[Action, str]]) -> None:
    state = State()
    for action, name in steps:
        if action is Action.ADD_TO_PARTICIPANTS and (state.complete or state.participants >= 3):
            continue  # operators add nobody to such a round
        if action is not Action.MARK_CLOSED and (
            state.complete and state.membership_of(name) is Membership.PARTICIPANT
        ):
            action = Action.REMOVE_FROM_PARTICIPANTS
        state = after(action, state, MemberIdentity(name=name))
        assert state_from_bytes(state_to_bytes(state)) == state


def test_nobody_is_dead_for_what_could_not_be_written() -> None:
    state = a_state("ab", complete=True, ages_s={"a": 600, "b": 1})
    assert cleaned(state, SETTINGS, now_ms=NOW_MS, since_ms=NOW_MS - 15_000) == state
    later = cleaned(state, SETTINGS, now_ms=NOW_MS, since_ms=NOW_MS - 15_001)
    assert (later.ranks, later.size) == ({"b": 1}, 2)
