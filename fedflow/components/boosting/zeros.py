"""Ciphertexts of 0, made while hosts compute: the costly half of encrypting the next tree's rows.

Adding a row's plaintext to one is a product or a few. Each is used once.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.sdk.crypto.encrypted_rows import cost_of
from fedflow.sdk.crypto.schemes import PrivateScheme
from fedflow.sdk.workers import RowsAhead, Workers

MOST_BYTES: Final = 128 << 20  #: of ciphertexts that are made ahead

Bytes = NDArray[np.uint8]


class EncryptedZeros:
    """The guest's stock of zeros that are encrypted with its key."""

    def __init__(self, key: PrivateScheme, workers: Workers) -> None:
        self.key = key
        self._workers = workers
        self._width = key.public.width
        self._ahead: RowsAhead | None = None
        self._made: Bytes = np.empty((0, self._width), np.uint8)

    def begin(self, count: int) -> None:
        """Begin to make `count` of them, as far as memory allows; those at hand are dropped."""
        self.end()
        self._ahead = self._workers.make_ahead(
            functools.partial(_zeros, self.key),
            min(count, MOST_BYTES // self._width),
            width=self._width,
            cost=cost_of(self.key.public, self.key.encryption_products()),
        )

    def take(self, most: int) -> Bytes:
        """Return at most so many, count x width; nobody else gets them."""
        if self._ahead is not None:
            self._made, self._ahead = self._ahead.take(), None
        taken, self._made = self._made[:most], self._made[most:]
        return taken

    def end(self) -> None:
        """Make no more, and drop what is there."""
        self.take(0)
        self._made = self._made[:0]


def _zeros(key: PrivateScheme, count: int) -> bytes:
    return key.public.body(key.encrypt([0] * count))
