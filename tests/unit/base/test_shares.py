"""Shares of a limit: one party cannot take everything, and what is given back is free."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.shares import Shares


def _fill(shares: Shares, party: str) -> int:
    while shares.take(party):
        pass
    return shares.used(party)


def test_a_party_alone_gets_three_quarters() -> None:
    assert _fill(Shares(100), "9999") == 75


def test_two_greedy_parties_leave_something() -> None:
    shares = Shares(100)
    first, second = _fill(shares, "9999"), _fill(shares, "10000")
    assert first + second < 100
    assert shares.take("7777")


def test_who_uses_nothing_gets_one_even_if_little_is_left() -> None:
    shares = Shares(2)
    assert shares.take("9999")
    assert not shares.take("9999")
    assert shares.take("10000")
    assert not shares.take("7777")


def test_what_is_given_back_is_free_again() -> None:
    shares = Shares(10)
    assert shares.take("9999", 7)
    assert not shares.take("9999", 1)
    shares.give_back("9999", 7)
    assert shares.total == 0
    assert shares.take("9999", 7)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30))))
def test_the_limit_is_never_passed(wishes: list[tuple[str, int]]) -> None:
    shares = Shares(100)
    for party, amount in wishes:
        shares.take(party, amount)
    assert shares.total == sum(shares.used(p) for p in "abc") <= 100
