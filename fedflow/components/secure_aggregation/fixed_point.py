"""Numbers as integers of the ring, such that their sum is exact and the same in every order.

A number x of one of n members becomes round(x * 2**f), and must not be larger than
2**(ring_bits - 2) / n: so the sum stays clear of the sign. A weighted mean goes in as
round(weight * x * 2**f) beside the weight; who has the sum divides.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedflow.components.secure_aggregation.plan import SumPlan
from fedflow.sdk import NotEncodable

Integers: TypeAlias = NDArray[np.signedinteger[Any]]
"""Exact integers, int32 or int64 as the ring."""

Floats = NDArray[np.float64]

_BLOCK = 1 << 15  #: numbers that are converted at a time


def largest(plan: SumPlan) -> int:
    """Return the largest absolute value of an integer that a member may put in."""
    return (1 << plan.ring_bits - 2) // len(plan.members)


def encode(
    values: NDArray[Any], plan: SumPlan, *, weight: int = 1, name: str = "the vector"
) -> Integers:
    """Return `round(weight * x * 2**f)` of floats or integers, one after the other (int32, int64).

    Raises: NotEncodable: a number is not finite, or too large for the ring and so many members; it
        names the number's place. TypeError: they are no numbers. ValueError: a weight that is not
        from 0 to 2**53.
    """
    flat = np.asarray(values).reshape(-1)
    out = _empty(flat.size, plan)
    _encode(flat, out, plan, weight=weight, name=name)
    return out


def encode_integers(values: NDArray[Any], plan: SumPlan, *, name: str = "the vector") -> Integers:
    """Return integers as they are, checked against the ring (int32, int64).

    Raises: NotEncodable: one is too large. TypeError: they are no integers.
    """
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind not in "biu":
        raise TypeError(f"{name}: an array of {flat.dtype} where integers were due")
    bad = _too_large(flat, largest(plan))
    if bad.any():
        at = int(np.argmax(bad))
        limit = f"{largest(plan)} in a ring of {plan.ring_bits} bits"
        reason = f"{name}[{at}] is {flat[at]}; up to {limit} with {len(plan.members)} members"
        raise NotEncodable(reason=reason)
    return flat.astype(_empty(0, plan).dtype)


def encode_counted(
    values: NDArray[Any],
    plan: SumPlan,
    *,
    count: int,
    weight: int = 1,
    name: str = "the vector",
) -> Integers:
    """Return encoded numbers, then `count`, as one vector that is written once.

    Raises: as `encode`; NotEncodable: the count.
    """
    flat = np.asarray(values).reshape(-1)
    out = _empty(flat.size + 1, plan)
    _encode(flat, out[:-1], plan, weight=weight, name=name)
    out[-1:] = encode_integers(np.array([count]), plan, name=f"the weight of {name}")
    return out


def decode(total: Integers, plan: SumPlan, *, divisor: float = 1.0) -> Floats:
    """Return sums of encoded numbers as floats, divided by `divisor` (float64)."""
    out = total.astype(np.float64)
    return np.divide(out, 2.0**plan.fraction_bits * divisor, out=out)


def _empty(size: int, plan: SumPlan) -> Integers:
    return np.empty(size, np.int64 if plan.ring_bits == 64 else np.int32)


def _encode(flat: NDArray[Any], out: Integers, plan: SumPlan, *, weight: int, name: str) -> None:
    if flat.dtype.kind not in "biuf" or flat.dtype.itemsize > 8:
        raise TypeError(f"{name}: an array of {flat.dtype} where numbers were due")
    if not 0 <= weight <= 1 << 53:
        raise ValueError(f"{name}: a weight of {weight}")
    scale, most = weight << plan.fraction_bits, largest(plan)
    room = np.empty(_BLOCK)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        scaled = _scaled(block, scale, most, room=room)
        if scaled is None:
            alone = (_scaled(block[i : i + 1], scale, most, room=room) for i in range(block.size))
            at = next(i for i, one in enumerate(alone) if one is None)
            reason = f"{name}[{start + at}] is {block[at]}, " + _limits(plan, weight)
            raise NotEncodable(reason=reason)
        out[start : start + _BLOCK] = scaled


def _scaled(block: NDArray[Any], scale: int, most: int, *, room: Floats) -> NDArray[Any] | None:
    """Return a block as whole numbers, floats in `room`; None if one has no place in the ring."""
    if block.dtype.kind != "f":
        limit = most // scale if scale else most
        if scale and _too_large(block, limit).any():
            return None
        return block.astype(np.int64) * scale if scale and limit else np.zeros(block.size, np.int64)
    scaled, bound = room[: block.size], _float_below(most)
    with np.errstate(all="ignore"):  # what is not finite stays so, or becomes NaN
        np.multiply(block, float(scale), out=scaled, dtype=np.float64)
        np.rint(scaled, out=scaled)
    return scaled if scaled.max() <= bound and scaled.min() >= -bound else None


def _float_below(most: int) -> float:
    """Return the largest float that is no larger than `most`."""
    near = float(most)
    return near if int(near) <= most else float(np.nextafter(near, 0.0))


def _too_large(values: NDArray[Any], most: int) -> NDArray[np.bool_]:
    if values.dtype.kind == "b":
        return np.full(values.shape, most < 1) & values.astype(np.bool_)
    info = np.iinfo(values.dtype)
    above: NDArray[np.bool_] = values > min(most, info.max)
    below: NDArray[np.bool_] = values < max(-most, info.min)
    return np.logical_or(above, below)


def _limits(plan: SumPlan, weight: int) -> str:
    """Return what has room, for people."""
    weighted = f" with weight {weight}" if weight != 1 else ""
    limit = largest(plan) / ((weight or 1) << plan.fraction_bits)
    return (
        f"which has no place: up to {limit:g}{weighted} in a ring of {plan.ring_bits} bits with"
        f" {plan.fraction_bits} fraction bits and {len(plan.members)} members"
    )
