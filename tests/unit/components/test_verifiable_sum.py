"""FeldmanVerifiableSum: exact sums, and parties that lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors.components import DishonestParty
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.verifiable import feldman_verifiable_sum
from fedflow.components.verifiable.cells import PER_NUMBER, packed, unpacked
from fedflow.components.verifiable.feldman_verifiable_sum import FeldmanVerifiableSum
from fedflow.components.verifiable.sharing import (
    BITS,
    added,
    deal,
    fits,
    is_member,
    multiplied,
    opened,
    order,
    second_generator,
)
from fedflow.sdk import Site
from tests.unit.components.homo_parties import GUEST, HOST, HOST_2, outputs, rows_of, run_homo

ROWS: dict[Site, dict[str, Any]] = {
    site: {"id": ["a", "b"], "x": [1.5 * n, -2.25], "z": [n, 1000 * n]}
    for n, site in enumerate((GUEST, HOST, HOST_2), start=1)
}


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 2**2000), min_size=1, max_size=3), st.integers(2, 4))
def test_shares_open_the_sums_and_fit_their_commitments(values: list[int], parties: int) -> None:
    threshold = parties // 2 + 1
    dealings = [deal(values, parties=parties, threshold=threshold) for _ in range(2)]
    for dealing in dealings:
        assert fits(dealing.commitments, dealing.shares[2], number=2)
        assert not fits(dealing.commitments, dealing.shares[2], number=1)
        assert all(is_member(one) for of in dealing.commitments for one in of)
    sums = {n: added([d.shares[n] for d in dealings]) for n in range(1, threshold + 1)}
    product = multiplied([d.commitments for d in dealings])
    assert all(fits(product, shares, number=n) for n, shares in sums.items())
    assert opened(sums) == [2 * value % order() for value in values]


def test_any_share_that_is_changed_does_not_fit() -> None:
    dealing = deal([5, 6, 7], parties=3, threshold=2)
    for place in range(3):
        for part in range(2):
            shares = [list(pair) for pair in dealing.shares[1]]
            shares[place][part] += 1
            assert not fits(dealing.commitments, [(a, b) for a, b in shares], number=1)


def test_the_group_has_the_order_that_is_said() -> None:
    import gmpy2

    assert gmpy2.is_prime(order())
    assert is_member(second_generator())
    assert BITS == 2048


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60),
    st.integers(0, 6),
    st.integers(1, 5),
)
def test_cells_come_back_from_sums(cells: list[float], decimals: int, parties: int) -> None:
    array = np.array(cells)
    numbers = packed(array, decimals=decimals, where="x")
    assert len(numbers) == -(-len(cells) // PER_NUMBER)
    sums = [parties * number for number in numbers]
    found = unpacked(sums, count=len(cells), parties=parties, decimals=decimals)
    exact = [parties * round(cell * 10**decimals) / 10**decimals for cell in cells]
    assert found.tolist() == exact


def test_a_value_that_is_too_large_is_refused() -> None:
    with pytest.raises(BadData, match="too large for 16 decimals"):
        packed(np.array([1000.0]), decimals=16, where="x")


def test_all_parties_get_the_sums_of_the_rows(tmp_path: Path) -> None:
    found = outputs(run_homo(FeldmanVerifiableSum, ROWS, tmp_path, arbiter=False))
    for site in ROWS:
        assert rows_of(found[site]) == {"id": ["a", "b"], "x": [9.0, -6.75], "z": [6.0, 6000.0]}
    some = run_homo(FeldmanVerifiableSum, ROWS, tmp_path, params={"sum_cols": [1]}, arbiter=False)
    assert rows_of(outputs(some)[HOST]) == {"id": ["a", "b"], "z": [6.0, 6000.0]}


def run_with_liar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> dict[Site, Any]:
    """Run with a host whose shares, sums or commitments are wrong."""

    class Liar(feldman_verifiable_sum._Sum):
        def of(self, numbers: Any) -> list[int]:
            if self._ctx.site != HOST:
                return super().of(numbers)
            send = self._ctx.federation.send

            def wrong(name: str, value: Any, *, to: Any, **more: Any) -> None:
                if name == change and name == "commitments":
                    last = to[-1]
                    send(name, value, to=to[:-1], **more)
                    other = deal(numbers, parties=3, threshold=2).commitments
                    flat = [e for of in other for e in of]
                    send(name, feldman_verifiable_sum._to_bytes(flat), to=last, **more)
                    return
                if name == change:
                    value = value[:-1] + bytes([value[-1] ^ 1])
                send(name, value, to=to, **more)

            monkeypatch.setattr(self._ctx.federation, "send", wrong)
            return super().of(numbers)

    monkeypatch.setattr(feldman_verifiable_sum, "_Sum", Liar)
    return run_homo(FeldmanVerifiableSum, ROWS, tmp_path, arbiter=False)


@pytest.mark.parametrize("change", ["x_share", "sum_share", "commitments"])
def test_a_party_that_lies_is_named(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = run_with_liar(tmp_path, monkeypatch, change)
    errors = [results[site].error for site in (GUEST, HOST_2)]
    named = [error for error in errors if isinstance(error, DishonestParty)]
    assert named
    assert all("host 10000" in str(error) for error in named)
    assert all(results[site].outputs is None for site in (GUEST, HOST_2))


def test_other_columns_or_rows_are_refused(tmp_path: Path) -> None:
    rows = {**ROWS, HOST: {"id": ["a", "b"], **{f"x{n}": [1.0, 2.0] for n in range(60)}}}
    results = run_homo(FeldmanVerifiableSum, rows, tmp_path, arbiter=False)
    assert isinstance(results[GUEST].error, CodecError)
    rows = {**ROWS, HOST: {"id": ["b", "a"], "x": [1.0, 2.0], "z": [1, 2]}}
    results = run_homo(FeldmanVerifiableSum, rows, tmp_path, arbiter=False)
    assert "different ids" in str(results[GUEST].error)
