"""The union of values from sums of marks."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from fedflow.components.samples.common_values import MAX_BYTES, Beginnings, UnionSearch, marks_of

VALUES = st.sets(st.binary(max_size=6), max_size=12)
Parties = list[list[bytes]]


def union_of(parties_in: Callable[[int], Parties], *, most: int = 1000) -> tuple[UnionSearch, int]:
    search, rounds = UnionSearch(most=most), 0
    while search.asked is not None:
        asked: Beginnings = search.asked
        search.take(sum(marks_of(values, asked) for values in parties_in(rounds)))  # type: ignore[arg-type]
        rounds += 1
    return search, rounds


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_every_value_is_found_and_no_other(parties: list[set[bytes]]) -> None:
    search, rounds = union_of(lambda _: [sorted(values) for values in parties])
    every = set().union(*parties)
    assert sorted(search.values) == sorted(every)
    assert rounds <= max((len(value) for value in every), default=0) + 2


@given(VALUES, VALUES, st.sets(st.integers(0, 6)))
def test_values_of_who_stays_are_found_whoever_leaves(
    stays: set[bytes], leaves: set[bytes], absent: set[int]
) -> None:
    both = [sorted(stays), sorted(leaves)]
    search, _ = union_of(lambda n: both[:1] if n in absent else both)
    known = {bytes([b]) for value in stays | leaves for b in value}
    assert all(value in stays | leaves for value in search.values)
    if 0 not in absent or {bytes([b]) for value in stays for b in value} == known:
        assert stays <= set(search.values)


def test_too_many_values_end_the_search() -> None:
    search, _ = union_of(lambda _: [[bytes([n]) for n in range(5)]], most=4)
    assert search.too_many


def test_the_search_is_bounded_by_the_longest_value_allowed() -> None:
    _, rounds = union_of(lambda _: [[b"a" * (MAX_BYTES + 50)]])
    assert rounds <= MAX_BYTES + 3
