"""The secure sum is the plain one, whoever is lost and when."""

from __future__ import annotations

import numpy as np
import pytest

from fedflow.components.secure_aggregation.plan import Stage
from fedflow.sdk.errors import TooFewMembers
from tests.unit.components.secure_aggregation.rounds import names, plan_of, run


@pytest.mark.parametrize("ring_bits", [32, 64])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 10, 20])
def test_sum_is_the_plain_sum(count: int, ring_bits: int) -> None:
    one = run(plan_of(count, ring_bits=ring_bits))
    assert one.aggregator.inputs == one.plan.members
    np.testing.assert_array_equal(one.aggregator.sum(), one.plain_sum())


@pytest.mark.parametrize("ring_bits", [32, 64])
@pytest.mark.parametrize("count", [3, 4, 6, 10])
@pytest.mark.parametrize("stage", [s for s in Stage if s is not Stage.CONFIRMATIONS])
def test_sum_is_that_of_the_others_if_some_are_lost_at_a_stage(
    stage: Stage, count: int, ring_bits: int
) -> None:
    many = (count - 1) // 2
    one = run(plan_of(count, ring_bits=ring_bits), lost=dict.fromkeys(names(count)[:many], stage))
    there = names(count)[0 if stage is Stage.UNMASKING else many :]
    assert list(one.aggregator.inputs) == there
    assert one.aggregator.lost == dict.fromkeys(names(count)[:many], stage)
    np.testing.assert_array_equal(one.aggregator.sum(), one.plain_sum())


def test_one_more_lost_ends_the_round() -> None:
    with pytest.raises(TooFewMembers, match="3 of 4 members"):
        run(plan_of(6), lost=dict.fromkeys(names(6)[:3], Stage.INPUTS))
