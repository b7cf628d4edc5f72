"""How many records of each level a log has, and where: an index beside that of its lines.

It is made of segments of about 64 KiB that begin with a line. Of each it keeps where it begins, the
level of the record that goes on there, and which levels it has. So a search for errors reads
segments with errors only.
"""

from __future__ import annotations

import os
import re
import threading
from array import array
from bisect import bisect_right
from collections import Counter
from typing import Final

from fedflow.base.values import dataclass

NAMES: Final = {b"D": "DEBUG", b"I": "INFO", b"W": "WARNING", b"E": "ERROR", b"C": "CRITICAL"}
_CODES: Final = {letter: code for code, letter in enumerate(NAMES, 1)}
_LEVELS: Final = {code: NAMES[letter] for letter, code in _CODES.items()}

START: Final = re.compile(rb"\n\[([DIWEC])[A-Z]{3,7}\] ")
"""How a record begins, with the end of the line before it."""

_SEGMENT: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A part of a log: where it begins, and the level of the record that goes on there ('' if
    unknown).
    """

    start: int
    level: str


class LevelIndex:
    """The levels in one file. The last line of a file counts once it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts = array("Q")
        self._carried = array("B")
        self._masks = array("B")
        self._totals: Counter[bytes] = Counter()
        self._level = 0  #: of the record that goes on at `_done`
        self._done = 0  #: bytes: all before it is counted, and a line begins here
        self._seen = 0  #: bytes of an unended line behind it that were looked at

    @property
    def segments(self) -> int:
        return len(self._starts)

    @property
    def done(self) -> int:
        """Return up to which byte segments are known."""
        return self._done

    def totals(self) -> Counter[str]:
        """Return how many records there are by level."""
        return Counter({NAMES[letter]: n for letter, n in self._totals.items()})

    def count(self, file: int, size: int, budget: int) -> bool:
        """Count on up to `size`, at most about `budget` bytes; tell whether all is counted."""
        left = budget
        while left > 0 and max(self._done, self._seen) < size:
            with self._lock:
                left -= self._count_segment(file, size) or left
        return max(self._done, self._seen) >= size

    def _count_segment(self, file: int, size: int) -> int:
        """Count one segment; return how many bytes were read, 0 at the end."""
        start = self._done
        if self._seen > start:
            return self._go_on(file, size)
        data = b"\n" + os.pread(file, min(_SEGMENT, size - start), start)
        end = data.rfind(b"\n")  # what is behind it is part of the next segment
        if end <= 0:
            self._seen = start + len(data) - 1
            return len(data) - 1
        self._add(data[:end], start)
        self._done = start + end
        return len(data) - 1

    def _go_on(self, file: int, size: int) -> int:
        """Look for the end of a line that is longer than a segment."""
        data = os.pread(file, min(16 * _SEGMENT, size - self._seen), self._seen)
        end = data.find(b"\n")
        if end < 0:
            self._seen += len(data)
            return len(data)
        start = self._done
        self._add(b"\n" + os.pread(file, 32, start), start)
        self._done = self._seen + end + 1
        self._seen = 0
        return len(data)

    def _add(self, data: bytes, start: int) -> None:
        found = START.findall(data)
        codes = {_CODES[letter] for letter in set(found)}
        self._carried.append(self._level)
        self._masks.append(sum(1 << code for code in codes | {self._level}))
        self._starts.append(start)
        self._totals.update(found)
        if found:
            self._level = _CODES[found[-1]]

    def next_with(self, levels: frozenset[str], offset: int) -> Segment | None:
        """Return the first segment with `levels` that ends behind `offset`; None: none has, up to
        `done`.
        """
        wanted = sum(1 << code for code, level in _LEVELS.items() if level in levels)
        count = len(self._masks)
        first = max(0, bisect_right(self._starts, offset, 0, count) - 1)
        for at in range(first, count):
            if self._masks[at] & wanted:
                return Segment(start=self._starts[at], level=_LEVELS.get(self._carried[at], ""))
        return None
