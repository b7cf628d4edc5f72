"""Numbers as integers: exact sums, in every order, or an error that names the number."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.secure_aggregation.fixed_point import (
    decode,
    encode,
    encode_counted,
    encode_integers,
    largest,
)
from fedflow.sdk.errors import NotEncodable
from tests.unit.components.secure_aggregation.rounds import plan_of


@settings(max_examples=100, deadline=None)
@given(
    xs=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20),
    seed=st.integers(0, 2**32),
)
def test_the_sum_is_the_same_in_every_order_and_near_the_true_one(
    xs: list[float], seed: int
) -> None:
    plan = plan_of(len(xs), length=1)
    parts = [encode(np.array([x]), plan) for x in xs]
    total = sum(parts[1:], parts[0])
    random.Random(seed).shuffle(parts)
    np.testing.assert_array_equal(sum(parts[1:], parts[0]), total)
    assert abs(decode(total, plan)[0] - sum(xs)) <= len(xs) * 2.0**-25 + 1e-9


@given(st.integers(-(2**40), 2**40), st.integers(0, 2**20))
def test_integers_are_kept_as_they_are(x: int, weight: int) -> None:
    plan = plan_of(2, length=1, fraction_bits=0)
    assert encode(np.array([x]), plan, weight=weight)[0] == x * weight


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**38 / 3 + 1])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_has_no_place_is_named(bad: float, kind: type) -> None:
    values = np.zeros(40_000, kind)
    values[39_999] = bad
    with pytest.raises(NotEncodable, match=r"layer\.weight\[39999\] is .*which has no place"):
        encode(values, plan_of(3), name="layer.weight")


@pytest.mark.parametrize("ring_bits", [32, 64])
@pytest.mark.parametrize("count", [2, 3, 7, 100])
def test_the_largest_numbers_of_all_members_do_not_wrap(count: int, ring_bits: int) -> None:
    plan = plan_of(count, length=2, ring_bits=ring_bits, fraction_bits=0)
    most = largest(plan)
    ends = encode_integers(np.array([most, -most]), plan)
    total = sum([ends] * (count - 1), ends)
    assert total.tolist() == [count * most, -count * most]
    for wrong in (most + 1, -most - 1):
        with pytest.raises(NotEncodable):
            encode_integers(np.array([wrong]), plan)
        with pytest.raises(NotEncodable):
            encode(np.array([wrong], np.int64), plan)


def test_a_weighted_mean_has_the_weights_of_all() -> None:
    plan = plan_of(3, length=3)
    values = [np.array([1.0, -2.0]), np.array([0.5, 4.0]), np.array([3.0, 0.25])]
    weights = [10, 0, 1_000]
    parts = [
        encode_counted(v, plan, count=w, weight=w) for v, w in zip(values, weights, strict=True)
    ]
    total = sum(parts[1:], parts[0])
    assert total[-1] == 1_010
    mean = decode(total[:-1], plan, divisor=1_010)
    np.testing.assert_allclose(mean, np.average(values, axis=0, weights=weights), atol=1e-9)


def test_a_weight_does_not_round_floats_of_32_bits() -> None:
    plan = plan_of(3, length=1)
    value = np.array([0.1], np.float32)
    assert encode(value, plan, weight=333)[0] == round(float(value[0]) * 333 * 2**24)


@pytest.mark.parametrize("weight", [-1, 2**53 + 1])
def test_a_weight_out_of_range_is_refused(weight: int) -> None:
    with pytest.raises(ValueError, match="a weight of"):
        encode(np.zeros(2), plan_of(3), weight=weight)


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([None]), np.zeros(2, complex)])
def test_what_is_no_number_is_refused(values: np.ndarray) -> None:
    with pytest.raises(TypeError, match="where numbers were due"):
        encode(values, plan_of(3))


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.uint64, np.float16])
def test_every_kind_of_number_is_taken(kind: type) -> None:
    plan = plan_of(3, length=2)
    assert decode(encode(np.array([0, 1], kind), plan), plan).tolist() == [0.0, 1.0]


def test_huge_unsigned_integers_are_refused() -> None:
    with pytest.raises(NotEncodable):
        encode(np.array([2**63 + 1], np.uint64), plan_of(3, fraction_bits=0))
