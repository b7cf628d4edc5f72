"""Components on a real Spark: the same results as here, and a worker that is lost in mid-work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from fedflow.base.clock import SystemClock, pause
from fedflow.cores import forked
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import Site
from fedflow.spark import workers as spark
from fedflow.spark.scratch import Scratch
from fedflow.spark.workers import SparkWorkers
from tests.storage_servers import s3_server
from tests.support.spark_cluster import SparkCluster
from tests.unit.components import binning_parties, intersection_parties
from tests.unit.components.intersection_parties import GUEST, HOST, SMALL_KEYS, intersect

pytestmark = [pytest.mark.spark, pytest.mark.heavy, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("spark_workers_program.py")
ROOT = Path(__file__).parents[2]


class Folder:
    """A scratch folder of this machine."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.files, self.path = fs.LocalFileSystem(), str(path)

    def keep(self) -> None:
        pass

    def discard(self) -> None:
        shutil.rmtree(self.path)


@pytest.fixture(scope="module")
def session(local_spark: SparkSession) -> SparkSession:
    return local_spark


@pytest.fixture
def workers(session: SparkSession, tmp_path: Path) -> Iterator[SparkWorkers]:
    """Return workers that give even the least work to Spark."""
    scratch = Scratch(lambda: Folder(tmp_path / "scratch"))
    made = SparkWorkers(session.sparkContext, cores=2, scratch=scratch, little_s=0.0)
    yield made
    made.close()
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("method", ["ecdh", "dh", "rsa"])
@pytest.mark.parametrize("site", [GUEST, HOST])
def test_a_party_on_spark_finds_the_same_ids(
    method: str, site: Site, workers: SparkWorkers, tmp_path: Path
) -> None:
    ids = {GUEST: [f"é{i}" for i in range(60)], HOST: [f"é{i}" for i in range(100, 20, -1)]}
    own = SMALL_KEYS if method == "rsa" else {}
    params = {"intersect_method": method, **own}
    found = intersect(ids, tmp_path, params=params, workers={site: workers})
    assert intersection_parties.ids_out(found, HOST) == [f"é{i}" for i in range(21, 60)]


def test_a_host_on_spark_makes_the_same_bins(workers: SparkWorkers, tmp_path: Path) -> None:
    sites = (binning_parties.GUEST, binning_parties.HOST)
    here = binning_parties.run(binning_parties.small(), tmp_path / "here")
    both = dict.fromkeys(sites, workers)
    there = binning_parties.run(binning_parties.small(), tmp_path / "there", workers=both)
    for site in sites:
        assert binning_parties.model_of(here[site]) == binning_parties.model_of(there[site])


class Bucket:
    """A scratch folder in an object store."""

    def __init__(self, files: fs.FileSystem) -> None:
        self.files, self.path = files, "spark-scratch/parts/task"
        files.create_dir(self.path)

    def keep(self) -> None:
        pass

    def discard(self) -> None:
        self.files.delete_dir(self.path)


def test_rows_and_results_go_through_an_object_store(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SENT_BYTES", "RESULT_BYTES"):
        monkeypatch.setattr(spark, name, 0)
    with s3_server() as server:
        files = server.files
        files.create_dir("spark-scratch")
        scratch = Scratch(lambda: Bucket(files))
        workers = SparkWorkers(session.sparkContext, cores=2, scratch=scratch, little_s=0.0)
        rows = np.arange(50_000)
        texts = pa.array([f"é{row}" for row in rows])
        made = workers.fill_rows(ends_of, (texts, rows, workers.pin(rows)), width=20)
        assert made[[0, 49_999]].tobytes().decode().split() == ["0:0:0", "49999:49999:49999"]
        kept = files.get_file_info(fs.FileSelector("spark-scratch/parts/task"))
        assert len(kept) <= 1  # none, or an empty folder that names itself
        workers.close()
        left = files.get_file_info(fs.FileSelector("spark-scratch", recursive=True))
        assert not any(info.type == fs.FileType.File for info in left)


def ends_of(texts: pa.Array, one: np.ndarray, two: np.ndarray) -> bytes:
    rows = zip(texts.to_pylist(), one.tolist(), two.tolist(), strict=True)
    return b"".join(f"{text[1:]}:{a}:{b}".ljust(20).encode() for text, a, b in rows)


def test_processes_forked_beside_a_spark_leave_its_connections_alone(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 0)
    context = session.sparkContext
    told: list[str] = []
    begun, again = threading.Event(), threading.Event()

    def other() -> None:
        told.append(context._jsc.sc().applicationId())
        begun.set()
        again.wait()
        told.append(context._jsc.sc().applicationId())

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    for _ in range(5):
        found = LocalWorkers(3).fold_rows(len_of, (range(30),), most=9)  # type: ignore[arg-type]
        assert found == [b"10"] * 3
    again.set()
    thread.join()
    assert told == [context.applicationId] * 2
    assert context.parallelize(range(4), 2).sum() == 6


def len_of(rows: range) -> bytes:
    return b"%d" % len(rows)


def test_a_lost_worker_costs_a_repeat_of_its_blocks(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), spark_cluster.master, str(tmp_path), "lose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    try:
        executor = int(_contents(tmp_path / "lost"))
        (lost,) = (w for w in spark_cluster.workers if executor in spark_cluster.executors(w))
        spark_cluster.kill(lost)
        told, _ = program.communicate(timeout=120)
    finally:
        _end(program)
        spark_cluster.heal()
    assert told == "right\n"


def _contents(path: Path) -> str:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 150
    while not path.exists():
        assert clock.monotonic_s() < deadline_s, "the block did not begin"
        pause(0.05, threading.Event())
    return path.read_text()


def _end(program: subprocess.Popen[str]) -> None:
    if program.poll() is None:
        for child in psutil.Process(program.pid).children(recursive=True):
            child.kill()
        program.kill()
    program.wait()
