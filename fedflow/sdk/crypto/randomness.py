"""Random numbers that nobody can guess, or, from a shared seed, nobody without the seed.

Without a seed they come from the operating system. With one they are SHAKE-256 of it and of the
purpose: parties that share a seed draw the same numbers, for others these look uniform. A seed
gives one stream per purpose; draw twice for one purpose and the numbers are the same.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import numpy as np
from numpy.typing import NDArray

SEED_BYTES: Final = 32

Shape = int | tuple[int, ...]


def new_seed() -> bytes:
    """Return a new secret of 32 random bytes, for `seed` or as `key` of `hash_ids`."""
    return secrets.token_bytes(SEED_BYTES)


def random_ring(
    shape: Shape, *, seed: bytes | None = None, purpose: str = ""
) -> NDArray[np.uint64]:
    """Return uniform integers modulo 2**64 (uint64): masks and secret shares.

    Raises: ValueError: a seed without a purpose, or not of 32 bytes.
    """
    size = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(_bytes(8 * size, seed, purpose), "<u8").astype(np.uint64).reshape(shape)


def random_uniform(
    shape: Shape, *, seed: bytes | None = None, purpose: str = ""
) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1), multiples of 2**-53 (float64). Raises: as `random_ring`."""
    draws = random_ring(shape, seed=seed, purpose=purpose) >> np.uint64(11)
    return draws.astype(np.float64) * 2.0**-53


def random_integers(
    limit: int, shape: Shape, *, seed: bytes | None = None, purpose: str = ""
) -> NDArray[np.int64]:
    """Return integers from 0 to `limit` - 1 (int64), all equally likely.

    Raises: ValueError: `limit` is not from 1 to 2**31; or as `random_ring`.
    """
    if not 0 < limit <= 1 << 31:
        raise ValueError(f"{limit} is no limit from 1 to 2**31")
    draws = random_ring(shape, seed=seed, purpose=purpose)
    # The upper half of a product of 96 bits, by hand: floor(draw * limit / 2**64).
    lower = (draws & np.uint64(0xFFFFFFFF)) * np.uint64(limit)
    upper = (draws >> np.uint64(32)) * np.uint64(limit) + (lower >> np.uint64(32))
    return (upper >> np.uint64(32)).astype(np.int64)


def random_permutation(
    count: int, *, seed: bytes | None = None, purpose: str = ""
) -> NDArray[np.int64]:
    """Return the numbers 0 to `count` - 1 in random order (int64). Raises: as `random_ring`."""
    draws = random_ring((count, 2), seed=seed, purpose=purpose)
    return np.lexsort((draws[:, 1], draws[:, 0])).astype(np.int64)


def _bytes(size: int, seed: bytes | None, purpose: str) -> bytes:
    if seed is None:
        return secrets.token_bytes(size)
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes; new_seed() makes one")
    if not purpose:
        raise ValueError("say the purpose of the numbers: each purpose of a seed has its own")
    return hashlib.shake_256(seed + purpose.encode()).digest(size)
