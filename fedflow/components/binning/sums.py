"""Encrypted sums of the label per bin.

A row's plaintext has a slot per class: 1 in the slot of the row's class, 0 in the others. The
product of the ciphertexts of a bin holds how many of its rows are of each class. Slots are wide
enough for all rows, so nothing carries over; several bins are packed into one ciphertext before
they leave the host, freshly blinded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.bucket_products import BucketProducts, passes_of
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.sdk.errors import CodecError
from fedflow.sdk.workers import Workers

ROWS_PER_BLOCK = 32_768  #: rows of one message of encrypted labels

_ENCRYPTION_COST = 18.0  #: in the unit of `Workers`, with a key of 2048 bits
_PRODUCT_COST = 0.12
_ROWS_PER_CORE = 32_768  #: with fewer at a time, columns cannot share their products well
_MOST_BYTES = 256 << 20  #: of encrypted labels that wait for that

Ints = NDArray[np.int64]
Numbers = NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, slots=True)
class SumLayout:
    """Where counts stand in a plaintext."""

    rows: int
    classes: int

    @property
    def slot_bits(self) -> int:
        """Return the bits of one count, and a sign that is never set."""
        return self.rows.bit_length() + 1

    @property
    def bin_bits(self) -> int:
        """Return the bits of all counts of one bin."""
        return self.classes * self.slot_bits

    def blocks(self) -> Iterator[tuple[str, slice]]:
        """Yield the tag and the rows of every message of encrypted labels."""
        for number, start in enumerate(range(0, self.rows, ROWS_PER_BLOCK)):
            yield str(number), slice(start, min(self.rows, start + ROWS_PER_BLOCK))


def encrypt_labels(
    key: PublicKey, classes: NDArray[np.intp], layout: SumLayout, workers: Workers
) -> bytes:
    """Return the message of some rows' encrypted labels; `classes` are their classes' numbers."""
    plain = tuple(1 << (number * layout.slot_bits) for number in range(layout.classes))
    key.prepare()
    rows = workers.fill_rows(
        functools.partial(_encrypt, key, plain),
        (classes,),
        width=key.width,
        cost=_ENCRYPTION_COST * (key.bits / 2048) ** 2,
    )
    return key.message(rows.tobytes())


class HostSums:
    """The sums of one host's columns.

    One core multiplies the labels into the sums as they come. Several get many rows at a time, and
    each makes sums of its part of these.
    """

    def __init__(
        self, key: PublicKey, sizes: Sequence[int], layout: SumLayout, workers: Workers
    ) -> None:
        """`sizes` are the numbers of bins per column."""
        self._key = key
        self._sizes = tuple(sizes)
        self._layout = layout
        self._workers = workers
        self._sums = BucketProducts(self._sizes, key.modulus, rows=layout.rows)
        self._waiting: list[tuple[NDArray[np.uint8], Numbers]] = []

    def add(self, payload: object, bins: Numbers) -> None:
        """Add a block of rows: their encrypted labels, and their bins (rows x columns).

        Raises: CodecError: not one valid ciphertext per row, here or in an earlier block.
            ComponentFailed: a process died.
        """
        if self._workers.cores == 1:
            self._sums.add(self._key.from_bytes(payload, count=len(bins)), bins)
            return
        self._waiting.append((self._key.rows_of(payload, count=len(bins)), bins))
        rows = sum(len(bins) for _, bins in self._waiting)
        most = min(_ROWS_PER_CORE * self._workers.cores, _MOST_BYTES // self._key.width)
        if rows + ROWS_PER_BLOCK > most:
            self._fold()

    def _fold(self) -> None:
        """Add what waits. Raises: as `add`."""
        if not self._waiting:
            return
        ciphertexts = np.concatenate([ciphertexts for ciphertexts, _ in self._waiting])
        bins = np.concatenate([bins for _, bins in self._waiting])
        self._waiting = []
        share = -(-len(bins) // self._workers.cores)
        passes = passes_of(self._sizes, rows=share)
        ends = [0, *accumulate(self._sizes)]
        found = self._workers.fold_rows(
            functools.partial(_sums_of, self._key, self._sizes),
            (ciphertexts, bins),
            most=ends[-1] * self._key.width,
            cost=_PRODUCT_COST * passes * (self._key.bits / 2048) ** 2,
        )
        for body in found:
            totals = [mpz.from_bytes(cell, "little") for cell in _cut(body, self._key.width)]
            self._sums.merge([totals[start:stop] for start, stop in pairwise(ends)])

    def message(self) -> bytes:
        """Return all sums, packed and freshly blinded: column by column, bin by bin.

        Raises: as `add`.
        """
        self._fold()
        bins = [total for column in self._sums.products() for total in column]
        packed = self._key.pack(bins, self._layout.bin_bits)
        return self._key.to_bytes(self._key.blind(packed, to_owner=True))


def open_sums(
    key: PrivateKey, payload: object, *, sizes: Sequence[int], totals: Ints, sender: str
) -> list[Ints]:
    """Return per column of a host how many rows are in each bin and of each class.

    Args:
        sizes: bins per column.
        totals: rows per class.

    Raises: CodecError: it is no such message, or the counts cannot be.
    """
    layout = SumLayout(rows=int(totals.sum()), classes=len(totals))
    per_ciphertext = key.public.slots(layout.bin_bits)
    ciphertexts = key.public.from_bytes(payload, count=-(-sum(sizes) // per_ciphertext))
    counts = unpack(
        key.decrypt(ciphertexts),
        layout.slot_bits,
        slots=per_ciphertext * layout.classes,
        count=sum(sizes) * layout.classes,
    )
    if any(not 0 <= count <= layout.rows for count in counts):
        raise CodecError(reason=f"encrypted_bin_sum of {sender}: a bin has an impossible count")
    table = np.array(counts, dtype=np.int64).reshape(-1, layout.classes)
    columns = np.split(table, np.cumsum(sizes)[:-1]) if len(sizes) else []
    if any((column.sum(axis=0) != totals).any() for column in columns):
        raise CodecError(reason=f"encrypted_bin_sum of {sender}: bins do not hold every row once")
    return columns


def _cut(body: bytes, width: int) -> Iterator[bytes]:
    return (body[i : i + width] for i in range(0, len(body), width))


# --- on the workers -------------------------------------------------------------------------------


def _encrypt(key: PublicKey, plain: tuple[int, ...], classes: NDArray[np.intp]) -> bytes:
    return key.body(key.encrypt(plain[number] for number in classes.tolist()))


def _sums_of(
    key: PublicKey, sizes: tuple[int, ...], ciphertexts: NDArray[np.uint8], bins: Numbers
) -> bytes:
    """Return the product of every bin, column by column. Raises: CodecError."""
    sums = BucketProducts(sizes, key.modulus, rows=len(bins))
    sums.add(key.read_rows(ciphertexts), bins)
    return key.body(product for column in sums.products() for product in column)
