"""What can be said of documents, and that a job of version 1 is stored and sent as version 2."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.errors.documents import InvalidJobSpec, NotASite, PredictDslNotMade
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.ids import PartyId
from fedflow.domain.records import TaskFilter
from fedflow.domain.site import Role, Site
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl

V1_DSL: dict[str, Any] = {
    "components": {
        "step_0": {
            "module": "Step",
            "input": {"data": {"data": ["args.train_data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        }
    }
}
V1_CONF: dict[str, Any] = {
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"work_mode": 0, "task_cores": 1},
    "role_parameters": {
        "guest": {"args": {"data": {"train_data": [{"name": "g", "namespace": "n"}]}}},
        "host": {
            "args": {"data": {"train_data": [{"name": "h", "namespace": "n"}]}},
            "step_0": {"x": [7]},
        },
    },
}


def test_a_job_of_version_1_runs_as_one_of_version_2(alone: OneServer) -> None:
    alone.put_table("n", "g")
    alone.put_table("n", "h", address="t2")
    alone.live()
    submitted = alone.core.submissions.submit(V1_DSL, V1_CONF)
    assert any("reader_0" in warning.message for warning in submitted.warnings)
    job = alone.job(submitted.job_id, HOST)
    assert job.conf["dsl_version"] == 2
    assert list(job.dsl["components"]) == ["reader_0", "step_0"]
    with alone.store.read() as tx:
        found = tx.tasks.find(TaskFilter(job_id=submitted.job_id, roles=(HOST.role,)))
    tasks = {t.key.component: t for t in found}
    assert tasks["reader_0"].parameters == {"table": {"name": "h", "namespace": "n"}}
    assert tasks["step_0"].parameters == {"x": 7}


def test_dependencies_of_a_job_are_known_for_all_its_sites(alone: OneServer) -> None:
    alone.live()
    job_id = alone.core.submissions.submit(dsl(), conf()).job_id
    documents = alone.core.documents
    info = documents.job_dependencies(job_id, GUEST)
    assert info["component_list"] == list(dsl()["components"])
    assert documents.job_dependencies(job_id, HOST) == info
    with pytest.raises(NotASite):
        documents.job_dependencies(job_id, Site(Role.HOST, PartyId("9999")))
    with pytest.raises(JobNotFound):
        documents.job_dependencies("nope", GUEST)


def test_dependencies_of_documents_come_in_any_version(alone: OneServer) -> None:
    documents = alone.core.documents
    assert documents.dependencies(V1_DSL, V1_CONF, GUEST)["component_list"] == [
        "reader_0",
        "step_0",
    ]
    assert documents.dependencies(dsl(), conf(), GUEST)["component_list"]
    with pytest.raises(InvalidJobSpec):
        documents.dependencies({}, conf(), GUEST)


def test_dependencies_of_a_predict_job_take_the_training_conf(alone: OneServer) -> None:
    train_conf = conf(parameters={"common": {"a": {"need_run": False}}})
    common = {"job_type": "predict", "model_id": "m", "model_version": "1"}
    predict_conf = {
        **{key: train_conf[key] for key in ("dsl_version", "initiator")},
        "role": {"guest": [9999]},
        "job_parameters": {"common": common},
    }
    info = alone.core.documents.dependencies(
        {"components": {"a": {"module": "Step"}}}, predict_conf, GUEST, train_conf=train_conf
    )
    assert info["component_need_run"] == {"a": False}


def test_a_predict_dsl_that_cannot_be_made_says_why(alone: OneServer) -> None:
    documents = alone.core.documents
    made: Any = documents.predict_dsl(V1_DSL, None, version=1)
    assert made["components"]["step_0"]["input"]["model"] == ["pipeline.step_0.model"]
    with pytest.raises(PredictDslNotMade) as caught:
        documents.predict_dsl(V1_DSL, ["other_0"], version=1)
    assert caught.value.problems[0].rule == "DeployComponentNotExistError"


def check(server: OneServer, module: str = "Step", **members: Any) -> list[str]:
    """Return the paths of the mistakes in the parameters of `a`."""
    given = {"dsl_version": "2", "role": {"guest": [9999], "host": [10000]}, **members}
    try:
        server.core.documents.check_component("a", module, given)
    except InvalidJobSpec as error:
        return [p.path for p in error.problems]
    return []


def test_parameters_of_one_component_are_checked_at_all_its_sites(alone: OneServer) -> None:
    assert check(alone, component_parameters={"common": {"a": {"x": 1}, "b": {"bad": 1}}}) == []
    by_role = {"role": {"host": {"0": {"a": {"bad": 1}}}}}
    assert check(alone, component_parameters=by_role) == [
        '$.component_parameters.role.host["0"].a.bad'
    ]
    members: dict[str, Any] = {
        "dsl_version": "1",
        "algorithm_parameters": {"a": {"x": 1}},
        "role_parameters": {"guest": {"a": {"bad": [1]}}},
    }
    assert check(alone, **members) == ['$.component_parameters.role.guest["0"].a.bad']
    members["role_parameters"] = {"guest": {"a": {"x": 1}}}
    assert check(alone, **members) == ["$.conf.role_parameters.guest.a.x"]


def test_a_validation_names_a_module_a_role_and_a_version_that_exist(alone: OneServer) -> None:
    assert check(alone, "Nope") == ["$.component_module_name"]
    assert check(alone, "Upload") == ["$.role"]
    assert check(alone, role={"boss": [1]}) == ["$.conf.role.boss", "$.conf.initiator.role"]
    assert check(alone, role={}) != []
    assert check(alone, role=[1]) != []
    assert check(alone, dsl_version="3") == ["$.conf.dsl_version"]
