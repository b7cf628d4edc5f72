"""Members that break the rules: they are named, and the round is given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedflow.components.secure_aggregation.keys import RoundSecrets
from fedflow.components.secure_aggregation.member import SecureMember
from fedflow.components.secure_aggregation.messages import Message
from fedflow.components.secure_aggregation.plan import SumStage
from fedflow.sdk.errors import DishonestParty
from tests.unit.components.secure_aggregation.rounds import (
    answer_of,
    go_on,
    names,
    plan_of,
    run,
    start,
)

LIAR = names(5)[2]
LOST = {names(5)[4]: SumStage.INPUTS}


def changed(stage: SumStage, change: Callable[[Message], Message]) -> Any:
    """Return what lets the liar's message of a stage arrive changed."""
    return lambda name, at, answer: change(dict(answer)) if (name, at) == (LIAR, stage) else answer


def flipped(field: str, *, at: int = 0) -> Callable[[Message], Message]:
    def change(answer: Message) -> Message:
        content = bytearray(answer[field])
        content[at] ^= 1
        return {**answer, field: bytes(content)}

    return change


@pytest.mark.parametrize("stage", [s for s in SumStage if s is not SumStage.CONFIRMATIONS])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("round", 1),
        ("round", True),
        ("round", "0"),
        ("session", "another"),
        ("stage", "unmask"),
        ("plan", "another"),
        ("member", names(5)[0]),
        ("member", 7),
        ("member", np.zeros(3)),
        ("round", np.zeros(3)),
        ("stage", np.zeros(3)),
        ("session", [["x"] * 9] * 9),
        pytest.param("round", 10**5000, id="round-huge"),
        ("more", 1),
    ],
)
def test_a_header_that_lies_names_its_sender(stage: SumStage, field: str, value: object) -> None:
    with pytest.raises(DishonestParty, match=LIAR):
        run(plan_of(5), change=changed(stage, lambda answer: {**answer, field: value}))


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        (SumStage.KEYS, "keys"),
        (SumStage.SHARES, "sealed"),
        (SumStage.SHARES, "digests"),
        (SumStage.SHARES, "seed_digest"),
        (SumStage.SHARES, "members"),
        (SumStage.INPUTS, "vector"),
        (SumStage.UNMASKING, "shares"),
        (SumStage.UNMASKING, "members"),
    ],
)
@pytest.mark.parametrize("value", [None, 5, b"", "text", [], np.zeros(3)])
def test_a_field_that_is_none_names_its_sender(stage: SumStage, field: str, value: object) -> None:
    with pytest.raises(DishonestParty, match=LIAR):
        run(plan_of(5), change=changed(stage, lambda answer: {**answer, field: value}))


@pytest.mark.parametrize("value", [None, 5, "text", [], {}])
def test_what_is_no_message_names_its_sender(value: Any) -> None:
    with pytest.raises(DishonestParty, match=LIAR):
        run(plan_of(5), change=changed(SumStage.KEYS, lambda _answer: value or [value]))


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(8, np.int64),
        np.zeros(8, np.float64),
        np.full(8, np.nan),
        np.zeros(7, np.uint64),
        np.zeros((8, 1), np.uint64),
        np.zeros(8, ">u8"),
    ],
)
def test_a_vector_of_another_shape_or_type_names_its_sender(vector: Any) -> None:
    with pytest.raises(DishonestParty, match=f"{LIAR} .*no uint64 array of 8 numbers"):
        run(
            plan_of(5), change=changed(SumStage.INPUTS, lambda answer: {**answer, "vector": vector})
        )


def test_a_changed_share_names_who_revealed_it() -> None:
    with pytest.raises(DishonestParty, match=f"{LIAR} .*does not fit what"):
        run(plan_of(5), lost=LOST, change=changed(SumStage.UNMASKING, flipped("shares", at=40)))


def test_a_changed_seal_names_its_dealer() -> None:
    with pytest.raises(DishonestParty, match=f"{LIAR} .*not sealed by and for"):
        run(plan_of(5), change=changed(SumStage.SHARES, flipped("sealed", at=20)))


def test_shares_that_do_not_fit_their_digests_name_their_dealer() -> None:
    with pytest.raises(DishonestParty, match=f"{LIAR} .*do not fit their digests"):
        run(plan_of(5), change=changed(SumStage.SHARES, flipped("digests", at=32)))


def test_shares_of_another_seed_name_their_dealer() -> None:
    with pytest.raises(DishonestParty, match=f"{LIAR} .*another seed"):
        run(plan_of(5), change=changed(SumStage.SHARES, flipped("seed_digest")))


