"""The jobs that the clients of FATE 1.x ship with, and their features, between two servers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedflow.cli.flow.main import cli as flow_cli
from fedflow.domain.site import Site
from tests.e2e.jobs import Json, example, upload_data
from tests.e2e.servers import (
    ARBITER,
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    Pair,
    two_parties,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("standard")) as pair:
        upload_data(pair)
        yield pair
        pair.wait_idle()


def run(pair: Pair, dsl: Json, conf: Json, *, status: str = "success") -> str:
    """Run a job to its end and return its id."""
    job_id = pair.guest.client.submit(dsl, conf).job_id
    ends = pair.ends(job_id)
    view = pair.guest.client.job(job_id)
    assert set(ends.values()) == {status}, (ends, view, view.reason)
    return job_id


def ask(pair: Pair, route: str, job_id: str, component: str, site: Site = GUEST) -> Json:
    """Return the answer of a tracking route about a component at a site."""
    body = {
        "job_id": job_id,
        "component_name": component,
        "role": site.role.value,
        "party_id": site.party_id,
    }
    return pair.of(site).post(f"/v1/tracking/component/{route}", body)


def summary(pair: Pair, job_id: str, component: str, site: Site = GUEST) -> Any:
    return pair.of(site).client.summary(job_id, component, site=site)


# --- toy ------------------------------------------------------------------------------------------


def test_the_toy_job_of_the_flow_client_logs_its_sum(pair: Pair, tmp_path: Path) -> None:
    step = "secure_add_example_0"
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {"guest": [GUEST_ID], "host": [HOST_ID]},
        "job_parameters": {
            "common": {"task_cores": 2},
            "role": {"guest": {"0": {"user": ""}}, "host": {"0": {"user": ""}}},
        },
        "component_parameters": {
            "role": {"guest": {"0": {step: {"seed": 123}}}, "host": {step: {"seed": 321}}},
            "common": {step: {"partition": 4, "data_num": 1000}},
        },
    }
    job_id = run(pair, {"components": {step: {"module": "SecureAddExample"}}}, conf)
    files = pair.guest.client.log_download(job_id, tmp_path)
    log = next(f for f in files if f.parts[-3:] == ("guest", GUEST_ID, "INFO.log"))
    told = [line for line in log.read_text().splitlines() if "secure_add_guest" in line]
    assert told[-1].endswith("success to calculate secure_sum, it is 2000.0")


# --- the min test ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def min_job(pair: Pair) -> str:
    """The LR job of `flow test min`, shortened."""
    dsl, conf = example(iterations=6)
    learner = conf["component_parameters"]["common"]["hetero_lr_0"]
    learner["cv_param"] = {"n_splits": 5, "shuffle": False, "random_seed": 103, "need_cv": False}
    learner["validation_freqs"] = 3
    return run(pair, dsl, conf)


def test_the_summary_has_the_auc_of_every_validation(pair: Pair, min_job: str) -> None:
    measured = summary(pair, min_job, "hetero_lr_0")["validation_metrics"]["train"]
    assert measured["auc"] == pytest.approx([0.979520, 0.974209], abs=1e-4)
    metrics = ask(pair, "metric/all", min_job, "hetero_lr_0")["data"]["train"]
    assert metrics["iteration_5"]["data"][0] == ["auc", pytest.approx(0.974209, abs=1e-4)]
    assert metrics["iteration_5"]["meta"]["metric_type"] == "EVALUATION_SUMMARY"


def test_the_first_point_of_evaluation_is_the_auc_of_the_training_rows(
    pair: Pair, min_job: str
) -> None:
    metrics = ask(pair, "metric/all", min_job, "evaluation_0")["data"]
    (name, value), *_ = metrics["train"]["hetero_lr_0"]["data"]
    assert (name, value) == ("auc", pytest.approx(0.974209, abs=1e-4))


def test_all_effective_parameters_stand_under_fates_name(pair: Pair, min_job: str) -> None:
    told = ask(pair, "parameters", min_job, "hetero_lr_0")["data"]
    assert told["module"] == "HeteroLR"
    params = told["HeteroLogisticParam"]
    assert params["max_iter"] == 6
    assert params["decay_sqrt"] is True
    assert params["encrypt_param"]["key_length"] == 1024
    assert params["init_param"]["fit_intercept"] is True
    assert "IntersectParam" in ask(pair, "parameters", min_job, "intersection_0")["data"]


def test_the_model_is_shown_with_fates_field_names(pair: Pair, min_job: str) -> None:
    answer = ask(pair, "output/model", min_job, "hetero_lr_0")
    model, meta = answer["data"], answer["meta"]
    assert model["iters"] == 6
    assert sorted(model["weight"]) == sorted(model["header"])
    assert {"intercept", "lossHistory", "isConverged", "needOneVsRest", "bestIteration"} <= {*model}
    assert meta["meta_data"]["maxIter"] == 6
    arbiter = ask(pair, "output/model", min_job, "hetero_lr_0", ARBITER)["data"]
    assert arbiter["weight"] == {}
    assert len(arbiter["lossHistory"]) == 6


def flow(pair: Pair, tmp_path: Path, *words: object) -> Result:
    """Run fedflow's own `flow` for the guest's server."""
    keys = {"FEDFLOW_APP_KEY": "", "FEDFLOW_SECRET_KEY": ""}
    env = {"FEDFLOW_SERVER": pair.guest.url, "XDG_CONFIG_HOME": str(tmp_path), **keys}
    return CliRunner(env=env).invoke(flow_cli, [str(word) for word in words])


MIN = ("test", "min", "-gid", GUEST_ID, "-hid", HOST_ID, "-aid", HOST_ID)


def test_the_min_test_trains_predicts_and_compares_both_models(pair: Pair, tmp_path: Path) -> None:
    result = flow(pair, tmp_path, *MIN)
    assert result.exit_code == 0, result.output
    measured = dict(re.findall(r"^(\w+) (?:prediction )?auc: (0\.\d+)", result.output, re.M))
    assert set(measured) == {"HeteroLR", "HeteroSecureBoost"}
    assert result.output.count("as expected") == 2
    assert result.output.count("is success") == 4


def test_the_min_test_says_whose_table_is_missing(pair: Pair, tmp_path: Path) -> None:
    result = flow(pair, tmp_path, *MIN, "-t", "normal")
    assert result.exit_code == 1
    assert f"No table experiment.default_credit_hetero_guest at party {GUEST_ID}" in result.output
    data = DATA / "breast_hetero_guest.csv"
    assert pair.guest.upload(data, "default_credit_hetero_guest").succeeded
    result = flow(pair, tmp_path, *MIN, "-t", "normal")
    assert result.exit_code == 1
    assert f"experiment.default_credit_hetero_host at party {HOST_ID}" in result.output
    assert f"host {HOST_ID}: No table" in result.output  # other parties are not told its name


# --- going on within a job ------------------------------------------------------------------------


def test_a_second_learner_goes_on_where_the_first_ended(pair: Pair, min_job: str) -> None:
    dsl, conf = example(iterations=4)
    components, common = dsl["components"], conf["component_parameters"]["common"]
    components["hetero_lr_1"] = {
        "module": "HeteroLR",
        "input": {
            "data": {"train_data": ["intersection_0.data"]},
            "model": ["hetero_lr_0.model"],
        },
        "output": {"data": ["data"], "model": ["model"]},
    }
    common["hetero_lr_1"] = {**common["hetero_lr_0"], "max_iter": 6}
    job_id = run(pair, dsl, conf)
    for site in (GUEST, HOST):
        whole = pair.of(site).client.model(min_job, "hetero_lr_0", site=site)
        parts = pair.of(site).client.model(job_id, "hetero_lr_1", site=site)
        assert whole is not None
        assert parts is not None
        for name, weight in whole.param["weight"].items():
            assert parts.param["weight"][name] == pytest.approx(weight, rel=1e-5, abs=1e-5)
    metrics = ask(pair, "metric/all", job_id, "hetero_lr_1")["data"]
    assert metrics["train"]["init_iter"]["data"] == [["init_iter", 4]]


# --- caches ---------------------------------------------------------------------------------------


def cache_job(*, loads: Json | None) -> tuple[Json, Json]:
    """Return a job that makes a cache, or one that loads it."""
    dsl, conf = example()
    components, common = dsl["components"], conf["component_parameters"]["common"]
    for name in ("hetero_lr_0", "evaluation_0"):
        del components[name], common[name]
    conf["role"].pop("arbiter")
    if loads is None:
        common["intersection_0"]["run_cache"] = True
        return dsl, conf
    components["cache_loader_0"] = {"module": "CacheLoader", "output": {"cache": ["cache"]}}
    components["intersection_0"]["input"]["cache"] = ["cache_loader_0.cache"]
    common["cache_loader_0"] = loads
    return dsl, conf


def test_a_later_job_intersects_with_the_cache_of_an_earlier_one(pair: Pair) -> None:
    making = run(pair, *cache_job(loads=None))
    assert ask(pair, "output/data", making, "intersection_0").get("data") in ([], None)
    for site in (GUEST, HOST):
        told = ask(pair, "metric/all", making, "intersection_0", site)["data"]
        assert told["train"]["intersection_cache_meta"]["meta"]["rows"] == {HOST.key: 569}
        assert told["cache"]["cache"]["meta"]["metric_type"] == "cache_info"
    loads = {"job_id": making, "component_name": "intersection_0", "cache_name": "cache"}
    using = run(pair, *cache_job(loads=loads))
    for site in (GUEST, HOST):
        assert summary(pair, using, "intersection_0", site)["intersect_num"] == 569


def test_a_cache_is_also_found_by_the_key_that_each_party_was_told(pair: Pair) -> None:
    making = run(pair, *cache_job(loads=None))
    dsl, conf = cache_job(loads={})
    del conf["component_parameters"]["common"]["cache_loader_0"]
    for site in (GUEST, HOST):
        told = ask(pair, "metric/all", making, "intersection_0", site)["data"]
        key = told["cache"]["cache"]["meta"]["cache_key"]
        own = conf["component_parameters"]["role"][site.role.value]["0"]
        own["cache_loader_0"] = {"cache_key": key}
    using = run(pair, dsl, conf)
    assert summary(pair, using, "intersection_0")["intersect_num"] == 569


def test_a_cache_that_does_not_exist_fails_the_job_with_its_reason(pair: Pair) -> None:
    loads = {"job_id": "202001010000000000000", "component_name": "intersection_0"}
    job_id = run(pair, *cache_job(loads=loads), status="failed")
    reason = pair.guest.client.job(job_id).reason
    assert "exactly one is needed" in str(reason)


def test_cleaning_a_job_deletes_its_cache_for_good(pair: Pair) -> None:
    making = run(pair, *cache_job(loads=None))
    loads = {"job_id": making, "component_name": "intersection_0"}
    loading = run(pair, *cache_job(loads=loads))
    for party in pair.all:
        cleaned = party.post("/v1/job/clean", {"job_id": making})
        assert cleaned["retcode"] == 0, cleaned
    for gone in (making, loading):
        component = "intersection_0" if gone == making else "cache_loader_0"
        loads = {"job_id": gone, "component_name": component}
        job_id = run(pair, *cache_job(loads=loads), status="failed")
        assert "exactly one is needed" in str(pair.guest.client.job(job_id).reason)


# --- checkpoints ----------------------------------------------------------------------------------


def test_the_checkpoints_of_a_training_are_listed_and_loaded(pair: Pair) -> None:
    dsl, conf = example(iterations=4)
    common = conf["component_parameters"]["common"]
    common["hetero_lr_0"]["callback_param"] = {"callbacks": ["ModelCheckpoint"], "save_freq": 2}
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    model, job_id = dict(answer["data"]["model_info"]), answer["jobId"]
    pair.ends(job_id)
    for site in (GUEST, HOST, ARBITER):
        body = {**model, "role": site.role.value, "party_id": site.party_id}
        body["component_name"] = "hetero_lr_0"
        steps = pair.of(site).post("/v1/checkpoint/list", body)["data"]
        assert [(s["step_index"], s["step_name"]) for s in steps] == [
            (1, "round_1"),
            (3, "round_3"),
        ]
    dsl["components"]["model_loader_0"] = {"module": "ModelLoader", "output": {"model": ["model"]}}
    dsl["components"]["hetero_lr_0"]["input"]["model"] = ["model_loader_0.model"]
    common["model_loader_0"] = {**model, "component_name": "hetero_lr_0", "step_index": 1}
    del common["hetero_lr_0"]["callback_param"]
    again = run(pair, dsl, conf)
    for site in (GUEST, HOST):
        whole = pair.of(site).client.model(job_id, "hetero_lr_0", site=site)
        parts = pair.of(site).client.model(again, "hetero_lr_0", site=site)
        assert whole is not None
        assert parts is not None
        for name, weight in whole.param["weight"].items():
            assert parts.param["weight"][name] == pytest.approx(weight, rel=1e-5, abs=1e-5)


def test_a_repeated_attempt_goes_on_from_the_checkpoints_of_all_sites(pair: Pair) -> None:
    dsl, conf = example(iterations=12)
    conf["job_parameters"]["common"]["auto_retries"] = 1
    learner = conf["component_parameters"]["common"]["hetero_lr_0"]
    learner["callback_param"] = {"callbacks": ["ModelCheckpoint"]}
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    model, job_id = dict(answer["data"]["model_info"]), answer["jobId"]

    def steps(site: Site) -> int:
        body = {**model, "role": site.role.value, "party_id": site.party_id}
        found = pair.of(site).post("/v1/checkpoint/list", {**body, "component_name": "hetero_lr_0"})
        return len(found.get("data") or ())

    sites = (GUEST, HOST, ARBITER)
    wait_for(lambda: min(map(steps, sites)) >= 3 or None, "three checkpoints everywhere")
    os.kill(pair.host.wait_executor(job_id, component="hetero_lr_0", site=HOST), signal.SIGKILL)
    assert set(pair.ends(job_id).values()) == {"success"}
    metrics = ask(pair, "metric/all", job_id, "hetero_lr_0", ARBITER)["data"]
    first, *_, last = (iteration for iteration, _ in metrics["train"]["loss"]["data"])
    assert 3 <= first <= last == 11
    share = pair.host.client.model(job_id, "hetero_lr_0", site=ARBITER)
    assert share is not None
    assert len(share.param["lossHistory"]) == 12
