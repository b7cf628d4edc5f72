"""Bad input on every route that clients may call, taken from the declarations: a new route is
covered the moment it is declared.

No use case is built: whatever is wrong with a request is found before one is called.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fedflow.web.context import built_of
from fedflow.web.openapi import Operation, operations
from fedflow.web.requests import Alternatives, Flag, Text, Whole
from fedflow.web.routes import Access, Style
from fedflow.web.settings import WebSettings
from tests.unit.web.applications import whole_app
from tests.unit.web.test_web_auth import KEYS, sign

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
NO_OBJECTS = (
    b"", b" ", b"{", b"[]", b"1", b'"x"', b"null", b"\xff\xfe\x00", b"NaN", b'"\\ud800"',
    b"[" * 200, b'{"a":' * 200 + b"1" + b"}" * 200, b'{"a": 1} x', b"job_id=1",
)  # fmt: skip
NOW_MS = 1_795_168_800_000
NOTHING: Any = None  #: the use cases of an application whose use cases are never reached


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request that must be refused, and what the refusal must name."""

    operation: Operation
    body: Any
    error: str
    names: str
    what: str

    def __str__(self) -> str:
        return f"{self.operation.method} {self.operation.path} {self.what}"


ALL = list(operations(whole_app(NOTHING, WebSettings())))
READING = [one for one in ALL if not one.route.form]
NEEDING = [one for one in READING if one.route.needed]


# --- values that fit a declared type, and values that do not --------------------------------------


