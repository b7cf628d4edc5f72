"""The OpenAPI 3.1 document of an application, from the declarations of its routes.

The same declarations check the requests (`web/routes.py`), so the document cannot say anything
else. It holds what clients may call; routes for executors and for other parties are not in it.
Source: OpenAPI Specification 3.1.1; JSON Schema 2020-12.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from flask import Flask
from werkzeug.routing import IntegerConverter, Rule

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.error import FedflowError
from fedflow.base.values import dataclass
from fedflow.web.mounts import served
from fedflow.web.requests import Body, NoBody, schema_of_member
from fedflow.web.routes import Access, Route, Style, declaration
from fedflow.web.tags import TAGS
from fedflow.wire import headers
from fedflow.wire.paths import PREFIX

Json = dict[str, Any]

SHOWN: Final = frozenset({Access.CLIENT, Access.OPEN})
JSON_TYPE: Final = "application/json"

_REF: Final = "#/components/schemas/{name}"
_SIGNATURE: Final = {
    "Timestamp": (headers.TIMESTAMP, "Milliseconds since the epoch, near the server's clock."),
    "Nonce": (headers.NONCE, "A text that was not used before."),
    "AppKey": (headers.APP_KEY, "The app key; APP-KEY is the same header."),
    "Signature": (
        headers.SIGNATURE,
        "base64(HMAC-SHA1(secret, message)). The message is six texts joined by line feeds:"
        " timestamp, nonce, app key, path and query as sent, the body (empty for forms), and a"
        " form's fields as k=v&k=v sorted by name.",
    ),
}
_ABOUT: Final = """\
The API of FATE Flow 1.x, and what fedflow adds to it (`x-fedflow-own`).

A body is read as JSON whatever its Content-Type, on GET too. Numbers may be sent as texts, and
party ids and other texts as whole numbers; a switch is `true`, `1` or `"1"`. Members that a route
does not know are ignored; null counts as absent.

An answer is HTTP 200 with an envelope, `retcode` 0 for a success. An error is the same envelope
with another `retcode`, or, on downloads and some lists, an HTTP status: clients take exactly 200
as the file, and 210 means that there is nothing to send.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One method of one route that clients may call."""

    method: str  #: upper case
    rule: Rule
    route: Route
    text: str  #: the view's docstring
    about: str  #: what its module says of the noun

    @property
    def path(self) -> str:
        """Return the path as OpenAPI writes it."""
        return re.sub(r"<(?:[^<>:]+:)?([^<>]+)>", r"{\1}", self.rule.rule)

    @property
    def operation_id(self) -> str:
        """Return its name: the path's words, behind `get` where the method is not POST."""
        words = re.findall(r"[A-Za-z0-9]+", self.rule.rule.removeprefix(PREFIX))
        return "_".join(([] if self.method == "POST" else [self.method.lower()]) + words)

    @property
    def tag(self) -> str:
        """Return the noun it belongs to; what stands beside `/v1` is about the server."""
        if self.route.style is Style.BOARD:
            return "fateboard"
        under = self.rule.rule.removeprefix(PREFIX + "/")
        return re.split(r"[/.]", under)[0] if under != self.rule.rule else "server"


def operations(app: Flask) -> Iterator[Operation]:
    """Yield what clients may call, by path and method."""
    for rule, view in sorted(served(app), key=lambda one: one[0].rule):
        declared = declaration(view)
        if declared is None or declared.access not in SHOWN:
            continue
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            text = inspect.getdoc(view) or ""
            yield Operation(method=method, rule=rule, route=declared, text=text, about=_about(view))


def document(app: Flask, *, version: str, signed: bool) -> Json:
    """Return the document; `signed` tells whether this server refuses unsigned requests."""
    found = list(operations(app))
    schemas = _Schemas(found)
    paths: dict[str, Json] = {}
    for one in found:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas, signed=signed)
    used = {one.tag: one.about for one in found}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fedflow",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": t, "description": TAGS.get(t, used[t])} for t in sorted(used)],
        "paths": paths,
        "components": {
            "schemas": {**schemas.named, **_error_schemas()},
            "securitySchemes": {
                name: {"type": "apiKey", "in": "header", "name": header, "description": sense}
                for name, (header, sense) in _SIGNATURE.items()
            },
        },
    }


