"""What Spark costs a job: the start of its application, each further task, blocks of tables.

    .venv/bin/python benchmarks/spark.py [--runs 3] [--rows 100000,1000000,3000000] [--json]

*Start*: a chain of five `Empty` components whose guest computes on a real cluster (two workers of
one core, `bin/spark-cluster`), against the same chain on this machine: the first task pays for the
application, the others use it. *Blocks*: `map_blocks` over 20 columns, with a cheap function (one
sum) and a dear one (every number to text and back, about 40 times as much), on Spark's workers
against this machine's engine. A ratio under 1 is where Spark is worth it on these two cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from figures import Figure, Machine, arguments, show
from parties import Parties, two_parties

from fedflow.sdk import Table, TableKind, TableSchema, TableStore
from fedflow.spark.tables.jobs import Cluster
from fedflow.tables.local import LocalTableStore
from fedflow.testing.tables import MemoryCatalog, spark_store

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers of the tests

from tests.support.spark_cluster import SparkCluster

MASTER = "FEDFLOW__FATE_ON_SPARK__SPARK__MASTER"
STEPS = 5
COLUMNS = 20
AT_ONCE = 65_536
SCHEMA = TableSchema(
    kind=TableKind.INSTANCES, id="id", columns=tuple(f"x{i}" for i in range(COLUMNS))
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", default="100000,1000000,3000000")
    options = parser.parse_args()
    machine = Machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with SparkCluster(folder / "cluster", memory="3g") as cluster:
            os.environ[MASTER] = cluster.master
            with two_parties() as parties:
                starts = measure_starts(parties, runs=options.runs)
            show("Start of a Spark application", starts, as_json=options.json, machine=machine)
            blocks = []
            with session(cluster.master, folder) as spark:
                for rows in map(int, options.rows.split(",")):
                    blocks += measure_blocks(spark, folder / str(rows), rows, runs=options.runs)
            show("Blocks of tables", blocks, as_json=options.json, machine=machine)


def chain(engine: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of a chain of empty tasks whose guest computes on `engine`."""
    components: dict[str, Any] = {}
    for number in range(STEPS):
        component: dict[str, Any] = {"module": "Empty", "output": {"data": ["data"]}}
        if number:
            component["input"] = {"data": {"data": [f"empty_{number - 1}.data"]}}
        components[f"empty_{number}"] = component
    run = {"num-executors": 2, "executor-cores": 1, "executor-memory": "1g"}
    own = {"computing_engine": "SPARK", "spark_run": run} if engine == "spark" else {}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {
            "common": {"job_type": "train", "task_cores": 1},
            "role": {"guest": {"0": own}},
        },
        "component_parameters": {},
    }
    return {"components": components}, conf


def measure_starts(parties: Parties, *, runs: int) -> list[Figure]:
    """Return the seconds of the first task and the mean of the further ones, on both engines."""
    figures = []
    for engine in ("local", "spark"):
        first, further = [], []
        for _ in range(runs):
            parties.settle()
            view = parties.run(*chain(engine))
            spans = []
            for component in view.components:
                tasks = [t for t in view.tasks if t.component == component]
                began = min(t.started_ms or 0 for t in tasks)
                spans.append((max(t.ended_ms or 0 for t in tasks) - began) / 1000)
            first.append(spans[0])
            further.append(sum(spans[1:]) / (STEPS - 1))
        figures.append(Figure(what=f"first task, {engine}", unit="s", values=first))
        figures.append(Figure(what=f"each further task, {engine}", unit="s", values=further))
    return figures


@contextmanager
def session(master: str, folder: Path) -> Iterator[Any]:
    """Give a session on the cluster whose workers run this interpreter."""
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession

    here = f"{Path(__file__).parents[1]}:{Path(__file__).parent}"
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "1g")
        .config("spark.executorEnv.PYTHONPATH", here)
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    gateway = spark.sparkContext._gateway
    try:
        yield spark
    finally:
        spark.stop()
        gateway.shutdown()


def measure_blocks(spark: Any, folder: Path, rows: int, *, runs: int) -> list[Figure]:
    """Return rows per second of `map_blocks` on both engines."""
    cluster = Cluster(spark=spark, errors=nullcontext, partitions=4)
    stores: dict[str, TableStore] = {
        "local": LocalTableStore(
            folder / "local", catalog=MemoryCatalog(), output_namespace="output", cores=2
        ),
        "Spark": spark_store(folder / "spark", cluster=cluster),
    }
    figures = []
    for name, function in (("cheap", cheap), ("dear", dear)):
        for engine, store in stores.items():
            table = made(store, rows)
            work = partial(table.map_blocks, function, schema=SCHEMA)
            work()  # Spark's workers start their Python processes
            seconds = [timed(work) for _ in range(runs)]
            what = f"{rows:,} rows, {name}, {engine}"
            figures.append(Figure(what=what, unit="s", values=seconds))
    return figures


def made(store: TableStore, rows: int) -> Table:
    rng = np.random.default_rng(1)
    with store.create(SCHEMA) as writer:
        for start in range(0, rows, AT_ONCE):
            count = min(AT_ONCE, rows - start)
            ids = pa.array(np.arange(start, start + count).astype(str))
            columns = [pa.array(rng.random(count)) for _ in SCHEMA.columns]
            writer.write(pa.RecordBatch.from_arrays([ids, *columns], names=list(SCHEMA.names)))
        return writer.close()


def cheap(batch: pa.RecordBatch) -> pa.RecordBatch:
    index = batch.schema.names.index("x0")
    return batch.set_column(index, "x0", pc.add(batch.column("x0"), batch.column("x1")))


def dear(batch: pa.RecordBatch) -> pa.RecordBatch:
    for index, name in enumerate(batch.schema.names[1:], start=1):
        texts = [repr(value) for value in batch.column(name).to_pylist()]
        batch = batch.set_column(index, name, pa.array([float(text) for text in texts]))
    return batch


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
