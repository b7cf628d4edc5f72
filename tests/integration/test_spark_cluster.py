"""The cluster that `bin/spark-cluster` starts: real masters and workers, which leave nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fedflow.base.errors.executors import SparkClusterFailed
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SUM = """
import sys
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster(sys.argv[1]).set("spark.ui.enabled", "false")
context = SparkContext(conf=conf)
print("sum", context.parallelize(range(100), 4).map(lambda row: row * 2).sum())
context.stop()
"""


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.spark_cluster", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def run(cluster: SparkCluster, program: str) -> str:
    """Return what a program prints that the cluster's workers take part in."""
    done = subprocess.run(
        [sys.executable, "-c", program, cluster.master],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )
    return done.stdout


def living(pids: list[int]) -> list[int]:
    return [
        pid
        for pid in pids
        if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.heavy
def test_a_program_runs_on_the_workers_and_its_executors_end_with_it(
    spark_cluster: SparkCluster,
) -> None:
    assert "sum 9900" in run(spark_cluster, SUM)
    spark_cluster.wait_until_idle()


@pytest.mark.heavy
def test_a_killed_worker_is_replaced(spark_cluster: SparkCluster) -> None:
    lost, kept = spark_cluster.workers
    spark_cluster.kill(lost)
    assert not lost.lives
    assert kept.lives
    spark_cluster.heal()
    assert len(spark_cluster.workers) == 2
    assert all(worker.lives for worker in spark_cluster.workers)
    assert "sum 9900" in run(spark_cluster, SUM)


def test_a_cluster_of_the_command_line_lives_until_it_is_stopped(tmp_path: Path) -> None:
    started = command("start", "--workers", "1", "--memory", "512m", str(tmp_path / "c"))
    try:
        assert re.fullmatch(r"spark://127\.0\.0\.1:\d+\n", started.stdout), started.stderr
        again = command("start", str(tmp_path / "c"))
        assert (again.returncode, again.stdout) == (1, "")
        assert "runs in" in again.stderr
        pids = [int(pid) for pid in re.findall(r'"pid":(\d+)', state(tmp_path).read_text())]
        assert len(living(pids)) == 2
    finally:
        stopped = command("stop", str(tmp_path / "c"))
    assert stopped.returncode == 0
    assert living(pids) == []
    assert not state(tmp_path).exists()
    assert command("stop", str(tmp_path / "c")).returncode == 1


def state(tmp_path: Path) -> Path:
    return tmp_path / "c/cluster.json"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "0"), "0 workers"),
        (("--cores", "0"), "0 cores"),
        (("--memory", "much"), "'much' is no memory"),
        (("--port", "80"), "80 is no port"),
    ],
)
def test_wrong_sizes_are_refused_before_anything_starts(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    refused = command("start", *words, str(tmp_path / "c"))
    assert refused.returncode == 1
    assert said in refused.stderr
    assert not (tmp_path / "c").exists()


def test_without_spark_or_java_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkClusterFailed, match="no bin/spark-class"):
        SparkCluster(tmp_path / "c")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkClusterFailed, match="no Java"):
        SparkCluster(tmp_path / "c")


def test_a_master_that_cannot_start_leaves_nothing(
    tmp_path: Path, spark_cluster: SparkCluster
) -> None:
    """The port is taken, and Spark tries 16 others unless it is told not to."""
    taken = int(spark_cluster.master.rpartition(":")[2])
    with pytest.raises(SparkClusterFailed, match="master did not come up"):
        SparkCluster(tmp_path / "c", port=taken)