def _about(view: Callable[..., object]) -> str:
    """Return what a module with the docstring "`/v1/noun`: a sentence." says."""
    text = inspect.getdoc(inspect.getmodule(view)) or ""
    sentence = text.partition("\n")[0].partition(": ")[2]
    return sentence[:1].upper() + sentence[1:]


# --- one operation --------------------------------------------------------------------------------


def _operation(one: Operation, schemas: _Schemas, *, signed: bool) -> Json:
    summary, _, _rest = one.text.partition("\n")
    shown: Json = {
        "operationId": one.operation_id,
        "tags": [one.tag],
        "summary": summary.rstrip("."),
        "description": " ".join(one.text.split()),
        "responses": _responses(one.route, schemas),
        "security": _security(one.route, signed=signed),
        "x-error-style": one.route.style.value,
    }
    if one.route.own:
        shown["x-fedflow-own"] = True
    parameters = list(_path_parameters(one.rule))
    if parameters:
        shown["parameters"] = parameters
    body = _request_body(one.route, schemas)
    if body:
        shown["requestBody"] = body
    return shown


def _security(route: Route, *, signed: bool) -> list[Json]:
    if route.access is Access.OPEN:
        return []
    every: Json = {name: [] for name in _SIGNATURE}
    return [every] if signed else [{}, every]


def _path_parameters(rule: Rule) -> Iterator[Json]:
    for name in re.findall(r"<(?:[^<>:]+:)?([^<>]+)>", rule.rule):
        whole = isinstance(rule._converters[name], IntegerConverter)
        schema: Json = {"type": "integer", "minimum": 0} if whole else _PATH_TEXT
        yield {"name": name, "in": "path", "required": True, "schema": schema}


_PATH_TEXT: Final[Json] = {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}


def _request_body(route: Route, schemas: _Schemas) -> Json | None:
    if route.form:
        return {
            "required": True,
            "content": {"multipart/form-data": {"schema": _form(route, schemas)}},
        }
    if route.body is NoBody:
        return None
    content = {JSON_TYPE: {"schema": schemas.of(route.body)}}
    return {"required": route.needed, "content": content}


def _form(route: Route, schemas: _Schemas) -> Json:
    """Return a form's schema: the part `file`, and texts that may also stand in the query."""
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    part = {"type": "object", "properties": {"file": file}, "required": ["file"]}
    return part if route.body is NoBody else {"allOf": [schemas.of(route.body), part]}


def _responses(route: Route, schemas: _Schemas) -> Json:
    failure = {"$ref": _REF.format(name="StatusFailure")}
    answers: Json = {"200": _ok(route, schemas)}
    if route.style is Style.BOARD:
        return answers
    if route.bare:
        answers["503"] = _json_answer("The server cannot take jobs.", schemas.of(route.data))
        return answers
    if route.style is Style.STATUS:
        answers["210"] = _json_answer("There is nothing to send.", failure)
        answers["5XX"] = _json_answer("A defect, or a part that is missing.", failure)
    answers["4XX"] = _json_answer("The request was refused.", failure)
    return answers


def _ok(route: Route, schemas: _Schemas) -> Json:
    content: Json = {}
    if route.produces is not None:
        whatever = {} if route.produces == JSON_TYPE else {"type": "string"}
        content[route.produces] = {"schema": whatever}
    if route.style is Style.BOARD:
        content.setdefault(JSON_TYPE, {"schema": _of_board(route, schemas)})
    elif route.bare:
        content[JSON_TYPE] = {"schema": schemas.of(route.data)}
    elif route.data is not None or route.produces is None:
        success = _success(route, schemas)
        in_band = [success, {"$ref": _REF.format(name="Failure")}]
        content.setdefault(
            JSON_TYPE, {"schema": success if route.style is Style.STATUS else {"oneOf": in_band}}
        )
    described = "The file." if route.produces else "Success, or an error with its retcode."
    return {"description": described, "content": content}


def _of_board(route: Route, schemas: _Schemas) -> Json:
    """Return the schema of FATE-Board's envelope; `data` is null where there is none."""
    shown = {"type": "null"} if route.data is None else schemas.of(route.data)
    members: Json = {
        "code": {"type": "integer"},
        "msg": _TEXT,
        "data": {"anyOf": [shown, {"type": "null"}]},
        "error": {"$ref": _REF.format(name="Error")},
    }
    return _object(members, required=("code", "msg", "data"))


