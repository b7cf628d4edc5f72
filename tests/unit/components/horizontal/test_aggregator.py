"""The aggregator's machine: what members may not do, and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedflow.components.horizontal import aggregator as aggregating
from fedflow.components.horizontal.messages import (
    Ready,
    Recall,
    Rejected,
    RoundStart,
    SumReply,
    read_by_aggregator,
    read_by_member,
    written,
)
from fedflow.components.horizontal.rounds import Elasticity, RoundRules
from fedflow.sdk import BadData, DishonestParty, PeerFailed, Role, Site
from tests.unit.components.horizontal.mean_rounds import Mean

MEMBERS = [Site(Role.GUEST, "1"), Site(Role.HOST, "2"), Site(Role.HOST, "3")]
ELASTIC = Elasticity(min_parties=2, round_deadline_s=10.0, last_call_s=0.0)
ABOUT = {"kind": "number"}


def begun(*, elastic: Elasticity | None = ELASTIC) -> tuple[aggregating.Aggregator, RoundStart]:
    """Return a machine in its first round of plain sums, and the start of it."""
    rules = RoundRules(secure=False, elastic=elastic)
    machine = aggregating.Aggregator(Mean(3), rules=rules, sites=MEMBERS, session="s")
    actions = list(machine.begin(0.0))
    for site in MEMBERS:
        actions += machine.received(site, Ready(launch=0, rows=1, about=ABOUT), 0.0)
    starts = [a.message for a in actions if isinstance(a, aggregating.SendToMembers)]
    return machine, next(one for one in reversed(starts) if isinstance(one, RoundStart))


def vector(start: RoundStart, *, rows: int = 1) -> Any:
    """Return an honest member's vector of ones."""
    numbers = np.full(4, 1 << start.fraction_bits, dtype=np.int64)
    numbers[-1] = rows
    return {"vector": numbers}


def messages(actions: list[Any], kind: type) -> list[Any]:
    return [(a.to, a.message) for a in actions if getattr(a, "message", None).__class__ is kind]


