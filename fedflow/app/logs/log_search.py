"""Looks for a text and for levels in a log, a bounded part of it at a time.

A search answers with what it found and with a cursor from which it goes on. A text is found without
regard to case, wherever it stands; no pattern can make it slow. If levels are asked for, a line has
that of its record: the lines of a traceback are errors too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fedflow.app.logs.log_index import LogFile
from fedflow.app.logs.log_levels import NAMES, START
from fedflow.app.logs.log_text import LEVELS
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass

MAX_TEXT: Final = 200  #: characters that are looked for
BUDGET: Final = 32 * 1024 * 1024  #: bytes that one call reads
MAX_FOUND: Final = 500  #: lines that one call finds

_CHUNK: Final = 1024 * 1024
_LEVEL_CHUNK: Final = 128 * 1024  #: where what is wanted is known to lie near
_CURSOR: Final = re.compile(r"(\d{1,18})-(\d{1,18})-([A-Z]{0,8})-(\d{1,18})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What is looked for; an empty text and no levels mean any."""

    text: str = ""
    levels: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """Where a search goes on: at a byte, in the line with this number, in a record of this level.

    `last` is the line that was found last: a long one is searched in several parts.
    """

    offset: int = 0
    line: int = 1
    level: str = ""
    last: int = 0

    def __str__(self) -> str:
        return f"{self.offset}-{self.line}-{self.level}-{self.last}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A part of a search's result: the numbers of lines, and where it goes on."""

    hits: tuple[int, ...]
    cursor: Cursor
    is_done: bool  #: the log's end was reached


def parse_query(text: str, levels: str) -> Query:
    """Return what a person looks for; `levels` are names with commas between.

    Raises: BadRequest: an unknown level, or too long a text.
    """
    if len(text) > MAX_TEXT:
        raise BadRequest(reason=f"a text to look for has at most {MAX_TEXT} characters")
    chosen = frozenset(level for level in levels.upper().split(",") if level)
    if not chosen <= set(LEVELS):
        raise BadRequest(reason=f"levels are {', '.join(LEVELS)}")
    return Query(text=text, levels=chosen)


def parse_cursor(text: str) -> Cursor:
    """Return where a search goes on; the beginning if the text is empty. Raises: BadRequest."""
    if not text:
        return Cursor()
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(reason="this is no cursor of a search")
    return Cursor(
        offset=int(found[1]), line=max(1, int(found[2])), level=found[3], last=int(found[4])
    )


def search(
    log: LogFile, query: Query, start: Cursor, *, budget: int = BUDGET, limit: int = MAX_FOUND
) -> Found:
    """Return the next lines that have what is looked for: at most `limit`, from at most about
    `budget` bytes.
    """
    look = _Look(log, query, start, limit)
    while look.read < budget and len(look.hits) < limit and not look.is_done:
        if query.levels and not look.skip(budget):
            break
        if not look.is_done:
            look.take()
    cursor = Cursor(offset=look.offset, line=look.line, level=look.level, last=look.last)
    return Found(hits=tuple(look.hits), cursor=cursor, is_done=look.is_done)


class _Look:
    """One search, under way. `offset` is where a line begins, or within one that is very long."""

    def __init__(self, log: LogFile, query: Query, start: Cursor, limit: int) -> None:
        self.offset = min(start.offset, log.size)
        self.line, self.level, self.last = start.line, start.level, start.last
        self.hits: list[int] = []
        self.read = 0
        self._counted = (0, 1)  #: a place in the chunk, and its line
        self._log = log
        self._query = query
        self._limit = limit
        lower = query.text.lower()
        self._plain = lower.encode() if lower.isascii() else None
        self._lower = lower
        self._overlap = max(0, 4 * len(lower) - 1)  #: bytes; a character has at most four

    @property
    def is_done(self) -> bool:
        return self.offset >= self._log.size

    def skip(self, budget: int) -> bool:
        """Go to where the levels are; False if that is not known for now."""
        levels = self._log.index.levels
        if levels.done <= self.offset or levels.next_with(self._query.levels, self.offset) is None:
            before = levels.done
            is_counted = self._log.count_levels(budget - self.read) is not None
            self.read += max(0, levels.done - before)
        else:
            is_counted = True
        segment = levels.next_with(self._query.levels, self.offset)
        if segment is not None:
            if segment.start > self.offset:
                self._go_to(segment.start, segment.level)
            return True
        if self.offset < levels.done:
            self._go_to(levels.done, self.level)
        return is_counted

    def _go_to(self, offset: int, level: str) -> None:
        number = self._log.number_at(offset)
        if number is None:
            number = self.line + _ends(self._log, self.offset, offset)
        self.offset, self.line, self.level = offset, number, level

    def take(self) -> None:
        """Search the next chunk."""
        data = self._log.read(_LEVEL_CHUNK if self._query.levels else _CHUNK, self.offset)
        self._counted = (0, self.line)
        end = data.rfind(b"\n") + 1
        is_last = self.offset + len(data) >= self._log.size
        if is_last or not data:
            end = len(data)
        is_part = end == 0
        if is_part:
            end = len(data)
        self.read += max(1, end)
        begun = self.offset
        for low, high, level in self._spans(data, end):
            self.level = level
            if not self._query.levels or level in self._query.levels:
                for at in self._in_span(data, low, high):
                    self._hit(data, at)
                    if len(self.hits) >= self._limit:
                        return self._stop_behind(data, begun, at, end)
        self.line += data.count(b"\n", 0, end)
        self.offset = begun + (max(1, end - self._overlap) if is_part else end)

    def _hit(self, data: bytes, at: int) -> None:
        before, number = self._counted
        number += data.count(b"\n", before, at)
        self._counted = (at, number)
        if number != self.last:
            self.hits.append(number)
            self.last = number

    def _stop_behind(self, data: bytes, begun: int, at: int, end: int) -> None:
        """Stop with the line in which something was found last."""
        after = data.find(b"\n", at, end) + 1 or end
        self.line += data.count(b"\n", 0, after)
        self.offset = begun + after

    def _spans(self, data: bytes, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield the parts of a chunk that have one level: from, to, level."""
        if not self._query.levels:
            yield 0, end, self.level
            return
        low, level = 0, self.level
        at_start = START.match(b"\n" + data[:32])
        if at_start is not None:
            level = NAMES[at_start[1]]
        for found in START.finditer(data, 0, end):
            if found.start() + 1 > low:
                yield low, found.start() + 1, level
            low, level = found.start() + 1, NAMES[found[1]]
        yield low, end, level

    def _in_span(self, data: bytes, low: int, high: int) -> Iterator[int]:
        """Yield one place in each line of a part of a chunk that has the text."""
        if not self._lower:
            while low < high:
                yield low
                low = data.find(b"\n", low, high) + 1 or high
            return
        if self._plain is not None:
            part = data[low:high].lower()
            at = part.find(self._plain)
            while at >= 0:
                yield low + at
                line_end = part.find(b"\n", at)
                at = -1 if line_end < 0 else part.find(self._plain, line_end)
            return
        for line in data[low:high].splitlines(keepends=True):
            if self._lower in line.decode(errors="replace").lower():
                yield low
            low += len(line)


def _ends(log: LogFile, begin: int, end: int) -> int:
    """Return how many lines end in a part of a log."""
    count = 0
    while begin < end and (data := log.read(min(_CHUNK, end - begin), begin)):
        count += data.count(b"\n")
        begin += len(data)
    return count
