"""The tour of docs/architecture.md: its modules are there, its numbers are those of its tables."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.unit.docs.markdown import ROOT

_PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_TOUR = _PAGE.partition("## The reader's tour\n")[2].partition("\n## ")[0]
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
WALKS = dict(part.split("\n", 1) for part in _TOUR.split("\n### ")[1:])
ROWS = {title: _ROW.findall(text) for title, text in WALKS.items()}


def test_there_are_four_walks() -> None:
    assert len(WALKS) == 4


@pytest.mark.parametrize("walk", ROWS)
def test_every_module_of_a_walk_is_there(walk: str) -> None:
    gone = [
        f"{package}/{module}"
        for package, cell in ROWS[walk]
        for module in re.findall(r"`([\w/]+)`", cell)
        if not (ROOT / "fedflow" / package / f"{module}.py").is_file()
    ]
    assert gone == []


@pytest.mark.parametrize("walk", ROWS)
def test_the_changes_of_package_are_counted(walk: str) -> None:
    packages = [package for package, _ in ROWS[walk]]
    assert all(one != other for one, other in pairwise(packages)), "one row per stay"
    assert re.findall(r"^(\d+) changes of package\.", WALKS[walk], re.MULTILINE) == [
        str(len(packages) - 1)
    ]
