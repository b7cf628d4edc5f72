"""Routes about documents: what they take, and how each answers its mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.base.errors.documents import InvalidJobSpec, NotASite, PredictDslNotMade, Problem
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
SITE = {"role": "guest", "party_id": 9999}
DSL = {"components": {"a": {"module": "Reader"}}}
PROBLEM = Problem("$.dsl", "is empty", "DSLNotExistError")


def test_dependencies_are_asked_for_by_job_or_by_documents(
    client: FlaskClient, services: Any
) -> None:
    by_job = client.post("/v1/pipeline/dag/dependency", json={**SITE, "job_id": "1"}).json
    assert by_job["data"] == {"component_list": ["reader_0"]}
    documents = {"job_dsl": DSL, "job_runtime_conf": {"role": {}}}
    body = {**SITE, **documents, "job_train_runtime_conf": {}}
    assert client.post("/v1/pipeline/dag/dependency", json=body).json["retcode"] == 0
    assert services.calls == [
        ("job_dependencies", "1", GUEST),
        ("dependencies", DSL, {"role": {}}, GUEST, {}),
    ]


@pytest.mark.parametrize(
    ("fail", "retcode"),
    [
        (JobNotFound(job_id="1"), 101),
        (NotASite(site=GUEST), 101),
        (InvalidJobSpec([PROBLEM]), 100),
    ],
)
def test_mistakes_in_a_dependency_request_are_in_band(
    client: FlaskClient, services: Any, fail: Exception, retcode: int
) -> None:
    services.fail = fail
    answer = client.post("/v1/pipeline/dag/dependency", json={**SITE, "job_id": "1"})
    assert answer.status_code == 200
    assert answer.json["retcode"] == retcode
    assert answer.json["error"]["name"] == type(fail).__name__


def test_a_dependency_request_names_a_job_or_both_documents(client: FlaskClient) -> None:
    for body in (SITE, {**SITE, "job_dsl": DSL}, {"job_id": "1"}):
        assert client.post("/v1/pipeline/dag/dependency", json=body).json["retcode"] == 101


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        ("[a, b,\nc]", ["a", "b", "c"]),
        ('["a", "b"],', ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        (["a"], ["a"]),
        ("", []),
    ],
)
def test_components_are_listed_in_every_form_of_the_clients(
    client: FlaskClient, services: Any, text: Any, names: list[str]
) -> None:
    body = {"train_dsl": json.dumps(DSL), "cpn_str": text}
    assert client.post("/v1/job/dsl/generate", json=body).json["data"] == {"components": {}}
    assert services.calls == [("predict_dsl", DSL, names, 2)]


def test_in_version_1_no_names_let_the_components_decide(
    client: FlaskClient, services: Any
) -> None:
    body = {"train_dsl": DSL, "cpn_str": "", "version": 1}
    assert client.post("/v1/job/dsl/generate", json=body).status_code == 200
    assert services.calls == [("predict_dsl", DSL, None, 1)]


def test_a_predict_dsl_may_be_a_file(client: FlaskClient) -> None:
    body = {"train_dsl": DSL, "cpn_str": "a", "filename": "predict_dsl.json"}
    answer = client.post("/v1/job/dsl/generate", json=body)
    assert answer.status_code == 200
    assert "predict_dsl.json" in answer.headers["Content-Disposition"]
    assert json.loads(answer.data) == {"components": {}}
    body["filename"] = "../x"
    assert client.post("/v1/job/dsl/generate", json=body).status_code == 400


@pytest.mark.parametrize("change", [{"train_dsl": "{"}, {"version": "3"}])
def test_a_predict_dsl_that_cannot_be_made_has_status_210(
    client: FlaskClient, change: dict[str, Any]
) -> None:
    body = {"train_dsl": DSL, "cpn_str": "a", **change}
    answer = client.post("/v1/job/dsl/generate", json=body)
    assert answer.status_code == 210
    assert answer.json["retcode"] == 210
    assert answer.json["error"]["problems"][0]["path"] == f"$.{next(iter(change))}"


def test_a_wrong_training_dsl_has_status_210(client: FlaskClient, services: Any) -> None:
    services.fail = PredictDslNotMade([PROBLEM])
    answer = client.post("/v1/job/dsl/generate", json={"train_dsl": {}, "cpn_str": "a"})
    assert answer.status_code == 210
    assert "is empty" in answer.json["retmsg"]


V2 = {
    "component_name": "lr_0",
    "component_module_name": "HeteroLR",
    "role": {"guest": [9999]},
    "dsl_version": 2,
    "component_parameters": {"common": {"lr_0": {"max_iter": 1}}},
}


def test_parameters_are_validated_in_both_versions(client: FlaskClient, services: Any) -> None:
    assert client.post("/v1/component/validate", json=V2).json == {
        "retcode": 0,
        "retmsg": "success",
    }
    old = {k: v for k, v in V2.items() if k != "component_parameters"}
    old |= {"dsl_version": "1", "role_parameters": {}, "algorithm_parameters": {"lr_0": {}}}
    assert client.post("/v1/component/validate", json=old).status_code == 200
    first, second = services.calls
    assert first[:3] == ("check_component", "lr_0", "HeteroLR")
    assert first[3] == {
        "dsl_version": "2",
        "role": V2["role"],
        "component_parameters": V2["component_parameters"],
    }
    assert second[3].keys() == {"dsl_version", "role", "role_parameters", "algorithm_parameters"}


@pytest.mark.parametrize("member", list(V2))
def test_a_missing_member_of_a_validation_has_status_400(client: FlaskClient, member: str) -> None:
    body = {k: v for k, v in V2.items() if k != member}
    answer = client.post("/v1/component/validate", json=body)
    assert answer.status_code == 400
    assert member in answer.json["retmsg"]


def test_wrong_parameters_have_status_400_and_text(client: FlaskClient, services: Any) -> None:
    services.fail = InvalidJobSpec([Problem("$.x", "must be positive", "ParameterException")])
    answer = client.post("/v1/component/validate", json=V2)
    assert answer.status_code == 400
    assert "$.x: must be positive" in answer.json["retmsg"]
