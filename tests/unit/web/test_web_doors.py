"""Errors, hostile JSON, the relay, executors' routes: what holds for every route."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from fedflow.app.protocol.commands import Incoming
from fedflow.base.decoding import read_as
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import LaunchRefused
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, TableRecord, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.web import routes
from fedflow.web.relay import Relay
from fedflow.web.settings import WebSettings
from fedflow.web.tracker import OVER_UNIX
from fedflow.wire.paths import PARTY_COMMANDS, PREFIX, WORKER_COMMANDS, job_path, task_path
from fedflow.wire.task_report import RunningReport
from tests.unit.web.applications import whole_app

GUEST = Site(Role.GUEST, PartyId("9999"))
JOB = JobKey(job_id="202611201000000000000", site=GUEST)
TASK = TaskKey(job_id=JOB.job_id, component="lr_0", version=2, site=GUEST)
HEADERS = {"SRC-PARTY-ID": "10000", "X-FEDFLOW-REQUEST-ID": "abc-1"}
TOKEN = {"X-Fedflow-Task-Token": "t"}


def party_path(name: str, site: Site = GUEST) -> str:
    if "<task_id>" in PARTY_COMMANDS[name]:
        return PREFIX + task_path(name, replace(TASK, site=site), status="success")
    key = replace(JOB, site=site)
    return PREFIX + job_path(name, key, status="failed").replace("<component>", "lr_0")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_an_unknown_url_is_http_200_with_code_100(client: FlaskClient, method: str) -> None:
    answer = client.open("/v1/no/such/route", method=method)
    assert answer.status_code == 200
    assert answer.json["retcode"] == 100
    assert "/v1/no/such/route" in answer.json["retmsg"]


def test_a_wrong_method_is_an_unknown_url(client: FlaskClient) -> None:
    answer = client.get("/v1/job/submit")
    assert (answer.status_code, answer.json["retcode"]) == (200, 100)


def test_a_route_of_fate_that_is_not_served_says_so(client: FlaskClient) -> None:
    answer = client.post("/v1/component/hetero/merge/", json={})
    assert answer.json["error"]["name"] == "NotSupportedYet"


def test_a_defect_is_an_internal_error_without_details(
    client: FlaskClient, services: Any, caplog: pytest.LogCaptureFixture
) -> None:
    services.fail = RuntimeError("secret detail")
    body = client.post("/v1/job/stop", json={"job_id": "j"})
    assert body.json["retmsg"] == "internal error"
    assert b"secret" not in body.data
    assert "secret detail" in caplog.text


def test_a_trailing_slash_is_optional(client: FlaskClient) -> None:
    assert client.post("/v1/version/get/").json["retcode"] == 0


@pytest.mark.parametrize(
    "raw",
    [b"", b"  ", b"{", b"[]", b"1", b'"x"', b"null", b"\xff\xfe", b"[" * 100_000,
     b'{"a":' * 5000 + b"1" + b"}" * 5000, b"NaN"],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_a_clear_error(client: FlaskClient, raw: bytes) -> None:
    answer = client.post("/v1/job/submit", data=raw)
    assert answer.status_code == 200
    assert answer.json["retcode"] == 101
    assert answer.json["error"]["name"] == "BadRequest"


def test_where_no_body_is_needed_a_bad_one_counts_as_absent(client: FlaskClient) -> None:
    assert client.post("/v1/version/get", data=b"{").json["data"] == {"FATE": "1.11.4", "API": "v1"}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_json_is_read_whatever_its_content_type(client: FlaskClient, kind: str) -> None:
    body = client.post("/v1/job/stop", data=b'{"job_id":"j"}', content_type=kind).json
    assert body["retcode"] == 0


def test_a_body_over_the_limit_is_http_413(services: Any) -> None:
    app = whole_app(services, WebSettings(body_bytes=1000))
    answer = app.test_client().post("/v1/job/stop", data=b'{"job_id":"' + b"x" * 2000 + b'"}')
    assert (answer.status_code, answer.json["retcode"]) == (413, 413)


@pytest.mark.parametrize("value", [[], {}, True, 1.5])
def test_a_member_of_the_wrong_type_is_a_clear_error(client: FlaskClient, value: object) -> None:
    body = client.post("/v1/job/stop", json={"job_id": value}).json
    assert body["retcode"] == 101
    assert "job_id" in body["retmsg"]


def test_versions_of_unknown_modules_are_http_404(client: FlaskClient) -> None:
    assert client.post("/v1/version/get", json={"module": "X"}).status_code == 404
    assert client.post("/v1/server/version/get", json={}).json["data"]["FATEFlow"] == "1.11.2"


def test_health_tells_whether_jobs_can_run(client: FlaskClient, services: Any) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    services.is_ready = False
    assert client.get("/readyz").status_code == 503


@pytest.mark.parametrize("path", ["/metrics", "/v2/job/submit", "/favicon.ico", "/healthz/x"])
def test_an_unknown_url_is_http_404_with_a_reason(client: FlaskClient, path: str) -> None:
    for answer in (client.get(path), client.post(path, json={})):
        assert answer.status_code == 404
        assert answer.json["error"]["name"] == "RouteNotFound"
        assert path in answer.json["retmsg"]


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/job/nothing", "/v1/metrics"])
def test_below_v1_an_unknown_url_is_answered_as_fate_does(client: FlaskClient, path: str) -> None:
    answer = client.post(path, json={})
    assert (answer.status_code, answer.json["retcode"]) == (200, 100)


def test_the_root_leads_to_the_board_or_says_what_the_server_is(services: Any) -> None:
    led = whole_app(services, WebSettings()).test_client().get("/")
    assert (led.status_code, led.headers["Location"]) == (302, "/board/")
    alone = whole_app(services, WebSettings(board=None)).test_client()
    assert alone.get("/").status_code == 200
    assert alone.get("/").json["api"] == "/v1/docs"
    assert alone.get("/x").json["error"]["name"] == "RouteNotFound"


# --- the relay ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PARTY_COMMANDS))
def test_the_relay_serves_every_party_command(relay: Relay, services: Any, name: str) -> None:
    status, body = relay(party_path(name), HEADERS, b'{"a":1}')
    assert status == 200
    assert json.loads(body)["data"] == {"name": name}
    incoming: Incoming = services.calls[0][1]
    assert incoming.name == name
    assert incoming.source_party == "10000"
    assert incoming.request_id == "abc-1"
    assert incoming.body == {"a": 1}
    if "<job_id>" in PARTY_COMMANDS[name]:
        assert (incoming.job_id, incoming.site) == (JOB.job_id, GUEST)
    if "<task_id>" in PARTY_COMMANDS[name]:
        assert (incoming.component, incoming.version) == ("lr_0", 2)


def test_the_relay_decodes_a_body_once(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counted(raw: bytes, *, max_values: int) -> Any:
        decoded.append(raw)
        return json.loads(raw)

    monkeypatch.setattr(routes, "decode_json", counted)
    relay(party_path("job_start"), HEADERS, b'{"epoch":1}')
    assert decoded == [b'{"epoch":1}']


@pytest.mark.parametrize("named", [GUEST, Site(Role.HOST, PartyId("10000"))])
def test_another_party_is_not_told_why_the_store_cannot_be_used(
    relay: Relay, services: Any, caplog: pytest.LogCaptureFixture, named: Site
) -> None:
    services.fail = StoreUnavailable(reason="/srv/fedflow/fedflow.sqlite: no such column")
    _, body = relay(party_path("initiator_report", named), HEADERS, b"{}")
    assert json.loads(body)["error"]["name"] == "StoreUnavailable"
    assert b"/srv" not in body
    assert "/srv/fedflow" in caplog.text


def test_another_party_is_not_told_which_packages_are_missing(
    relay: Relay, services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.base.libraries.missing_libraries", lambda: "numpy, pyarrow")
    services.fail = ModuleNotFoundError("No module named 'numpy'", name="numpy")
    _, body = relay(party_path("job_create"), HEADERS, b"{}")
    assert json.loads(body)["error"]["name"] == "LibrariesMissing"
    assert b"numpy" not in body


@pytest.mark.parametrize("name", sorted(PARTY_COMMANDS))
def test_no_party_command_is_open_to_plain_http(
    client: FlaskClient, services: Any, name: str
) -> None:
    forged = {**HEADERS, "fedflow.party": "10000", "fedflow-party": "10000"}
    body = client.post(party_path(name), json={}, headers=forged).json
    assert body["retcode"] == 108
    assert services.calls == []


def test_party_http_can_be_allowed(services: Any) -> None:
    client = whole_app(services, WebSettings(allow_party_http=True)).test_client()
    assert client.post(party_path("job_create"), json={}, headers=HEADERS).json["retcode"] == 0
    assert services.calls[0][1].source_party == "10000"


@pytest.mark.parametrize(
    ("protocol", "retcode"), [("3-4 9.0", 107), ("2-7 9.0", 0), ("1-1", 0), ("nonsense", 0)]
)
def test_a_release_without_a_common_protocol_is_refused_over_http_too(
    services: Any, protocol: str, retcode: int
) -> None:
    client = whole_app(services, WebSettings(allow_party_http=True)).test_client()
    given = {**HEADERS, "X-FEDFLOW-PROTOCOL": protocol}
    body = client.post(party_path("job_create"), json={}, headers=given).json
    assert body["retcode"] == retcode
    assert len(services.calls) == (0 if retcode else 1)


@pytest.mark.parametrize(
    "path",
    ["/v1/job/submit", "/v1/job/query", "/healthz", "/v1/version/get", "/v1/data/upload", "",
     "/v1/party/x", "/v1/table/delete", "/v1/party/heartbeat?x", "/board",
     *(PREFIX + task_path(name, TASK) for name in WORKER_COMMANDS)],
)  # fmt: skip
def test_the_relay_opens_nothing_else(relay: Relay, services: Any, path: str) -> None:
    _, body = relay(path, {**HEADERS, **TOKEN}, b"{}")
    assert json.loads(body)["error"]["name"] == "ForbiddenRoute"
    assert services.calls == []


def test_the_relay_needs_to_know_who_calls(relay: Relay) -> None:
    _, body = relay(party_path("heartbeat"), {}, b"{}")
    assert json.loads(body)["retcode"] == 109


def test_the_relay_answers_an_error_as_an_envelope(relay: Relay, services: Any) -> None:
    services.fail = FedflowError()
    _, body = relay(party_path("heartbeat"), HEADERS, b"")
    assert json.loads(body)["error"]["code"] == 1


@pytest.mark.parametrize("raw", [b"{", b"[]", b"[" * 10_000])
def test_a_command_with_a_bad_body_is_refused(relay: Relay, services: Any, raw: bytes) -> None:
    _, body = relay(party_path("job_create"), HEADERS, raw)
    assert json.loads(body)["error"]["name"] == "BadRequest"
    assert services.calls == []


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\nb", "ä"])
def test_a_malformed_request_id_is_refused(relay: Relay, given: str) -> None:
    _, body = relay(party_path("heartbeat"), {**HEADERS, "X-FEDFLOW-REQUEST-ID": given}, b"{}")
    assert json.loads(body)["error"]["name"] == "BadRequest"


def test_a_status_that_is_none_is_refused(relay: Relay, services: Any) -> None:
    for name, known, wrong in (("job_stop", "failed", "pass"), ("task_stop", "success", "ready")):
        path = party_path(name).replace(f"/{known}", f"/{wrong}")
        _, body = relay(path, HEADERS, b"{}")
        assert json.loads(body)["error"]["name"] == "BadRequest"
    assert services.calls == []


def test_a_task_id_of_another_task_is_refused(relay: Relay, services: Any) -> None:
    path = party_path("task_start").replace("_lr_0", "_lr_1")
    _, body = relay(path, HEADERS, b"{}")
    assert json.loads(body)["error"]["name"] == "BadRequest"


# --- executors ------------------------------------------------------------------------------------


@pytest.fixture
def executor(app: Flask) -> FlaskClient:
    """Return a client as one is that comes through the unix socket."""
    client = app.test_client()
    client.environ_base["REMOTE_ADDR"] = OVER_UNIX
    return client


def test_an_executor_reports_with_its_token(executor: FlaskClient, services: Any) -> None:
    path = PREFIX + task_path("task_report", TASK)
    assert executor.post(path, json={"party_status": "running"}, headers=TOKEN).json["retcode"] == 0
    assert services.calls == [("report", TASK, "t", RunningReport())]


@pytest.mark.parametrize("name", sorted(WORKER_COMMANDS))
def test_without_token_no_executor_route_answers(
    executor: FlaskClient, services: Any, name: str
) -> None:
    body = executor.post(PREFIX + task_path(name, TASK), json={"namespace": "a"}).json
    assert body["retcode"] == 109
    assert services.calls == []


def test_a_replaced_launch_is_told_so(executor: FlaskClient, services: Any) -> None:
    services.fail = LaunchRefused(launch_id="l", task="t")
    path = PREFIX + task_path("task_report", TASK)
    running = {"party_status": "running"}
    assert executor.post(path, json=running, headers=TOKEN).json["retcode"] == 10


def test_an_executor_asks_for_tables(executor: FlaskClient, services: Any) -> None:
    path = PREFIX + task_path("table_get", TASK)
    ask = {"namespace": "exp", "table_name": "g"}
    entry = executor.post(path, json=ask, headers=TOKEN).json["data"]
    assert entry["address"] == "ab" * 16
    assert entry["preview"][0] == ["1", "0", "2.5"]
    path = PREFIX + task_path("table_create", TASK)
    assert (
        executor.post(path, json={"table": entry, "drop": True}, headers=TOKEN).json["retcode"] == 0
    )
    assert services.calls[-1] == ("table_create", TASK, "t", read_as(entry, TableRecord), True)
    assert executor.post(path, json={"table": 1}, headers=TOKEN).json["retcode"] == 101
    running = {"party_status": "running"}
    assert executor.post(path, json=running, headers=TOKEN).json["retcode"] == 101


@pytest.mark.parametrize("name", sorted(WORKER_COMMANDS))
def test_executors_are_served_over_the_unix_socket_only(
    client: FlaskClient, services: Any, name: str
) -> None:
    answer = client.post(PREFIX + task_path(name, TASK), json={"namespace": "a"}, headers=TOKEN)
    assert answer.json["retcode"] == 108
    assert services.calls == []


def test_credentials_are_given_to_executors(executor: FlaskClient, services: Any) -> None:
    path = PREFIX + task_path("table_connection", TASK)
    ask = {"namespace": "exp", "table_name": "g"}
    data = executor.post(path, json=ask, headers=TOKEN).json["data"]
    assert data["secrets"] == {"user": "u", "password": "pw"}
    assert data["address"]["engine"] == "MYSQL"
    assert services.calls == [("connection", TASK, "t", "exp", "g")]
    path = PREFIX + task_path("table_target", TASK)
    data = executor.post(path, json={}, headers=TOKEN).json["data"]
    assert data["address"]["name"] == "new"
    assert services.calls[1:] == [("target", TASK, "t")]


def test_an_executor_saves_metrics(executor: FlaskClient, services: Any) -> None:
    path = PREFIX + task_path("metric_save", TASK)
    executor.post(path, json={"metrics": []}, headers=TOKEN)
    assert services.calls == [("save_metrics", TASK, "t", [])]


def test_two_applications_do_not_share_anything(app: Flask, services: Any, tmp_path: Any) -> None:
    other = whole_app(type(services)(tmp_path), WebSettings())
    other.test_client().post("/v1/job/stop", json={"job_id": "j"})
    assert services.calls == []


@pytest.mark.parametrize("source", ["1/2", "a" * 33, "10000 ", "model/x", "\u0664"])
def test_a_call_of_what_is_no_party_id_is_refused(relay: Relay, services: Any, source: str) -> None:
    _, body = relay(party_path("job_create"), {**HEADERS, "SRC-PARTY-ID": source}, b"{}")
    assert "is not a party id" in json.loads(body)["retmsg"]
    assert services.calls == []
