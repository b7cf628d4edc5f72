"""What becomes of the models that tasks report, and how they are read back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fedflow.app.models.models import checkpoint_key, trained_key
from fedflow.app.participant.worker_models import WorkerModels
from fedflow.base.decoding import read_as
from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.models import (
    CheckpointNotFound,
    CheckpointRefused,
    ModelComponentNotFound,
    ModelDamaged,
    ModelNotFound,
    ModelsDiffer,
)
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.domain.models.model import (
    ModelFilter,
    ModelKey,
    ModelVersion,
    StepChoice,
    canonical_json,
    common_digest,
)
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import TaskStatus
from fedflow.wire.task_report import ReportedModel, read_report
from tests.unit.app.fakes import GUEST, HOST, OneServer, create_body, dsl
from tests.unit.app.models_world import trained_share

MODEL_ID = "guest-9999#host-10000#model"
KEY = ModelKey(site=HOST, model_id=MODEL_ID, model_version="1")
MODEL: dict[str, Any] = {
    "alias": "model", "meta_name": "LRMeta", "param_name": "LRParam",
    "meta": {"max_iter": 3}, "param": {"weight": {"x": 0.5}},
}  # fmt: skip
STEP = {"module": "Step", "output": {"data": ["data"], "model": ["model"]}}


def reported(model: dict[str, Any]) -> ReportedModel:
    """Return a model as a worker sends it."""
    return read_as(model, ReportedModel)


def started(server: OneServer, job_id: str = "1", **more: Any) -> TaskKey:
    """Return a task with a process, of a job that runs."""
    key = server.create(job_id, **more)
    server.ask("job_apply", key)
    server.ask("job_start", key)
    return server.run_task(job_id, pid=int(job_id) + 10)


def ended(server: OneServer, job_id: str = "1", status: str = "success", **more: Any) -> None:
    """Run a job of which one task reports a model, to its end."""
    task = started(server, job_id, **more)
    server.report(task, "success", model=MODEL)
    server.ask("job_stop", task.job, status=status)


def worker(server: OneServer) -> WorkerModels:
    return WorkerModels(store=server.store, workers=server.core.workers, models=server.core.models)


def token(server: OneServer, key: TaskKey) -> str:
    return str(server.task(key).token)


def run_on(server: OneServer, job_id: str) -> TaskKey:
    """Return the next attempt of the task of a job, with a process."""
    key = TaskKey(job_id=job_id, component="a", version=1, site=HOST)
    with server.store.transaction() as tx:
        first = tx.tasks.get(replace(key, version=0))
        assert first is not None
        tx.tasks.add(
            [
                replace(
                    first, key=key, launch_id="l2", token="t2",
                    party_status=TaskStatus.WAITING, handle=None,
                )
            ]
        )  # fmt: skip
        tx.tasks.set_launch(key, "l2", "t2", seen="l2", now_ms=1)
    return key


# --- what is kept -----------------------------------------------------------------------------


def test_a_reported_model_is_kept_with_its_parameters_and_digests(host: OneServer) -> None:
    ended(host)
    [component] = host.core.models.components(KEY)
    assert (component.component, component.module, component.alias) == ("a", "Step", "model")
    assert component.run_parameters == {}
    assert host.blobs.get(component.param.sha256) == b'{"weight":{"x":0.5}}'
    loaded = host.core.models.load(KEY, "a")
    assert (loaded.meta, loaded.param) == (MODEL["meta"], MODEL["param"])
    assert (loaded.meta_name, loaded.param_name, loaded.module) == ("LRMeta", "LRParam", "Step")


def test_the_version_is_there_from_the_end_of_the_job_on(host: OneServer) -> None:
    task = started(host)
    host.report(task, "success", model=MODEL)
    with pytest.raises(ModelNotFound):
        host.core.models.load(KEY, "a")
    host.ask("job_stop", task.job, status="success")
    version = host.core.models.version(KEY)
    assert version.parent
    assert not version.is_deployed
    assert (version.job_id, version.initiator) == ("1", GUEST)
    assert version.roles == {"guest": ["9999"], "host": ["10000"]}
    assert version.train_dsl == dsl()
    assert version.size_bytes == len(b'{"max_iter":3}') + len(b'{"weight":{"x":0.5}}')
    assert version.conf_on_party["job_parameters"] == {
        "task_cores": 2, "model_id": MODEL_ID, "model_version": "1",
    }  # fmt: skip


@pytest.mark.parametrize("status", ["failed", "canceled", "timeout"])
def test_a_job_that_fails_leaves_what_was_trained_before(host: OneServer, status: str) -> None:
    ended(host, status=status)
    assert host.core.models.load(KEY, "a").param == MODEL["param"]


def test_a_job_that_never_started_leaves_no_version(host: OneServer) -> None:
    key = host.create()
    host.ask("job_stop", key, status="failed")
    assert host.core.models.find(ModelFilter()) == []


def test_the_same_end_told_again_changes_nothing(host: OneServer) -> None:
    ended(host)
    first = host.core.models.version(KEY)
    host.clock.ms += 1000
    host.ask("job_stop", host.job("1").key, status="success")
    again = host.core.models.version(KEY)
    assert replace(again, updated_ms=first.updated_ms) == first


@pytest.mark.parametrize(
    "changes",
    [{"parent": False}, {"imported": True}, {"ready": False}, {"job_id": "2"}, {"initiator": HOST}],
)
def test_a_job_replaces_nothing_but_what_it_trained(
    host: OneServer, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    task = started(host)
    with host.store.transaction() as tx:
        tx.models.put(replace(trained_share(HOST, key=KEY, job_id="1"), **changes))
    with host.store.read() as tx:
        before = tx.models.get(KEY)
    with pytest.raises(CheckpointRefused, match="not of this job"):
        worker(host).save_checkpoint(
            task, token(host, task), step_index=0, step_name="s", model=reported(MODEL)
        )
    host.report(task, "success", model=MODEL)
    host.ask("job_stop", task.job, status="success")
    with host.store.read() as tx:
        assert tx.models.get(KEY) == before
        assert (tx.models.components(KEY), tx.models.checkpoints(KEY)) == ([], [])
    assert caplog.text.count("A job's model is not kept") == 3


def test_a_task_that_fails_keeps_no_model(host: OneServer) -> None:
    task = started(host)
    host.report(task, "failed", model=MODEL)
    host.ask("job_stop", task.job, status="failed")
    assert host.core.models.components(KEY) == []


@pytest.mark.parametrize(
    "model",
    [
        [], {**MODEL, "alias": "a/b"}, {**MODEL, "meta_name": "../x"}, {**MODEL, "param_name": 3},
        {**MODEL, "meta": []}, {**MODEL, "param": None},
    ],
)  # fmt: skip
def test_a_model_of_another_form_is_refused_with_the_report(host: OneServer, model: Any) -> None:
    task = started(host)
    with pytest.raises(BadRequest):
        host.report(task, "success", model=model)
    assert host.task(task).party_status is not TaskStatus.SUCCESS


def test_a_report_without_the_token_stores_no_contents(host: OneServer) -> None:
    task = started(host)
    body = {"launch_id": host.task(task).launch_id, "party_status": "success", "model": MODEL}
    with pytest.raises(NotAuthenticated):
        host.core.workers.report(task, "x", read_report(body))
    with pytest.raises(LaunchRefused):
        host.core.workers.report(task, token(host, task), read_report({**body, "launch_id": "old"}))
    assert host.blobs.contents == {}


# --- reading ----------------------------------------------------------------------------------


def test_what_is_not_there_is_told_apart(host: OneServer) -> None:
    ended(host)
    models = host.core.models
    with pytest.raises(ModelNotFound):
        models.load(replace(KEY, model_version="2"), "a")
    with pytest.raises(ModelNotFound):
        models.load(replace(KEY, site=GUEST), "a")
    with pytest.raises(ModelComponentNotFound):
        models.load(KEY, "b")
    with pytest.raises(ModelComponentNotFound):
        models.load(KEY, "a", alias="other")
    with pytest.raises(CheckpointNotFound):
        models.load(KEY, "a", checkpoint=StepChoice(step_index=0))


def test_damaged_contents_are_refused_with_the_model_and_the_component(host: OneServer) -> None:
    ended(host)
    [component] = host.core.models.components(KEY)
    assert host.core.models.is_whole(KEY)
    host.blobs.damage(component.param.sha256)
    with pytest.raises(ModelDamaged, match=r"guest-9999#host-10000#model.*LRParam of a"):
        host.core.models.load(KEY, "a")
    del host.blobs.contents[component.param.sha256]
    assert not host.core.models.is_whole(KEY)
    with pytest.raises(ModelDamaged, match="it is gone"):
        host.core.models.load(KEY, "a")


def test_only_contents_that_nothing_names_are_swept(host: OneServer) -> None:
    ended(host)
    named = dict(host.blobs.contents)
    for i in range(1200):
        host.blobs.put(b"%d" % i)
    assert host.core.models.sweep(0) == 1200
    assert host.blobs.contents == named


# --- checkpoints ------------------------------------------------------------------------------


def test_steps_are_kept_while_the_task_runs_and_read_back(host: OneServer) -> None:
    task = started(host)
    models = worker(host)
    for index in (1, 0):
        model = {**MODEL, "param": {"iters": index}}
        models.save_checkpoint(
            task,
            token(host, task),
            step_index=index,
            step_name=f"round_{index}",
            model=reported(model),
        )
    assert models.checkpoints(task, token(host, task)) == [(0, "round_0"), (1, "round_1")]
    found = models.checkpoint(task, token(host, task), 1)
    assert (found.step_name, found.model.param) == ("round_1", {"iters": 1})
    with pytest.raises(CheckpointNotFound):
        models.checkpoint(task, token(host, task), 7)
    host.report(task, "failed")
    host.ask("job_stop", task.job, status="failed")
    loaded = host.core.models.load(KEY, "a", checkpoint=StepChoice(step_name="round_0"))
    assert (loaded.param, loaded.module) == ({"iters": 0}, "Step")
    assert host.core.models.sweep(0) == 0


def test_a_second_attempt_sees_the_first_ones_steps_and_goes_on_from_one(host: OneServer) -> None:
    task = started(host)
    models = worker(host)
    for index in range(3):
        models.save_checkpoint(
            task, token(host, task), step_index=index, step_name="s", model=reported(MODEL)
        )
    again = run_on(host, "1")
    assert [i for i, _ in models.checkpoints(again, "t2")] == [0, 1, 2]
    models.save_checkpoint(again, "t2", step_index=1, step_name="again", model=reported(MODEL))
    assert models.checkpoints(again, "t2") == [(0, "s"), (1, "again")]


@pytest.mark.parametrize(
    ("step_index", "step_name"), [(-1, "s"), (2**31, "s"), (0, ""), (0, "a/b"), (0, "x" * 101)]
)
def test_a_step_out_of_bounds_is_refused(host: OneServer, step_index: int, step_name: str) -> None:
    task = started(host)
    with pytest.raises(BadRequest):
        worker(host).save_checkpoint(
            task,
            token(host, task),
            step_index=step_index,
            step_name=step_name,
            model=reported(MODEL),
        )
    assert host.core.models.checkpoints(KEY, "a") == []


def test_steps_need_the_token_of_a_running_attempt(host: OneServer) -> None:
    task = started(host)
    secret = token(host, task)
    with pytest.raises(NotAuthenticated):
        worker(host).checkpoints(task, "x")
    host.report(task, "success")
    with pytest.raises(LaunchRefused):
        worker(host).save_checkpoint(
            task, secret, step_index=0, step_name="s", model=reported(MODEL)
        )


def test_a_local_job_has_no_checkpoints(alone: OneServer) -> None:
    ended_job = started(alone)
    job = alone.job("1", ended_job.site)
    local = replace(job, key=replace(job.key, site=Site(Role.LOCAL, HOST.party_id)))
    assert trained_key(local) is None
    predict = {**job.conf, "job_parameters": {"common": {"job_type": "predict"}}}
    assert trained_key(replace(job, conf=predict)) is None
    with pytest.raises(CheckpointRefused):
        checkpoint_key(local, alone.task(ended_job))


# --- what executors ask of models -------------------------------------------------------------


def test_a_running_task_keeps_and_reads_its_own_version_only(host: OneServer) -> None:
    ended(host, "1")
    task = started(host, "2")
    models, secret = worker(host), token(host, task)
    model = {"model_id": MODEL_ID, "model_version": "1"}
    found = models.get(task, secret, **model, alias=None)
    assert found["LRMeta"] == ["LRMeta", "eyJtYXhfaXRlciI6M30="]
    assert models.run_parameters(task, secret, **model) == {"a": {}}
    with pytest.raises(BadRequest):
        models.save(task, secret, **model, model=reported(MODEL))
    models.save(task, secret, model_id=MODEL_ID, model_version="2", model=reported(MODEL))
    with host.store.read() as tx:
        assert len(tx.models.components(replace(KEY, model_version="2"))) == 1


# --- ModelLoader ------------------------------------------------------------------------------


def loader(**parameters: Any) -> dict[str, Any]:
    named = {
        "model_id": MODEL_ID, "model_version": "1", "component_name": "a", **parameters,
    }  # fmt: skip
    given = {"role": {"host": {"0": {"a": named}}, "guest": {"0": {"a": named}}}}
    module = {"module": "ModelLoader", "output": {"model": ["model"]}}
    return {"dsl_": dsl(a=module), "parameters": given}


def spec_of(host: OneServer) -> Any:
    return json.loads(host.executor.started[-1].spec_path.read_bytes())


def test_a_loader_is_handed_the_stored_model(host: OneServer) -> None:
    ended(host)
    started(host, "2", **loader())
    assert spec_of(host)["inputs"]["model"]["a"]["param"] == MODEL["param"]


def test_a_loader_is_handed_a_step(host: OneServer) -> None:
    task = started(host)
    model = {**MODEL, "param": {"iters": 4}}
    worker(host).save_checkpoint(
        task, token(host, task), step_index=4, step_name="r4", model=reported(model)
    )
    host.report(task, "failed")
    host.ask("job_stop", task.job, status="failed")
    started(host, "2", **loader(step_index=4))
    assert spec_of(host)["inputs"]["model"]["a"]["param"] == {"iters": 4}


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"model_version": "9"}, ModelNotFound),
        ({"component_name": "b"}, ModelComponentNotFound),
        ({"step_name": "s"}, CheckpointNotFound),
    ],
)
def test_a_job_that_loads_what_is_not_here_is_refused(
    host: OneServer, parameters: dict[str, Any], error: type[Exception]
) -> None:
    ended(host)
    with pytest.raises(error):
        host.create("2", **loader(**parameters))


def test_a_site_whose_version_is_another_one_than_the_initiators_is_refused(
    host: OneServer,
) -> None:
    ended(host)
    mine = common_digest(host.core.models.version(KEY))
    for number, (told, refused) in enumerate(((mine, False), ("0" * 64, True)), start=2):
        body = {**create_body(**loader()), "loaded_models": {"a": told}}
        key = JobKey(job_id=str(number), site=HOST)
        if refused:
            with pytest.raises(ModelsDiffer):
                host.ask("job_create", key, body=body, request_id=str(number))
        else:
            host.ask("job_create", key, body=body, request_id=str(number))


def test_the_initiator_tells_which_versions_its_loaders_mean(
    alone: OneServer,
) -> None:
    ended(alone)
    with alone.store.transaction() as tx:
        version = tx.models.get(KEY)
        assert version is not None
        tx.models.put(replace(version, key=replace(KEY, site=GUEST)))
        [component] = tx.models.components(KEY)
        tx.models.put_component(replace(component, key=replace(KEY, site=GUEST)))
    body = create_body(**loader())
    job_id, _ = alone.core.submissions.begin(body["dsl"], body["runtime_conf"])
    sent = [c for c in (*alone.outbox("9999"), *alone.outbox("10000")) if c.job_id == job_id]
    assert [c.body["loaded_models"] for c in sent] == [{"a": common_digest(version)}] * 2


def test_a_loader_whose_model_was_damaged_fails_with_the_reason(host: OneServer) -> None:
    ended(host)
    key = host.create("2", **loader())
    host.ask("job_apply", key)
    host.ask("job_start", key)
    [component] = host.core.models.components(KEY)
    host.blobs.damage(component.meta.sha256)
    task = host.run_task("2")
    assert host.task(task).party_status is TaskStatus.FAILED
    reason = host.task(task).reason
    assert reason is not None
    assert reason.code == "ModelDamaged"
    assert len(host.executor.started) == 1  # only the first job's task


def test_a_loader_that_need_not_run_loads_nothing(host: OneServer) -> None:
    started(host, "2", **loader(need_run=False, model_version="9"))
    assert spec_of(host)["inputs"]["model"] == {}


# --- digests ----------------------------------------------------------------------------------


def version(**changes: Any) -> ModelVersion:
    values: dict[str, Any] = {
        "key": KEY, "job_id": "1", "roles": {"guest": ["9999"], "host": ["10000"]},
        "initiator": GUEST, "train_dsl": dsl(), "train_conf": {"a": 1}, "conf_on_party": {},
        "fate_version": "1.11.4", "created_ms": 1, "updated_ms": 2, **changes,
    }  # fmt: skip
    return ModelVersion(**values)


def test_sites_agree_on_what_they_have_in_common_and_on_nothing_else() -> None:
    mine = version()
    theirs = version(key=replace(KEY, site=GUEST), train_conf={"b": 2}, created_ms=9)
    assert common_digest(mine) == common_digest(theirs)
    for change in (
        {"train_dsl": {}}, {"inference_dsl": {"x": 1}}, {"parent": False}, {"initiator": HOST},
        {"key": replace(KEY, model_version="2")}, {"roles": {"guest": ["9999"]}},
    ):  # fmt: skip
        assert common_digest(version(**change)) != common_digest(mine)


def test_one_value_has_one_json_text() -> None:
    assert canonical_json({"b": [1, 2.0], "a": "ü"}) == '{"a":"ü","b":[1,2.0]}'.encode()
    for value in ({"x": float("nan")}, {"x": "\ud800"}):
        with pytest.raises(ValueError):
            canonical_json(value)
