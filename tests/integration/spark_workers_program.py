"""Work on a Spark cluster: `MASTER FOLDER lose|fill`; run as a program by test_spark_workers.py.

With `lose` the first attempt at one block writes the pid of its executor to FOLDER/lost and then
waits until it is killed. Prints `right` if all rows are there and in order.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
from pyarrow import fs
from pyspark import SparkConf, SparkContext, TaskContext

from fedflow.spark import workers as spark
from fedflow.spark.scratch import Scratch
from fedflow.spark.workers import SparkWorkers

ROWS = 100_000


class Folder:
    """A scratch folder."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.files, self.path = fs.LocalFileSystem(), str(path)

    def keep(self) -> None:
        pass

    def discard(self) -> None:
        self.files.delete_dir(self.path)


def work(folder: str, rows: np.ndarray) -> bytes:
    """Return the rows plus one, unless this process is to be lost."""
    lost = Path(folder) / "lost"
    context = TaskContext.get()
    assert context is not None
    if 70_000 in rows and context.attemptNumber() == 0 and folder:
        executor = psutil.Process(os.getppid()).ppid()
        lost.with_suffix(".new").write_text(str(executor))
        lost.with_suffix(".new").rename(lost)
        threading.Event().wait()
    return (rows + 1).astype("<i8").tobytes()


def main(master: str, folder: str, mode: str) -> None:
    """Do the work and tell."""
    spark.SENT_BYTES = spark.RESULT_BYTES = 100_000  # through the scratch folder, both ways
    conf = SparkConf().setMaster(master).set("spark.ui.enabled", "false")
    context = SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false"))
    scratch = Scratch(lambda: Folder(Path(folder) / "scratch"))
    workers = SparkWorkers(context, cores=2, scratch=scratch)
    rows = np.arange(ROWS)
    block = functools.partial(work, folder if mode == "lose" else "")
    made = workers.fill_rows(block, (rows,), width=8, cost=2)
    workers.close()
    context.stop()
    if (made.view("<i8").ravel() == rows + 1).all() and not (Path(folder) / "scratch").exists():
        print("right")


if __name__ == "__main__":
    main(*sys.argv[1:])
