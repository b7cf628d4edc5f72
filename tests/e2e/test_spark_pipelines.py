"""Pipelines on a real Spark cluster: the results of one machine, and its faults."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fedflow.domain.site import Site
from tests.e2e.jobs import HORIZONTAL_NAMES, Json, upload_data
from tests.e2e.pipelines import Step, pipeline, reader, transform
from tests.e2e.servers import GUEST, HOST, Pair, two_parties, wait_for
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

KEY = {"encrypt_param": {"method": "Paillier", "key_length": 1024}}
STEPS: dict[str, Step] = {
    "reader_0": reader(),
    "data_transform_0": transform(),
    "intersection_0": Step(module="Intersection", data={"data": ["data_transform_0.data"]}),
    "statistic_0": Step(module="DataStatistics", data={"data": ["intersection_0.data"]}),
    "binning_0": Step(
        module="HeteroFeatureBinning",
        data={"data": ["intersection_0.data"]},
        params={"bin_num": 5, "transform_param": {"transform_type": None}, **KEY},
    ),
    "selection_0": Step(
        module="HeteroFeatureSelection",
        data={"data": ["intersection_0.data"]},
        isometric=["binning_0.model", "statistic_0.model"],
        params={
            "filter_methods": ["iv_filter", "statistic_filter"],
            "iv_param": {"metrics": "iv", "filter_type": "threshold", "threshold": 0.1},
            "statistic_param": {
                "metrics": "coefficient_of_variance",
                "filter_type": "threshold",
                "threshold": 0.1,
            },
        },
    ),
    "hetero_lr_0": Step(
        module="HeteroLR",
        data={"train_data": ["selection_0.data"]},
        params={
            "optimizer": "rmsprop",
            "alpha": 0.01,
            "max_iter": 3,
            "batch_size": 320,
            "shuffle": False,
            "masked_rate": 0,
            "learning_rate": 0.15,
            "init_param": {"init_method": "zeros"},
            "early_stop": "weight_diff",
            **KEY,
        },
    ),
    "trees_0": Step(
        module="HeteroSecureBoost",
        data={"train_data": ["intersection_0.data"]},
        params={"num_trees": 1, "tree_param": {"max_depth": 2}, **KEY},
    ),
    "clusters_0": Step(
        module="HeteroKmeans",
        data={"train_data": ["intersection_0.data"]},
        out=("data_0", "data_1"),
        params={"k": 2, "max_iter": 2, "random_stat": 4},
    ),
    "evaluation_0": Step(module="Evaluation", data={"data": ["hetero_lr_0.data"]}),
}
SHORT: dict[str, Step] = {  # what has jobs on Spark, with as few of them as a model needs
    **{name: STEPS[name] for name in ("reader_0", "data_transform_0", "intersection_0")},
    "binning_0": STEPS["binning_0"],
    "hetero_lr_0": replace(
        STEPS["hetero_lr_0"],
        data={"train_data": ["intersection_0.data"]},
        params={**STEPS["hetero_lr_0"].params, "max_iter": 1, "batch_size": -1},
    ),
    **{name: STEPS[name] for name in ("trees_0", "clusters_0")},
    "evaluation_0": STEPS["evaluation_0"],
}

HORIZONTAL: dict[str, Step] = {
    "reader_0": reader(HORIZONTAL_NAMES),
    "data_transform_0": Step(
        module="DataTransform",
        data={"data": ["reader_0.data"]},
        params={"with_label": True, "label_name": "y"},
    ),
    "binning_0": Step(
        module="HomoFeatureBinning",
        data={"data": ["data_transform_0.data"]},
        params={"bin_num": 5, "method": "recursive_query"},
    ),
    "one_hot_0": Step(
        module="HomoOneHotEncoder",
        data={"data": ["binning_0.data"]},
        params={"transform_col_indexes": [0, 1]},
    ),
    "homo_lr_0": Step(
        module="HomoLR",
        data={"train_data": ["one_hot_0.data"]},
        params={
            "optimizer": "sgd",
            "max_iter": 3,
            "batch_size": 64,
            "learning_rate": 0.1,
            "init_param": {"init_method": "zeros"},
        },
    ),
    "evaluation_0": Step(module="Evaluation", data={"data": ["homo_lr_0.data"]}),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, spark_cluster: SparkCluster) -> Iterator[Pair]:
    spark = "FEDFLOW__FATE_ON_SPARK__SPARK__"
    settings = {  # also the least work goes to the workers
        f"{spark}MASTER": spark_cluster.master,
        f"{spark}SMALL_ROWS": "0",
        f"{spark}SMALL_WORK_S": "0",
    }
    with two_parties(tmp_path_factory.mktemp("spark_parties"), settings=settings) as pair:
        upload_data(pair)
        yield pair
        pair.wait_idle()


def submit(pair: Pair, steps: dict[str, Step], on_spark: tuple[Site, ...]) -> str:
    """Return the id of a job whose shares at `on_spark` divide the two workers among them."""
    dsl, conf = pipeline(
        copy.deepcopy(steps), arbiter=bool({"hetero_lr_0", "homo_lr_0"} & set(steps))
    )
    executors = 2 // max(1, len(on_spark))
    options = {"num-executors": executors, "executor-cores": 1, "executor-memory": "512m"}
    engine = {"computing_engine": "SPARK", "spark_run": options}
    conf["job_parameters"]["role"] = {site.role.value: {"0": engine} for site in on_spark}
    return pair.guest.client.submit(dsl, conf).job_id


def run(pair: Pair, on_spark: tuple[Site, ...], steps: dict[str, Step]) -> str:
    job_id = submit(pair, steps, on_spark)
    ends = pair.ends(job_id, within_s=400)
    view = pair.guest.client.job(job_id)
    assert set(ends.values()) == {"success"}, (ends, view, view.reason)
    return job_id


def results(pair: Pair, job_id: str, steps: dict[str, Step] = STEPS) -> Json:
    """Return summaries and models of all components at both sites."""
    found: Json = {}
    for site in (GUEST, HOST):
        for component in steps:
            which = {
                "job_id": job_id,
                "component_name": component,
                "role": site.role.value,
                "party_id": site.party_id,
            }
            party, path = pair.of(site), "/v1/tracking/component"
            found[f"{site} {component}"] = {
                "summary": party.post(f"{path}/summary/download", which).get("data"),
                "model": party.post(f"{path}/output/model", which).get("data"),
            }
    return found


def spark_jobs(pair: Pair, job_id: str, component: str, *, site: Site = GUEST) -> int:
    """Return how many jobs Spark has begun for a site's share of a task, as far as told."""
    found = pair.of(site).client.metrics(job_id, component, site=site)
    points = [m.points for m in found if (m.namespace, m.name) == ("spark", "stages")]
    return max((value["jobs"] for _, value in points[0]), default=0) if points else 0


