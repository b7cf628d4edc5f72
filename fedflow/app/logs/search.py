"""Looks for a text and for levels in a log, a bounded part of it at a time.

A search answers with what it found and with a cursor from which it goes on. A text is found without
regard to case, wherever it stands; no pattern can make it slow. If levels are asked for, a line has
that of its record: the lines of a traceback are errors too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fedflow.app.logs.lines import LogFile
from fedflow.app.logs.records import LEVELS, record_begin
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.base.values import dataclass

MAX_TEXT: Final = 200  #: characters that are looked for
BUDGET: Final = 32 * 1024 * 1024  #: bytes that one call reads
MAX_FOUND: Final = 500  #: lines that one call finds

_CHUNK: Final = 1024 * 1024
_CURSOR: Final = re.compile(r"(\d{1,18})-([01])-(\d{1,18})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What is looked for; an empty text and no levels mean any."""

    text: str = ""
    levels: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCursor:
    """Where a search goes on: at a byte, in a record with a level that is looked for or not.

    `last` is the line that was found last: a long one is searched in several parts.
    """

    offset: int = 0
    is_inside: bool = False
    last: int = 0

    def __str__(self) -> str:
        return f"{self.offset}-{self.is_inside:d}-{self.last}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """A part of a search's result: the numbers of lines, and where it goes on."""

    hits: tuple[int, ...]
    cursor: SearchCursor
    is_done: bool  #: the log's end was reached


def parse_query(text: str, levels: str) -> Query:
    """Return what a person looks for; `levels` are names with commas between.

    Raises: BadRequest: an unknown level, or too long a text.
    """
    if len(text) > MAX_TEXT:
        reason = Message("a text to look for has at most {limit} characters", MAX_TEXT)
        raise BadRequest(reason=reason)
    chosen = frozenset(level for level in levels.upper().split(",") if level)
    if not chosen <= set(LEVELS):
        raise BadRequest(reason=f"levels are {', '.join(LEVELS)}")
    return Query(text=text, levels=chosen)


def parse_cursor(text: str) -> SearchCursor:
    """Return where a search goes on; the beginning if the text is empty. Raises: BadRequest."""
    if not text:
        return SearchCursor()
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(reason="this is no cursor of a search")
    return SearchCursor(offset=int(found[1]), is_inside=found[2] == "1", last=int(found[3]))


def search(
    log: LogFile, query: Query, start: SearchCursor, *, budget: int = BUDGET, limit: int = MAX_FOUND
) -> SearchResult:
    """Return the next lines that have what is looked for: at most `limit`, from at most about
    `budget` bytes, as far as lines are counted.
    """
    scan = _Scan(log, query, start, limit)
    begin = scan.offset
    while scan.offset - begin < budget and len(scan.hits) < limit and scan.take():
        pass
    cursor = SearchCursor(offset=scan.offset, is_inside=scan.is_inside, last=scan.last)
    return SearchResult(hits=tuple(scan.hits), cursor=cursor, is_done=scan.offset >= log.size)


class _Scan:
    """One search, under way. `offset` is where a line begins, or within one that is very long."""

    def __init__(self, log: LogFile, query: Query, start: SearchCursor, limit: int) -> None:
        self.offset = min(start.offset, log.size)
        self.is_inside, self.last = start.is_inside, start.last
        self.hits: list[int] = []
        self._log = log
        self._limit = limit
        self._text = query.text.lower()
        self._levels = query.levels
        self._begins = (record_begin(query.levels), record_begin({*LEVELS} - query.levels))

    def take(self) -> bool:
        """Search the next chunk; False: there is none, its lines are not counted, or the file was
        cut meanwhile.
        """
        stop = min(self._log.size, self._log.index.counted)
        size = min(_CHUNK, stop - self.offset)
        before = self._log.read(1, self.offset - 1) if self.offset else b"\n"
        data = before + self._log.read(max(0, size), self.offset)
        if size <= 0 or len(data) <= size:
            return False
        end, overlap = data.rfind(b"\n", 1) + 1, 0
        if stop == self._log.size and self.offset + size == stop:
            end = len(data)
        elif end == 0 and size < _CHUNK:
            return False
        elif end == 0:
            end, overlap = len(data), 4 * len(self._text)  # a character has at most four bytes
        for low, high in self._spans(data, end):
            for at in self._lines(data, low, high):
                number = self._log.number_at(self.offset + at - 1)
                if number is not None and number != self.last:
                    self.hits.append(number)
                    self.last = number
                if len(self.hits) >= self._limit:
                    self.is_inside = True
                    self.offset += (data.find(b"\n", at, end) + 1 or end) - 1
                    return True
        self.offset += end - 1 - overlap
        return True

    def _spans(self, data: bytes, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a chunk with levels that are looked for. Its first byte is the one
        before the chunk.
        """
        if not self._levels:
            yield 1, end
            return
        low = 1
        while (found := self._begins[self.is_inside].search(data, low - 1, end)) is not None:
            if self.is_inside:
                yield low, found.start() + 1
            low = found.start() + 1
            self.is_inside = not self.is_inside
        if self.is_inside:
            yield low, end

    def _lines(self, data: bytes, low: int, high: int) -> Iterator[int]:
        """Yield one place in each line of a part of a chunk that has the text."""
        if self._text.isascii():
            part, text = data[low:high].lower(), self._text.encode()
            at = part.find(text)
            while 0 <= at < len(part):
                yield low + at
                line_end = part.find(b"\n", at)
                at = -1 if line_end < 0 else part.find(text, line_end + 1)
            return
        for line in data[low:high].splitlines(keepends=True):
            if self._text in line.decode(errors="replace").lower():
                yield low
            low += len(line)
