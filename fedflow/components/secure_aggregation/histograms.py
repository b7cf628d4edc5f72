"""Histograms of many parties as one vector of a secure sum: trees over the same columns need them.

A histogram has, for each feature and bin, sums of gradients (one number per channel: g and h, of
each class) and the number of rows. Gradients that were `quantise`d before they were added are whole
numbers: then the sum over the parties is that of all rows, exactly, however they are spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.secure_aggregation.fixed_point import (
    Floats,
    Integers,
    encode,
    encode_integers,
)
from fedflow.components.secure_aggregation.plan import SumPlan
from fedflow.sdk import CodecError


def vector_length(shape: tuple[int, int, int]) -> int:
    """Return the length of the vector of histograms of `features x bins x channels`."""
    features, bins, channels = shape
    return features * bins * (channels + 1)


def quantise(gradients: NDArray[Any], *, fraction_bits: int) -> NDArray[np.int64]:
    """Return gradients as whole numbers of 2**-fraction_bits (int64, the same shape)."""
    scaled = np.rint(np.ldexp(gradients.astype(np.float64), fraction_bits))
    if not np.all(np.abs(scaled) < 2.0**62):
        raise ValueError("a gradient is not finite, or too large")
    return scaled.astype(np.int64)


def encode_histograms(sums: NDArray[Any], counts: NDArray[Any], plan: SumPlan) -> Integers:
    """Return a party's histograms as its vector.

    Args:
        sums: `features x bins x channels`; integers are sums of quantised gradients by the plan's
            fraction bits, floats are rounded here.
        counts: integers, `features x bins`.

    Raises: NotEncodable: a sum has no place in the ring. ValueError: the shapes do not fit.
    """
    if sums.ndim != 3 or counts.shape != sums.shape[:2]:
        raise ValueError(f"sums of shape {sums.shape} and counts of shape {counts.shape}")
    if plan.length != sums.size + counts.size:
        raise ValueError(f"the plan has {plan.length} numbers, not {sums.size + counts.size}")
    whole = sums.dtype.kind in "iu"
    name = "the sums of a histogram"
    parts = (
        encode_integers(sums, plan, name=name) if whole else encode(sums, plan, name=name),
        encode_integers(counts, plan, name="the counts of a histogram"),
    )
    return np.concatenate(parts)


def decode_histograms(
    total: Integers, plan: SumPlan, *, shape: tuple[int, int, int]
) -> tuple[Floats, NDArray[np.int64]]:
    """Return the sums of all parties (float64, `features x bins x channels`) and the counts.

    Raises: CodecError: a count is negative. ValueError: the vector has another length.
    """
    features, bins, channels = shape
    if total.shape != (vector_length(shape),):
        raise ValueError(f"a vector of shape {total.shape} for histograms of {shape}")
    cut = features * bins * channels
    sums = np.ldexp(total[:cut].astype(np.float64), -plan.fraction_bits).reshape(shape)
    counts = total[cut:].astype(np.int64).reshape(features, bins)
    if np.any(counts < 0):
        raise CodecError(reason="the parties' histograms add up to fewer than no rows")
    return sums, counts
