"""Encrypted sums of the label per bin.

A row's plaintext has a slot per class: 1 in the slot of the row's class, 0 in the others. The
product of the ciphertexts of a bin holds how many of its rows are of each class. Slots are wide
enough for all rows, so nothing carries over; several bins are packed into one ciphertext before
they leave the host, freshly blinded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.base.errors import CodecError
from fedflow.components.crypto.bucket_products import BucketProducts
from fedflow.components.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.components.processes import fill_rows

ROWS_PER_BLOCK = 32_768  #: rows of one message of encrypted labels

_ENCRYPTION_COST = 18  #: in the unit of `fill_rows`, with a key of 2048 bits
_PRODUCT_COST = 0.12
_PASSES_PER_PROCESS = 4  #: fewer are divided by rows too, so that all processes have like work

Ints = NDArray[np.int64]
Numbers = NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
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
    key: PublicKey, classes: NDArray[np.intp], layout: Layout, *, processes: int
) -> bytes:
    """Return the message of some rows' encrypted labels; `classes` are their classes' numbers."""
    plain = [1 << (number * layout.slot_bits) for number in range(layout.classes)]

    def work(start: int, stop: int, out: memoryview) -> None:
        values = (plain[number] for number in classes[start:stop].tolist())
        out[:] = b"".join(c.to_bytes(key.width, "little") for c in key.encrypt(values))

    key.prepare()
    cost = max(1, _ENCRYPTION_COST * key.bits**2 // 2048**2)
    rows = fill_rows(
        len(classes), key.width, work, processes=processes, progress=_ignore, cost=cost
    )
    return key.message(rows.tobytes())


class HostSums:
    """The sums of one host's columns."""

    def __init__(self, key: PublicKey, sizes: Sequence[int], layout: Layout) -> None:
        """`sizes` are the numbers of bins per column."""
        self._key = key
        self._sizes = tuple(sizes)
        self._layout = layout
        self._sums = BucketProducts(self._sizes, key.modulus, rows=layout.rows)

    def add(self, payload: object, bins: Numbers, *, processes: int) -> None:
        """Add a block of rows: their encrypted labels, and their bins (rows x columns).

        Raises: CodecError: not one valid ciphertext per row. ComponentFailed: a process died.
        """
        ciphertexts = self._key.from_bytes(payload, count=len(bins))
        if processes <= 1:
            self._sums.add(ciphertexts, bins)
            return
        passes = self._sums.passes
        parts = 1 if passes >= _PASSES_PER_PROCESS * processes else processes
        bounds = [len(bins) * i // parts for i in range(parts + 1)]
        width, length = self._key.width, self._sums.most_cells * self._key.width

        def work(start: int, stop: int, out: memoryview) -> None:
            for item in range(start, stop):
                number, part = divmod(item, parts)
                rows = slice(bounds[part], bounds[part + 1])
                cells = self._sums.partial(number, ciphertexts[rows], bins[rows])
                found = b"".join(cell.to_bytes(width, "little") for cell in cells)
                place = (item - start) * length
                out[place : place + len(found)] = found

        cost = max(1, int(_PRODUCT_COST * len(bins) / parts))
        items = fill_rows(
            passes * parts, length, work, processes=processes, progress=_ignore, cost=cost
        )
        for item, row in enumerate(items):
            view = memoryview(row.tobytes())
            cells = [mpz.from_bytes(view[i : i + width], "little") for i in range(0, length, width)]
            self._sums.merge(item // parts, cells)

    def message(self) -> bytes:
        """Return all sums, packed and freshly blinded: column by column, bin by bin."""
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
    layout = Layout(rows=int(totals.sum()), classes=len(totals))
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


def _ignore(done: float) -> None:
    """Take a progress that is shown per block."""
