"""Finds lines in log files of any size, without reading what lies before them.

A file is seen as blocks of 64 KiB. Of each whole block the index keeps how many lines end before it
(8 bytes), so that a line is found by a search in memory and one look into one block. It grows with
its file; a file that was replaced, cut or written anew gets a new index. Counting is done in slices
that other threads may take turns in.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Final

from fedflow.app.logs.addresses import open_below
from fedflow.app.logs.records import LEVELS
from fedflow.base.values import dataclass

BLOCK: Final = 64 * 1024  #: bytes
_SLICE: Final = 16 * BLOCK  #: bytes that are counted in one turn
_PROBE: Final = 64  #: bytes before the end of what was counted, by which a file is known again
_BEGINS: Final = {level: f"\n[{level}] ".encode() for level in LEVELS}  #: of records


@dataclass(frozen=True, kw_only=True, slots=True)
class RawLine:
    """A line as it stands in the file; `content` may be cut, `size` is that of all of it, both
    without its end. `number` counts from 1, and is None as long as the file was not counted.
    """

    number: int | None
    offset: int
    content: bytes
    size: int


class LineIndex:
    """What is known of one file. `generation` tells the contents that a name has had apart."""

    def __init__(self, device: int, inode: int, generation: int) -> None:
        self.device = device
        self.inode = inode
        self.generation = generation
        self.levels = Counter(dict.fromkeys(LEVELS, 0))  #: of the records that were counted
        self.leveled = 0  #: bytes in which they were
        self.size = 0  #: bytes of the file, when it was last looked at
        self.changed_ns = 0  #: when it was changed last, as its file system says
        self.counted = 0  #: bytes
        self.ends = 0  #: line ends among these
        self._lock = threading.Lock()
        self._before = array("Q")  #: of each block that was begun, line ends before it
        self._probe = b""

    @property
    def name(self) -> str:
        """Return what this content is called in tags and cursors."""
        return f"{self.inode:x}.{self.generation:x}"

    @property
    def blocks(self) -> int:
        """Return how many blocks it keeps something of."""
        return len(self._before)

    def fits(self, file: int, known: os.stat_result) -> bool:
        """Tell whether `file` is the content that was counted, perhaps with more behind it."""
        if (known.st_dev, known.st_ino) != (self.device, self.inode) or known.st_size < self.size:
            return False
        if (known.st_size, known.st_mtime_ns) != (self.size, self.changed_ns):
            probe = self._probe
            start = self.counted - len(probe)
            if probe and os.pread(file, len(probe), start) != probe:
                return False
            self.size, self.changed_ns = known.st_size, known.st_mtime_ns
        return True

    def count(self, file: int, size: int, *, budget: int | None, until: int | None = None) -> bool:
        """Count lines up to `size` bytes, at most `budget` bytes of them now, or up to line
        `until`; tell whether all is counted.
        """
        end = size if budget is None else min(size, self.counted + budget)
        while self.counted < end and (until is None or self.ends < until):
            with self._lock:
                if self.counted < end and not self._count_slice(file, end):
                    break
        return self.counted >= size

    def _count_slice(self, file: int, end: int) -> bool:
        """Count some more; False if the file has become shorter."""
        start = self.counted
        data = os.pread(file, min(_SLICE - start % BLOCK, end - start), start)
        for at in range(-(start % BLOCK), len(data), BLOCK):
            if at >= 0:
                self._before.append(self.ends)
            self.ends += data.count(b"\n", max(0, at), at + BLOCK)
        self._probe = (self._probe + data[-_PROBE:])[-_PROBE:]
        self.counted = start + len(data)
        return bool(data)

    def count_levels(self, file: int, size: int, budget: int) -> bool:
        """Count records by level up to `size` bytes, at most `budget` bytes of them now; tell
        whether all is counted.
        """
        end = min(size, self.leveled + budget)
        while self.leveled < end:
            with self._lock:
                if self.leveled < end and not self._count_levels_in_slice(file, end):
                    break
        return self.leveled >= size

    def _count_levels_in_slice(self, file: int, end: int) -> bool:
        """Count some more; False if the file has become shorter."""
        start = self.leveled
        before = min(start, _PROBE)
        data = os.pread(file, min(_SLICE, end - start) + before, start - before)
        if len(data) <= before:
            return False
        self.leveled = start + len(data) - before
        if start == before:
            data, before = b"\n" + data, before + 1
        for level, begin in _BEGINS.items():
            # those that end behind `start`: the others were counted before
            self.levels[level] += data.count(begin, max(0, before - len(begin) + 1))
        return True

    def offset_of(self, file: int, number: int) -> int | None:
        """Return where line `number` (from 1) begins, None if that is not counted."""
        if number <= 1:
            return 0
        wanted = number - 1  # it begins behind this line end
        if wanted > self.ends:
            return None
        block = bisect_left(self._before, wanted, 0, len(self._before)) - 1
        data = os.pread(file, BLOCK, block * BLOCK)
        at = -1
        for _ in range(wanted - self._before[block]):
            at = data.find(b"\n", at + 1)
            if at < 0:
                return None
        return block * BLOCK + at + 1

    def number_at(self, file: int, offset: int) -> int | None:
        """Return the number of the line that the byte at `offset` is part of."""
        if offset > self.counted:
            return None
        block = min(offset // BLOCK, len(self._before) - 1)
        if block < 0:
            return 1
        data = os.pread(file, offset - block * BLOCK, block * BLOCK)
        return self._before[block] + data.count(b"\n") + 1


@dataclass(frozen=True, kw_only=True)
class LogFile:
    """An open log, as long as it was when it was opened."""

    file: int
    size: int
    index: LineIndex

    @property
    def tag(self) -> str:
        """Return what names this content with this length."""
        return f"{self.index.name}.{self.size:x}"

    @property
    def total(self) -> int | None:
        """Return how many lines it has, None if they are not counted. An open last line counts."""
        number = self.number_at(self.size)
        return None if number is None else number - self._is_ended()

    def count(self, budget: int | None = None, *, until: int | None = None) -> bool:
        """As `LineIndex.count`."""
        return self.index.count(self.file, self.size, budget=budget, until=until)

    def count_levels(self, budget: int) -> Counter[str] | None:
        """Return how many records there are by level, None as long as `budget` bytes at once have
        not been enough to count all.
        """
        if not self.index.count_levels(self.file, self.size, budget):
            return None
        return +self.index.levels

    def offset_of(self, number: int) -> int | None:
        """Return where line `number` begins, None if there is none such, or it is not counted."""
        offset = self.index.offset_of(self.file, number)
        return None if offset is None or offset >= self.size else offset

    def number_at(self, offset: int) -> int | None:
        """Return the number of the line with the byte at `offset`, None if it is not counted."""
        return self.index.number_at(self.file, offset)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`."""
        return os.pread(self.file, min(size, max(0, self.size - offset)), offset)

    def lines(self, begin: int, *, longest: int) -> Iterator[RawLine]:
        """Yield the lines from number `begin`, as far as they are counted; content of at most
        `longest` bytes each.
        """
        offset = self.offset_of(begin)
        return iter(()) if offset is None else self.lines_at(offset, begin, longest=longest)

    def lines_at(self, offset: int, number: int | None, *, longest: int) -> Iterator[RawLine]:
        """Yield the lines from `offset`, where the one with `number` begins."""
        while offset < self.size:
            data = self.read(max(4 * BLOCK, longest + 2), offset)
            at = 0
            while (end := data.find(b"\n", at)) >= 0:
                yield _raw(number, offset + at, data[at:end], longest)
                number = None if number is None else number + 1
                at = end + 1
            if not data:
                return
            if at:
                if offset + len(data) >= self.size and at < len(data):
                    yield _raw(number, offset + at, data[at:], longest)
                    return
                offset += at
                continue
            after = self._end_of(offset, number)
            raw = _raw(number, offset, data, longest)
            last = self.read(2, max(offset, after - 2))
            size = after - offset - (2 if last == b"\r\n" else last[-1:] == b"\n")
            yield RawLine(number=number, offset=offset, content=raw.content, size=size)
            number = None if number is None else number + 1
            offset = after

    def tail(self, count: int, *, longest: int) -> list[RawLine]:
        """Return the last lines without numbers, from a bounded part of the file's end."""
        window = 4 * BLOCK
        while True:
            start = max(0, self.size - window)
            data = self.read(window, start)
            first = 0 if start == 0 else data.find(b"\n") + 1
            if start == 0 or window >= 16 * BLOCK or data.count(b"\n", 0, len(data) - 1) > count:
                found = list(self.lines_at(start + first, None, longest=longest))
                return found[-count:] if count else []
            window *= 4

    def _end_of(self, offset: int, number: int | None) -> int:
        """Return where the line after a very long one begins."""
        if number is not None and (found := self.offset_of(number + 1)) is not None:
            return found
        while data := self.read(_SLICE, offset):
            if (end := data.find(b"\n")) >= 0:
                return offset + end + 1
            offset += len(data)
        return self.size

    def _is_ended(self) -> bool:
        return self.size == 0 or self.read(1, self.size - 1) == b"\n"