def bare(kind: Any) -> Any:
    """Return a declared type without `| None` and annotations."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        kinds = choices(kind)
        return bare(kinds[0]) if len(kinds) == 1 else kind
    return kind


def choices(kind: Any) -> list[Any]:
    """Return the members of a union, without None."""
    return [one for one in get_args(kind) if one is not type(None)]


def good(kind: Any) -> Any:
    """Return a value that a member of this type takes."""
    kind = bare(kind)
    if kind in (Text, str, Alternatives, Any):
        return "1"
    if kind in (Whole, int, Flag, bool, float):
        return 1
    if get_origin(kind) in (list, tuple) or kind in (list, tuple):
        return []
    if get_origin(kind) is dict or kind is dict:
        return {}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return {f.encode_name: good(f.type) for f in fields if f.required}
    if isinstance(kind, types.UnionType) or get_origin(kind) is Union:
        return good(choices(kind)[0])
    raise AssertionError(f"tell this test what a {kind} takes")


def bad(kind: Any) -> list[Any]:
    """Return values that a member of this type does not take; none where everything goes."""
    kind = bare(kind)
    if kind is Any:
        return []
    if kind is Text:
        return [{"a": 1}, ["x"], True, 1.5, 10**30, "a\0b"]
    if kind is Whole:
        return ["x", 1.5, True, {}, 10**30, "1" * 30, "1_0", "\u0661"]
    if kind is Flag:
        return ["maybe", {}, [], 1.5]
    if kind is Alternatives:
        return [{}, [[]], [True], 1.5]
    if kind in (str, bool, int, float):
        return [{}, []]
    if get_origin(kind) in (list, tuple, dict) or kind in (list, tuple, dict):
        return ["x", 5]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return ["x", 5, []]
    if isinstance(kind, types.UnionType) or get_origin(kind) is Union:
        each = [bad(one) for one in choices(kind)]
        return [] if not all(each) else [1.5]
    raise AssertionError(f"tell this test what a {kind} does not take")


def fields_of(one: Operation) -> list[Any]:
    return [f for f in msgspec.structs.fields(one.route.body) if f.encode_name]


def complete(one: Operation) -> dict[str, Any]:
    return {f.encode_name: good(f.type) for f in fields_of(one) if f.required}


# --- the cases ------------------------------------------------------------------------------------


def missing(one: Operation) -> Iterator[Case]:
    for field in fields_of(one):
        if not field.required:
            continue
        name, body = field.encode_name, complete(one)
        without = {n: v for n, v in body.items() if n != name}
        for what, given in (("without", without), ("null", {**body, name: None})):
            yield Case(
                operation=one, body=given, error="MissingArgument", names=name,
                what=f"{what} {name}",
            )  # fmt: skip


def mistyped(one: Operation) -> Iterator[Case]:
    for field in fields_of(one):
        for value in bad(field.type):
            yield Case(
                operation=one, body={**complete(one), field.encode_name: value},
                error="BadRequest", names=field.encode_name,
                what=f"{field.encode_name}={value!r:.20}",
            )  # fmt: skip


def call(client: FlaskClient, one: Operation, *, method: str = "", **request: Any) -> TestResponse:
    return client.open(path_of(one), method=method or one.method, **request)


def path_of(one: Operation) -> str:
    path = one.path
    for name in one.rule.arguments:
        path = path.replace("{" + name + "}", "1")
    return path


def check_refusal(answer: TestResponse, one: Operation, *, error: str) -> str:
    """Check that a refusal has the form of its route; return its sentence."""
    body = answer.json
    assert body is not None
    assert body["error"]["name"] == error
    assert body["error"]["hint"]
    if one.route.style is Style.BOARD:
        assert (answer.status_code, body["code"]) == (200, 10008)
        return str(body["msg"])
    if one.route.style is Style.STATUS:
        assert (answer.status_code, body["retcode"]) == (400, 400)
    else:
        assert (answer.status_code, body["retcode"]) == (200, 101)
    return str(body["retmsg"])


@pytest.fixture(scope="module")
def bare_app() -> Flask:
    return whole_app(NOTHING, WebSettings())


@pytest.fixture(scope="module")
def narrow_app() -> Flask:
    return whole_app(NOTHING, WebSettings(body_bytes=1000))


@pytest.fixture(scope="module")
def signed_app() -> Flask:
    return whole_app(NOTHING, WebSettings(client_keys=KEYS), clock=StandingClock())


class StandingClock:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return NOW_MS / 1000


@pytest.fixture
def caller(bare_app: Flask) -> FlaskClient:
    return bare_app.test_client()


@pytest.mark.parametrize("one", NEEDING, ids=lambda one: one.operation_id)
def test_a_missing_or_null_member_is_named(caller: FlaskClient, one: Operation) -> None:
    for case in missing(one):
        answer = call(caller, one, json=case.body)
        sentence = check_refusal(answer, one, error=case.error)
        assert sentence.startswith("required argument are missing: "), case
        assert case.names in sentence, case


@pytest.mark.parametrize("one", READING, ids=lambda one: one.operation_id)
def test_a_member_of_a_wrong_type_is_named(caller: FlaskClient, one: Operation) -> None:
    for case in mistyped(one):
        answer = call(caller, one, json=case.body)
        sentence = check_refusal(answer, one, error=case.error)
        assert f"$.{case.names}" in sentence, case


@pytest.mark.parametrize("one", NEEDING, ids=lambda one: one.operation_id)
def test_a_body_that_is_no_json_object_is_refused_whatever_its_type(
    caller: FlaskClient, one: Operation
) -> None:
    for raw in NO_OBJECTS:
        for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
            answer = call(caller, one, data=raw, content_type=kind)
            assert "body" in check_refusal(answer, one, error="BadRequest")


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.operation_id)
def test_another_method_is_answered_as_an_unknown_route(
    bare_app: Flask, caller: FlaskClient, one: Operation
) -> None:
    urls = built_of(bare_app).mounts.find(path_of(one)).url_map.bind("localhost")
    for method in METHODS:
        if urls.test(path_of(one), method):
            continue
        answer = call(caller, one, method=method)
        of_fate = path_of(one).startswith(("/v1/", "/fateboard/"))
        assert answer.status_code == (200 if of_fate else 404)
        assert answer.json is not None
        assert answer.json["retcode"] == 100
        assert answer.json["error"]["name"] in ("RouteNotFound", "NotSupportedYet")
        assert method in answer.json["retmsg"] or "not supported" in answer.json["retmsg"]


@pytest.mark.parametrize("one", READING, ids=lambda one: one.operation_id)
def test_a_body_that_is_too_large_is_http_413(narrow_app: Flask, one: Operation) -> None:
    answer = call(narrow_app.test_client(), one, data=b'{"a": "' + b"x" * 2000 + b'"}')
    assert answer.status_code == 413
    assert answer.json is not None
    assert answer.json["retcode"] == 413


# --- signatures -----------------------------------------------------------------------------------


def signatures(one: Operation, now_ms: int) -> dict[str, dict[str, str]]:
    path = path_of(one)
    right = sign(path, b"{}", now_ms=now_ms)
    return {
        "none": {},
        "bad": {**right, "SIGNATURE": "AAAA" + right["SIGNATURE"][4:]},
        "of another path": sign("/v1/other", b"{}", now_ms=now_ms),
        "old": sign(path, b"{}", now_ms=now_ms - 61_000),
        "early": sign(path, b"{}", now_ms=now_ms + 61_000),
        "unknown key": sign(path, b"{}", now_ms=now_ms, key="other"),
        "wrong secret": sign(path, b"{}", now_ms=now_ms, secret="other"),
        "no time": {**right, "TIMESTAMP": "soon"},
    }


def check_unsigned(answer: TestResponse, one: Operation) -> None:
    assert answer.json is not None
    assert answer.json["error"]["name"] == "NotAuthenticated"
    if one.route.style is Style.BOARD:
        assert (answer.status_code, answer.json["code"]) == (200, 10015)
        return
    assert answer.json["retcode"] == 109
    assert answer.json["retmsg"].startswith("The request is not authenticated: ")
    assert answer.status_code == (401 if one.route.style is Style.STATUS else 200)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.operation_id)
def test_a_request_that_is_not_signed_well_is_refused(signed_app: Flask, one: Operation) -> None:
    for headers in signatures(one, NOW_MS).values():
        answer = call(
            signed_app.test_client(),
            one,
            data=b"{}",
            headers=headers,
            content_type="application/json",
        )
        if one.route.access is Access.CLIENT:
            check_unsigned(answer, one)


@pytest.mark.parametrize("one", NEEDING, ids=lambda one: one.operation_id)
def test_a_request_that_is_sent_again_is_refused(signed_app: Flask, one: Operation) -> None:
    """The first is refused for its body, so its signature was fine; the second for its nonce."""
    client = signed_app.test_client()
    headers = sign(path_of(one), b"[]", now_ms=NOW_MS, nonce=one.operation_id)
    first = call(client, one, data=b"[]", headers=headers, content_type="application/json")
    check_refusal(first, one, error="BadRequest")
    again = call(client, one, data=b"[]", headers=headers, content_type="application/json")
    check_unsigned(again, one)
