"""What in the pages is hard to read: long sentences, long cells, long lines.

    python -m tests.unit.docs.language [PAGE ...]    what is found, line by line
    python -m tests.unit.docs.language --list > tests/unit/docs/pages_to_rewrite.txt

A row of a table is one line by its format, so that cells are measured in place of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.unit.docs.markdown import ROOT, cells, lines, sentences, words

MAX_WORDS: Final = 25  #: in a sentence
MAX_CELL: Final = 200  #: characters of a table's cell, as it is read
MAX_LINE: Final = 120  #: characters
LISTED: Final = Path(__file__).with_name("pages_to_rewrite.txt")
_HIDDEN = (".venv", ".git", ".clients", ".flower", "build", "node_modules")


def pages() -> list[str]:
    """Return the Markdown files of the repository."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(path.as_posix() for path in found if not set(_HIDDEN) & set(path.parts))


def findings(page: str) -> Iterator[str]:
    """Return what is to be shortened in a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for number, sentence in sentences(text):
        if words(sentence) > MAX_WORDS:
            yield f"{page}:{number}: {words(sentence)} words: {sentence}"
    for number, cell in cells(text):
        if len(cell) > MAX_CELL:
            yield f"{page}:{number}: a cell of {len(cell)} characters: {cell}"
    for line in lines(text):
        row = line.text.lstrip().startswith("|")
        if len(line.text) > MAX_LINE and not row and "://" not in line.text:
            yield f"{page}:{line.number}: {len(line.text)} characters: {line.text}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for name in pages():
            if any(findings(name)):
                print(name)
    else:
        for name in sys.argv[1:] or pages():
            for finding in findings(name):
                print(finding)