def _raw(number: int | None, offset: int, line: bytes, longest: int) -> RawLine:
    line = line.removesuffix(b"\r")
    return RawLine(number=number, offset=offset, content=line[:longest], size=len(line))


@dataclass
class LogIndexes:
    """The indexes of the files that were looked at last."""

    files: int = 256  #: that are kept at most
    blocks: int = 1024 * 1024  #: of all files together: 64 GiB, about 20 MiB of memory
    _kept: OrderedDict[str, LineIndex] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _generations: int = 0

    @contextmanager
    def open(self, root: Path, parts: Sequence[str]) -> Iterator[LogFile | None]:
        """Give the open log `root/parts...`, None if there is none (see `addresses`)."""
        file = open_below(root, parts)
        if file is None:
            yield None
            return
        try:
            size, index = self._index(str(root.joinpath(*parts)), file)
            yield LogFile(file=file, size=size, index=index)
        finally:
            os.close(file)

    def _index(self, path: str, file: int) -> tuple[int, LineIndex]:
        """Return a file's size and its index."""
        with self._lock:
            known = os.fstat(file)
            index = self._kept.get(path)
            if index is None or not index.fits(file, known):
                self._generations += 1
                index = LineIndex(known.st_dev, known.st_ino, self._generations)
                index.fits(file, known)
            self._kept[path] = index
            self._kept.move_to_end(path)
            while len(self._kept) > 1 and (
                len(self._kept) > self.files
                or sum(i.blocks for i in self._kept.values()) > self.blocks
            ):
                self._kept.popitem(last=False)
            return known.st_size, index
