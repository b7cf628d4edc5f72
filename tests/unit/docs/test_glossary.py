"""docs/glossary.md is one closed table, and names follow it but for those that are still listed."""

from __future__ import annotations

import re
from collections import Counter

from tests.unit.docs.names import GLOSSARY, banned, wrong_names

ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE
)


def test_every_word_stands_once_with_meaning_and_opposites() -> None:
    assert len(ROWS) > 50
    assert [word for word, count in Counter(row[0] for row in ROWS).items() if count > 1] == []
    assert all(cell.strip() for row in ROWS for cell in row)


def test_no_word_of_the_glossary_is_ruled_out_in_names() -> None:
    single = {row[0].lower() for row in ROWS if " " not in row[0]}
    assert single & banned() == set()


def test_no_name_has_a_word_that_is_ruled_out() -> None:
    assert wrong_names() == set(), "see docs/glossary.md for the word to use"
