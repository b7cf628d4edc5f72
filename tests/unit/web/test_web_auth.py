"""Signed client requests, checked against the reference's rule by an independent signer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from fedflow.web.auth import ClientSignatures, SignedRequest
from fedflow.web.settings import ClientKeys, WebSettings
from tests.unit.web.applications import whole_app

KEYS = ClientKeys(app_key="app", secret="top secret")


def sign(
    path: str, body: bytes, *, now_ms: int, nonce: str = "n1", secret: str = "top secret",
    form: str = "", key_header: str = "APP-KEY", key: str = "app",
) -> dict[str, str]:  # fmt: skip
    """Sign as docs/reference/rest.md#client-signature says."""
    lines = [str(now_ms).encode(), nonce.encode(), key.encode(), path.encode(), body, form.encode()]
    mac = hmac.new(secret.encode(), b"\n".join(lines), hashlib.sha1).digest()
    return {
        "TIMESTAMP": str(now_ms),
        "NONCE": nonce,
        key_header: key,
        "SIGNATURE": base64.b64encode(mac).decode(),
    }


@pytest.fixture
def signed(services: Any, fixed_clock: Any) -> FlaskClient:
    return whole_app(services, WebSettings(client_keys=KEYS), clock=fixed_clock).test_client()


STOP = b'{"job_id": "j"}'


def post(client: FlaskClient, headers: dict[str, str], body: bytes = STOP) -> dict[str, Any]:
    answer = client.post(
        "/v1/job/stop", data=body, headers=headers, content_type="application/json"
    )
    assert answer.status_code == 200
    result: dict[str, Any] = answer.json
    return result


def test_a_signed_request_is_served(signed: FlaskClient, fixed_clock: Any) -> None:
    assert post(signed, sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms))["retcode"] == 0


def test_an_unsigned_request_is_refused_before_the_use_case(
    signed: FlaskClient, services: Any
) -> None:
    assert post(signed, {})["retcode"] == 109
    assert services.calls == []


@pytest.mark.parametrize("missing", ["TIMESTAMP", "NONCE", "APP-KEY", "SIGNATURE"])
def test_each_header_is_needed(signed: FlaskClient, fixed_clock: Any, missing: str) -> None:
    headers = sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms)
    del headers[missing]
    assert post(signed, headers)["retcode"] == 109


@pytest.mark.parametrize(
    "wrong",
    [{"secret": "x"}, {"key": "other"}, {"nonce": ""}, {"form": "a=b"}],
)
def test_a_wrong_signature_is_refused(
    signed: FlaskClient, fixed_clock: Any, wrong: dict[str, str]
) -> None:
    headers = sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms, **wrong)  # type: ignore[arg-type]
    assert post(signed, headers)["retcode"] == 109


def test_another_body_or_path_is_refused(signed: FlaskClient, fixed_clock: Any) -> None:
    assert post(signed, sign("/v1/job/stop", b"{}", now_ms=fixed_clock.ms))["retcode"] == 109
    assert post(signed, sign("/v1/job/query", STOP, now_ms=fixed_clock.ms))["retcode"] == 109


@pytest.mark.parametrize(
    ("away_ms", "retcode"), [(60_000, 0), (-60_000, 0), (60_001, 109), (-60_001, 109)]
)
def test_the_clock_may_differ_by_a_minute(
    signed: FlaskClient, fixed_clock: Any, away_ms: int, retcode: int
) -> None:
    headers = sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms + away_ms)
    assert post(signed, headers)["retcode"] == retcode


@pytest.mark.parametrize("stamp", ["x", "1.5", "-1", "９", "9" * 400])
def test_a_timestamp_that_is_no_number_is_refused(
    signed: FlaskClient, fixed_clock: Any, stamp: str
) -> None:
    headers = sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms)
    body = post(signed, {**headers, "TIMESTAMP": stamp})
    assert body["retcode"] == 109


def test_a_replay_is_refused_until_its_time_has_passed(
    signed: FlaskClient, fixed_clock: Any
) -> None:
    headers = sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms)
    assert post(signed, headers)["retcode"] == 0
    assert post(signed, headers)["retcode"] == 109
    fixed_clock.ms += 60_000
    assert post(signed, headers)["retcode"] == 109
    fixed_clock.ms += 61_000
    assert post(signed, sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms))["retcode"] == 0


def test_a_refused_request_does_not_use_up_a_nonce(signed: FlaskClient, fixed_clock: Any) -> None:
    assert post(signed, sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms, secret="x"))["retcode"]
    assert post(signed, sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms))["retcode"] == 0


@pytest.mark.parametrize("sent", [b"{}", b""])
@pytest.mark.parametrize("covered", [b"{}", b""])
def test_an_empty_body_may_be_signed_either_way(
    signed: FlaskClient, fixed_clock: Any, sent: bytes, covered: bytes
) -> None:
    headers = sign("/v1/server/version/get", covered, now_ms=fixed_clock.ms)
    answer = signed.post(
        "/v1/server/version/get", data=sent, headers=headers, content_type="application/json"
    )
    assert answer.json["retcode"] == 0


@pytest.mark.parametrize("signed_body", [b"", b"{}"])
def test_a_signature_without_a_body_serves_for_no_body_that_says_it_is_a_form(
    signed: FlaskClient, services: Any, fixed_clock: Any, signed_body: bytes
) -> None:
    headers = sign("/v1/job/stop", signed_body, now_ms=fixed_clock.ms)
    answer = signed.post(
        "/v1/job/stop", data=STOP, headers=headers, content_type="multipart/form-data; boundary=x"
    )
    assert answer.json["retcode"] == 109
    assert services.calls == []
    whole = sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms, nonce="n2")
    answer = signed.post(
        "/v1/job/stop", data=STOP, headers=whole, content_type="multipart/form-data; boundary=x"
    )
    assert answer.json["retcode"] == 0


