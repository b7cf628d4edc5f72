"""The scratch folder of a task on Spark: gone with the task, or with a sweep."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray
from pyarrow import fs

from fedflow.app.data.row_folders import left_over, read_note
from fedflow.base.errors.data import TablesNotShared
from fedflow.spark.scratch import Scratch, StoredRows, sent
from fedflow.spark.workers import Block, SparkWorkers, run_blocks
from fedflow.worker.spark import SweptFolder

LATER_MS = 4_000_000_000_000
LONG_AGO_MS = 1_000_000_000_000


def age(folder: Path) -> None:
    """Let a folder look as if nobody had touched it for years."""
    for path in (*folder.iterdir(), folder):
        os.utime(path, (0, 0))


def test_a_scratch_folder_is_private_and_goes_with_the_task(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    scratch = Scratch(lambda: SweptFolder(tmp_path / "tables", f"file:{tmp_path}/shared"))
    stored = scratch.write(np.arange(10))
    assert Path(stored.path).parent.stat().st_mode & 0o077 == 0
    assert stored.part(2, 4).read().tolist() == [2, 3]
    scratch.close()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    assert left_over(tmp_path / "tables", older_than_ms=LATER_MS) == []


def test_the_scratch_folder_of_a_killed_task_is_found_by_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    scratch = Scratch(lambda: SweptFolder(tmp_path / "tables", str(tmp_path / "shared")))
    stored = scratch.write(np.arange(10))
    (note,) = left_over(tmp_path / "tables", older_than_ms=LATER_MS)
    assert read_note(note) == str(Path(stored.path).parent)


def test_a_sweep_leaves_the_scratch_folder_of_a_task_that_runs_for_weeks(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    scratch = Scratch(lambda: SweptFolder(tables, str(tmp_path / "shared")))
    scratch.keep()
    scratch.write(np.arange(10))
    (note,) = tables.iterdir()
    age(note)
    assert left_over(tables, older_than_ms=LONG_AGO_MS) == [note]
    scratch.keep()
    assert left_over(tables, older_than_ms=LONG_AGO_MS) == []
    scratch.close()


class InThisProcess:
    """What a round of blocks asks of Spark's context, done here."""

    def __init__(self, seen: Callable[[], None]) -> None:
        self._seen = seen
        self._blocks: list[Any] = []

    def parallelize(self, blocks: list[Any], _: int) -> InThisProcess:
        self._blocks = list(blocks)
        return self

    def mapPartitions(self, work: Callable[[list[Any]], list[Any]]) -> InThisProcess:
        self._work = work
        return self

    def collect(self) -> list[Any]:
        self._seen()
        return [result for block in self._blocks for result in self._work([block])]


def total(rows: NDArray[np.int64]) -> bytes:
    return bytes([int(rows.sum())])


def test_each_use_of_placed_rows_keeps_them_from_sweeps(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    left: list[Path] = []

    def look() -> None:
        left.extend(left_over(tables, older_than_ms=LONG_AGO_MS))

    scratch = Scratch(lambda: SweptFolder(tables, str(tmp_path / "shared")))
    workers = SparkWorkers(InThisProcess(look), cores=1, scratch=scratch, little_s=0.0)
    placed = workers.pin(np.arange(4))
    assert workers.fold_rows(total, (placed,), most=1) == [b"\6"]
    (note,) = tables.iterdir()
    age(note)
    assert workers.fold_rows(total, (placed,), most=1) == [b"\6"]
    assert left == []
    workers.close()


def test_rows_and_results_out_of_reach_name_the_setting(tmp_path: Path) -> None:
    files, folder = fs.LocalFileSystem(), str(tmp_path / "elsewhere")
    rows = StoredRows(
        files=files, path=f"{folder}/1", kind=np.dtype(np.int64), shape=(), start=0, stop=3
    )
    code = cloudpickle.dumps(total)
    sent_rows = sent(np.arange(3))
    for given, place in ((rows, None), (sent_rows, (files, folder))):
        (result,) = run_blocks(code, place, [Block(number=0, inputs=(given,))])
        assert result.error is not None
        error = pickle.loads(result.error)
        assert isinstance(error, TablesNotShared)
        assert folder in error.message
