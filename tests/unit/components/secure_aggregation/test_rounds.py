"""The secure sum is the plain one, whoever is lost and when."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.secure_aggregation.aggregator import SecureSum
from fedflow.components.secure_aggregation.member import SecureMember
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from fedflow.federation.codec import decode, encode
from fedflow.sdk.errors import TooFewMembers
from tests.unit.components.secure_aggregation.rounds import (
    Round,
    answer_of,
    go_on,
    names,
    plan_of,
    random_vectors,
    run,
    start,
)

STAGES = [stage for stage in SumStage if stage is not SumStage.CONFIRMATIONS]


def circulant(count: int, neighbours: int, **more: int) -> SumPlan:
    """Return a plan with neighbours, though the vector is short."""
    threshold = (neighbours + 1) // 2 + 1
    return replace(plan_of(count, **more), neighbours=neighbours, threshold=threshold)


def assert_exact(one: Round) -> None:
    np.testing.assert_array_equal(one.aggregator.sum(), one.plain_sum())


@pytest.mark.parametrize("ring_bits", [32, 64])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 10, 20])
def test_sum_is_the_plain_sum(count: int, ring_bits: int) -> None:
    one = run(plan_of(count, ring_bits=ring_bits))
    assert one.aggregator.inputs == one.plan.members
    assert_exact(one)


@pytest.mark.parametrize("ring_bits", [32, 64])
@pytest.mark.parametrize("count", [3, 4, 6, 10])
@pytest.mark.parametrize("stage", STAGES)
def test_sum_is_that_of_the_others_if_some_are_lost_at_a_stage(
    stage: SumStage, count: int, ring_bits: int
) -> None:
    many = (count - 1) // 2
    one = run(plan_of(count, ring_bits=ring_bits), lost=dict.fromkeys(names(count)[:many], stage))
    there = names(count)[0 if stage is SumStage.UNMASKING else many :]
    assert list(one.aggregator.inputs) == there
    assert one.aggregator.lost == dict.fromkeys(names(count)[:many], stage)
    assert_exact(one)


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_a_hundred_members_of_whom_some_are_lost_at_every_stage(ring_bits: int) -> None:
    lost = {name: STAGES[i % 4] for i, name in enumerate(names(100)[::5])}
    one = run(plan_of(100, ring_bits=ring_bits), lost=lost)
    assert len(one.aggregator.inputs) == 85
    assert_exact(one)


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_a_hundred_members_with_fourteen_neighbours_each(ring_bits: int) -> None:
    lost = {name: STAGES[i % 4] for i, name in enumerate(names(100)[::10])}
    one = run(circulant(100, 14, ring_bits=ring_bits), lost=lost)
    assert len(one.aggregator.inputs) == 92
    assert_exact(one)


@pytest.mark.parametrize("stage", STAGES)
def test_one_more_lost_ends_the_round(stage: SumStage) -> None:
    with pytest.raises(TooFewMembers, match="Round 0"):
        run(plan_of(6), lost=dict.fromkeys(names(6)[:3], stage))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), count=st.integers(3, 12), ring_bits=st.sampled_from([32, 64]))
def test_whoever_is_lost_the_sum_is_exact_or_there_is_none(
    data: st.DataObject, count: int, ring_bits: int
) -> None:
    lost = data.draw(st.dictionaries(st.sampled_from(names(count)), st.sampled_from(STAGES)))
    widths = range(4, count - 1, 2)
    width = data.draw(st.sampled_from([None, *widths]))
    plan = plan_of(count, ring_bits=ring_bits, length=3)
    if width is not None:
        plan = circulant(count, width, ring_bits=ring_bits, length=3)
    try:
        one = run(plan, lost=lost)
    except TooFewMembers:
        assert lost
        return
    assert set(one.aggregator.lost) >= set(lost) & set(plan.members)
    assert_exact(one)


def test_a_member_with_too_few_holders_is_left_out_with_those_that_are_lost() -> None:
    plan = circulant(30, 6)
    member = names(30)[0]
    near = plan.neighbours_of(member)
    for lost in combinations(near, 4):
        there = [name for name in plan.members if name not in lost]
        if all(len({*plan.holders_of(n)} - {*lost, member}) >= 4 for n in there if n != member):
            break
    one = start(plan)
    for name in there:
        one.aggregator.receive(name, one.members[name].keys())
    assert set(one.aggregator.close_stage()) == {*there} - {member}
    assert set(one.aggregator.lost) == {*lost, member}


def test_a_late_message_is_not_counted() -> None:
    late = names(5)[0]
    one = run(plan_of(5), lost={late: SumStage.KEYS})
    assert one.aggregator.receive(late, one.members[late].keys()) is False
    assert_exact(one)


def test_messages_travel_over_the_data_plane() -> None:
    def travelled(value: Any) -> Any:
        return decode(b"".join(encode(value).parts))

    one, questions = start(plan_of(5, length=1000)), dict[str, Any]()
    for stage in one.plan.stages:
        for name in one.aggregator.due:
            if (name, stage) == (names(5)[1], SumStage.INPUTS):
                continue
            answer = answer_of(one, name, stage, questions.get(name))
            one.aggregator.receive(name, travelled(answer))
        questions = {n: travelled(q) for n, q in one.aggregator.close_stage().items()}
    assert_exact(one)


def test_threads_change_nothing() -> None:
    plan = plan_of(3, length=300_000)
    vectors = random_vectors(plan)
    members = {name: SecureMember(plan, name, threads=2) for name in plan.members}
    one = Round(plan, vectors, SecureSum(plan, threads=2), members)
    assert_exact(go_on(one, lost={names(3)[1]: SumStage.INPUTS}))
