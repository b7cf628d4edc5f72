"""The page for authors names all metric types that the board draws, and only those."""

from __future__ import annotations

import re

from fedflow.board.presenters.metric_groups import KNOWN
from tests.unit.docs.markdown import ROOT

PAGE = ROOT / "docs" / "write-a-component.md"


def test_the_page_names_every_metric_type_that_is_drawn() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Metric types\n")[2].partition("\n## ")[0]
    table, _, others = section.partition("Some words belong to modules")
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", " ".join(first)))
    taken = {word for line in others.splitlines() if line.startswith("- ")
             for word in re.findall(r"`(\w+)`", line)}  # fmt: skip
    assert named | taken == KNOWN
    assert named & taken == set()
