"""Predict jobs: what they run, and what makes a site refuse them before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.deployment import DeployRequest
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.errors.models import BranchNotFound, ModelNotDeployed, ModelNotFound
from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.models.history import Author, BranchKey, Move, MoveKind
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from fedflow.wire.api.job_lists import JobQueryRow
from fedflow.wire.fields import job_row
from tests.unit.app.fakes import GUEST, HOST
from tests.unit.app.models_world import (
    CONF,
    MODEL_ID,
    TRAINED,
    Pair,
    make_pair,
    put_model,
    trained_share,
)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = make_pair(tmp_path)
    pair.live()
    return pair


def deploy(pair: Pair, **changes: Any) -> str:
    """Return the version that a deploy of reader and first step makes."""
    asked: dict[str, Any] = {
        "model_id": MODEL_ID,
        "model_version": TRAINED,
        "components": ["reader_0", "step_0"],
        **changes,
    }
    done = pair.guest.core.deployment.deploy(DeployRequest(**asked))
    assert done.outcome.done
    return done.model_version


def predict_conf(version: str, **changes: Any) -> dict[str, Any]:
    """Return the conf of a predict job as clients send it: little more than the model's name."""
    common = {"job_type": "predict", "model_id": MODEL_ID, "model_version": version}
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {"common": common},
        **changes,
    }


def submit(pair: Pair, conf: dict[str, Any], dsl: Any = None) -> str:
    return pair.guest.core.submissions.submit(dsl, conf).job_id


def run_first_task(pair: Pair, job_id: str, component: str, site: Site) -> TaskKey:
    """Let the share of a task that was started end well."""
    key = TaskKey(job_id=job_id, component=component, version=0, site=site)
    pair.server(site).report(key, "running", pid=1, start_time=1)
    pair.server(site).report(key, "success")
    return key


# --- what runs ------------------------------------------------------------------------------------


def test_a_predict_job_runs_the_stored_dsl_with_both_confs(pair: Pair) -> None:
    version = deploy(pair)
    other = {"components": {"a": {"module": "Step"}}}
    conf = predict_conf(version, component_parameters={"common": {"step_0": {"threshold": 0.7}}})
    for dsl in (None, {}, other):
        job_id = submit(pair, conf, dsl)
        for site in (GUEST, HOST):
            job = pair.server(site).job(job_id, site)
            child = pair.share(site, version)
            assert job.dsl == child.inference_dsl
            assert job.train_conf == child.train_conf
            assert job.conf["component_parameters"]["common"]["step_0"] == {
                "depth": 3,
                "threshold": 0.7,
            }
            row = job_row(job, JobQueryRow)
            assert row.train_runtime_conf == own_conf(
                child.train_conf, site, job.roles, is_initiator=job.is_initiator
            )
            assert row.runtime_conf["job_parameters"]["common"]["job_type"] == "predict"


def test_the_answer_of_a_submit_names_the_deployed_model(pair: Pair) -> None:
    version = deploy(pair)
    done = pair.guest.core.submissions.submit(None, predict_conf(version))
    assert (done.model_id, done.model_version) == (MODEL_ID, version)


def test_model_and_type_may_stand_beside_common_as_old_clients_write_them(pair: Pair) -> None:
    version = deploy(pair)
    beside = {"job_type": "predict", "model_id": MODEL_ID, "model_version": version}
    job_id = submit(pair, predict_conf(version, job_parameters=beside))
    assert pair.host.job(job_id).train_conf


def test_each_site_gives_a_component_its_own_share_of_the_model(pair: Pair) -> None:
    job_id = submit(pair, predict_conf(deploy(pair)))
    for site in (GUEST, HOST):
        run_first_task(pair, job_id, "reader_0", site)
    pair.work()
    for site in (GUEST, HOST):
        launch = pair.server(site).executor.started[-1]
        assert launch.task.component == "step_0"
        inputs = json.loads(launch.spec_path.read_text())["inputs"]
        assert inputs["model"] == {
            "step_0": {
                "meta_name": "StepMeta",
                "param_name": "StepParam",
                "meta": {"step": 0},
                "param": {"header": ["x0"], "site": site.key, "step": 0},
            }
        }


