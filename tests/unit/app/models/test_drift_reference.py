"""Histograms that drift is measured against."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedflow.app.models.drift_reference import histogram


def test_bins_have_about_the_same_number_of_values() -> None:
    made = histogram([float(n) for n in range(100)])
    assert made is not None
    assert made.edges == [9, 19, 29, 39, 49, 59, 69, 79, 89]
    assert made.counts == [10] * 10


def test_a_column_of_few_values_has_few_bins() -> None:
    made = histogram([0.0] * 30 + [1.0] * 70 + [None] * 5)
    assert made is not None
    assert (made.edges, made.counts, made.missing) == ([0, 1], [30, 70, 0], 5)


def test_no_values_have_no_histogram() -> None:
    assert histogram([]) is None
    made = histogram([None, float("inf")])
    assert made is not None
    assert (made.edges, made.counts, made.missing) == ([], [0], 2)


@given(st.lists(st.none() | st.floats(), min_size=1, max_size=50))
def test_each_value_is_counted_once(values: list[float | None]) -> None:
    made = histogram(values)
    assert made is not None
    assert sum(made.counts) + made.missing == len(values)
