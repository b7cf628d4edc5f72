"""Workers on a Spark cluster; see `fedflow.sdk.workers`.

Rows are cut into blocks, each a task of Spark. The work function is pickled once per call and
travels with Spark's own broadcast of the tasks' code: it may hold a secret, and is in memory unless
it is larger than 1 MiB (docs/security.md). A worker keeps the last few, so a key's tables are built
once per process. Few rows travel with the blocks; many, and placed ones, are written once to the
scratch folder, where workers read their ranges.

Blocks are asked for in *rounds* of several per core: so progress is known, an error ends the work
early, and the driver never holds more than a round's results beside the rows it fills. Large
results come through the scratch folder, past the memory of Spark's driver.

A block that is lost with its worker is repeated by Spark, and all that its first run could leave is
a file in the scratch folder. Errors of the work are results for Spark, which would repeat them
otherwise.
"""

from __future__ import annotations

import functools
import logging
import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors.data import TablesNotShared
from fedflow.base.errors.error import FedflowError
from fedflow.cores.blocks import (
    BLOCKS_PER_CORE,
    ReadyRows,
    bounds,
    check_filled,
    check_folded,
    count_of,
    fill_blocks,
    fold_blocks,
    seconds,
)
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk.workers import BlockWork, PlacedRows, Progress, Rows, RowsAhead, no_progress
from fedflow.spark.scratch import RowCache, Scratch, SentRows, StoredRows, sent

logger = logging.getLogger(__name__)

LITTLE_S: Final = 1.5  #: by default less work is done in this process, seconds of one core
SENT_BYTES: Final = 16 << 20  #: of rows that travel with the blocks
RESULT_BYTES: Final = 64 << 20  #: of a round's results that come through Spark's driver

_WORKS: Final = 8  # work functions that a worker's process keeps


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Rows for one task of Spark."""

    number: int
    inputs: tuple[StoredRows | SentRows, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What became of a block: one of these."""

    data: bytes = b""
    path: str = ""  #: of a file with the data
    error: bytes | None = None  #: a pickled FedflowError or MemoryError


