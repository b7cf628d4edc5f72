"""Histograms of many parties are those of all rows, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedflow.components.secure_aggregation.histograms import (
    decode_histograms,
    encode_histograms,
    quantise,
    vector_length,
)
from fedflow.sdk.errors import CodecError, NotEncodable
from tests.unit.components.secure_aggregation.rounds import plan_of, run

FEATURES, BINS, CHANNELS = SHAPE = (3, 5, 2)
PLAN = plan_of(4, length=vector_length(SHAPE))


def histogram(
    bins: NDArray[np.int64], gradients: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the histograms of rows; bins are `rows x features`, gradients `rows x channels`."""
    sums, counts = np.zeros(SHAPE, np.int64), np.zeros((FEATURES, BINS), np.int64)
    for feature in range(FEATURES):
        np.add.at(sums[feature], bins[:, feature], gradients)
        np.add.at(counts[feature], bins[:, feature], 1)
    return sums, counts


def test_the_sum_over_parties_is_the_histogram_of_all_rows() -> None:
    rng = np.random.default_rng(3)
    bins = rng.integers(0, BINS, (200, FEATURES))
    gradients = quantise(rng.normal(size=(200, CHANNELS)), fraction_bits=PLAN.fraction_bits)
    cuts = [0, 20, 21, 150, 200]
    vectors = {
        name: encode_histograms(*histogram(bins[a:b], gradients[a:b]), PLAN)
        for name, a, b in zip(PLAN.members, cuts[:-1], cuts[1:], strict=True)
    }
    total = run(PLAN, vectors=vectors).aggregator.sum()
    sums, counts = decode_histograms(total, PLAN, shape=SHAPE)
    pooled, rows = histogram(bins, gradients)
    np.testing.assert_array_equal(sums, pooled / 2**PLAN.fraction_bits)
    np.testing.assert_array_equal(counts, rows)


def test_sums_of_floats_are_rounded_once() -> None:
    sums, counts = np.full(SHAPE, 0.1), np.ones((FEATURES, BINS), np.int64)
    found, rows = decode_histograms(encode_histograms(sums, counts, PLAN), PLAN, shape=SHAPE)
    np.testing.assert_allclose(found, 0.1, atol=2.0**-25)
    assert rows.sum() == FEATURES * BINS


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_gradients_out_of_range_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite, or too large"):
        quantise(np.array([bad]), fraction_bits=24)
    sums = np.full(SHAPE, bad)
    with pytest.raises(NotEncodable, match="the sums of a histogram"):
        encode_histograms(sums, np.zeros((FEATURES, BINS), np.int64), PLAN)


def test_other_shapes_are_refused() -> None:
    counts = np.zeros((FEATURES, BINS), np.int64)
    with pytest.raises(ValueError, match="shape"):
        encode_histograms(np.zeros((FEATURES, BINS)), counts, PLAN)
    with pytest.raises(ValueError, match="shape"):
        encode_histograms(np.zeros(SHAPE), counts.T, PLAN)
    with pytest.raises(ValueError, match="the plan has 45 numbers, not 60"):
        encode_histograms(np.zeros((FEATURES, BINS, 3)), counts, PLAN)
    with pytest.raises(ValueError, match="for histograms of"):
        decode_histograms(np.zeros(44, np.int64), PLAN, shape=SHAPE)


def test_fewer_than_no_rows_are_refused() -> None:
    total = np.full(vector_length(SHAPE), -1)
    with pytest.raises(CodecError, match="fewer than no rows"):
        decode_histograms(total, PLAN, shape=SHAPE)
