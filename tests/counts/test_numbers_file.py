"""The file of numbers: what is compared, and what renewing it changes."""

from __future__ import annotations

import pytest

from tests.counts.numbers import Difference, differences, renewed

TEXT = """\
# head

[lines]
app = 100  # the first count
web = 50  # pages of jobs

[start]
modules = 1000  # the first count
"""


def test_a_count_that_rose_is_told_from_one_that_fell() -> None:
    found = differences({"lines": {"app": 100, "web": 50}}, {"lines": {"app": 101, "web": 49}})
    assert [d.is_above for d in found] == [True, False]
    assert [str(d) for d in found] == [
        "lines.app rose from 100 to 101",
        "lines.web = 50 may be lowered to 49",
    ]


def test_a_new_count_needs_a_number_and_a_number_without_a_count_may_go() -> None:
    new, gone = differences({"lines": {"old": 1}}, {"lines": {"new": 1}})[::-1]
    assert new.is_above
    assert not gone.is_above
    assert gone.is_below


def test_a_count_within_its_tolerance_is_neither_above_nor_below() -> None:
    for count in (960, 1040):
        found = Difference(name="start.modules", number=1000, count=count)
        assert not found.is_above
        assert not found.is_below
    assert Difference(name="start.modules", number=1000, count=1060).is_above
    assert Difference(name="start.modules", number=1000, count=940).is_below


def test_sections_that_were_not_counted_are_not_compared() -> None:
    assert differences({"start": {"modules": 1}}, {"lines": {}}) == []


def test_numbers_that_fall_keep_their_comments() -> None:
    text = renewed(TEXT, {"lines": {"app": 90, "web": 50}}, why=None)
    assert text == TEXT.replace("app = 100", "app = 90")


def test_a_number_rises_only_with_a_reason() -> None:
    counts = {"lines": {"app": 110, "web": 50}}
    with pytest.raises(ValueError, match=r"lines\.app rose from 100 to 110"):
        renewed(TEXT, counts, why=None)
    assert renewed(TEXT, counts, why="trees") == TEXT.replace(
        "app = 100  # the first count", "app = 110  # trees"
    )


def test_a_number_whose_count_is_gone_goes() -> None:
    text = renewed(TEXT, {"lines": {"app": 100}}, why=None)
    assert text == TEXT.replace("web = 50  # pages of jobs\n", "")


def test_each_number_says_why_it_rose() -> None:
    with pytest.raises(ValueError, match="why it last rose"):
        renewed("[lines]\napp = 1\n", {"lines": {"app": 1}}, why=None)
