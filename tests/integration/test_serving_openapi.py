"""The OpenAPI documents of a serving process: valid, complete, and true of what is answered."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

import fedflow.serving
from fedflow.serving.doors import admin, callers, fate_inference, inference_protocol, tensors
from fedflow.serving.services import services
from tests.support.linear_model import MODEL_ID, share_of
from tests.support.serving_processes import ServingPlace, serving_pair

CODE = Path(fedflow.serving.__path__[0])
ITEM = {"featureData": {"x0": 1.0}, "sendToRemoteFeatureData": {"device_id": "u1"}}
TENSORS = [
    {"name": "x0", "shape": [2], "datatype": "FP64", "data": [1.0, None]},
    {"name": "device_id", "shape": [2], "datatype": "BYTES", "data": ["u1", "nobody"]},
]
MODEL = MODEL_ID.replace("#", "%23")


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    """Give a guest's process with a release of two versions, and a rule."""
    guest, host = serving_pair(
        tmp_path_factory.mktemp("openapi"), explicit_version=True, partner_ids=["device_id"]
    )
    try:
        host.load("load-v2", share_of("host", "v2"))
        guest.load("load-v2", share_of("guest", "v2"))
        guest.bind("v1", "fraud")
        version = {"model_id": MODEL_ID, "model_version": "v2"}
        rule = {"header": "X-Channel", "values": ["beta"], **version}
        more = {"service_id": "fraud", "weight": 30, "rules": [rule], **version}
        assert guest.admin("POST", "bindings", {**more, "options": {"rows_per_s": 9}})[0] == 200
        yield guest
    finally:
        guest.stop()
        host.stop()


@pytest.fixture(scope="module")
def documents(guest: ServingPlace) -> dict[str, Any]:
    found = {port: guest.call(port, "GET", "/openapi.json") for port in ("callers", "admin")}
    assert [status for status, _ in found.values()] == [200, 200]
    return {port: document for port, (_, document) in found.items()}


def operations(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Return methods and paths, names of parameters left out."""
    return {
        (method.upper(), re.sub(r"{\w+}", "{}", path))
        for path, item in document["paths"].items()
        for method in item
    }


def cases_in(module: Any) -> set[tuple[str, ...]]:
    """Return what the `match` of a module tells apart, `{}` for any word."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    return {
        tuple(
            str(part.value.value)
            if isinstance(part, ast.MatchValue) and isinstance(part.value, ast.Constant)
            else "{}"
            for part in node.patterns
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchSequence)
    }


def test_the_documents_are_valid(documents: dict[str, Any]) -> None:
    for document in documents.values():
        validate(document)


def test_every_route_of_the_admin_port_is_described(documents: dict[str, Any]) -> None:
    routes = {(method, "/admin/v1/" + "/".join(words)) for method, *words in cases_in(admin)}
    looks = {("GET", path) for path in ("/healthz", "/readyz", "/openapi.json", "/metrics")}
    assert operations(documents["admin"]) == routes | looks


def test_every_route_of_the_callers_port_is_described(documents: dict[str, Any]) -> None:
    routes = {
        (method, "/".join(["/v2", *words])) for method, *words in cases_in(inference_protocol)
    }
    routes |= {
        (method, path.replace("/models/{}", "/models/{}/versions/{}")) for method, path in routes
    }
    text = Path(callers.__file__).read_text(encoding="utf-8")
    routes |= {("POST", path) for path in re.findall(r'"(/federation/\S+)":', text)}
    looks = ("/healthz", "/readyz", "/openapi.json", "/v2/health/live", "/v2/health/ready")
    assert operations(documents["callers"]) == routes | {("GET", path) for path in looks}


@pytest.mark.parametrize(
    ("port", "body"),
    [
        ("callers", fate_inference.SingleRequest), ("callers", fate_inference.BatchRequest),
        ("callers", tensors.InferRequest), ("callers", tensors.InputTensor),
        ("admin", admin.PrepareLoad), ("admin", services.BindService), ("admin", admin.PurgeCaches),
    ],
)  # fmt: skip
def test_every_member_of_a_body_is_described(
    documents: dict[str, Any], port: str, body: type[msgspec.Struct]
) -> None:
    schema = documents[port]["components"]["schemas"][body.__name__]
    assert set(schema["properties"]) == set(body.__struct_encode_fields__)


def strict(schemas: Any) -> Any:
    """Return schemas in which objects have no members but those that are described."""
    if isinstance(schemas, list):
        return [strict(one) for one in schemas]
    if not isinstance(schemas, dict):
        return schemas
    found = {name: strict(value) for name, value in schemas.items()}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


