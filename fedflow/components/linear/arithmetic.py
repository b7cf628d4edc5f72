"""The encrypted arithmetic that guest, host and arbiter share: scales, ranges, sums, packing.

Numbers are fixed point with p fraction bits (`FixedPoint`). A party's sums leave for the arbiter
packed into signed slots whose width follows from these bounds, which each sender checks on its own
numbers, so that nothing can overflow into a neighbour:

| number | bound |
|---|---|
| feature | 2**20; the sum of a column's sizes 2**48 |
| one party's share of a row's residual | 2**30 |
| HeteroPoisson: exp of a party's score (times weight and exposure at the guest), label | 2**30 |
| sample weight (mean 1) | 2**20 |
| a party's own plaintext part of a sum | the same bound as the encrypted part |

With p = 23 and one host a slot has 128 bits, in HeteroPoisson 204.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.linear.batches import BatchInfo
from fedflow.components.linear.families import Family
from fedflow.sdk.crypto.encrypted_rows import parts_of
from fedflow.sdk.crypto.fixed_point import FixedPoint, check_range
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.sdk.errors import BadData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEATURE_BITS = 20
COLUMN_BITS = 48
SHARE_BITS = 30
WEIGHT_BITS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Scales:
    """The number formats of one training, which follow from what the guest announced."""

    fixed: FixedPoint
    factors: int  #: how many encoded numbers are multiplied into a gradient sum
    sum_bits: int  #: own parts of sums stay below 2**sum_bits
    slot_bits: int

    @staticmethod
    def of(info: BatchInfo, *, family: Family, hosts: int) -> Scales:
        """Return the formats for `hosts` hosts.

        A quadratic residual is a sum of shares, perhaps times a weight; that of HeteroPoisson is a
        product of an exp at the scale of two numbers with one of one.
        """
        if family.quadratic:
            factors = 3 if info.weighted else 2
            sum_bits = COLUMN_BITS + SHARE_BITS + hosts.bit_length()
            sum_bits += WEIGHT_BITS if info.weighted else 0
        else:
            factors = 4
            sum_bits = COLUMN_BITS + 2 * SHARE_BITS + 1
        return Scales(
            fixed=FixedPoint(bits=info.precision),
            factors=factors,
            sum_bits=sum_bits,
            slot_bits=sum_bits + factors * info.precision + 3,  # three summands and the sign
        )


def encode_features(features: Floats, *, fixed: FixedPoint, columns: Sequence[str]) -> Ints:
    """Return the features as int64, rows contiguous.

    Raises: BadData: a column's values are too large.
    """
    large = np.zeros(len(columns), dtype=np.int64)
    totals = np.zeros(len(columns))
    for part in parts_of(len(features)):
        sizes = np.abs(features[part])
        large += np.count_nonzero(sizes >= 2.0**FEATURE_BITS, axis=0)
        totals += sizes.sum(axis=0)
    heavy = totals >= 2.0**COLUMN_BITS
    for name, count, is_heavy in zip(columns, large.tolist(), heavy.tolist(), strict=True):
        if count or is_heavy:
            what = f"{count} of {len(features)} values reach 2^{FEATURE_BITS}"
            reason = what if count else f"the values' sizes sum up to 2^{COLUMN_BITS}"
            raise BadData(where=f"column {name!r}", reason=f"{reason}; scale it")
    return fixed.encode(features, limit_bits=FEATURE_BITS, what="features")


def encode_share(share: Floats, *, fixed: FixedPoint) -> Ints:
    """Return one party's share of the residuals as int64. Raises: NotEncodable."""
    return fixed.encode(share, limit_bits=SHARE_BITS, what="residuals")


def encode_loss_column(guest_share: Floats, *, fixed: FixedPoint) -> Ints:
    """Return the column whose product with the host's shares is the loss' cross term.

    `guest_share` are the guest's shares of the residuals. Raises: NotEncodable: they are too
    large.
    """
    column = 2.0 * guest_share
    check_range(np.abs(column).sum(keepdims=True), limit_bits=COLUMN_BITS, what="residual sums")
    return fixed.encode(column, limit_bits=SHARE_BITS + 1, what="residuals")


def pack_sums(key: PublicKey, sums: Sequence[mpz], own: Sequence[int], *, slot_bits: int) -> bytes:
    """Return the message of encrypted sums plus own plain parts, packed and blinded."""
    whole = [key.add_plain(ciphertext, part) for ciphertext, part in zip(sums, own, strict=True)]
    return key.to_bytes(key.blind(key.pack(whole, slot_bits), to_owner=True))


def open_sums(key: PrivateKey, payload: object, *, scales: Scales, count: int) -> Floats:
    """Return the `count` sums of a message of `pack_sums`. Raises: CodecError."""
    slots = key.public.slots(scales.slot_bits)
    ciphertexts = key.public.from_bytes(payload, count=-(-count // slots))
    numbers = unpack(key.decrypt(ciphertexts), scales.slot_bits, slots=slots, count=count)
    return scales.fixed.decode(numbers, factors=scales.factors)