class SparkWorkers:
    """See `fedflow.sdk.Workers`. Close it at the end of the task."""

    def __init__(
        self,
        context: Any,
        *,
        cores: int,
        scratch: Scratch,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
        little_s: float = LITTLE_S,
    ) -> None:
        """Work with a `SparkContext`.

        Args:
            cores: of all executors of the application.
            errors: inside of it Spark's exceptions become errors of fedflow.
            little_s: less work than this is done in this process, seconds of one core.
        """
        self._context = context
        self._cores = cores
        self._scratch = scratch
        self._errors = errors
        self.little_s = little_s
        # One process: a fork would share the connections to Spark's driver with this one.
        self._local = LocalWorkers(1)

    @property
    def cores(self) -> int:
        """See `fedflow.sdk.Workers`."""
        return self._cores

    def pin(self, rows: NDArray[Any]) -> PlacedRows:
        """Return rows that are written to the scratch folder when workers use them first."""
        return SparkPlacedRows(_Placed(rows, self._scratch), 0, len(rows))

    def fill_rows(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        width: int,
        cost: float = 1.0,
        progress: Progress = no_progress,
    ) -> NDArray[np.uint8]:
        """See `fedflow.sdk.Workers.fill_rows`. Raises: also what `errors` makes of Spark's."""
        count = count_of(inputs)
        if seconds(count, cost) < self.little_s or count == 0:
            return self._local.fill_rows(work, inputs, width=width, cost=cost, progress=progress)
        blocks = fill_blocks(count, cost=cost, width=width, cores=self._cores)
        places = bounds(count, blocks)
        made = np.empty((count, width), np.uint8)
        results = self._results(work, inputs, places, most=count * width // blocks, told=progress)
        for start, stop, data in results:
            check_filled(data, rows=stop - start, width=width)
            made[start:stop] = np.frombuffer(data, np.uint8).reshape(stop - start, width)
        return made

    def fold_rows(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        *,
        most: int,
        cost: float = 1.0,
        progress: Progress = no_progress,
    ) -> list[bytes]:
        """See `fedflow.sdk.Workers.fold_rows`. Raises: also what `errors` makes of Spark's."""
        count = count_of(inputs)
        if seconds(count, cost) < self.little_s or count == 0:
            return self._local.fold_rows(work, inputs, most=most, cost=cost, progress=progress)
        blocks = fold_blocks(count, cost=cost, cores=self._cores)
        places = bounds(count, blocks)
        found = []
        for _, _, data in self._results(work, inputs, places, most=most, told=progress):
            check_folded(data, most=most)
            found.append(data)
        return found

    def make_ahead(
        self, work: Callable[[int], bytes], count: int, *, width: int, cost: float = 1.0
    ) -> RowsAhead:
        """See `fedflow.sdk.Workers.make_ahead`: no row, the cluster is others' meanwhile."""
        return ReadyRows.none(width)

    def close(self) -> None:
        """Remove what is left in the scratch folder."""
        self._scratch.close()

    def _results(
        self,
        work: BlockWork,
        inputs: Sequence[Rows],
        bounds: Sequence[int],
        *,
        most: int,
        told: Progress,
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield the bounds of each block and what the work made of it, in order."""
        code = cloudpickle.dumps(work)
        sources = [_Source.of(rows, self._scratch) for rows in cast("Sequence[Any]", inputs)]
        step = self._cores * BLOCKS_PER_CORE
        blocks = len(bounds) - 1
        try:
            for first in range(0, blocks, step):
                numbers = range(first, min(blocks, first + step))
                wanted = [
                    Block(
                        number=number,
                        inputs=tuple(s.part(bounds[number], bounds[number + 1]) for s in sources),
                    )
                    for number in numbers
                ]
                results = self._round(code, wanted, most=most * len(wanted))
                for number, data in zip(numbers, results, strict=True):
                    yield bounds[number], bounds[number + 1], data
                told(bounds[numbers.stop] / bounds[-1])
        finally:
            for source in sources:
                source.close()

    def _round(self, code: bytes, blocks: Sequence[Block], *, most: int) -> Iterator[bytes]:
        """Yield what the work made of some blocks, in order; together at most `most` bytes.

        Raises: the first error of the work. What `errors` makes of Spark's. TablesNotShared.
            OSError.
        """
        self._scratch.keep()
        with self._scratch.results() if most > RESULT_BYTES else nullcontext() as place:
            with self._errors():
                rows = self._context.parallelize(blocks, len(blocks))
                results: list[Result] = rows.mapPartitions(
                    functools.partial(run_blocks, code, place)
                ).collect()
            for result in results:
                if result.error is not None:
                    error = pickle.loads(result.error)  # noqa: S301  from the party's own workers
                    raise error
            for result in results:
                yield result.data if place is None else _contents(place[0], result.path)


class SparkPlacedRows:
    """See `fedflow.sdk.PlacedRows`."""

    def __init__(self, placed: _Placed, start: int, stop: int) -> None:
        self._placed = placed
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    def select(self, rows: slice | NDArray[np.int64]) -> Rows:
        """Return some of the rows."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            return self.local()[rows]
        start, stop, _ = rows.indices(len(self))
        stop = max(start, stop)
        return SparkPlacedRows(self._placed, self._start + start, self._start + stop)

    def local(self) -> NDArray[Any]:
        """Return the rows in this process."""
        return self._placed.rows[self._start : self._stop]

    def stored(self) -> StoredRows:
        """Return the rows in the scratch folder. Raises: OSError."""
        return self._placed.stored().part(self._start, self._stop)


class _Placed:
    """Rows that are written to the scratch folder at most once, and removed with the last use."""

    def __init__(self, rows: NDArray[Any], scratch: Scratch) -> None:
        self.rows = rows
        self._scratch = scratch
        self._stored: StoredRows | None = None

    def stored(self) -> StoredRows:
        if self._stored is None:
            self._stored = self._scratch.write(self.rows)
            end = weakref.finalize(self, self._scratch.remove, self._stored)
            end.atexit = False  # the whole folder goes then
        return self._stored


class _Source:
    """One input of a call."""

    def __init__(self, rows: Any, stored: StoredRows | None, scratch: Scratch | None) -> None:
        self._rows = rows
        self._stored = stored
        self._scratch = scratch  # None: the rows are not ours to remove

    @staticmethod
    def of(rows: Any, scratch: Scratch) -> _Source:
        if isinstance(rows, SparkPlacedRows):
            return _Source(None, rows.stored(), None)
        if rows.nbytes > SENT_BYTES:
            return _Source(None, scratch.write(rows), scratch)
        return _Source(rows, None, None)

    def part(self, start: int, stop: int) -> StoredRows | SentRows:
        if self._stored is None:
            return sent(self._rows[start:stop])
        return self._stored.part(start, stop)

    def close(self) -> None:
        if self._scratch is not None and self._stored is not None:
            self._scratch.remove(self._stored)


def _contents(files: Any, path: str) -> bytes:
    with _reached(path), files.open_input_stream(path) as file:
        return cast("bytes", file.read())


@contextmanager
def _reached(path: str) -> Iterator[None]:
    """Name a file of driver or worker that the other one does not see, or may not open."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as exc:
        raise TablesNotShared(uri=path) from exc


# --- on the workers -------------------------------------------------------------------------------


_cache = RowCache()  # empty; its rows are those that this process reads


def run_blocks(code: bytes, place: tuple[Any, str] | None, blocks: Iterable[Block]) -> list[Result]:
    """Return what the pickled work `code` makes of some blocks, in a Python process of a worker.

    With `place`, a file system and a folder there, results are written to files in it.
    """
    work = _work_of(code)
    return [_run(work, place, block) for block in blocks]


def _run(work: BlockWork, place: tuple[Any, str] | None, block: Block) -> Result:
    try:
        data = work(*map(_read, block.inputs))
        return Result(data=data) if place is None else _filed(data, place, block.number)
    except (FedflowError, MemoryError) as exc:
        return Result(error=pickle.dumps(exc))


def _read(rows: StoredRows | SentRows) -> Any:
    with _reached(rows.path if isinstance(rows, StoredRows) else ""):
        return _cache.read(rows)


def _filed(data: bytes, place: tuple[Any, str], number: int) -> Result:
    files, folder = place
    path = f"{folder}/{number}-{_attempt()}"
    with _reached(path), files.open_output_stream(path) as file:
        file.write(data)
    return Result(path=path)


@functools.lru_cache(maxsize=_WORKS)
def _work_of(code: bytes) -> BlockWork:
    return cast("BlockWork", cloudpickle.loads(code))


def _attempt() -> int:
    """Return a number that no other attempt at a block of this application has."""
    from pyspark import TaskContext  # only a worker of Spark has it for sure

    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())
