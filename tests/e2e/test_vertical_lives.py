"""Vertical tasks whose processes are killed or stopped in the middle of long work."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from random import Random
from typing import Any

import psutil
import pytest

from fedflow.domain.site import Site
from tests.e2e.jobs import Json
from tests.e2e.pipelines import Step, attempts, pipeline, stored_steps, submitted, transform
from tests.e2e.servers import (
    ARBITER,
    GUEST,
    HOST,
    QUICK,
    Pair,
    pass_time,
    two_parties,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TABLES = {"many": 30_000, "few": 150}  #: rows
KEY = {"encrypt_param": {"method": "Paillier", "key_length": 1024}}
LONG = {"intersect_method": "rsa", "rsa_params": {"key_length": 2048}}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("lives")
    with two_parties(folder, settings=QUICK) as pair:
        for name, rows in TABLES.items():
            for party in pair.all:
                path = folder / f"{name}-{party.place.party_id}.csv"
                path.write_text(table_of(rows, labels=party is pair.guest))
                assert party.upload(path, name).succeeded
        yield pair


def table_of(rows: int, *, labels: bool) -> str:
    """Return a table with two features."""
    draw = Random(5 + labels)
    lines = [f"id,{'y,' if labels else ''}x0,x1"]
    for i in range(rows):
        label = f"{draw.randrange(2)}," if labels else ""
        lines.append(f"{i},{label}{draw.uniform(-1, 1):.4f},{draw.uniform(-1, 1):.4f}")
    return "\n".join(lines)


def read(name: str) -> dict[str, Step]:
    """Return the steps that read the two parties' tables of a name."""
    table = {"table": {"name": name, "namespace": "experiment"}}
    return {
        "reader_0": Step(module="Reader", guest=table, host=table),
        "data_transform_0": transform(),
    }


def submit(pair: Pair, steps: dict[str, Step], *, arbiter: bool = False, **common: Any) -> Json:
    """Submit a job; return its id as `job_id`, and the names of its model."""
    dsl, conf = pipeline(steps, arbiter=arbiter)
    conf["job_parameters"]["common"].update(common)
    return submitted(pair, dsl, conf)


# --- a training goes on ---------------------------------------------------------------------------


LEARNS: Json = {
    "batch_size": -1,
    "learning_rate": 0.1,
    "early_stop": "weight_diff",
    "tol": 1e-12,
    "init_param": {"init_method": "zeros"},
    "callback_param": {"callbacks": ["ModelCheckpoint"]},
    **KEY,
}


@pytest.mark.parametrize(
    ("module", "iterations", "killed", "sites"),
    [("HeteroLinR", 15, HOST, (GUEST, HOST, ARBITER)), ("HeteroSSHELR", 6, GUEST, (GUEST, HOST))],
)
def test_a_killed_training_goes_on_and_ends_as_one_that_was_not(
    pair: Pair, module: str, iterations: int, killed: Site, sites: tuple[Site, ...]
) -> None:
    learner = Step(
        module=module,
        data={"train_data": ["intersection_0.data"]},
        params={**LEARNS, "max_iter": iterations},
    )
    job = submit(
        pair,
        {
            **read("few"),
            "intersection_0": Step(module="Intersection", data={"data": ["data_transform_0.data"]}),
            "learner_0": learner,
            "learner_1": learner,
        },
        arbiter=ARBITER in sites,
        auto_retries=1,
        auto_retry_delay=0,
        task_parallelism=1,
        task_cores=1,
    )

    def steps(site: Site) -> int:
        return len(stored_steps(pair, job, "learner_0", site))

    wait_for(lambda: min(map(steps, sites)) >= 2, "two checkpoints everywhere", within_s=120)
    victim = pair.of(killed).wait_executor(job["job_id"], component="learner_0", site=killed)
    os.kill(victim, signal.SIGKILL)
    assert set(pair.ends(job["job_id"], within_s=120).values()) == {"success"}
    versions = attempts(pair, job["job_id"])
    assert (versions["learner_0"], versions["learner_1"]) == (1, 0)
    assert first_iteration(pair, job["job_id"], "learner_0", sites) >= 2
    assert first_iteration(pair, job["job_id"], "learner_1", sites) == 0
    for site in sites:
        again, whole = (
            pair.of(site).client.model(job["job_id"], name, site=site)
            for name in ("learner_0", "learner_1")
        )
        assert again is not None
        assert whole is not None
        if module == "HeteroLinR":
            assert again.param == whole.param, "bit for bit"
            continue
        if site is GUEST:
            assert len(again.param["lossHistory"]) == iterations
            assert again.param["lossHistory"] == pytest.approx(whole.param["lossHistory"], abs=1e-6)
        assert again.param["weight"].keys() == whole.param["weight"].keys()
        for name, weight in whole.param["weight"].items():
            assert again.param["weight"][name] == pytest.approx(weight, abs=1e-5)


TREES: Json = {
    "num_trees": 12,
    "tree_param": {"max_depth": 3},
    "subsample_feature_rate": 0.5,
    "run_goss": True,
    "random_seed": 7,
    "n_iter_no_change": False,
    "callback_param": {"callbacks": ["ModelCheckpoint"]},
    **KEY,
}


