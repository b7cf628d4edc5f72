"""Encrypted zeros with which a party blinds its next rows, made while it waits for others.

A fresh encryption of x is a fresh encryption of 0 times 1 + n * x, and takes nearly all of the time
that the encryption takes; it needs no number of the next batch. A zero is handed out once and used
for one row of one message: a second use would show the difference of two plaintexts.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk.crypto.encrypted_rows import cost_of, encrypt_integers
from fedflow.sdk.crypto.paillier import PublicKey
from fedflow.sdk.workers import Workers

MOST_ROWS: Final = 1 << 15  #: of a batch whose zeros are made ahead: 8 MiB with 1024 bits

Ints = NDArray[np.int64]


class Zeros:
    """The zeros of one party in one training; none are made for more than `most` rows."""

    def __init__(self, workers: Workers, key: PublicKey, *, most: int) -> None:
        self._workers = workers
        self._key = key
        self._most = most
        self._made: dict[int, bytes] = {}  # at most one message, by its number of rows

    def make(self, rows: int) -> None:
        """Have zeros for a message of `rows` rows, which `take` or `encrypt` will use."""
        if 0 < rows <= self._most and rows not in self._made:
            self._made = {rows: self._new(rows)}

    def take(self, rows: int) -> bytes | None:
        """Return the message of `rows` zeros, for this caller alone; None if these are too many."""
        if rows > self._most:
            return None
        return self._made.pop(rows, None) or self._new(rows)

    def encrypt(self, values: Ints) -> bytes:
        """Return the message of encrypted integers."""
        key, zeros = self._key, self.take(len(values))
        if zeros is None:
            return encrypt_integers(self._workers, key, values)
        rows = self._workers.fill_rows(
            partial(_shifted, key),
            [key.rows_of(zeros, count=len(values)), values],
            width=key.width,
            cost=cost_of(key, 2.0),
        )
        return key.message_of(rows)

    def _new(self, rows: int) -> bytes:
        return encrypt_integers(self._workers, self._key, np.zeros(rows, dtype=np.int64))


def _shifted(key: PublicKey, zeros: NDArray[np.uint8], values: Ints) -> bytes:
    return key.body(map(key.add_plain, key.read_rows(zeros), values.tolist()))
