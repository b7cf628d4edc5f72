"""A guest with a Spark cluster and a host without one: whose cores jobs take, and who is refused.

What tasks compute on the cluster is tested elsewhere; these hold its cores and do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from fedflow.cli.main import cli as fedflow
from tests.e2e.jobs import Json, empty_job
from tests.e2e.servers import (
    GUEST_ID,
    HOST_ID,
    QUICK,
    Pair,
    Place,
    free_ports,
    make_certificates,
    running,
    wait_for,
)
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

CORES = 2


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, spark_cluster: SparkCluster
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("engines")
    tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID)
    http_g, http_h, grpc_g, grpc_h = free_ports(4)
    spark = {
        "FEDFLOW__FATE_ON_SPARK__SPARK__MASTER": spark_cluster.master,
        "FEDFLOW__FATE_ON_SPARK__SPARK__CORES_PER_NODE": "1",
        "FEDFLOW__FATE_ON_SPARK__SPARK__NODES": str(CORES),
    }
    places = [
        Place(
            home=folder / name, party_id=own, http_port=http, grpc_port=grpc, tls=tls,
            routes={other: f"127.0.0.1:{port}"}, settings=QUICK | more,
        )
        for name, own, http, grpc, other, port, more in (
            ("guest", GUEST_ID, http_g, grpc_g, HOST_ID, grpc_h, spark),
            ("host", HOST_ID, http_h, grpc_h, GUEST_ID, grpc_g, {}),
        )
    ]  # fmt: skip
    with running(*places) as (guest, host):
        yield Pair(guest, host)


def on_spark(*steps: Json, cores: int = 1) -> tuple[Json, Json]:
    """Return a job whose guest computes on Spark, whatever the others do."""
    dsl, conf = empty_job(*steps, task_cores=cores)
    conf["job_parameters"]["role"] = {"guest": {"0": {"computing_engine": "SPARK"}}}
    return dsl, conf


@pytest.fixture
def submit(pair: Pair) -> Iterator[Callable[[Json, Json], str]]:
    """Submit jobs that are stopped at the end of the test."""
    made: list[str] = []

    def one(dsl: Json, conf: Json) -> str:
        made.append(pair.guest.client.submit(dsl, conf).job_id)
        return made[-1]

    yield one
    for job_id in made:
        pair.guest.client.stop(job_id)
    for job_id in made:
        pair.ends(job_id)


def free(pair: Pair) -> dict[str, int]:
    """Return what is free of each engine of the guest."""
    engines = pair.guest.client.resources.get().engines
    return {engine.name: engine.free for engine in engines}


def shown(pair: Pair) -> str:
    runner = CliRunner(env={"FEDFLOW_SERVER": pair.guest.url})
    return runner.invoke(fedflow, ["resource", "query"]).output


def test_a_server_shows_its_engines(pair: Pair) -> None:
    assert free(pair) == {"STANDALONE": 20, "SPARK": CORES}
    assert pair.guest.readiness()["spark_cores"] == {"total": CORES, "free": CORES}
    assert "spark_cores" not in pair.host.readiness()
    assert "20 of 20 cores are free.\n2 of 2 cores are free on Spark.\n" in shown(pair)
    answer = pair.guest.post("/v1/resource/query", {"engine_name": "spark"})
    assert answer["data"]["computing_engine_resource"]["f_cores"] == CORES
    answer = pair.host.post("/v1/resource/query", {"engine_name": "SPARK"})
    assert "there is no engine 'SPARK', but STANDALONE" in answer["retmsg"]


def test_a_full_cluster_makes_its_jobs_wait_and_no_others(
    pair: Pair, submit: Callable[[Json, Json], str]
) -> None:
    """The first takes the whole cluster; the second waits for it, with the numbers; the third,
    on the machine, goes.
    """
    first = submit(*on_spark({"sleep_s": 600.0}, cores=CORES))
    wait_for(lambda: free(pair)["SPARK"] == 0, "the first job's cores")
    second = submit(*on_spark({"sleep_s": 600.0}, cores=1))
    assert set(pair.ends(submit(*empty_job({}, task_cores=CORES))).values()) == {"success"}
    (waiting,) = pair.guest.client.queue(limit=9).jobs
    assert waiting.job_id == second
    assert waiting.reason is not None
    assert waiting.reason.message == (
        "waits for 1 cores on Spark at guest 9999: 0 of 2 free on Spark"
    )
    holding = [(j.job_id, j.core) for j in pair.guest.client.resources.get().jobs if j.core]
    assert (first, CORES) in holding
    (answer,) = pair.guest.post("/v1/resource/query", {"engine_name": "SPARK"})["data"][
        "use_resource_job"
    ]
    assert (answer["job_id"], answer["engine"], answer["core"]) == (first, "SPARK", CORES)
    assert ["guest", GUEST_ID, "SPARK", str(CORES), "0"] in [
        line.split()[-5:] for line in shown(pair).splitlines()
    ]
    pair.guest.client.stop(first)
    assert set(pair.ends(first).values()) == {"canceled"}
    wait_for(lambda: set(pair.shares(second).values()) == {"running"}, "the second job to run")
    (row,) = pair.guest.post("/v1/job/query", {"job_id": second, "role": "guest"})["data"]
    assert row["f_engine_name"] == "SPARK"
    (row,) = pair.host.post("/v1/job/query", {"job_id": second, "role": "host"})["data"]
    assert row["f_engine_name"] == "STANDALONE"
    tasks = pair.guest.post("/v1/job/task/query", {"job_id": second})["data"]
    engines = {task["f_role"]: task["f_engine_conf"] for task in tasks}
    assert engines == {
        "guest": {"computing_engine": "SPARK"},
        "host": {},
    }  # as the host's is its own


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"common": {"task_cores": 1, "computing_engine": "SPARK"}}, "common"),
        ({"role": {"host": {"0": {"computing_engine": "spark"}}}}, 'role.host["0"]'),
    ],
)
def test_a_party_without_a_cluster_refuses_the_submit(
    pair: Pair, parameters: dict[str, Any], path: str
) -> None:
    dsl, conf = empty_job({})
    conf["job_parameters"] = parameters
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] != 0
    said = f"$.conf.job_parameters.{path}.computing_engine: SPARK is not an engine of host 10000"
    assert said in answer["retmsg"]
    assert "fate_on_spark.spark.master" in str(answer)
    assert free(pair)["SPARK"] == CORES


def test_a_job_that_the_cluster_never_holds_is_refused_with_both_keys(pair: Pair) -> None:
    dsl, conf = on_spark({}, cores=CORES + 1)
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert "= 3 cores on Spark; guest 9999 has 2. Request less, or raise" in answer["retmsg"]
    assert "fate_on_spark.spark.cores_per_node" in answer["retmsg"]
