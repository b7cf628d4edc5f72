"""The OpenAPI 3.1 documents of the two HTTP ports.

Bodies of requests are those that the routes read. Routes and answers are written down, and tests
compare them with those of a process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fedflow import __version__
from fedflow.base.values import dataclass
from fedflow.serving.doors.admin import PrepareLoad, PurgeCaches
from fedflow.serving.doors.binary_tensors import LENGTH_HEADER
from fedflow.serving.doors.fate_inference import BatchRequest, SingleRequest
from fedflow.serving.doors.openapi_schemas import (
    ANY,
    OUTCOME,
    REF,
    SCHEMAS,
    TEXT,
    Json,
    list_of,
    map_of,
    named,
    object_of,
)
from fedflow.serving.doors.tensors import InferRequest
from fedflow.serving.doors.wsgi import DOCUMENT, JSON
from fedflow.serving.metrics import CONTENT_TYPE
from fedflow.serving.services.services import BindService
from fedflow.serving.warm_up import WarmedRows, WarmUpRows

_BYTES: Final = "application/octet-stream"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A route and its method."""

    method: str
    path: str
    what: str
    body: str = ""  #: name of a schema; empty: there is no body
    answer: Json  #: of a success
    needs_token: bool = True
    in_envelope: bool = False  #: the answer is `data` of an envelope
    query: str = ""  #: name of a parameter that it needs


def _looks() -> list[Operation]:
    alive, ready = "Whether the process is alive.", "Whether it answers; HTTP 503: it does not."
    return [
        Operation(
            method="GET", path="/healthz", what=alive, answer=named("Alive"), needs_token=False
        ),
        Operation(
            method="GET", path="/readyz", what=ready, answer=named("Readiness"), needs_token=False
        ),
        Operation(
            method="GET",
            path=DOCUMENT,
            what="This document.",
            answer=map_of(ANY),
            needs_token=False,
        ),
    ]


def _fate(path: str, what: str, body: str, answer: str) -> Operation:
    return Operation(
        method="POST",
        path=f"/federation/v1/{path}",
        what=what,
        body=body,
        answer=named(answer),
    )


def _protocol() -> list[Operation]:
    found = [
        Operation(method="GET", path="/v2", what="What this server is.", answer=named("Server")),
        *(
            Operation(
                method="GET",
                path=f"/v2/health/{word}",
                what=f"Whether the server is {word}.",
                answer=named("Live"),
                needs_token=False,
            )
            for word in ("live", "ready")
        ),
    ]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        found += [
            Operation(
                method="GET",
                path=model,
                what="Versions, inputs and outputs of a model.",
                answer=named("ModelFacts"),
            ),
            Operation(
                method="GET",
                path=f"{model}/ready",
                what="Whether a model answers; HTTP 404: it does not.",
                answer=named("ModelReady"),
            ),
            Operation(
                method="POST",
                path=f"{model}/infer",
                what="Scores of rows, a tensor per column.",
                body="InferRequest",
                answer=named("InferAnswer"),
            ),
        ]
    return found


def _admin(
    method: str,
    path: str,
    what: str,
    answer: Json | None = None,
    *,
    body: str = "",
    query: str = "",
) -> Operation:
    return Operation(
        method=method,
        path=f"/admin/v1/{path}",
        what=what,
        body=body or ("Nothing" if method == "POST" else ""),
        answer=ANY if answer is None else answer,
        in_envelope=True,
        query=query,
    )


CALLERS: Final[Sequence[Operation]] = (
    *_looks(),
    _fate("inference", "The score of a row.", "SingleRequest", "SingleAnswer"),
    _fate("batchInference", "Scores of rows.", "BatchRequest", "BatchAnswer"),
    *_protocol(),
)
ADMIN: Final[Sequence[Operation]] = (
    *_looks(),
    Operation(method="GET", path="/metrics", what="Counts for Prometheus.", answer=TEXT),
    _admin("GET", "models", "Shares that are loaded, or were refused.", list_of(named("Share"))),
    _admin(
        "DELETE",
        "models/{model_version}",
        "Unload a version; its services are unbound.",
        named("Unbound"),
        query="model_id",
    ),
    _admin("GET", "drift", "How far columns are from their references.", list_of(named("Drift"))),
    _admin("POST", "loads", "Check, build and store a share: prepared.", body="PrepareLoad"),
    _admin("POST", "loads/{load_id}/commit", "What was prepared is served."),
    _admin("POST", "loads/{load_id}/abort", "What was prepared is forgotten."),
    _admin("GET", "bindings", "Services and their releases.", list_of(named("Service"))),
    _admin(
        "POST", "bindings", "Bind a service, or change it.", named("Change"), body="BindService"
    ),
    _admin(
        "POST", "bindings/{service_id}/rollback", "The release before answers.", named("Change")
    ),
    _admin(
        "GET", "bindings/{service_id}/comparison", "How its versions compare.", list_of(map_of(ANY))
    ),
    _admin("DELETE", "bindings/{service_id}", "Nothing answers for it.", named("Change")),
    _admin(
        "POST",
        "caches/purge",
        "Forget what caches have of a service, a version or a user; nothing given: all.",
        named("Purged"),
        body="PurgeCaches",
    ),
    _admin(
        "POST",
        "caches/warm-ups",
        "Ask hosts for what the caches lack.",
        named("WarmedRows"),
        body="WarmUpRows",
    ),
    _admin("GET", "tries", "Names of the ids that may go to hosts.", named("Ids")),
    _admin("POST", "tries", "Try a request.", named("SingleAnswer"), body="SingleRequest"),
)