def test_boosted_trees_go_on_after_each_kill_and_end_as_those_that_were_not(pair: Pair) -> None:
    """Three kills in one job: each attempt begins with the last round that both have stored."""
    trainer = Step(
        module="HeteroSecureBoost", data={"train_data": ["intersection_0.data"]}, params=TREES
    )
    job = submit(
        pair,
        {
            **read("few"),
            "intersection_0": Step(module="Intersection", data={"data": ["data_transform_0.data"]}),
            "trees_0": trainer,
            "trees_1": trainer,
        },
        auto_retries=3,
        auto_retry_delay=0,
        task_parallelism=1,
        task_cores=1,
    )
    sites = (GUEST, HOST)
    seen = 0
    for killed, after_s in ((GUEST, 0.0), (HOST, 0.06), (GUEST, 0.12)):
        before = seen
        wait_for(lambda: rounds(pair, job) > before, "another round", within_s=120)  # noqa: B023
        pass_time(after_s)
        seen = rounds(pair, job)
        victim = pair.of(killed).wait_executor(job["job_id"], component="trees_0", site=killed)
        os.kill(victim, signal.SIGKILL)
    assert set(pair.ends(job["job_id"], within_s=120).values()) == {"success"}
    versions = attempts(pair, job["job_id"])
    assert (versions["trees_0"], versions["trees_1"]) == (3, 0)
    assert seen <= first_iteration(pair, job["job_id"], "trees_0", sites) < TREES["num_trees"]
    assert first_iteration(pair, job["job_id"], "trees_1", sites) == 0
    for site in sites:
        again, whole = (
            pair.of(site).client.model(job["job_id"], name, site=site)
            for name in ("trees_0", "trees_1")
        )
        assert again is not None
        assert whole is not None
        assert again.param["treeNum"] == TREES["num_trees"]
        assert again.param == whole.param, "bit for bit"
        assert again.meta == whole.meta


def rounds(pair: Pair, job: Json) -> int:
    """Return the rounds of `trees_0` that both parties have stored."""
    return min(
        1 + max(stored_steps(pair, job, "trees_0", site), default=-1) for site in (GUEST, HOST)
    )


def first_iteration(pair: Pair, job_id: str, component: str, sites: tuple[Site, ...]) -> int:
    """Return the first iteration of which a component's last attempt recorded a loss."""
    site = ARBITER if ARBITER in sites else GUEST
    share = {"role": site.role.value, "party_id": site.party_id, "component_name": component}
    found = pair.of(site).post("/v1/tracking/component/metric/all", {"job_id": job_id, **share})
    return int(found["data"]["train"]["loss"]["data"][0][0])


# --- work of several processes is ended -----------------------------------------------------------


INTERSECTS = Step(module="Intersection", data={"data": ["data_transform_0.data"]}, params=LONG)
BINS = {
    "intersection_0": Step(module="Intersection", data={"data": ["data_transform_0.data"]}),
    "binning_0": Step(
        module="HeteroFeatureBinning",
        data={"data": ["intersection_0.data"]},
        params={"encrypt_param": {"method": "Paillier", "key_length": 2048}},
    ),
}


def wait_pool(pair: Pair, job_id: str, component: str) -> tuple[Site, list[int]]:
    """Return the site of a component whose worker has started others, and all their pids."""

    def look() -> tuple[Site, list[int]] | None:
        for site in (GUEST, HOST):
            pids = pair.of(site).executors(job_id, component=component, site=site)
            if len(pids) > 1:
                return site, pids
        return None

    return wait_for(look, f"processes of {component}")


@pytest.mark.parametrize(
    ("steps", "component"),
    [({"intersection_0": INTERSECTS}, "intersection_0"), (BINS, "binning_0")],
    ids=["intersection", "binning"],
)
def test_a_stop_in_the_middle_of_long_work_leaves_no_process(
    pair: Pair, steps: dict[str, Step], component: str
) -> None:
    job_id = submit(pair, {**read("many"), **steps}, task_cores=2, task_parallelism=1)["job_id"]
    _, pids = wait_pool(pair, job_id, component)
    pair.host.client.stop(job_id)
    assert set(pair.ends(job_id).values()) == {"canceled"}
    pair.wait_idle()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_timeout_in_the_middle_of_long_work_leaves_no_process(pair: Pair) -> None:
    job_id = submit(
        pair,
        {**read("many"), "intersection_0": INTERSECTS},
        task_cores=2,
        task_parallelism=1,
        task_conf={"intersection_0": {"timeout": 3}},
    )["job_id"]
    _, pids = wait_pool(pair, job_id, "intersection_0")
    assert set(pair.ends(job_id).values()) == {"timeout"}
    pair.wait_idle()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert {view.reason.code for view in pair.views(job_id)} == {"TaskTimedOut"}


def test_processes_of_a_worker_that_is_killed_end_with_it(pair: Pair) -> None:
    steps = {**read("many"), "intersection_0": INTERSECTS}
    job_id = submit(pair, steps, task_cores=2, task_parallelism=1)["job_id"]
    site, pids = wait_pool(pair, job_id, "intersection_0")
    worker = next(pid for pid in pids if os.getpgid(pid) == pid)
    os.kill(worker, signal.SIGKILL)
    assert set(pair.ends(job_id).values()) == {"failed"}
    pair.wait_idle()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    reasons = [view.reason for view in pair.views(job_id)]
    assert {(r.code, r.site) for r in reasons} == {("ExecutorDied", site.key)}
