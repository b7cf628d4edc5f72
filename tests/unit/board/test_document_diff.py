"""What differs between two JSON documents."""

from __future__ import annotations

import math

from hypothesis import assume, given

from fedflow.board.presenters.document_diff import (
    MOST_PATHS,
    MOST_SHOWN,
    Change,
    DocumentComparison,
    compare,
)
from tests.unit.domain.json_values import json_values


def told(found: DocumentComparison) -> list[tuple[str, Change]]:
    return [(one.path, one.change) for one in found.differences]


def test_paths_are_added_removed_and_changed() -> None:
    before = {"a": {"x": 1, "y": [1, 2]}, "gone": True, "same": None}
    after = {"a": {"x": 3, "y": [1, 2, 3]}, "same": None, "new": {"z": "t"}}
    found = compare(before, after)
    assert told(found) == [
        ("a.x", Change.CHANGED),
        ("a.y", Change.CHANGED),
        ("gone", Change.REMOVED),
        ("new.z", Change.ADDED),
    ]
    assert (found.count, found.same, found.more, found.is_cut) == (4, 1, 0, False)
    assert found.differences[0].delta == 2


def test_numbers_written_as_text_have_a_difference_too() -> None:
    [one] = compare({"w": "0.5"}, {"w": "0.75"}).differences
    assert one.delta == 0.25


def test_lists_of_objects_are_compared_place_by_place_and_lists_of_values_as_one() -> None:
    found = compare({"l": [{"a": 1}, {"b": 2}], "v": [1, 2]}, {"l": [{"a": 9}], "v": [1]})
    assert told(found) == [
        ("l[0].a", Change.CHANGED),
        ("l[1].b", Change.REMOVED),
        ("v", Change.CHANGED),
    ]


def test_one_is_one_point_nought_but_not_true() -> None:
    assert compare({"a": 1, "b": [1]}, {"a": 1.0, "b": [1.0]}).count == 0
    assert compare({"b": [1]}, {"b": [True]}).count == 1
    [one] = compare({"w": True}, {"w": 1}).differences
    assert (one.change, one.delta) == (Change.CHANGED, None)


def test_a_difference_that_is_no_number_is_none() -> None:
    [one] = compare({"w": math.inf}, {"w": 1.0}).differences
    assert one.delta is None


@given(json_values(["a", "b"]))
def test_a_document_does_not_differ_from_itself(value: object) -> None:
    assume("nan" not in repr(value))  # stored documents have none
    assert compare(value, value).count == 0


def test_long_documents_are_cut_and_say_so() -> None:
    found = compare({str(n): n for n in range(1000)}, {})
    assert len(found.differences) == MOST_SHOWN
    assert found.more == found.count - MOST_SHOWN
    many = {str(n): n for n in range(MOST_PATHS + 5)}
    assert compare(many, many).is_cut


def test_deep_documents_are_compared_without_recursion() -> None:
    before: object = 1
    after: object = 2
    for _ in range(5_000):
        before, after = {"a": before}, {"a": after}
    assert compare(before, after).count == 1