def callers_document() -> Json:
    """Return the document of the callers' port."""
    about = (
        "FATE-Serving's routes, with return codes in the body, and the Open Inference Protocol v2."
    )
    return _document("Callers of a fedflow serving process", about, CALLERS)


def admin_document() -> Json:
    """Return the document of the admin port."""
    about = "Loads, services, health and metrics. A POST has the type application/json."
    return _document("Admin port of a fedflow serving process", about, ADMIN)


def _document(title: str, about: str, operations: Sequence[Operation]) -> Json:
    paths: Json = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    bodies = (
        SingleRequest,
        BatchRequest,
        InferRequest,
        PrepareLoad,
        BindService,
        PurgeCaches,
        WarmUpRows,
        WarmedRows,
    )
    _, schemas = msgspec.json.schema_components(bodies, ref_template=REF)
    known = {**schemas, **SCHEMAS, "Nothing": {"type": "object"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__, "description": about},
        "paths": paths,
        "components": {
            "schemas": _used(paths, known),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    found: Json = msgspec.json.decode(msgspec.json.encode(document))  # without tuples
    return found


def _used(paths: Json, known: Json) -> Json:
    """Return the schemas that paths name, and those that these name."""
    found: Json = {}
    wanted = _names_in(paths)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = known[name]
            wanted |= _names_in(known[name])
    return dict(sorted(found.items()))


def _names_in(value: Any) -> set[str]:
    return set(re.findall(REF.format(name=r"(\w+)"), msgspec.json.encode(value).decode()))


def _operation(one: Operation) -> Json:
    words = re.findall(r"\w+", one.path)
    shown: Json = {
        "operationId": "_".join([one.method.lower(), *words]),
        "summary": one.what,
        "parameters": _parameters(one),
        "responses": _responses(one),
        "security": [{}, {"token": []}] if one.needs_token else [{}],
    }
    if one.body:
        content = {JSON: {"schema": named(one.body)}}
        if one.body == "InferRequest":
            content[_BYTES] = {"schema": {**TEXT, "contentMediaType": _BYTES}}
        shown["requestBody"] = {"required": True, "content": content}
    return shown


def _parameters(one: Operation) -> list[Json]:
    found = [_parameter(name, "path") for name in re.findall(r"{(\w+)}", one.path)]
    if one.query:
        found.append(_parameter(one.query, "query"))
    if one.path.startswith("/federation/") or one.body == "InferRequest":
        found.append(_parameter("caseId", "header", required=False))
    if one.body == "InferRequest":
        found.append(_parameter(LENGTH_HEADER, "header", required=False))
    return found


def _parameter(name: str, place: str, *, required: bool = True) -> Json:
    return {"name": name, "in": place, "required": required, "schema": TEXT}


def _responses(one: Operation) -> Json:
    answer = one.answer
    if one.in_envelope:
        answer = object_of(*(() if answer else ("data",)), **OUTCOME, data=answer)
    kind = CONTENT_TYPE if one.path == "/metrics" else JSON
    content: Json = {kind: {"schema": answer}}
    if one.body == "InferRequest":
        content[_BYTES] = {"schema": {**TEXT, "contentMediaType": _BYTES}}
    error = "ProtocolError" if one.path.startswith("/v2") else "Error"
    failure = {"description": "Failure.", "content": {JSON: {"schema": named(error)}}}
    if one.path in ("/readyz", "/v2/health/ready"):
        return {
            "200": {"description": "Success.", "content": content},
            "503": {"description": "The process stops.", "content": content},
        }
    return {"200": {"description": "Success.", "content": content}, "default": failure}