def check(document: dict[str, Any], method: str, path: str, status: int, answer: Any) -> None:
    """Compare an answer with what the document says of it."""
    responses = document["paths"][path][method.lower()]["responses"]
    response = responses.get(str(status), responses.get("default"))
    schema = strict(copy.deepcopy(response["content"]["application/json"]["schema"]))
    components = strict(copy.deepcopy(document["components"]))
    Draft202012Validator({**schema, "components": components}).validate(answer)


FATE = "/federation/v1/"
ROW = {"head": {"serviceId": "credit"}, "body": ITEM}
WRONG_ROW = {"head": {"serviceId": "nothing"}, "body": ITEM}
ROWS = [{"index": 0, **ITEM}, {"index": 1, **ITEM, "sendToRemoteFeatureData": {"device_id": "x"}}]
BATCH = {"head": {"serviceId": "credit"}, "body": {"batchDataList": ROWS}}
BINARY = {"inputs": TENSORS, "parameters": {"binary_data_output": False}}
BIND = {"service_id": "short", "model_id": MODEL_ID, "model_version": "v1"}
SHARE = share_of("guest", "v3")

CALLS: list[tuple[str, str, str, str, Any, int]] = [
    ("callers", "GET", "/healthz", "", None, 200),
    ("callers", "GET", "/readyz", "", None, 200),
    ("callers", "POST", FATE + "inference", "", ROW, 200),
    ("callers", "POST", FATE + "inference", "", WRONG_ROW, 200),
    ("callers", "POST", FATE + "batchInference", "", BATCH, 200),
    ("callers", "POST", FATE + "batchInference", "", {}, 200),
    ("callers", "GET", "/v2", "", None, 200),
    ("callers", "GET", "/v2/health/live", "", None, 200),
    ("callers", "GET", "/v2/health/ready", "", None, 200),
    ("callers", "GET", "/v2/models/{name}", "/v2/models/credit", None, 200),
    ("callers", "GET", "/v2/models/{name}", "/v2/models/nothing", None, 404),
    ("callers", "GET", "/v2/models/{name}/ready", "/v2/models/credit/ready", None, 200),
    ("callers", "POST", "/v2/models/{name}/infer", "/v2/models/credit/infer", BINARY, 200),
    ("callers", "POST", "/v2/models/{name}/infer", "/v2/models/credit/infer", {}, 400),
    ("admin", "GET", "/readyz", "", None, 200),
    ("admin", "GET", "/admin/v1/models", "", None, 200),
    ("admin", "GET", "/admin/v1/drift", "", None, 200),
    ("admin", "GET", "/admin/v1/bindings", "", None, 200),
    ("admin", "GET", "/admin/v1/tries", "", None, 200),
    ("admin", "POST", "/admin/v1/tries", "", ROW, 200),
    ("admin", "POST", "/admin/v1/caches/purge", "", {"service_id": "credit"}, 200),
    ("admin", "POST", "/admin/v1/bindings", "", BIND, 200),
    ("admin", "POST", "/admin/v1/bindings", "", {}, 400),
    (
        "admin", "GET", "/admin/v1/bindings/{service_id}/comparison",
        "/admin/v1/bindings/fraud/comparison", None, 200,
    ),
    (
        "admin", "POST", "/admin/v1/bindings/{service_id}/rollback",
        "/admin/v1/bindings/fraud/rollback", {}, 200,
    ),
    (
        "admin", "DELETE", "/admin/v1/bindings/{service_id}", "/admin/v1/bindings/short", None, 200,
    ),
    ("admin", "POST", "/admin/v1/loads", "", {"load_id": "l3", "share": SHARE}, 200),
    (
        "admin", "POST", "/admin/v1/loads/{load_id}/commit", "/admin/v1/loads/l3/commit", {}, 200,
    ),
    (
        "admin", "POST", "/admin/v1/loads/{load_id}/abort", "/admin/v1/loads/l3/abort", {}, 409,
    ),
    (
        "admin", "DELETE", "/admin/v1/models/{model_version}",
        f"/admin/v1/models/v3?model_id={MODEL}", None, 200,
    ),
    (
        "admin", "DELETE", "/admin/v1/models/{model_version}", "/admin/v1/models/v3", None, 400,
    ),
]  # fmt: skip


def test_answers_are_as_they_are_described(guest: ServingPlace, documents: dict[str, Any]) -> None:
    for port, method, path, target, body, expected in CALLS:
        status, answer = guest.call(port, method, target or path, body)
        assert status == expected, (path, answer)
        check(documents[port], method, path, status, answer)
