"""The description of the API: valid, complete, and made of the declarations that check requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from openapi_spec_validator import OpenAPIV31SpecValidator

from fedflow.base.errors.catalog import all_errors
from fedflow.web.auth import require_client
from fedflow.web.context import built_of
from fedflow.web.mounts import served
from fedflow.web.openapi import operations
from fedflow.web.routes import Access, declaration
from fedflow.web.settings import ClientKeys, WebSettings
from fedflow.web.tags import TAGS
from tests.unit.web.applications import whole_app


@pytest.fixture
def described(client: FlaskClient) -> dict[str, Any]:
    found = client.get("/v1/openapi.json").json
    assert isinstance(found, dict)
    return found


def test_the_document_is_valid_openapi_3_1(described: dict[str, Any]) -> None:
    assert described["openapi"].startswith("3.1.")
    assert [str(error) for error in OpenAPIV31SpecValidator(described).iter_errors()] == []


def test_every_route_is_declared(app: Flask) -> None:
    undeclared = [
        rule.rule
        for rule, view in served(app)
        if declaration(view) is None and not rule.endpoint.startswith("board_")  # pages for people
    ]
    assert undeclared == []


def test_a_route_is_open_to_clients_exactly_where_its_blueprint_checks_their_signature(
    app: Flask,
) -> None:
    for rule, view in served(app):
        if rule.endpoint.startswith("board_"):
            continue
        declared = declaration(view)
        assert declared is not None
        own = built_of(app).mounts.find(rule.rule)
        checks = own.before_request_funcs.get(rule.endpoint.partition(".")[0], [])
        signed = require_client in checks
        assert signed == (declared.access is Access.CLIENT), rule.rule


def test_every_client_route_and_method_is_described(app: Flask, described: dict[str, Any]) -> None:
    wanted = {(one.path, one.method.lower()) for one in operations(app)}
    assert wanted == {(p, m) for p, methods in described["paths"].items() for m in methods}
    for path in ("/v1/job/submit", "/v1/tracking/component/output/data/download", "/healthz"):
        assert path in described["paths"]
    between = {p for p in described["paths"] if p.startswith(("/v1/party/", "/v1/tracker/"))}
    assert between == {"/v1/party/list", "/v1/party/ping"}  # which clients ask


def test_operation_ids_are_unique_and_say_the_path(app: Flask, described: dict[str, Any]) -> None:
    ids = [one.operation_id for one in operations(app)]
    assert len(set(ids)) == len(ids)
    assert described["paths"]["/v1/job/submit"]["post"]["operationId"] == "job_submit"
    assert described["paths"]["/v1/job/log"]["get"]["operationId"] == "get_job_log"


def test_every_operation_has_a_sentence_and_a_tag_that_is_explained(
    app: Flask, described: dict[str, Any]
) -> None:
    for one in operations(app):
        assert one.text.strip(), one.path
        assert one.tag in TAGS, one.path
    assert {tag["name"] for tag in described["tags"]} == {one.tag for one in operations(app)}


def test_the_description_names_only_this_server(described: dict[str, Any]) -> None:
    assert [server["url"] for server in described["servers"]] == ["/"]
    assert "://" not in json.dumps(described["paths"])


def test_all_errors_are_listed_with_their_codes(described: dict[str, Any]) -> None:
    error = described["components"]["schemas"]["Error"]
    assert {kind.__name__ for kind in all_errors()} < set(error["properties"]["name"]["enum"])
    assert error["x-errors"]["JobNotFound"] == {
        "code": 1101, "retcode": 102, "http": 404, "message": "No job {job_id} at this server.",
    }  # fmt: skip


def test_bodies_answers_and_error_styles_are_those_of_the_declarations(
    described: dict[str, Any],
) -> None:
    stop = described["paths"]["/v1/job/stop"]["post"]
    assert stop["requestBody"]["required"] is True
    body = described["components"]["schemas"]["StopBody"]
    assert body["required"] == ["job_id"]
    assert body["properties"]["stop_status"]["default"] == "canceled"
    assert "210" not in stop["responses"]
    logs = described["paths"]["/v1/job/log/download"]["post"]
    assert list(logs["responses"]["200"]["content"]) == ["application/gzip"]
    assert {"210", "4XX", "5XX"} <= set(logs["responses"])
    names = [p["name"] for p in described["paths"]["/v1/job/{job_id}/status"]["get"]["parameters"]]
    assert names == ["job_id"]
    assert "" not in described["components"]["schemas"]["JobQuery"]["properties"]


def test_a_server_that_wants_signatures_says_so(services: Any) -> None:
    keys = ClientKeys(app_key="app", secret="s")
    app = whole_app(services, WebSettings(client_keys=keys))
    described = app.test_client().get("/v1/openapi.json").json
    assert described is not None
    stop = described["paths"]["/v1/job/stop"]["post"]
    assert [sorted(way) for way in stop["security"]] == [
        ["AppKey", "Nonce", "Signature", "Timestamp"]
    ]
    assert described["paths"]["/healthz"]["get"]["security"] == []


def test_without_signatures_they_are_shown_as_a_choice(described: dict[str, Any]) -> None:
    assert {} in described["paths"]["/v1/job/stop"]["post"]["security"]


def test_the_document_is_made_once_and_not_sent_again_to_who_has_it(client: FlaskClient) -> None:
    first = client.get("/v1/openapi.json")
    assert first.mimetype == "application/json"
    again = client.get("/v1/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert client.get("/v1/openapi.json").data == first.data
