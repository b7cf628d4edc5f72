"""A Bloom filter over ids, built and read on whole columns.

The number of bits and hashes follows from the number of ids and the false-positive rate, so both
sides know them. Source: Bloom 1970; Kirsch and Mitzenmacher 2006 (k hashes from two).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedflow.components.intersection.hashing import spread
from fedflow.sdk.errors import CodecError

ROWS_PER_BLOCK = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class BloomShape:
    """How large a filter is and how ids get into it."""

    ids: int  #: how many are in it, at least 1
    false_positive_rate: float  #: 0 to 1, exclusive
    domain: bytes
    hash_method: str

    @property
    def bits(self) -> int:
        """Return the size, a multiple of 8: -n ln(p) / ln(2)^2, rounded up."""
        exact = -self.ids * math.log(self.false_positive_rate) / math.log(2) ** 2
        return 8 * max(1, math.ceil(exact / 8))

    @property
    def hashes(self) -> int:
        """Return k = bits / n * ln(2), rounded, at least 1."""
        return max(1, round(self.bits / self.ids * math.log(2)))

    def build(self, ids: pa.Array) -> bytes:
        """Return the filter of `ids`."""
        bits = np.zeros(self.bits, np.bool_)
        for start in range(0, len(ids), ROWS_PER_BLOCK):
            bits[self._positions(ids.slice(start, ROWS_PER_BLOCK))] = True
        return np.packbits(bits).tobytes()

    def contains(self, value: object, ids: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each of `ids` whether the filter `value` has it (or seems to).

        Raises: CodecError: it is no filter of this shape.
        """
        if not isinstance(value, bytes) or len(value) != self.bits // 8:
            raise CodecError(reason=f"the Bloom filter has not {self.bits} bits")
        packed = np.frombuffer(value, np.uint8)  # not unpacked: that takes eight times the memory
        blocks = [np.zeros(0, np.bool_)]
        for start in range(0, len(ids), ROWS_PER_BLOCK):
            positions = self._positions(ids.slice(start, ROWS_PER_BLOCK))
            masks = (128 >> (positions & np.uint64(7))).astype(np.uint8)
            found = packed[positions >> np.uint64(3)] & masks
            blocks.append(np.logical_and.reduce(found != 0, axis=1))
        return np.concatenate(blocks)

    def _positions(self, ids: pa.Array) -> npt.NDArray[np.uint64]:
        """Return the bits of each id, shape ids x hashes."""
        data = b"".join(spread(ids.to_pylist(), self.domain, method=self.hash_method, size=16))
        first, second = np.frombuffer(data, "<u8").reshape(-1, 2).T
        size = np.uint64(self.bits)
        steps = np.arange(self.hashes, dtype=np.uint64)
        # Below 2**40 each, so that k times the second does not overflow.
        start, step = first % size, second % size
        return (start[:, None] + steps * step[:, None]) % size