def test_a_predict_job_leaves_the_stored_models_alone(pair: Pair) -> None:
    version = deploy(pair)
    before = {v: pair.components(HOST, v) for v in (version, TRAINED)}
    job_id = submit(pair, predict_conf(version))
    for component in ("reader_0", "step_0"):
        for site in (GUEST, HOST):
            key = TaskKey(job_id=job_id, component=component, version=0, site=site)
            server = pair.server(site)
            server.report(key, "running", pid=1, start_time=1)
            model = {"alias": "model", "meta_name": "M", "param_name": "P", "meta": {}, "param": {}}
            server.report(key, "success", model=model)
        pair.work()
    assert pair.host.job(job_id).status is JobStatus.SUCCESS
    assert pair.versions(HOST, unready=True) == [TRAINED, version]
    assert {v: pair.components(HOST, v) for v in (version, TRAINED)} == before


def test_a_component_that_wrote_no_model_at_a_site_gets_none_there(pair: Pair) -> None:
    put_model(pair.host, trained_share(HOST))
    with pair.host.store.transaction() as tx:
        tx.models.drop(trained_share(HOST).key)
    put_model(pair.host, trained_share(HOST), steps=(1,))
    job_id = submit(pair, predict_conf(deploy(pair)))
    for site in (GUEST, HOST):
        run_first_task(pair, job_id, "reader_0", site)
    pair.work()
    launch = pair.host.executor.started[-1]
    assert launch.task.component == "step_0"
    assert json.loads(launch.spec_path.read_text())["inputs"]["model"] == {}


def test_a_model_that_is_damaged_after_the_create_fails_its_task(pair: Pair) -> None:
    version = deploy(pair)
    job_id = submit(pair, predict_conf(version))
    pair.host.blobs.damage(pair.components(HOST, version)[0].param.sha256)
    for site in (GUEST, HOST):
        run_first_task(pair, job_id, "reader_0", site)
    pair.work()
    job = pair.host.job(job_id)
    assert job.status is JobStatus.FAILED
    task = pair.host.task(TaskKey(job_id=job_id, component="step_0", version=0, site=HOST))
    assert task.reason is not None
    assert task.reason.code == "ModelDamaged"


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"model_version": TRAINED}, ModelNotDeployed, "not deployed"),
        ({"model_version": "1"}, ModelNotFound, "version 1 of guest 9999"),
        ({"model_id": "guest-1#model"}, ModelNotFound, "guest-1#model"),
        ({"model_id": None}, InvalidJobSpec, "model_id"),
        ({"model_version": ["1"]}, InvalidJobSpec, "model_version"),
    ],
)
def test_a_model_that_cannot_predict_is_refused_at_the_submit(
    pair: Pair, changes: dict[str, Any], error: type[FedflowError], words: str
) -> None:
    common = {**predict_conf(deploy(pair))["job_parameters"]["common"], **changes}
    with pytest.raises(error, match=words):
        submit(pair, predict_conf("", job_parameters={"common": common}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"role": {"guest": [9999], "host": [10001]}}, "UnknownParty"),
        ({"role": None}, "RoleError"),
        ({"initiator": None}, "InitiatorError"),
    ],
)
def test_parties_that_have_no_share_are_refused_at_the_submit(
    pair: Pair, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidJobSpec, match=words):
        submit(pair, predict_conf(deploy(pair), **changes))


def refused(pair: Pair, version: str, words: str) -> None:
    """A submit is refused at the host, and no task is started anywhere."""
    with pytest.raises(SubmitRefused, match=f"host 10000: .*{words}"):
        submit(pair, predict_conf(version))
    assert not pair.guest.executor.started
    assert not pair.host.executor.started


def test_a_site_without_the_version_refuses_the_job(pair: Pair) -> None:
    version = deploy(pair)
    key = pair.share(HOST, version).key
    with pair.host.store.transaction() as tx:
        tx.models.drop(key)
    refused(pair, version, "no model .* of host 10000")


def test_a_site_whose_version_is_only_prepared_refuses_the_job(pair: Pair) -> None:
    version = deploy(pair)
    share = pair.share(HOST, version)
    put_model(pair.host, trained_share(HOST, key=share.key, parent=False, ready=False))
    refused(pair, version, "no model .* of host 10000")


def test_a_site_with_damaged_contents_refuses_the_job(pair: Pair) -> None:
    version = deploy(pair)
    pair.host.blobs.damage(pair.components(HOST, version)[0].param.sha256)
    refused(pair, version, "damaged")


