"""What messages show: no vector without a mask, and nothing to fewer members than the threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedflow.components.secure_aggregation import keys, shamir
from fedflow.components.secure_aggregation.masks import MaskStream, add_masks
from fedflow.components.secure_aggregation.messages import Message
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from fedflow.sdk.errors import DishonestParty, TooFewMembers
from tests.unit.components.secure_aggregation.rounds import (
    Round,
    answer_of,
    names,
    plan_of,
    run,
    start,
)

STAGES = [stage for stage in SumStage if stage is not SumStage.CONFIRMATIONS]


def leaves(value: Any) -> Iterator[Any]:
    """Return all that stands in a message."""
    if isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def test_no_message_has_a_vector_that_is_not_masked() -> None:
    plan = plan_of(6, length=64)
    vectors = {name: np.full(64, 1000 + i) for i, name in enumerate(plan.members)}
    lost = {names(6)[0]: SumStage.INPUTS, names(6)[1]: SumStage.UNMASKING}
    one = run(plan, vectors=vectors, lost=lost)
    arrays = 0
    for _name, stage, sent in one.answers + one.questions:
        for leaf in leaves(sent):
            if isinstance(leaf, np.ndarray):
                assert stage is SumStage.INPUTS
                arrays += 1
                assert len(np.unique(leaf)) == 64
                assert not np.any(np.abs(leaf.view(np.int64)) < 1 << 40)
            elif isinstance(leaf, bytes):
                for vector in vectors.values():
                    assert vector.tobytes()[:16] not in leaf
    assert arrays == 5


def test_no_message_has_a_secret_and_none_is_revealed_twice() -> None:
    one = start(plan_of(4))
    drawn = {name: member._secrets for name, member in one.members.items()}
    secrets = {
        secret
        for each in drawn.values()
        if each is not None
        for secret in (
            each.sealing.private_bytes_raw(), each.masking.private_bytes_raw(), each.self_seed
        )
    }  # fmt: skip
    questions: dict[str, Message] = {}
    for stage in one.plan.stages:
        for name in one.aggregator.due:
            answer = answer_of(one, name, stage, questions.get(name))
            one.aggregator.receive(name, answer)
            for leaf in leaves(answer):
                assert not isinstance(leaf, bytes) or not any(s in leaf for s in secrets)
        questions = one.aggregator.close_stage()


def test_new_keys_and_masks_in_every_round() -> None:
    first, second = run(plan_of(3, round=0)), run(plan_of(3, round=1))
    for (_, stage, a), (_, _, b) in zip(first.answers, second.answers, strict=True):
        if stage is SumStage.INPUTS:
            assert not np.any(a["vector"] == b["vector"])
        for field in ("keys", "sealed", "digests", "shares"):
            assert field not in a or a[field] != b[field]


class Coalition:
    """What some members and the aggregator know together after a round."""

    def __init__(self, one: Round, members: Iterable[str]) -> None:
        self.one, self.plan = one, one.plan
        self.members = tuple(members)
        self.held = {name: dict(one.members[name]._held) for name in self.members}

    def opened(self, victim: str, kind: int) -> bytes | None:
        """Return the key (0) or the seed (1) of a member, if their shares open it."""
        found = {
            self.plan.point(name): held[victim][kind]
            for name, held in self.held.items()
            if victim in held
        }
        if kind == 1:
            revealed = self.one.aggregator._shares.get(victim, {})
            if victim in self.one.aggregator.inputs:
                found |= {self.plan.point(name): share for name, share in revealed.items()}
        if kind == 0 and victim not in self.one.aggregator.inputs:
            revealed = self.one.aggregator._shares.get(victim, {})
            found |= {self.plan.point(name): share for name, share in revealed.items()}
        try:
            return shamir.recover(found, threshold=self.plan.threshold)
        except ValueError:
            return None


def before_unmasking(
    plan: SumPlan, *, late: str | None = None
) -> tuple[Round, NDArray[Any] | None]:
    """Return a round whose inputs have arrived, and the vector of one that was late."""
    one, vector = start(plan), None
    questions: dict[str, Message] = {}
    for stage in plan.stages[:3]:
        for name in one.aggregator.due:
            answer = answer_of(one, name, stage, questions.get(name))
            if (name, stage) == (late, SumStage.INPUTS):
                vector = answer["vector"]
                continue
            one.aggregator.receive(name, answer)
        questions = one.aggregator.close_stage()
    one.questions = [(name, SumStage.UNMASKING, question) for name, question in questions.items()]
    return one, vector


@pytest.mark.parametrize("count", [3, 5, 8])
def test_a_coalition_below_the_threshold_opens_no_secret(count: int) -> None:
    one, _ = before_unmasking(plan_of(count))
    size = one.plan.threshold - 1
    few = Coalition(one, names(count)[:size])
    enough = Coalition(one, names(count)[: size + 1])
    victim = names(count)[-1]
    assert [few.opened(victim, kind) for kind in (0, 1)] == [None, None]
    assert None not in [enough.opened(victim, kind) for kind in (0, 1)]


def test_the_masked_input_of_one_that_was_left_out_cannot_be_opened_later() -> None:
    late = names(5)[4]
    plan = plan_of(5)
    one, vector = before_unmasking(plan, late=late)
    assert vector is not None
    coalition = Coalition(one, names(5)[: plan.threshold - 1])
    for name, _stage, question in one.questions:
        one.aggregator.receive(name, one.members[name].unmask(question))
    one.aggregator.close_stage()
    np.testing.assert_array_equal(one.aggregator.sum(), one.plain_sum())
    # All masks that it has with others are open now; its own mask is not.
    key = coalition.opened(late, 0)
    assert key is not None
    assert coalition.opened(late, 1) is None
    private = keys.opened_key(key, public=one.aggregator._public[late].masking)
    seeds = {
        peer: keys.pair_mask_seed(
            private, one.aggregator._public[peer].masking, plan, own=late, peer=peer
        )
        for peer in plan.neighbours_of(late)
    }
    add_masks(vector, [MaskStream(seed=s, negative=late < peer) for peer, s in seeds.items()])
    assert not np.any(vector.view(np.int64) == one.vectors[late])
    # Those who were asked for its key give no share of its seed any more.
    for name, _stage, question in one.questions:
        with pytest.raises(DishonestParty, match="the aggregator"):
            one.members[name].unmask({**question, "members": list(names(5))})


# --- an aggregator that asks for more -------------------------------------------------------------


def test_an_aggregator_gets_no_answer_to_a_second_question() -> None:
    one, _ = before_unmasking(plan_of(5))
    name, _stage, question = one.questions[0]
    one.members[name].unmask(question)
    for members in (question["members"], [m for m in question["members"] if m != names(5)[3]]):
        with pytest.raises(DishonestParty, match=r"the aggregator .*none is due"):
            one.members[name].unmask({**question, "members": members})


def test_an_aggregator_that_asks_out_of_turn_ends_the_round() -> None:
    one, _ = before_unmasking(plan_of(5))
    name, _stage, question = one.questions[0]
    with pytest.raises(DishonestParty, match="shares was asked for, unmasking is due"):
        one.members[name].shares(question)
    with pytest.raises(DishonestParty, match="none is due"):
        one.members[name].unmask(question)


def test_a_vector_is_masked_once() -> None:
    one = start(plan_of(3))
    questions: dict[str, Message] = {}
    for stage in one.plan.stages[:2]:
        for name in one.aggregator.due:
            one.aggregator.receive(name, answer_of(one, name, stage, questions.get(name)))
        questions = one.aggregator.close_stage()
    name = names(3)[0]
    one.members[name].masked(questions[name], one.vectors[name].copy())
    with pytest.raises(DishonestParty, match="inputs was asked for"):
        one.members[name].masked(questions[name], one.vectors[name] + 1)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("members", names(5)[:2], "2 of 3 members"),
        ("members", names(5)[1:], "is left out"),
        ("members", [*names(5), "host-9"], "was not there before"),
        ("members", names(5)[::-1], "not sorted"),
        ("members", [names(5)[0], *names(5)], "one is there twice"),
        ("members", [*names(5)[:4], 7], "no list of names"),
        ("members", names(5)[0], "no list of names"),
        ("round", 1, "round is 1, where 0 was due"),
        ("session", "another", "session is 'another'"),
        ("plan", "another", "plan is 'another'"),
        ("stage", "shares", "stage is 'shares'"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(field: str, value: object, error: str) -> None:
    one, _ = before_unmasking(plan_of(5))
    question = next(q for name, _stage, q in one.questions if name == names(5)[0])
    with pytest.raises((DishonestParty, TooFewMembers), match=error):
        one.members[names(5)[0]].unmask({**question, field: value})


@pytest.mark.parametrize("question", [None, [], "text", {}, {"round": 0}])
def test_what_is_no_question_is_refused(question: object) -> None:
    one, _ = before_unmasking(plan_of(5))
    with pytest.raises(DishonestParty, match="the aggregator"):
        one.members[names(5)[0]].unmask(question)


def test_a_member_that_is_told_of_other_keys_refuses() -> None:
    one = start(plan_of(3))
    for name in one.plan.members:
        one.aggregator.receive(name, one.members[name].keys())
    questions = one.aggregator.close_stage()
    name = names(3)[0]
    swapped = questions[name]["keys"][64:128] + questions[name]["keys"][:64]
    with pytest.raises(DishonestParty, match="other keys as mine"):
        one.members[name].shares(
            {**questions[name], "keys": swapped + questions[name]["keys"][128:]}
        )


def test_a_vector_of_another_type_is_the_callers_mistake() -> None:
    one = start(plan_of(3))
    with pytest.raises(ValueError, match="int64 array of 8 numbers"):
        one.members[names(3)[0]].masked({}, np.zeros(8))
    with pytest.raises(ValueError, match="not a member"):
        type(one.members[names(3)[0]])(one.plan, "host-1")
