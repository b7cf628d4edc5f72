"""What the checks of the documents need to know of Markdown: headings, links, prose, cells.

Covers what the pages of this repository use: `#` headings, fenced code, pipe tables, lists, inline
code and links. Source: GitHub Flavored Markdown Spec 0.29, sections 4.2, 4.5, 4.10, 5.2, 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
_CODE = re.compile(r"(`+)(.+?)\1")
_RULE = re.compile(r"^\s*\|?[\s:|-]+\|?\s*$")
_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_`]*[A-Z0-9`(])")
_SHORT = ("e.g.", "i.e.", "etc.", "vs.", "al.", "No.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line outside fenced code; `number` counts from 1."""

    number: int
    text: str


def lines(text: str) -> Iterator[Line]:
    """Return the lines of a page that are not code blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not (line.startswith("    ") and not _ITEM.match(line)):
            yield Line(number=number, text=line)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for line in lines(text):
        match = _HEADING.match(line.text)
        if match is not None:
            name, again = slug(match[2]), 0
            while (f"{name}-{again}" if again else name) in found:
                again += 1
            found.add(f"{name}-{again}" if again else name)
    return found


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    plain = _LINK.sub(r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def links(text: str) -> Iterator[tuple[int, str]]:
    """Return the targets of a page's links, each with the number of its line."""
    for line in lines(text):
        for match in _LINK.finditer(_CODE.sub("", line.text)):
            yield line.number, match[2]


def without_links(line: str) -> str:
    """Return a line with the text of its links in place of the links."""
    return _LINK.sub(r"\1", line)


def cells(text: str) -> Iterator[tuple[int, str]]:
    """Return the cells of a page's tables as they are read, each with the number of its line."""
    for line in lines(text):
        if line.text.lstrip().startswith("|") and not _RULE.match(line.text):
            row = line.text.strip().removeprefix("|").removesuffix("|")
            for cell in re.split(r"(?<!\\)\|", row):
                yield line.number, _LINK.sub(r"\1", cell).strip()


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Return the sentences of a page's prose and lists, each with the number of its block's line.

    Inline code counts as one word, since it is read as a name; of a link its text counts. Both may
    begin a sentence.
    """
    for number, block in _blocks(text):
        plain = _CODE.sub("Code", block)
        plain = _LINK.sub(lambda match: match[1][:1].upper() + match[1][1:], plain)
        plain = plain.replace("**", "")
        start = 0
        for match in _END.finditer(plain):
            if plain[start : match.start()].split()[-1] not in _SHORT:
                yield number, plain[start : match.start()].strip()
                start = match.end()
        if plain[start:].strip():
            yield number, plain[start:].strip()


def words(sentence: str) -> int:
    """Return how many words a sentence has; dashes and other signs are no words."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    start, block = 0, list[str]()
    last = 0
    for line in lines(text):
        stripped = line.text.strip()
        table = stripped.startswith("|")
        ends = not stripped or table or _HEADING.match(line.text) or _ITEM.match(line.text)
        if block and (ends or line.number != last + 1):
            yield start, " ".join(block)
            block = []
        last = line.number
        if stripped and not table and not _HEADING.match(line.text):
            if not block:
                start = line.number
            block.append(_ITEM.sub("", line.text).strip().removeprefix("> "))
    if block:
        yield start, " ".join(block)
