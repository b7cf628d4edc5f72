"""Shamir's shares: any `threshold` open the secret, fewer fit every secret."""

from __future__ import annotations

import secrets
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.components.secure_aggregation.shamir import (
    PRIME,
    SHARE_BYTES,
    read,
    recover,
    split,
)


def test_the_field_is_that_of_a_prime_above_all_secrets() -> None:
    assert PRIME > 2**256
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, *(secrets.randbelow(PRIME),) * 8):
        power = pow(base, odd, PRIME)  # Miller and Rabin
        assert power in (1, PRIME - 1) or any(
            pow(power, 2**i, PRIME) == PRIME - 1 for i in range(1, twos)
        )


@settings(max_examples=50, deadline=None)
@given(secret=st.binary(min_size=32, max_size=32), data=st.data())
def test_any_threshold_of_shares_opens_the_secret(secret: bytes, data: st.DataObject) -> None:
    holders = data.draw(st.integers(1, 20))
    threshold = data.draw(st.integers(1, holders))
    shares = split(secret, threshold=threshold, points=range(1, holders + 1))
    chosen = data.draw(st.permutations(range(1, holders + 1)))[:threshold]
    assert recover({i: shares[i - 1] for i in chosen}, threshold=threshold) == secret


@settings(max_examples=50, deadline=None)
@given(
    secret=st.binary(min_size=32, max_size=32),
    other=st.binary(min_size=32, max_size=32),
    threshold=st.integers(2, 10),
)
def test_fewer_shares_fit_any_other_secret(secret: bytes, other: bytes, threshold: int) -> None:
    shares = split(secret, threshold=threshold, points=range(1, threshold + 1))
    known = {i: read(shares[i - 1]) for i in range(1, threshold)}
    # The polynomial through these shares and through the other secret at 0 exists: its value at
    # the last point is a share that opens the other secret.
    points = {0: int.from_bytes(other), **known}
    last = _value(points, threshold)
    forged = {**{i: shares[i - 1] for i in known}, threshold: last.to_bytes(SHARE_BYTES)}
    assert recover(forged, threshold=threshold) == other


def _value(points: dict[int, int], at: int) -> int:
    total = 0
    for x, y in points.items():
        above, below = 1, 1
        for other in points:
            if other != x:
                above, below = above * (at - other), below * (x - other)
        total += y * above * pow(below, -1, PRIME)
    return total % PRIME


def test_shares_are_new_each_time() -> None:
    secret = bytes(32)
    first, second = (split(secret, threshold=2, points=[1, 2, 3]) for _ in range(2))
    assert not set(first) & set(second)


def test_too_few_shares_open_nothing() -> None:
    shares = split(b"s" * 32, threshold=3, points=[1, 2, 3, 4])
    for pair in combinations(range(4), 2):
        with pytest.raises(ValueError, match="2 shares where 3"):
            recover({i + 1: shares[i] for i in pair}, threshold=3)


def test_shares_of_no_secret_are_refused() -> None:
    top = (PRIME - 1).to_bytes(SHARE_BYTES)
    with pytest.raises(ValueError, match="shares of no secret"):
        recover({1: top}, threshold=1)


@pytest.mark.parametrize("share", [b"", bytes(32), bytes(34), PRIME.to_bytes(33), b"\xff" * 33])
def test_what_is_no_share_is_refused(share: bytes) -> None:
    with pytest.raises(ValueError, match="no element"):
        read(share)


@pytest.mark.parametrize(
    ("secret", "threshold", "points"),
    [
        (b"short", 1, [1]),
        (bytes(32), 0, [1]),
        (bytes(32), 3, [1, 2]),
        (bytes(32), 1, [0]),
        (bytes(32), 2, [1, 1]),
        (bytes(32), 1, []),
    ],
)
def test_what_cannot_be_split_is_refused(secret: bytes, threshold: int, points: list[int]) -> None:
    with pytest.raises(ValueError, match=r"secret|points|threshold"):
        split(secret, threshold=threshold, points=points)
