"""The routes that deploy and move models, over the real use cases of two servers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.unit.app.fakes import GUEST, HOST
from tests.unit.app.models_world import DSL, MODEL_ID, TRAINED, Pair, make_pair
from tests.unit.web.applications import app_over

NAMED = {"model_id": MODEL_ID, "model_version": TRAINED}
MIGRATION = {
    **NAMED,
    "role": {"guest": [9999], "host": ["10000"]},
    "migrate_role": {"guest": [1], "host": [2]},
    "migrate_initiator": {"role": "guest", "party_id": 1},
    "execute_party": {"guest": [9999], "host": [10000]},
    "job_parameters": {"federated_mode": "MULTIPLE"},
}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = make_pair(tmp_path)
    pair.live()
    return pair


@pytest.fixture
def http(pair: Pair) -> FlaskClient:
    """A client of the guest's server."""
    core = pair.guest.core
    models = SimpleNamespace(
        repository=core.models,
        deployment=core.deployment,
        migrations=core.migrations,
        publishing=core.publishing,
    )
    services = SimpleNamespace(models=models)
    return app_over(services).test_client()


def post(http: FlaskClient, path: str, body: dict[str, Any]) -> TestResponse:
    return http.post(f"/v1/model/{path}", json=body)


def ask(http: FlaskClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of an in-band answer."""
    answer = post(http, path, body)
    assert answer.status_code == 200
    return cast(dict[str, Any], answer.get_json())


def deployed(http: FlaskClient, **more: Any) -> str:
    answer = ask(http, "deploy", {**NAMED, **more})
    assert answer["retcode"] == 0, answer
    return str(answer["data"]["model_version"])


# --- deploy ---------------------------------------------------------------------------------------


def test_a_deploy_answers_the_new_version_and_every_sites_word(http: FlaskClient) -> None:
    answer = ask(
        http, "deploy", {**NAMED, "cpn_list": ["reader_0", "step_0"], "components_checkpoint": {}}
    )
    version = answer["data"]["model_version"]
    assert version != TRAINED
    assert answer == {
        "retcode": 0,
        "retmsg": "success",
        "data": {
            "model_id": MODEL_ID,
            "model_version": version,
            "guest": {"9999": 0},
            "host": {"10000": 0},
            "detail": {
                "guest": {"9999": {"retcode": 0, "retmsg": "success"}},
                "host": {"10000": {"retcode": 0, "retmsg": "success"}},
            },
        },
    }


@pytest.mark.parametrize("name", ["predict_dsl", "dsl"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_predict_dsl_may_be_json_text_and_has_two_names(
    http: FlaskClient, pair: Pair, name: str, as_text: bool
) -> None:
    dsl = {"components": {"reader_0": DSL["components"]["reader_0"]}}
    text = '{"components": {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}}'
    version = deployed(http, **{name: text if as_text else dsl})
    assert pair.share(HOST, version).inference_dsl == dsl


@pytest.mark.parametrize(
    "body",
    [
        {"cpn_list": ["nobody"]},
        {"cpn_list": ["step_0"], "predict_dsl": {"components": {}}},
        {"predict_dsl": "no json"},
        {"predict_dsl": "[]"},
        {"dsl": {"components": {}}, "predict_dsl": {}},
        {"components_checkpoint": {"step_0": {}}},
        {"components_checkpoint": {"step_0": {"step_index": 1, "step_name": "a"}}},
        {"components_checkpoint": {"step_0": {"step_index": "x"}}},
        {"components_checkpoint": {"step_0": {"step_index": 99}}},
    ],
)
def test_a_deploy_that_is_refused_is_101_and_has_data(
    http: FlaskClient, pair: Pair, body: dict[str, Any]
) -> None:
    answer = ask(http, "deploy", {**NAMED, **body})
    assert answer["retcode"] == 101, answer
    assert answer["data"]["model_id"] == MODEL_ID
    assert "detail" in answer["data"]
    assert pair.versions(GUEST, unready=True) == [TRAINED]


def test_a_step_index_may_be_text_as_the_command_line_sends_it(http: FlaskClient) -> None:
    answer = ask(
        http, "deploy", {**NAMED, "components_checkpoint": {"step_0": {"step_index": "99"}}}
    )
    assert "no checkpoint 99" in answer["retmsg"]


def test_a_deploy_that_one_site_refuses_names_it(http: FlaskClient, pair: Pair) -> None:
    pair.host.blobs.damage(pair.components(HOST, TRAINED)[0].param.sha256)
    answer = ask(http, "deploy", NAMED)
    assert answer["retcode"] == 101
    assert "host 10000" in answer["retmsg"]
    assert answer["data"]["guest"] == {"9999": 0}
    assert answer["data"]["host"]["10000"] != 0
    assert "damaged" in answer["data"]["detail"]["host"]["10000"]["retmsg"]


def test_an_unknown_model_is_http_404(http: FlaskClient) -> None:
    answer = post(http, "deploy", {**NAMED, "model_version": "1"})
    assert (answer.status_code, answer.get_json()["retcode"]) == (404, 404)


def test_missing_members_are_named(http: FlaskClient) -> None:
    answer = ask(http, "deploy", {})
    assert answer["retcode"] == 101
    assert answer["retmsg"].startswith("required argument are missing: model_id,model_version;")


# --- predict DSL and conf -------------------------------------------------------------------------


def test_predict_dsl_and_conf_come_as_data_or_as_a_file(http: FlaskClient, pair: Pair) -> None:
    named = {"model_id": MODEL_ID, "model_version": deployed(http)}
    dsl = ask(http, "get/predict/dsl", named)["data"]
    assert dsl == pair.share(GUEST, named["model_version"]).inference_dsl
    conf = ask(http, "get/predict/conf", named)["data"]
    assert conf["job_parameters"]["common"] == {
        "task_cores": 1, "job_type": "predict", **named,
    }  # fmt: skip
    tables = conf["component_parameters"]["role"]
    assert tables["host"]["0"]["reader_0"]["table"] == {
        "name": "name_to_be_filled_1",
        "namespace": "namespace_to_be_filled_1",
    }
    for path, value in (("get/predict/dsl", dsl), ("get/predict/conf", conf)):
        file = post(http, path, {**named, "filename": "predict.json"})
        assert file.status_code == 200
        assert "filename=predict.json" in file.headers["Content-Disposition"]
        assert file.get_json(force=True) == value


@pytest.mark.parametrize("path", ["get/predict/dsl", "get/predict/conf"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (NAMED, 210),
        ({**NAMED, "model_version": "1"}, 210),
        ({}, 210),
        ({"role": "x", **NAMED}, 400),
    ],
)
def test_what_is_not_deployed_has_neither(
    http: FlaskClient, path: str, body: dict[str, Any], status: int
) -> None:
    answer = post(http, path, {**body, "filename": "a.json"})
    assert answer.status_code == status
    assert answer.get_json()["retcode"] == status


@pytest.mark.parametrize("name", ["a/b", "a\\b", "a\nb", 'a"b', "x" * 300])
def test_a_file_name_is_no_path(http: FlaskClient, name: str) -> None:
    named = {"model_id": MODEL_ID, "model_version": deployed(http)}
    assert post(http, "get/predict/dsl", {**named, "filename": name}).status_code == 400


# --- migrate --------------------------------------------------------------------------------------


def test_a_migration_answers_the_new_ids(http: FlaskClient) -> None:
    answer = ask(http, "migrate", {**MIGRATION, "unify_model_version": "20261121"})
    assert answer["retcode"] == 0, answer
    assert answer["jobId"] == answer["data"]["model_version"] == "20261121"
    assert answer["data"]["model_id"] == "guest-1#host-2#model"
    assert answer["data"]["host"] == {"10000": 0}


@pytest.mark.parametrize(
    ("changes", "retcode"),
    [
        ({"migrate_role": {"guest": [9999], "host": [10000]}}, 100),
        ({"migrate_role": {"guest": [1]}}, 101),
        ({"migrate_role": {"guest": ["a"], "host": [2]}}, 101),
        ({"migrate_role": {"nobody": [1]}}, 101),
        ({"migrate_initiator": {"role": "guest"}}, 101),
        ({"migrate_initiator": {"role": "nobody", "party_id": 1}}, 101),
        ({"model_version": "1"}, 101),
        ({"execute_party": {"guest": []}}, 101),
        ({"job_parameters": None}, 101),
    ],
)
def test_a_migration_that_cannot_be_is_refused(
    http: FlaskClient, changes: dict[str, Any], retcode: int
) -> None:
    assert ask(http, "migrate", {**MIGRATION, **changes})["retcode"] == retcode


# --- load and bind --------------------------------------------------------------------------------


def test_without_serving_processes_load_and_bind_name_the_setting(http: FlaskClient) -> None:
    version = deployed(http)
    long_form = {
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999]},
        "job_parameters": {"model_id": MODEL_ID, "model_version": version},
    }
    for body in ({"job_id": version}, long_form):
        for path, more in (("load", {}), ("bind", {"service_id": "s"})):
            answer = ask(http, path, {**body, **more})
            assert (answer["retcode"], answer["error"]["name"]) == (100, "NoServings")
            assert "servings.hosts" in answer["error"]["hint"]


@pytest.mark.parametrize(
    ("body", "retcode", "name"),
    [
        ({"job_id": "1"}, 101, "ModelNotFound"),
        ({"job_id": TRAINED}, 100, "ModelNotDeployed"),
        ({}, 101, "BadRequest"),
        ({"job_parameters": NAMED}, 101, "BadRequest"),
        ({"initiator": {}, "role": {}, "job_parameters": NAMED}, 100, "ModelNotDeployed"),
    ],
)
def test_what_cannot_be_loaded_has_fates_code(
    http: FlaskClient, body: dict[str, Any], retcode: int, name: str
) -> None:
    for path, more in (("load", {}), ("bind", {"service_id": "s"})):
        answer = ask(http, path, {**body, **more})
        assert (answer["retcode"], answer["error"]["name"]) == (retcode, name)


def test_a_bind_without_a_service_says_so_in_fates_words(http: FlaskClient) -> None:
    answer = ask(http, "bind", {"job_id": TRAINED})
    assert (answer["retcode"], answer["retmsg"]) == (101, "no service id")
