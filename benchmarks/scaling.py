"""How the cost of the vertical pipeline grows with rows, cores, and Spark workers.

    .venv/bin/python benchmarks/scaling.py [--rows 10000,100000] [--engines local-1,spark-2]

Two parties with real servers, 10 columns each, every id at both: DataTransform, Intersection,
DataStatistics, HeteroFeatureBinning and one full-batch iteration of HeteroLR, keys of 1024 bits.
`local-N` gives every task N cores of this machine, `spark-N` N executors of one core, each on a
worker of its own (`bin/spark-cluster`). Both parties, their executors and the cluster share the
machine: on two cores, work at both parties at a time has one core each, whatever the engine says.
Times are those of the tasks, the later of both parties; the job's start is in `job`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, Machine, arguments, show
from parties import Parties, two_parties

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers of the tests

from tests.support.spark_cluster import SparkCluster

COLUMNS = 10
KEY = {"encrypt_param": {"method": "Paillier", "key_length": 1024}}
MASTER = "FEDFLOW__FATE_ON_SPARK__SPARK__MASTER"
ENGINES = ("local-1", "local-2", "spark-1", "spark-2")
PARAMETERS: dict[str, dict[str, Any]] = {
    "intersection_0": {},
    "statistic_0": {},
    "binning_0": {"bin_num": 10, "transform_param": {"transform_type": None}, **KEY},
    "hetero_lr_0": {
        "max_iter": 1,
        "batch_size": -1,
        "early_stop": "diff",
        "init_param": {"init_method": "zeros"},
        **KEY,
    },
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", default="10000,100000", help="numbers of rows, with commas")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    engines = options.engines.split(",")
    machine = Machine()
    figures: list[Figure] = []
    with cluster(engines), two_parties() as parties, tempfile.TemporaryDirectory() as folder:
        for rows in map(int, options.rows.split(",")):
            upload(parties, Path(folder), rows)
            for engine in engines:
                figures += measure(parties, rows, engine, runs=options.runs)
                show(f"{rows} rows, {engine}", figures[-7:], as_json=options.json, machine=machine)


@contextmanager
def cluster(engines: list[str]) -> Iterator[None]:
    """Run a Spark cluster that servers started meanwhile use, if an engine needs one.

    Each worker has cores for an executor of either party.
    """
    if not any(engine.startswith("spark") for engine in engines):
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        with SparkCluster(Path(folder) / "cluster", cores=2, memory="4g") as running:
            os.environ[MASTER] = running.master
            yield


def upload(parties: Parties, folder: Path, rows: int) -> None:
    """Make a table for each party and upload it there."""
    rng = np.random.default_rng(rows)
    for party, role in ((parties.guest, "guest"), (parties.host, "host")):
        path = folder / f"{role}.csv"
        values = rng.normal(size=(rows, COLUMNS)).round(4)
        labels = (values.sum(axis=1) + rng.normal(size=rows) > 0).astype(int)
        with path.open("w", encoding="utf-8") as file:
            head = ["id", *(["y"] if role == "guest" else []), *(f"x{i}" for i in range(COLUMNS))]
            file.write(",".join(head) + "\n")
            for i, row in enumerate(values.tolist()):
                label = f"{labels[i]}," if role == "guest" else ""
                file.write(f"k{i},{label}{','.join(map(str, row))}\n")
        sent = party.client.upload(path, namespace="scaling", table_name=f"{role}_{rows}")
        view = party.client.wait(sent.job_id, timeout_s=600)
        if not view.succeeded:
            raise RuntimeError(f"the upload ended: {view.reason}")


def job(rows: int, engine: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of the pipeline."""
    kind, _, count = engine.partition("-")
    inputs = {
        "data_transform_0": ("DataTransform", {"data": ["reader_0.data"]}),
        "intersection_0": ("Intersection", {"data": ["data_transform_0.data"]}),
        "statistic_0": ("DataStatistics", {"data": ["intersection_0.data"]}),
        "binning_0": ("HeteroFeatureBinning", {"data": ["intersection_0.data"]}),
        "hetero_lr_0": ("HeteroLR", {"train_data": ["intersection_0.data"]}),
    }
    components: dict[str, Any] = {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}
    for name, (module, data) in inputs.items():
        output = {"data": ["data"], "model": ["model"]}
        components[name] = {"module": module, "input": {"data": data}, "output": output}
    spark = {
        "computing_engine": "SPARK",
        "spark_run": {
            "num-executors": int(count), "executor-cores": 1, "executor-memory": "1500m",
        },
    }  # fmt: skip
    own = {"computing_engine": "STANDALONE", "task_cores": int(count)} if kind == "local" else spark
    tables = {
        r: {"table": {"name": f"{r}_{rows}", "namespace": "scaling"}} for r in ("guest", "host")
    }
    labels = {"guest": {"with_label": True, "label_name": "y"}, "host": {"with_label": False}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "job_parameters": {
            "common": {"job_type": "train"},
            "role": {"guest": {"0": own}, "host": {"0": own}},
        },
        "component_parameters": {
            "common": PARAMETERS,
            "role": {
                r: {"0": {"reader_0": tables[r], "data_transform_0": labels[r]}} for r in tables
            },
        },
    }
    return {"components": components}, conf


def measure(parties: Parties, rows: int, engine: str, *, runs: int) -> list[Figure]:
    """Return the seconds of each component and of the job."""
    seconds: dict[str, list[float]] = {}
    for _ in range(runs):
        parties.settle()
        view = parties.wait(parties.guest.client.submit(*job(rows, engine)).job_id, pause_s=0.5)
        for component in view.components:
            tasks = [t for t in view.tasks if t.component == component]
            first = min(t.started_ms or 0 for t in tasks)
            last = max(t.ended_ms or 0 for t in tasks)
            seconds.setdefault(component, []).append((last - first) / 1000)
        began_ms = view.started_ms or 0
        seconds.setdefault("job", []).append(((view.ended_ms or 0) - began_ms) / 1000)
    return [Figure(what=f"{c}", unit="s", values=values) for c, values in seconds.items()]


if __name__ == "__main__":
    main()