def _success(route: Route, schemas: _Schemas) -> Json:
    members: Json = {"retcode": {"const": 0}, "retmsg": {"type": "string"}, "jobId": _TEXT}
    if route.data is not None:
        members["data"] = schemas.of(route.data)
    if route.meta is not None:
        members["meta"] = schemas.of(route.meta)
    return _object(members, required=("retcode", "retmsg"), closed=True)


def _json_answer(description: str, schema: Json) -> Json:
    return {"description": description, "content": {JSON_TYPE: {"schema": schema}}}


# --- schemas --------------------------------------------------------------------------------------


class _Schemas:
    """The schemas of all bodies and answers, the named ones in one place."""

    def __init__(self, found: Iterable[Operation]) -> None:
        kinds: list[Any] = []
        for one in found:
            for kind in (one.route.body, one.route.data, one.route.meta):
                if kind not in (None, NoBody) and kind not in kinds:
                    kinds.append(kind)
        schemas, self.named = msgspec.json.schema_components(
            [_described(kind) for kind in kinds], schema_hook=schema_of_member, ref_template=_REF
        )
        self._kinds = list(zip(kinds, schemas, strict=True))

    def of(self, kind: Any) -> Json:
        """Return the schema of a declared type."""
        return next(dict(schema) for known, schema in self._kinds if known == kind)


def _described(kind: Any) -> Any:
    """Return a body class as msgspec can describe it: defaults as plain values, and without the
    member that stands for the whole of an open body. Other types are returned as they are.
    """
    if not (isinstance(kind, type) and issubclass(kind, Body)):
        return kind
    members = [
        (field.name, field.type, _described_default(field))
        for field in msgspec.structs.fields(kind)
        if field.encode_name
    ]
    return msgspec.defstruct(
        kind.__name__, members, module=kind.__module__, namespace={"__doc__": kind.__doc__},
        kw_only=True,
    )  # fmt: skip


def _described_default(field: msgspec.structs.FieldInfo) -> Any:
    if field.required:
        return msgspec.field(name=field.encode_name)
    if field.default is msgspec.NODEFAULT:
        return msgspec.field(name=field.encode_name, default_factory=field.default_factory)
    default = field.default
    for kind in (str, bool, int, float):
        if isinstance(default, kind):
            default = kind(default)
            break
    if isinstance(default, tuple):
        return msgspec.field(name=field.encode_name, default_factory=lambda: list(default))
    return msgspec.field(name=field.encode_name, default=default)


_TEXT: Final[Json] = {"type": "string"}


def _object(members: Mapping[str, Any], *, required: Iterable[str], closed: bool = False) -> Json:
    shape: Json = {"type": "object", "properties": dict(members), "required": list(required)}
    if closed:
        shape["additionalProperties"] = False
    return shape


def _error_schemas() -> dict[str, Json]:
    """Return the schemas of errors; every one that the server knows is listed by name."""
    errors = sorted(all_errors(), key=lambda kind: kind.code)
    problem = _object(
        {"path": _TEXT, "message": _TEXT, "rule": _TEXT}, required=("path", "message")
    )
    error = _object(
        {
            "code": {"type": "integer"},
            "name": {"enum": ["InternalError", *(kind.__name__ for kind in errors)]},
            "hint": _TEXT,
            "path": _TEXT,
            "said": _object({"template": _TEXT, "fields": {"type": "object"}}, required=()),
            "problems": {"type": "array", "items": problem},
        },
        required=("name",),
    )
    error["description"] = "Which error it is, for programs."
    error["x-errors"] = {kind.__name__: _error_row(kind) for kind in errors}
    failure = {
        "retcode": {"type": "integer", "not": {"const": 0}},
        "retmsg": _TEXT,
        "data": {},
        "jobId": _TEXT,
        "meta": {},
        "error": {"$ref": _REF.format(name="Error")},
    }
    status = {name: failure[name] for name in ("retcode", "retmsg", "error")}
    return {
        "Error": error,
        "Failure": _object(failure, required=("retcode", "retmsg"), closed=True),
        "StatusFailure": _object(status, required=("retcode", "retmsg"), closed=True),
    }


def _error_row(kind: type[FedflowError]) -> Json:
    return {
        "code": kind.code, "retcode": kind.retcode, "http": kind.http, "message": kind.template(),
    }  # fmt: skip
