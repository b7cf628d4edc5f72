"""Derivatives of several classes in plaintexts, and their sums: exact, and checked when opened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.components.boosting.sums import SlotLayout
from fedflow.sdk.errors import CodecError

ROWS = 9


def summed(layout: SlotLayout, values: np.ndarray) -> list[int]:
    """Return the sums of the rows' plaintexts, as products of ciphertexts would have them."""
    plain = layout.plain(values)
    return [sum(plain[group :: layout.groups]) for group in range(layout.groups)]


def derivatives(seed: int, layout: SlotLayout) -> np.ndarray:
    """Return derivatives of all rows, the largest ones among them."""
    generator, most = np.random.default_rng(seed), 1 << layout.bits
    first = generator.choice([-most, most, 0, 1, -1], (layout.rows, layout.classes))
    second = generator.choice([most, 0, 1], (layout.rows, layout.classes))
    return np.hstack((first, second))


@given(
    classes=st.integers(1, 30),
    groups=st.integers(1, 30),
    bits=st.integers(8, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_the_integers(classes: int, groups: int, bits: int, seed: int) -> None:
    layout = SlotLayout(rows=ROWS, bits=bits, classes=classes, groups=min(groups, classes))
    values = derivatives(seed, layout)
    opened = summed(layout, values)
    assert max(opened) < 1 << layout.slot_bits - 1
    found = layout.read(opened, sender="host")
    assert found.tolist() == [[*values.sum(axis=0), ROWS]]


def lies(layout: SlotLayout) -> dict[str, int]:
    """Return what a host may add to the sum of the second ciphertext: a count, and a class more."""
    first, second, _ = layout.widths
    pair = first + second
    return {"count": 1 << layout.pairs * pair, "place": 1 << pair, "second": 1 << pair + first}


@pytest.mark.parametrize("lie", ["count", "place", "second"])
def test_ciphertexts_of_a_row_must_fit_together(lie: str) -> None:
    layout = SlotLayout(rows=ROWS, bits=10, classes=3, groups=2)
    opened = summed(layout, derivatives(1, layout)[:5])
    opened[1] += lies(layout)[lie]
    with pytest.raises(CodecError, match="cannot have"):
        layout.read(opened, sender="host")
