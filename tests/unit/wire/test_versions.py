"""Which protocols two servers have in common."""

from __future__ import annotations

import pytest

from fedflow import __version__
from fedflow.wire.paths import PARTY_COMMANDS
from fedflow.wire.versions import BEFORE, OURS, SINCE, Speaks, common, read_speaks


def test_a_header_says_the_range_and_the_release() -> None:
    assert OURS.header == f"1-2 {__version__}"
    assert read_speaks(OURS.header) == OURS
    assert read_speaks("3-4") == Speaks(lowest=3, highest=4)


@pytest.mark.parametrize(
    "text", [None, "", "2", "2-1", "1-2\n", "a-b", "1-99999", "1-2  x", "1-2 <b>"]
)
def test_who_says_nothing_that_can_be_read_is_of_protocol_1(text: str | None) -> None:
    assert read_speaks(text) == BEFORE


@pytest.mark.parametrize(
    ("theirs", "protocol"),
    [((1, 1), 1), ((1, 2), 2), ((2, 2), 2), ((2, 5), 2), ((3, 3), None), ((1, 9), 2)],
)
def test_the_highest_protocol_that_both_speak_is_taken(
    theirs: tuple[int, int], protocol: int | None
) -> None:
    assert common(OURS, Speaks(lowest=theirs[0], highest=theirs[1])) == protocol


def test_people_read_both_the_protocols_and_the_release() -> None:
    assert str(Speaks(lowest=1, highest=2, product="0.4.0")) == "protocol 1 to 2 (fedflow 0.4.0)"
    assert str(BEFORE) == "protocol 1 (fedflow of an unknown version)"


def test_commands_that_need_a_protocol_are_in_the_table_and_have_one_that_we_speak() -> None:
    assert SINCE.keys() <= PARTY_COMMANDS.keys()
    assert all(OURS.lowest <= protocol <= OURS.highest for protocol in SINCE.values())
