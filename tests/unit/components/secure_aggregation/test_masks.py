"""Masks: the same of the same seed, gone when taken off, whatever the pieces and threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.secure_aggregation.masks import MaskStream, add_masks

SEED = bytes(range(32))


@settings(max_examples=30, deadline=None)
@given(
    length=st.integers(1, 70_000),
    kind=st.sampled_from([np.uint32, np.uint64]),
    seeds=st.lists(st.binary(min_size=32, max_size=32), max_size=3),
)
def test_masks_that_are_added_and_subtracted_leave_the_vector(
    length: int, kind: type, seeds: list[bytes]
) -> None:
    vector = np.arange(length, dtype=kind)
    add_masks(vector, [MaskStream(seed=seed) for seed in seeds])
    add_masks(vector, [MaskStream(seed=seed, negative=True) for seed in reversed(seeds)])
    np.testing.assert_array_equal(vector, np.arange(length, dtype=kind))


@pytest.mark.parametrize("length", [1, 32_767, 32_768, 32_769, 700_000])
@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_threads_and_pieces_change_nothing(length: int, kind: type) -> None:
    masks = [MaskStream(seed=SEED), MaskStream(seed=SEED[::-1], negative=True)]
    alone, shared, longer = (np.zeros(size, kind) for size in (length, length, length + 99))
    add_masks(alone, masks)
    add_masks(shared, masks, threads=3)
    add_masks(longer, masks)
    np.testing.assert_array_equal(alone, shared)
    np.testing.assert_array_equal(alone, longer[:length])


def test_a_mask_is_the_key_stream_of_aes_in_counter_mode() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    vector = np.zeros(4, np.uint64)
    add_masks(vector, [MaskStream(seed=SEED)])
    stream = Cipher(algorithms.AES(SEED), modes.CTR(bytes(16))).encryptor().update(bytes(32))
    assert vector.astype("<u8").tobytes() == stream


def test_a_seed_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        add_masks(np.zeros(1, np.uint64), [MaskStream(seed=b"short")])


def test_no_seed_is_printed() -> None:
    assert "seed" not in repr(MaskStream(seed=SEED))