def test_damage_of_what_the_job_does_not_use_does_not_matter(pair: Pair) -> None:
    version = deploy(pair)
    pair.host.blobs.damage(pair.components(HOST, TRAINED)[1].param.sha256)
    assert submit(pair, predict_conf(version))


def test_a_site_with_another_model_under_the_name_refuses_the_job(pair: Pair) -> None:
    version = deploy(pair)
    share = pair.share(HOST, version)
    other = {"components": {**share.train_dsl["components"], "more_0": {"module": "Step"}}}
    put_model(
        pair.host,
        trained_share(
            HOST,
            key=share.key,
            parent=False,
            parent_info=share.parent_info,
            inference_dsl=share.inference_dsl,
            train_dsl=other,
        ),
        steps=(0,),
    )
    refused(pair, version, "another model under this name")


def test_an_initiator_cannot_make_a_site_run_another_dsl_as_a_predict_job(pair: Pair) -> None:
    version = deploy(pair)
    submit(pair, predict_conf(version))
    body = next(b for _, path, b in pair.network().calls if path.endswith("/create"))
    dsl = json.loads(json.dumps(body["dsl"]))
    dsl["components"]["step_1"] = {
        "module": "Step", "input": {"model": ["pipeline.step_0.model"]},
    }  # fmt: skip
    key = JobKey(job_id="1", site=HOST)
    with pytest.raises(FedflowError, match="another model under this name"):
        pair.host.ask("job_create", key, body={**body, "dsl": dsl})
    without = {k: v for k, v in body.items() if k != "model_digest"}
    with pytest.raises(FedflowError, match="another model under this name"):
        pair.host.ask("job_create", key, body=without)


def test_a_train_job_has_no_training_conf_beside_its_own(pair: Pair) -> None:
    job_id = submit(pair, CONF, dict(pair.share(GUEST, TRAINED).train_dsl))
    assert pair.host.job(job_id).train_conf == {}


# --- version 1 ------------------------------------------------------------------------------------


def train_v1(pair: Pair) -> str:
    """Return the version of a model that a job of version 1 trained: its DSL was converted."""
    conf = json.loads(json.dumps(CONF))
    conf["job_parameters"]["common"]["dsl_version"] = 1
    dsl = json.loads(json.dumps(trained_share(GUEST).train_dsl))
    dsl["components"]["step_1"]["need_deploy"] = False
    for site in (GUEST, HOST):
        share = trained_share(site, train_dsl=dsl, train_conf=conf)
        put_model(pair.server(site), share)
    return TRAINED


def test_a_deploy_of_a_version_1_model_keeps_what_need_deploy_says(pair: Pair) -> None:
    version = deploy(pair, model_version=train_v1(pair), components=None)
    assert list(pair.share(HOST, version).inference_dsl["components"]) == ["reader_0", "step_0"]


def test_a_version_1_model_predicts_without_a_deploy_and_with_a_conf_of_version_1(
    pair: Pair,
) -> None:
    table = [{"namespace": "n", "name": "t"}]
    conf = {
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {
            "job_type": "predict", "model_id": MODEL_ID, "model_version": train_v1(pair),
        },
        "role_parameters": {
            role: {"args": {"data": {"eval_data": table}}} for role in ("guest", "host")
        },
    }  # fmt: skip
    job = pair.host.job(submit(pair, conf))
    assert list(job.dsl["components"]) == ["reader_0", "step_0"]
    assert job.train_conf == pair.share(HOST, TRAINED).train_conf


def test_a_branch_or_a_tag_names_the_version_once(pair: Pair) -> None:
    version = deploy(pair)
    where = BranchKey(site=GUEST, model_id=MODEL_ID, name="release")
    with pair.guest.store.transaction() as tx:
        tx.model_history.add_move(
            Move(
                key=where, number=1, id="a", kind=MoveKind.CREATE, model_version=version,
                author=Author(party_id="9999"), created_ms=1,
            )
        )  # fmt: skip
        tx.model_tags.create("good", "", now_ms=1)
        tx.model_tags.attach("good", version, now_ms=1)
    for name in ("branch:release", "tag:good"):
        job_id = submit(pair, predict_conf(name))
        for site in (GUEST, HOST):
            conf = pair.server(site).job(job_id, site).conf
            assert conf["job_parameters"]["common"]["model_version"] == version
    with pytest.raises(BranchNotFound):
        submit(pair, predict_conf("branch:other"))
