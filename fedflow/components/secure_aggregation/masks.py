"""Long masks from short seeds, added to a vector in place: AES-256 in counter mode.

A seed is the key of its stream, and must be used for one vector only. Streams are added piece by
piece, all of one piece before the next one, so no mask is ever in memory as a whole, and the piece
of the vector stays in the processor's cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Ring: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Integers modulo 2**32 or 2**64 (uint32, uint64)."""

SEED_BYTES: Final = 32
_PIECE: Final = 1 << 18  #: bytes of a vector at a time
_BLOCK: Final = 16  #: of AES, bytes
_ALONE: Final = 1 << 22  #: bytes of mask below which a second thread does not pay
_ZEROS: Final = bytes(_PIECE)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskStream:
    """The stream of a seed, to be added or subtracted."""

    seed: bytes = field(repr=False)
    negative: bool = False


def add_masks(vector: Ring, masks: Sequence[MaskStream], *, threads: int = 1) -> None:
    """Add the masks to a contiguous vector of the ring (uint32 or uint64), in place.

    `threads` share the vector: encryption leaves the interpreter free.
    """
    size = vector.nbytes
    if threads < 2 or size * len(masks) < _ALONE:
        _add(vector, masks, 0, size)
        return
    pieces = -(-size // _PIECE)
    edges = [min(size, pieces * i // threads * _PIECE) for i in range(threads)] + [size]
    with ThreadPoolExecutor(threads, thread_name_prefix="masks") as pool:
        list(pool.map(lambda ends: _add(vector, masks, *ends), itertools.pairwise(edges)))


def _add(vector: Ring, masks: Sequence[MaskStream], start: int, end: int) -> None:
    """Add the masks to the bytes from `start` to `end`; `start` is a multiple of a piece."""
    streams = [(_stream(mask.seed, start), mask.negative) for mask in masks]
    buffer = bytearray(min(_PIECE, end - start) + _BLOCK - 1)
    width = vector.itemsize
    for at in range(start, end, _PIECE):
        count = min(_PIECE, end - at)
        part: NDArray[Any] = vector[at // width : (at + count) // width]
        drawn = np.frombuffer(buffer, part.dtype.newbyteorder("<"), count=count // width)
        for stream, negative in streams:
            stream.update_into(_ZEROS if count == _PIECE else _ZEROS[:count], buffer)
            if negative:
                np.subtract(part, drawn, out=part)
            else:
                np.add(part, drawn, out=part)


def _stream(seed: bytes, start: int) -> Any:
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes")
    counter = (start // _BLOCK).to_bytes(_BLOCK)
    return Cipher(algorithms.AES(seed), modes.CTR(counter)).encryptor()
