"""Whether all ids of a table differ: exact, in memory that does not grow with the table.

Each id leaves a 64-bit keyed hash (Python's SipHash of a string) in a scratch file, 8 bytes a row.
The check reads that file once per `ROWS_PER_PASS` rows and keeps only the hashes of one class
(hash modulo passes) in memory, about 40 bytes for each of them. Rows whose hashes meet are only
suspects: their ids are compared themselves, so a collision of hashes is no error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedflow.base.disk import writing
from fedflow.base.values import dataclass

ROWS_PER_PASS = 500_000  #: about 20 MB
_CHUNK = 1 << 20  #: hashes read at a time
_CAP = 4  #: a class this many times its share proves repetition; the rest of it is not read

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """The first row (from 0) that repeats an id, the row of that id, and how many rows repeat."""

    first: int
    again: int
    count: int
    at_least: bool  #: there are more than `count`


class IdLedger:
    """Remembers ids in a scratch file, which goes with the `with` block."""

    def __init__(self, folder: Path, *, rows_per_pass: int = ROWS_PER_PASS) -> None:
        """Create the file. Raises: DiskFull, FolderNotWritable."""
        with writing(folder):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed by __exit__
        self._rows_per_pass = rows_per_pass
        self._count = 0

    def __enter__(self) -> IdLedger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, ids: pa.Array) -> None:
        """Note the ids of further rows (text, no nulls)."""
        hashes = np.fromiter(map(hash, ids.to_pylist()), dtype=np.int64, count=len(ids))
        self._file.write(hashes.tobytes())
        self._count += len(ids)

    def repeated(self, ids_at: Callable[[Rows], Iterable[tuple[int, str]]]) -> Repeated | None:
        """Return what is known of repeated ids, or None if all differ.

        `ids_at` gives (row, id) for the rows asked for, in their order, which ascends.
        """
        found: Repeated | None = None
        passes = max(1, -(-self._count // self._rows_per_pass))
        for number in range(passes):
            suspects, extra, capped = self._suspects(number, passes)
            pair = _first_pair(ids_at(suspects)) if len(suspects) else None
            if pair is None:
                continue
            if found is None:
                found = Repeated(first=pair[0], again=pair[1], count=extra, at_least=capped)
            else:
                first, again = min((found.first, found.again), pair, key=lambda p: p[1])
                found = Repeated(
                    first=first,
                    again=again,
                    count=found.count + extra,
                    at_least=found.at_least or capped,
                )
        return found

    def _suspects(self, number: int, passes: int) -> tuple[Rows, int, bool]:
        """Return the rows of one class whose hash is not alone, their surplus, whether cut."""
        hashes, rows, capped = self._class_of(number, passes)
        order = np.argsort(hashes)
        same = np.diff(hashes[order]) == 0
        twice = np.flatnonzero(np.append(same, False) | np.append(False, same))
        return np.sort(rows[order[twice]]), int(same.sum()), capped

    def _class_of(self, number: int, passes: int) -> tuple[npt.NDArray[np.uint64], Rows, bool]:
        hashes: list[npt.NDArray[np.uint64]] = []
        rows: list[Rows] = []
        taken = 0
        for start, chunk in self._chunks():
            chosen = np.flatnonzero(chunk % np.uint64(passes) == number)
            hashes.append(chunk[chosen])
            rows.append(chosen.astype(np.int64) + start)
            taken += len(chosen)
            if taken > _CAP * self._rows_per_pass:
                break
        capped = taken > _CAP * self._rows_per_pass
        if not hashes:
            return np.empty(0, np.uint64), np.empty(0, np.int64), False
        return np.concatenate(hashes), np.concatenate(rows), capped

    def _chunks(self) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
        self._file.seek(0)
        start = 0
        while data := self._file.read(_CHUNK * 8):
            chunk = np.frombuffer(data, dtype=np.uint64)
            yield start, chunk
            start += len(chunk)


def _first_pair(ids: Iterable[tuple[int, str]]) -> tuple[int, int] | None:
    seen: dict[str, int] = {}
    for row, text in ids:
        if text in seen:
            return seen[text], row
        seen[text] = row
    return None