def differences(left: Any, right: Any, path: str = "") -> list[str]:
    """Return where two results differ by more than rounding of the last digits."""
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return [f"{path}: {sorted(left)} and {sorted(right)}"]
        return [d for k in left for d in differences(left[k], right[k], f"{path}.{k}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [d for i, x in enumerate(left) for d in differences(x, right[i], f"{path}[{i}]")]
    if isinstance(left, float) and isinstance(right, float):
        return (
            [] if left == pytest.approx(right, rel=1e-9, abs=1e-12) else [f"{path}: {left} {right}"]
        )
    return [] if left == right else [f"{path}: {left!r} and {right!r}"]


@pytest.fixture(scope="module")
def local(pair: Pair) -> Json:
    """Return what the pipeline gives when both parties compute on their machines."""
    return results(pair, run(pair, (), STEPS))


def test_the_least_that_a_model_needs_has_the_results_of_local_engines(pair: Pair) -> None:
    alone = results(pair, run(pair, (), SHORT), SHORT)
    job_id = run(pair, (GUEST,), SHORT)
    assert differences(alone, results(pair, job_id, SHORT)) == []
    for component in ("data_transform_0", "intersection_0", "binning_0", "hetero_lr_0", "trees_0"):
        assert spark_jobs(pair, job_id, component) > 0, component
    assert alone[f"{GUEST} evaluation_0"]["summary"]["hetero_lr_0"]["train"]["auc"] > 0.9


@pytest.mark.heavy
def test_a_guest_on_spark_and_a_host_on_its_machine_get_the_results_of_local_engines(
    pair: Pair, local: Json
) -> None:
    job_id = run(pair, (GUEST,), STEPS)
    assert differences(local, results(pair, job_id)) == []
    assert local[f"{GUEST} evaluation_0"]["summary"]["hetero_lr_0"]["train"]["auc"] > 0.95


@pytest.mark.heavy
def test_both_parties_on_spark_get_the_results_of_local_engines(pair: Pair, local: Json) -> None:
    job_id = run(pair, (GUEST, HOST), STEPS)
    assert differences(local, results(pair, job_id)) == []
    assert spark_jobs(pair, job_id, "trees_0", site=HOST) > 0


@pytest.mark.heavy
def test_a_horizontal_job_with_one_party_on_spark_has_the_results_of_local_engines(
    pair: Pair,
) -> None:
    upload_data(pair, HORIZONTAL_NAMES)
    alone = results(pair, run(pair, (), HORIZONTAL), HORIZONTAL)
    job_id = run(pair, (GUEST,), HORIZONTAL)
    assert differences(alone, results(pair, job_id, HORIZONTAL)) == []
    for component in ("data_transform_0", "binning_0", "one_hot_0"):
        assert spark_jobs(pair, job_id, component) > 0, component
    assert alone[f"{GUEST} evaluation_0"]["summary"]["homo_lr_0"]["train"]["auc"] > 0.9


@pytest.mark.heavy
def test_a_spark_worker_that_dies_costs_a_retry_and_not_the_job(
    pair: Pair, local: Json, spark_cluster: SparkCluster
) -> None:
    job_id = submit(pair, STEPS, (GUEST,))
    pair.guest.wait_executor(job_id, component="hetero_lr_0", site=GUEST, within_s=180)
    wait_for(lambda: spark_jobs(pair, job_id, "hetero_lr_0") > 0, "a Spark job", within_s=240)
    spark_cluster.kill(spark_cluster.workers[0])
    try:
        ends = pair.ends(job_id, within_s=400)
    finally:
        spark_cluster.heal()
    assert set(ends.values()) == {"success"}, pair.views(job_id)
    assert differences(local, results(pair, job_id)) == []


def test_a_stopped_job_leaves_no_application_on_the_cluster(
    pair: Pair, spark_cluster: SparkCluster
) -> None:
    job_id = submit(pair, STEPS, (GUEST,))
    wait_for(spark_cluster.executors, "an executor", within_s=240)
    pair.guest.client.stop(job_id)
    ends = pair.ends(job_id, within_s=240)
    assert set(ends.values()) == {"canceled"}
    wait_for(lambda: not spark_cluster.executors(), "the end of all executors", within_s=240)
    pair.wait_idle()