WRONG = {
    "no vector": {},
    "another type": {"vector": np.zeros(4)},
    "another length": {"vector": np.zeros(3, dtype=np.int64)},
    "a number out of range": {"vector": np.full(4, (1 << 63) - 1, dtype=np.int64)},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_a_member_with_a_wrong_vector_is_named_and_left_out(body: Any) -> None:
    machine, start = begun(elastic=Elasticity(min_parties=2, last_call_s=9.0))
    actions = machine.received(MEMBERS[2], SumReply(serial=start.serial, body=body), 1.0)
    assert messages(actions, Rejected)[0][0] == (MEMBERS[2],)
    assert any("host 3" in one.text for one in actions if isinstance(one, aggregating.Note))
    (again,) = messages(actions, RoundStart)
    assert again[0] == tuple(MEMBERS[:2])
    assert again[1].serial > start.serial


def test_without_elastic_settings_a_wrong_vector_ends_the_run() -> None:
    machine, start = begun(elastic=None)
    with pytest.raises(DishonestParty, match="host 3"):
        machine.received(MEMBERS[2], SumReply(serial=start.serial, body={}), 1.0)


def test_a_member_that_contributes_twice_is_left_out() -> None:
    machine, start = begun(elastic=Elasticity(min_parties=2, last_call_s=9.0))
    answer = SumReply(serial=start.serial, body=vector(start))
    machine.received(MEMBERS[0], answer, 1.0)
    actions = machine.received(MEMBERS[0], answer, 1.0)
    assert messages(actions, Rejected)[0][0] == (MEMBERS[0],)


def test_other_rows_than_announced_name_their_sender() -> None:
    machine, start = begun(elastic=None)
    lie = SumReply(serial=start.serial, body=vector(start, rows=100))
    with pytest.raises(DishonestParty, match=r"host 3 .*it contributes 100 rows, and said 1"):
        machine.received(MEMBERS[2], lie, 1.0)


def test_an_answer_to_a_round_that_has_not_begun_names_its_sender() -> None:
    machine, start = begun(elastic=None)
    early = SumReply(serial=start.serial + 1, body=vector(start))
    with pytest.raises(DishonestParty, match=r"host 3 .*a round that has not begun"):
        machine.received(MEMBERS[2], early, 1.0)


def test_an_answer_of_an_earlier_round_is_not_counted() -> None:
    machine, start = begun(elastic=Elasticity(min_parties=2, last_call_s=9.0))
    for site in MEMBERS:
        actions = machine.received(site, SumReply(serial=start.serial, body=vector(start)), 1.0)
    (following,) = messages(actions, RoundStart)
    late = machine.received(MEMBERS[0], SumReply(serial=start.serial, body=vector(start)), 2.0)
    assert late == []
    assert machine.state is not None
    assert (following[1].state.round, machine.state.round) == (1, 1)


def test_a_silent_member_is_left_out_at_the_deadline_and_called_back_when_late() -> None:
    machine, start = begun(elastic=Elasticity(min_parties=2, round_deadline_s=10, last_call_s=9.0))
    for site in MEMBERS[:2]:
        machine.received(site, SumReply(serial=start.serial, body=vector(start)), 1.0)
    assert machine.deadline_s == 10.0
    actions = machine.passed(10.0)
    (done,) = [one for one in actions if isinstance(one, aggregating.Completed)]
    assert set(done.participation.counted) == set(MEMBERS[:2])
    assert done.participation.left_out == {MEMBERS[2]: "too late with inputs"}
    late = machine.received(MEMBERS[2], SumReply(serial=start.serial, body=vector(start)), 11.0)
    ((to, recall),) = messages(late, Recall)
    assert to == (MEMBERS[2],)
    machine.received(MEMBERS[2], Ready(launch=0, rows=1, about=ABOUT), 12.0)
    for site in MEMBERS[:2]:
        answer = SumReply(serial=recall.serial, body=vector(start))
        following = machine.received(site, answer, 13.0)
    assert messages(following, RoundStart)[0][0] == tuple(MEMBERS)


def test_the_loss_of_a_member_ends_a_run_that_is_not_elastic() -> None:
    machine, _ = begun(elastic=None)
    with pytest.raises(PeerFailed, match="killed"):
        machine.departed(MEMBERS[1], "killed", 1.0)


def test_a_newcomer_that_does_not_fit_is_refused_by_name() -> None:
    machine, _ = begun(elastic=Elasticity(min_parties=2, last_call_s=9.0))
    other = Ready(launch=1, rows=1, about={"kind": "other"})
    actions = machine.received(MEMBERS[2], other, 1.0)
    assert messages(actions, Rejected)[0][1].reason == "it is of another kind"
    with pytest.raises(BadData, match="host 3"):
        begun(elastic=None)[0].received(MEMBERS[2], other, 1.0)


NO_MESSAGES = [
    None,
    3,
    {},
    {"kind": "ready"},
    {"kind": "ready", "launch": 0, "rows": 0, "about": {}},
    {"kind": "ready", "launch": 0, "rows": 1 << 50, "about": {}},
    {"kind": "ready", "launch": -1, "rows": 1, "about": {}},
    {"kind": "ready", "launch": 0, "rows": 1, "about": {"x": "y" * (1 << 21)}},
    {"kind": "ready", "launch": 0, "rows": 1, "about": {}, "more": 1},
    {"kind": "start", "serial": 1},
    {"kind": "answer", "serial": "1", "body": {}},
    {"kind": ["answer"]},
]


@pytest.mark.parametrize("value", NO_MESSAGES, ids=str)
def test_what_is_no_message_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_by_aggregator(value)
    with pytest.raises(ValueError, match=r"."):
        read_by_member(value)


def test_messages_are_read_as_they_were_written() -> None:
    _, start = begun()
    found = read_by_member(written(start))
    assert isinstance(found, RoundStart)
    assert np.array_equal(found.state.vector, start.state.vector)
    assert (found.serial, found.members, found.layout) == (
        start.serial,
        start.members,
        start.layout,
    )
