"""Requests, envelopes and errors, against a real HTTP server."""

from __future__ import annotations

import socket

import pytest

from fedflow.base.errors.data import NoData, TableExists
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import ClientError
from fedflow.base.errors.start import BadSetting, ServerNotReachable
from fedflow.client.client import Client
from fedflow.client.signing import signature
from fedflow.wire.envelope import failure
from tests.support.rest import Answer, RestServer


def _failing(error):
    return Answer(raw=_json(failure(error)))


def _json(value):
    import msgspec

    return msgspec.json.encode(value)


@pytest.fixture
def server():
    with RestServer() as one:
        yield one


@pytest.fixture
def client(server):
    with Client(server.url, timeout_s=60.0) as one:
        yield one


def test_a_named_error_arrives_as_its_class_with_the_servers_sentence(server, client):
    server.answers["/v1/job/status"] = _failing(JobNotFound(job_id="7"))
    with pytest.raises(JobNotFound) as caught:
        client.job("7")
    assert caught.value.message == "No job 7 at this server."
    assert caught.value.hint == JobNotFound.hint


def test_a_name_with_two_fields_keeps_its_sentence(server, client):
    server.answers["/v1/data/upload/history"] = _failing(TableExists(namespace="a", name="b"))
    with pytest.raises(TableExists, match=r"Table a\.b exists already\."):
        client.upload_history()


def test_an_invalid_job_arrives_with_every_mistake(server, client):
    from fedflow.base.errors.documents import Problem

    problems = [Problem("$.dsl.components.a", "no module", "X"), Problem("$.conf", "bad", "Y")]
    server.answers["/v1/job/submit"] = _failing(InvalidJobSpec(problems))
    with pytest.raises(InvalidJobSpec) as caught:
        client.submit({}, {})
    assert list(caught.value.problems) == problems


def test_an_error_without_a_known_name_is_a_client_error_with_the_servers_sentence(server, client):
    server.answers["/v1/job/status"] = Answer(retcode=100, retmsg="something else")
    with pytest.raises(ClientError, match="something else"):
        client.job("7")


def test_an_error_name_that_is_no_error_class_is_not_trusted(server, client):
    members = {"error": {"name": "SystemExit", "code": 1, "hint": ""}}
    server.answers["/v1/job/status"] = Answer(retcode=100, retmsg="gone", members=members)
    with pytest.raises(ClientError, match="gone"):
        client.job("7")


@pytest.mark.parametrize(
    "raw", [b"<html>", b"", b"[]", b'{"retmsg": "x"}', b'{"retcode": "0"}', b"[" * 100_000]
)
def test_an_answer_that_is_no_envelope_is_a_client_error(server, client, raw):
    server.answers["/v1/job/status"] = Answer(raw=raw)
    with pytest.raises(ClientError):
        client.job("7")


def test_data_of_a_wrong_shape_is_a_client_error_that_names_the_place(server, client):
    server.answers["/v1/job/status"] = Answer(data={"job_id": 7})
    with pytest.raises(ClientError, match=r"\$\.job_id"):
        client.job("7")


def test_a_redirect_is_not_followed(server, client):
    server.answers["/v1/job/status"] = Answer(status=302, raw=b"{}")
    with pytest.raises(ClientError):
        client.job("7")


def test_no_server_is_said_with_the_systems_reason():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with Client(f"127.0.0.1:{port}") as client:
            with pytest.raises(ServerNotReachable, match="connection refused"):
                client.job("7")
            assert not client.is_healthy()


def test_a_silent_server_is_given_up_after_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Client(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2) as client:
            with pytest.raises(ClientError, match=r"no answer within 0\.2 seconds"):
                client.job("7")


@pytest.mark.parametrize(
    "address", ["", "ftp://x", "http://", "http://h:99999", "http://h/path", "http://u@h", "h:0"]
)
def test_an_address_that_is_none_is_refused_at_once(address):
    with pytest.raises(BadSetting):
        Client(address)


def test_a_bare_host_and_port_is_an_address():
    with Client("127.0.0.1:9380/") as client:
        assert client.address == "http://127.0.0.1:9380"
        assert repr(client) == "<Client http://127.0.0.1:9380>"


def test_an_app_key_without_a_secret_is_refused():
    with pytest.raises(BadSetting):
        Client("127.0.0.1:1", app_key="k")


def test_nothing_to_download_is_told_by_http_210(server, client, tmp_path):
    server.answers["/v1/job/log/download"] = Answer(status=210, retcode=210, retmsg="no data")
    with pytest.raises(NoData):
        client.log_download("7", tmp_path)


# --- signatures -----------------------------------------------------------------------------------


def test_the_signature_equals_one_made_by_openssl():
    # printf '1795168800000\nn-1\nkey\n/v1/job/submit\n{"a":1}\n' | openssl dgst -sha1 -hmac secret
    #   -binary | base64
    made = signature(
        "secret",
        app_key="key",
        timestamp="1795168800000",
        nonce="n-1",
        target="/v1/job/submit",
        json_body=b'{"a":1}',
    )
    assert made == "91mCZSWKOa18lVrhBleKvB8hl1Q="


def _signed_as_it_should_be(request, *, json_body):
    headers = {name.upper().replace("_", "-"): value for name, value in request.headers.items()}
    return headers["SIGNATURE"] == signature(
        "s3cret",
        app_key=headers["APP-KEY"],
        timestamp=headers["TIMESTAMP"],
        nonce=headers["NONCE"],
        target=request.target,
        json_body=json_body,
    )


def test_every_request_is_signed_over_what_is_sent(server, tmp_path):
    file = tmp_path / "a b+c.csv"
    file.write_text("id,x\n1,2\n")
    server.answers["/v1/job/stop"] = Answer()
    server.answers["/healthz"] = Answer()
    server.answers["/v1/data/upload"] = Answer(members={"jobId": "9"})
    server.answers["/v1/job/status"] = Answer(retcode=1)
    with Client(server.url, app_key="k", secret="s3cret") as client:
        with pytest.raises(ClientError):
            client.stop("7")
        client.is_healthy()
        client.upload(file, namespace="n&s=+#;", table_name="t ä")
    stop, status, healthz, upload = server.received
    assert _signed_as_it_should_be(stop, json_body=stop.body)
    assert _signed_as_it_should_be(status, json_body=status.body)
    assert _signed_as_it_should_be(healthz, json_body=b"")
    assert _signed_as_it_should_be(upload, json_body=b"")
    assert len({one.headers["NONCE"] for one in server.received}) == 4


def test_a_server_that_checks_signatures_accepts_them(server):
    from flask import Flask

    from fedflow.base.clock import SystemClock
    from fedflow.web.auth import ClientSignatures, signed_request
    from fedflow.web.settings import ClientKeys

    server.answers["/v1/server/version/get"] = Answer(data={})
    with Client(server.url, app_key="k", secret="s3cret") as client:
        client.versions()
    got = server.received[0]
    checker = ClientSignatures(
        ClientKeys(app_key="k", secret="s3cret"), clock=SystemClock(), skew_s=60
    )
    app = Flask("test")
    with app.test_request_context(
        got.target, method="POST", headers=dict(got.headers), data=got.body
    ):
        checker.check(signed_request())