def test_shares_of_another_key_name_their_dealer() -> None:
    class Liar(SecureMember):
        def _enter(self, stage: SumStage) -> RoundSecrets:
            own = super()._enter(stage)
            other = RoundSecrets.draw().masking
            return replace(own, masking=other) if stage is SumStage.SHARES else own

    one = start(plan_of(5))
    one.members[LIAR] = Liar(one.plan, LIAR)
    with pytest.raises(DishonestParty, match=f"{LIAR} .*another key than it showed"):
        go_on(one, lost={LIAR: SumStage.INPUTS})


def test_another_key_on_the_way_is_noticed_by_its_member() -> None:
    with pytest.raises(DishonestParty, match="gives other keys as mine"):
        run(plan_of(5), change=changed(SumStage.KEYS, flipped("keys", at=40)))


@pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little")])
def test_a_key_with_which_all_agree_names_its_sender(key: bytes) -> None:
    def change(answer: Message) -> Message:
        return {**answer, "keys": answer["keys"][:32] + key}

    with pytest.raises(DishonestParty, match=f"{LIAR} .*one of its keys is none"):
        run(plan_of(5), change=changed(SumStage.KEYS, change))


def test_two_members_with_one_key_are_refused() -> None:
    seen: list[bytes] = []

    def change(name: str, stage: SumStage, answer: Message) -> Message:
        if stage is SumStage.KEYS:
            seen.append(answer["keys"])
            return {**answer, "keys": seen[0]} if name == LIAR else answer
        return answer

    with pytest.raises(DishonestParty, match=f"{LIAR} .*that another member has"):
        run(plan_of(5), change=change)


@pytest.mark.parametrize("stage", [s for s in SumStage if s is not SumStage.CONFIRMATIONS])
def test_a_message_that_comes_twice_names_its_sender(stage: SumStage) -> None:
    one = start(plan_of(5))
    questions: dict[str, Message] = {}
    for at in one.plan.stages:
        for name in one.aggregator.due:
            answer = answer_of(one, name, at, questions.get(name))
            one.aggregator.receive(name, answer)
            if (at, name) == (stage, LIAR):
                with pytest.raises(DishonestParty, match=f"{LIAR} .*sends {at.value} twice"):
                    one.aggregator.receive(name, answer)
                with pytest.raises(DishonestParty, match="twice"):
                    one.aggregator.close_stage()
                return
        questions = one.aggregator.close_stage()


def test_a_message_of_a_closed_stage_that_came_in_time_names_its_sender() -> None:
    one = start(plan_of(5))
    answers = {name: one.members[name].keys() for name in one.plan.members}
    for name, answer in answers.items():
        one.aggregator.receive(name, answer)
    one.aggregator.close_stage()
    with pytest.raises(DishonestParty, match="sends keys twice"):
        one.aggregator.receive(LIAR, answers[LIAR])


def test_a_message_of_an_earlier_round_is_refused() -> None:
    before = run(plan_of(5, round=6))
    for _name, stage, answer in (one for one in before.answers if one[0] == LIAR):
        with pytest.raises(DishonestParty, match=f"{LIAR} .*round is 6, where 7 was due"):
            run(plan_of(5, round=7), change=changed(stage, lambda _now, old=answer: old))


def test_another_set_of_members_names_who_claims_it() -> None:
    def change(answer: Message) -> Message:
        return {**answer, "members": answer["members"][1:]}

    with pytest.raises(DishonestParty, match=f"{LIAR} .*another set of members"):
        run(plan_of(5), change=changed(SumStage.UNMASKING, change))


def test_who_is_not_in_the_plan_is_refused_and_the_round_goes_on() -> None:
    one = start(plan_of(5))
    with pytest.raises(DishonestParty, match=r"guest-1 .*not a member"):
        one.aggregator.receive("guest-1", one.members[LIAR].keys())
    for name in set(names(5)) - {LIAR}:
        one.aggregator.receive(name, one.members[name].keys())
    assert one.aggregator.due == (LIAR,)


def test_who_was_left_out_does_not_come_back_in_this_round() -> None:
    one = start(plan_of(5))
    late = names(5)[0]
    for name in names(5)[1:]:
        one.aggregator.receive(name, one.members[name].keys())
    questions = one.aggregator.close_stage()
    answer = {**one.members[LIAR].shares(questions[LIAR]), "member": late}
    assert one.aggregator.receive(late, answer) is False
    assert late not in one.aggregator.due