def test_a_multipart_upload_is_covered_by_its_query(
    signed: FlaskClient, services: Any, fixed_clock: Any
) -> None:
    query = quote('{"namespace": "exp", "table_name": "a b"}', safe="")
    target = f"/v1/data/upload?{query}"
    headers = sign(target, b"", now_ms=fixed_clock.ms)
    answer = signed.post(
        target, data={"file": (io.BytesIO(b"id,x\n1,2\n"), "d.csv")}, headers=headers,
        environ_overrides={"REQUEST_URI": target},
    )  # fmt: skip
    assert answer.json["retcode"] == 0
    assert services.calls[0][1]["table_name"] == "a b"


def test_a_form_is_signed_with_its_sorted_fields(services: Any, fixed_clock: Any) -> None:
    guard = ClientSignatures(KEYS, clock=fixed_clock, skew_s=60)
    headers = sign("/v1/x", b"", now_ms=fixed_clock.ms, form="a=%C3%A4%20~&b=1")
    guard.check(
        SignedRequest(
            timestamp=headers["TIMESTAMP"],
            nonce="n1",
            app_key="app",
            signature=headers["SIGNATURE"],
            target="/v1/x",
            form=(("b", "1"), ("a", "ä ~")),
        )
    )


def test_health_and_party_routes_need_no_client_signature(signed: FlaskClient) -> None:
    assert signed.get("/healthz").status_code == 200
    assert signed.post("/v1/party/heartbeat").json["retcode"] == 108


def test_the_memory_for_nonces_is_bounded(
    signed: FlaskClient, fixed_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.web.auth.MAX_NONCES", 2)
    codes = [
        post(signed, sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms, nonce=f"n{i}"))["retcode"]
        for i in range(3)
    ]
    assert codes == [0, 0, 109]
    fixed_clock.ms += 121_000
    assert post(signed, sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms))["retcode"] == 0


@pytest.mark.parametrize(
    "path",
    ["/v1/job/query", "/v1/table/delete", "/v1/tracking/component/list", "/v1/version/get",
     "/v1/data/upload", "/v1/job/log/download"],
)  # fmt: skip
def test_every_client_blueprint_asks_for_a_signature(signed: FlaskClient, path: str) -> None:
    assert signed.post(path, json={}).json["retcode"] == 109


def test_secrets_are_not_shown() -> None:
    assert "top secret" not in repr(WebSettings(client_keys=KEYS))


@pytest.mark.parametrize(
    ("host", "origin", "served"),
    [
        ("127.0.0.1:9380", None, True),
        ("127.0.0.1:9380", "http://127.0.0.1:9380", True),
        ("localhost:9380", "http://localhost:9380", True),
        ("127.0.0.1:9380", "https://evil.example", False),
        ("127.0.0.1:9380", "http://127.0.0.1:8000", False),
        ("127.0.0.1:9380", "null", False),
        ("evil.example:9380", "http://evil.example:9380", False),  # a name that is pointed here
    ],
)
def test_a_web_page_of_another_site_cannot_use_the_browser_to_call(
    client: FlaskClient, services: Any, host: str, origin: str | None, served: bool
) -> None:
    headers = {"Host": host, "Content-Type": "text/plain"} | ({"Origin": origin} if origin else {})
    answer = client.post("/v1/job/stop", data=STOP, headers=headers)
    assert (answer.json["retcode"] == 0) is served
    assert bool(services.calls) is served
    if not served:
        assert answer.json["error"]["name"] == "NotAuthenticated"


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("127.0.0.1:9380", True), ("[::1]:9380", True), ("10.1.2.3", True), ("localhost", True),
        ("Fedflow.Company:9380", True), ("evil.example", False), ("127.0.0.1.evil.example", False),
        ("fedflow.company.evil.example:9380", False), ("0x7f000001", False), ("evil", False),
    ],
)  # fmt: skip
def test_unsigned_requests_are_answered_under_own_names_only(
    services: Any, host: str, served: bool
) -> None:
    names = frozenset({"fedflow.company"})
    client = whole_app(services, WebSettings(host_names=names)).test_client()
    routes = (("GET", "/v1/party/list"), ("POST", "/v1/job/stop"), ("GET", "/v1/job/j/events"))
    for method, path in routes:
        answer = client.open(path, method=method, headers={"Host": host}, json={"job_id": "j"})
        refused = answer.json.get("error", {}).get("name") == "HostRefused"
        assert refused is not served, (method, path)
    assert bool(services.calls) is served


def test_signed_requests_may_use_any_name(signed: FlaskClient, fixed_clock: Any) -> None:
    headers = {**sign("/v1/job/stop", STOP, now_ms=fixed_clock.ms), "Host": "any.example"}
    assert post(signed, headers)["retcode"] == 0


def test_health_is_answered_under_any_name_but_readiness_without_details(
    client: FlaskClient,
) -> None:
    foreign = {"Host": "balancer.example"}
    assert client.get("/healthz", headers=foreign).json == {"status": "ok"}
    whole, told = client.get("/readyz"), client.get("/readyz", headers=foreign)
    assert told.status_code == whole.status_code
    assert told.json == {"ready": whole.json["ready"]}
    assert len(whole.json) > 1
