"""The digest depends on the bytes only, not on how they are cut or how many threads hash them."""

from __future__ import annotations

import hashlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fedflow.federation.digest import BLOCK_BYTES, digest_of


def by_definition(data: bytes) -> str:
    blocks = [data[i : i + BLOCK_BYTES] for i in range(0, len(data), BLOCK_BYTES)]
    return hashlib.sha256(b"".join(hashlib.sha256(b).digest() for b in blocks)).hexdigest()


@given(st.binary(max_size=500), st.lists(st.integers(0, 500), max_size=5))
def test_the_cuts_do_not_matter(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    parts = [data[a:b] for a, b in pairwise(edges)]
    assert digest_of(parts) == by_definition(data)


def test_big_values_are_hashed_by_threads_to_the_same_digest() -> None:
    data = bytes(range(251)) * 50_000
    assert len(data) > 8 * BLOCK_BYTES
    assert digest_of([data]) == by_definition(data)
    assert digest_of(
        [data[:5], memoryview(data)[5 : 3 * BLOCK_BYTES], data[3 * BLOCK_BYTES :]]
    ) == (by_definition(data))


def test_one_flipped_bit_changes_the_digest() -> None:
    data = bytearray(3 * BLOCK_BYTES)
    before = digest_of([bytes(data)])
    data[BLOCK_BYTES] ^= 1
    assert digest_of([bytes(data)]) != before
