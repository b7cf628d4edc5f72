"""The Workers port: the same promises on this machine's cores, on Spark, and far away."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.data import BadData, DiskFull
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.error import FedflowError
from fedflow.cores import forked
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import Workers
from fedflow.spark import scratch as scratch_module
from fedflow.spark import workers as spark
from fedflow.spark.scratch import RowCache, Scratch, sent
from fedflow.spark.workers import SparkWorkers
from fedflow.testing.workers import PicklingWorkers

pytestmark = pytest.mark.timeout(600)  # the first work of a Spark, on a busy machine

ROWS = 10_007


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Workers, and where they keep rows."""

    workers: Workers
    folder: Path

    def left(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []


class PlainFolder:
    """A scratch folder of this machine that is made and removed as it stands."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.files, self.path = fs.LocalFileSystem(), str(folder)

    def keep(self) -> None:
        pass

    def discard(self) -> None:
        shutil.rmtree(self.path)


@pytest.fixture(
    scope="module",
    params=[
        "one",
        "two",
        "pickled",
        pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.heavy]),
    ],
)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("workers") / "scratch"
    made: dict[str, Callable[[], Workers]] = {
        "one": lambda: LocalWorkers(1),
        "two": lambda: LocalWorkers(2),
        "pickled": PicklingWorkers,
    }
    if request.param != "spark":
        yield Engine(workers=made[request.param](), folder=folder)
        return
    context = request.getfixturevalue("local_spark").sparkContext
    workers = SparkWorkers(context, cores=2, scratch=Scratch(lambda: PlainFolder(folder)))
    yield Engine(workers=workers, folder=folder)
    workers.close()
    assert not folder.exists()


@pytest.fixture(params=["spread", "here"], autouse=True)
def spread(request: pytest.FixtureRequest, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether work is spread, which a few thousand rows are not worth else."""
    if request.param == "spread":
        monkeypatch.setattr(forked, "FORK_FROM", 0)
        if isinstance(engine.workers, SparkWorkers):
            monkeypatch.setattr(engine.workers, "little_s", 0.0)
    return bool(request.param == "spread")


def doubled(rows: np.ndarray) -> bytes:
    return (rows * 2).astype("<u4").tobytes()


def numbers(count: int = ROWS) -> np.ndarray:
    return np.arange(count, dtype="<u4")


def as_numbers(made: np.ndarray) -> list[int]:
    return list(np.ascontiguousarray(made).view("<u4").ravel().tolist())


def test_rows_come_in_their_order(engine: Engine) -> None:
    made = engine.workers.fill_rows(doubled, (numbers(),), width=4)
    assert made.shape == (ROWS, 4)
    assert made.dtype == np.uint8
    assert as_numbers(made) == list(range(0, 2 * ROWS, 2))


def joined(texts: pa.Array, matrix: np.ndarray, values: np.ndarray) -> bytes:
    rows = zip(texts.to_pylist(), matrix.tolist(), values.tolist(), strict=True)
    return b"".join(f"{text}:{row[0]}:{row[1]}:{v}".rjust(40).encode() for text, row, v in rows)


def test_every_input_gives_the_same_rows(engine: Engine) -> None:
    texts = pa.array([f"é{i}" for i in range(ROWS + 5)]).slice(5)
    matrix = np.asfortranarray(np.arange(2 * ROWS, dtype=np.int16).reshape(ROWS, 2))
    made = engine.workers.fill_rows(joined, (texts, matrix, np.arange(ROWS) / 2), width=41)
    for at in (0, 1, 5_000, ROWS - 1):
        expected = f"é{at + 5}:{matrix[at, 0]}:{matrix[at, 1]}:{at / 2}"
        assert made[at].tobytes().decode().strip() == expected


def summed(rows: np.ndarray) -> bytes:
    return b"%d %d" % (len(rows), rows.sum())


def test_a_fold_gives_a_value_per_block_in_order(engine: Engine) -> None:
    found = engine.workers.fold_rows(summed, (numbers(),), most=40)
    counts, sums = zip(*(map(int, value.split()) for value in found), strict=True)
    assert sum(counts) == ROWS
    ends = np.cumsum(counts)
    for count, end, total in zip(counts, ends, sums, strict=True):
        assert total == sum(range(int(end) - count, int(end)))


def test_no_rows_give_no_rows_and_one_value(engine: Engine) -> None:
    done: list[float] = []
    made = engine.workers.fill_rows(doubled, (numbers(0),), width=4, progress=done.append)
    assert made.shape == (0, 4)
    assert engine.workers.fold_rows(summed, (numbers(0),), most=40) == [b"0 0"]
    texts = pa.array([], pa.string())
    assert engine.workers.fill_rows(joined, (texts, numbers(0), numbers(0)), width=9).size == 0
    assert done == [1.0]


def test_progress_grows_until_all_is_done(engine: Engine) -> None:
    done: list[float] = []
    engine.workers.fill_rows(doubled, (numbers(),), width=4, cost=20, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == 1.0
    engine.workers.fold_rows(summed, (numbers(),), most=40, cost=20, progress=done.append)
    assert done[-1] == 1.0


def bad_codec(rows: np.ndarray) -> bytes:
    if ROWS - 1 in rows.tolist():
        raise CodecError(reason="the last row is not usable")
    return doubled(rows)


def bad_data(rows: np.ndarray) -> bytes:
    raise BadData(where="row 7", reason="it is not a number")


@pytest.mark.parametrize("work", [bad_codec, bad_data])
def test_an_error_of_the_work_arrives_as_it_is(work: Any, engine: Engine) -> None:
    kind: type[FedflowError] = CodecError if work is bad_codec else BadData
    with pytest.raises(kind, match=r"last row is not usable|row 7.*not a number"):
        engine.workers.fill_rows(work, (numbers(),), width=4)
    with pytest.raises(kind):
        engine.workers.fold_rows(work, (numbers(),), most=4 * ROWS)


def without_memory(rows: np.ndarray) -> bytes:
    raise MemoryError


def test_want_of_memory_arrives_as_it_is(engine: Engine) -> None:
    with pytest.raises(MemoryError):
        engine.workers.fill_rows(without_memory, (numbers(),), width=4)


def too_long(rows: np.ndarray) -> bytes:
    return doubled(rows) + b"x"


def test_another_number_of_bytes_is_refused(engine: Engine) -> None:
    with pytest.raises(ComponentFailed, match="bytes of"):
        engine.workers.fill_rows(too_long, (numbers(),), width=4)
    with pytest.raises(ComponentFailed, match="bytes of"):
        engine.workers.fold_rows(doubled, (numbers(),), most=3)


def test_inputs_of_different_lengths_are_refused(engine: Engine) -> None:
    with pytest.raises(ValueError):
        engine.workers.fill_rows(doubled, (numbers(3), numbers(4)), width=4)


def test_placed_rows_are_sliced_and_chosen(engine: Engine) -> None:
    placed = engine.workers.pin(numbers())
    assert len(placed) == ROWS
    assert placed.local().tolist() == list(range(ROWS))
    middle = placed.select(slice(100, 9_000))
    assert len(middle) == 8_900
    made = engine.workers.fill_rows(doubled, (middle,), width=4)
    assert as_numbers(made) == list(range(200, 18_000, 2))
    chosen = placed.select(np.array([5, 3, 3, ROWS - 1]))
    made = engine.workers.fill_rows(doubled, (chosen,), width=4)
    assert as_numbers(made) == [10, 6, 6, 2 * ROWS - 2]
    made = engine.workers.fill_rows(doubled, (placed.select(slice(9_000, 99_999)),), width=4)
    assert as_numbers(made) == list(range(18_000, 2 * ROWS, 2))
    made = engine.workers.fill_rows(doubled, (placed.select(slice(0, 9, 4)),), width=4)
    assert as_numbers(made) == [0, 8, 16]


def test_placed_rows_that_nobody_has_any_more_are_removed(engine: Engine) -> None:
    placed = engine.workers.pin(numbers())
    engine.workers.fill_rows(doubled, (placed.select(slice(0, ROWS)),), width=4)
    del placed
    assert engine.left() == []


def test_many_rows_and_large_results_leave_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "SENT_BYTES", 1_000)
    monkeypatch.setattr(spark, "RESULT_BYTES", 1_000)
    texts = pa.array([None if i == 77 else f"{i}" * 3 for i in range(40_000)])
    rows = np.arange(80_000, dtype=np.int64).reshape(-1, 2)
    made = engine.workers.fill_rows(ends, (texts, rows), width=24, cost=5)
    assert made[77].tobytes().decode().split() == ["None", "154"]
    assert made[39_999].tobytes().decode().split() == ["39999" * 3, "79998"]
    assert made[16_384].tobytes().decode().split() == ["16384" * 3, "32768"]
    assert len(engine.workers.fold_rows(doubled, (rows,), most=10**6)) >= 1
    with pytest.raises(CodecError):
        engine.workers.fill_rows(bad_codec, (numbers(),), width=4)
    assert engine.left() == []


def ends(texts: pa.Array, rows: np.ndarray) -> bytes:
    pairs = zip(texts.to_pylist(), rows[:, 0].tolist(), strict=True)
    return b"".join(f"{text} {row}".ljust(24).encode() for text, row in pairs)


def test_rows_made_ahead_are_whole_and_no_more_than_asked_for(engine: Engine) -> None:
    ahead = engine.workers.make_ahead(functools.partial(_constant, b"abc"), ROWS, width=3, cost=9)
    made = ahead.take()
    assert made.shape[1] == 3
    assert len(made) <= ROWS
    assert made.tobytes() == b"abc" * len(made)
    assert engine.left() == []


def _constant(row: bytes, count: int) -> bytes:
    return row * count


def test_work_may_hold_what_it_was_made_with(engine: Engine) -> None:
    key = b"k" * 100
    made = engine.workers.fill_rows(functools.partial(keyed, key), (numbers(50),), width=1)
    assert made.tobytes() == b"k" * 50


def keyed(key: bytes, rows: np.ndarray) -> bytes:
    return key[:1] * len(rows)


def test_a_scratch_folder_is_made_when_it_is_needed_and_removed_once(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    scratch = Scratch(lambda: PlainFolder(folder))
    scratch.close()
    stored = scratch.write(numbers(9))
    assert Path(stored.path).parent == folder
    assert stored.part(2, 8).part(1, 3).read().tolist() == [3, 4]
    scratch.close()
    scratch.remove(stored)
    scratch.close()
    assert not folder.exists()


def test_what_a_worker_read_last_is_kept_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_module, "KEPT_BYTES", 100)
    scratch = Scratch(lambda: PlainFolder(tmp_path / "task"))
    stored, cache = scratch.write(numbers(1_000)), RowCache()
    first = cache.read(stored.part(0, 20))
    assert cache.read(stored.part(0, 20)) is first
    cache.read(stored.part(20, 30))
    assert cache.read(stored.part(0, 20)) is not first
    assert cache.read(stored.part(0, 500)).tolist() == list(range(500))
    scratch.close()


def test_arrays_of_python_objects_are_not_sent(tmp_path: Path) -> None:
    objects = np.array([object()])
    with pytest.raises(ValueError, match="objects"):
        sent(objects)
    scratch = Scratch(lambda: PlainFolder(tmp_path / "task"))
    with pytest.raises(ValueError, match="objects"):
        scratch.write(objects)
    scratch.close()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    class Full(PlainFolder):
        """Every file of it is on a disk without space."""

        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            (folder / "1").symlink_to("/dev/full")

    scratch = Scratch(lambda: Full(tmp_path / "task"))
    with pytest.raises(DiskFull, match="task/1"):
        scratch.write(numbers(100_000))
    scratch.close()
