"""No count is above its number in `numbers.toml`: unlike timings, counts are the same every day."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.counts.house import house_counts
from tests.counts.numbers import ROOT, Numbers, differences, read_numbers
from tests.counts.running import counted

HELP = 'Bring it down, or say why it is worth it: bin/print-counts --why "..."'


class MayBeLowered(UserWarning):
    """Shown in pytest's summary."""


def compare(counts: Numbers) -> None:
    """Raise AssertionError for counts above their numbers, warn of those clearly below."""
    found = differences(read_numbers(), counts)
    above = [str(d) for d in found if d.is_above]
    for difference in found:
        if not difference.is_above and difference.is_below:
            warnings.warn(MayBeLowered(f"{difference}: bin/print-counts"), stacklevel=2)
    assert not above, "\n".join([*above, HELP])


def test_a_count_above_its_number_fails_and_one_below_is_shown() -> None:
    lines = read_numbers()["lines"]
    with pytest.raises(AssertionError, match=r"lines\.app rose"):
        compare({"lines": {**lines, "app": lines["app"] + 1}})
    with pytest.warns(MayBeLowered, match=r"lines\.app = .* may be lowered to"):
        compare({"lines": {**lines, "app": lines["app"] - 1}})


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("default::UserWarning")
def test_the_source_tree_grows_only_with_a_reason() -> None:
    compare(house_counts(ROOT))


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("default::UserWarning")
def test_a_start_and_an_empty_task_take_no_more_than_they_did(tmp_path: Path) -> None:
    compare(counted(tmp_path))
