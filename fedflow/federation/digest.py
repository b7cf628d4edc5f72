"""The digest of a value: SHA-256 over the list of the SHA-256 of each MiB.

So it can be computed by several threads, and a resumed transfer need not hash its beginning again.
Source: docs/reference/numerics.md#digests.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

BLOCK_BYTES = 1024 * 1024
PARALLEL_BYTES = 8 * BLOCK_BYTES  #: below this size one thread is faster
MAX_THREADS = 4


def digest_of(parts: Sequence[bytes | memoryview]) -> str:
    """Return the digest of the concatenated `parts`, 64 hexadecimal digits.

    Values from 8 MiB on are hashed by several threads, which have ended when this returns.
    """
    blocks = list(_blocks(parts))
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)))
    if len(blocks) * BLOCK_BYTES < PARALLEL_BYTES or threads == 1:
        hashes = _hash_all(blocks)
    else:
        share = -(-len(blocks) // threads)
        ranges = [blocks[i : i + share] for i in range(0, len(blocks), share)]
        with ThreadPoolExecutor(threads, thread_name_prefix="digest") as pool:
            hashes = b"".join(pool.map(_hash_all, ranges))
    return hashlib.sha256(hashes).hexdigest()


def _hash_all(blocks: Sequence[list[memoryview]]) -> bytes:
    return b"".join(_hash_block(block) for block in blocks)


def _hash_block(block: list[memoryview]) -> bytes:
    state = hashlib.sha256()
    for piece in block:
        state.update(piece)
    return state.digest()


def _blocks(parts: Sequence[bytes | memoryview]) -> Iterator[list[memoryview]]:
    """Yield the pieces of each MiB; only the last block is shorter."""
    block: list[memoryview] = []
    room = BLOCK_BYTES
    for part in parts:
        view = memoryview(part).cast("B")
        while len(view):
            piece = view[:room]
            block.append(piece)
            room -= len(piece)
            view = view[len(piece) :]
            if not room:
                yield block
                block, room = [], BLOCK_BYTES
    if block:
        yield block
