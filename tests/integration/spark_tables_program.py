"""A driver for tests of tables on a cluster: `spark_tables_program.py MASTER FOLDER`.

It maps a table whose third batch holds its worker fast when it is met first, until that worker is
killed, and prints whether the result is what this machine makes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyspark.sql import SparkSession

from fedflow.base.clock import pause
from fedflow.sdk import Table, TableKind, TableSchema, TableStore
from fedflow.spark.tables.jobs import Cluster
from fedflow.testing.tables import local_store, spark_store

SCHEMA = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("a",))
BATCH = 65_536
BATCHES = 6
HOLD_S = 60.0


def written(store: TableStore) -> Table:
    with store.create(SCHEMA) as writer:
        for start in range(0, BATCHES * BATCH, BATCH):
            at = np.arange(start, start + BATCH)
            writer.write(pa.table({"id": [f"u{i}" for i in at], "a": at / 3}))
        return writer.close()


def holding(marker: Path) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function of batches that stops once, and says in which process."""

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column("id")[0].as_py() == f"u{2 * BATCH}" and not marker.exists():
            marker.with_suffix(".new").write_text(str(os.getpid()))
            marker.with_suffix(".new").rename(marker)
            pause(HOLD_S, threading.Event())
        doubled = pc.multiply(batch.column("a"), 2.0)
        return pa.RecordBatch.from_arrays([batch.column("id"), doubled], names=["id", "a"])

    return change


def main(master: str, folder: Path) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    cluster = Cluster(spark=spark, errors=nullcontext, partitions=6)
    mapped = written(spark_store(folder / "tables", cluster=cluster)).map_blocks(
        holding(folder / "marker"), schema=SCHEMA
    )
    (folder / "unmarked").touch()
    expected = written(local_store(folder / "local")).map_blocks(
        holding(folder / "unmarked"), schema=SCHEMA
    )
    same = [
        one.equals(other)
        for one, other in zip(mapped.to_batches(), expected.to_batches(), strict=True)
    ]
    files = list((folder / "tables" / "parts" / mapped.entry.address).glob("part-*"))  # type: ignore[attr-defined]
    print("same", all(same), "batches", len(same), "files", len(files), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
