"""tritonclient 2.73.0 asks a serving process by the Open Inference Protocol v2, HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.clients.environments import Environment
from tests.support.linear_model import expected_score, share_of
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

_SCRIPT = """
import json, sys
import numpy as np
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

client = http.InferenceServerClient(sys.argv[1])
JSON, BINARY = {"binary_data": False}, {}
found = {"live": client.is_server_live(), "ready": client.is_server_ready(),
         "model": client.is_model_ready("credit"), "other": client.is_model_ready("other"),
         "v2": client.is_model_ready("credit", "v2"), "v9": client.is_model_ready("credit", "v9"),
         "server": client.get_server_metadata(), "facts": client.get_model_metadata("credit")}

def column(name, values, datatype, form):
    one = http.InferInput(name, [len(values)], datatype)
    return one.set_data_from_numpy(np.array(values), **form)

def inputs(users, form=JSON):
    ids = http.InferInput("device_id", [len(users)], "BYTES")
    ids.set_data_from_numpy(np.array(users, dtype=np.object_), **form)
    x0, x1 = ("x0", [1.0, -2.0, 0.5], "FP64"), ("x1", [2, 1, -1], "INT64")
    return [column(*x0, form), column(*x1, form), ids]

wanted = [http.InferRequestedOutput(name, binary_data=False) for name in ("score", "status")]
for name, version in (("v1", ""), ("of_v2", "v2")):
    answer = client.infer("credit", inputs(["u1", "u2", "u1"]), model_version=version,
                          outputs=wanted, request_id="case-1")
    found[name] = {"score": answer.as_numpy("score").tolist(), "answer": answer.get_response()}
answer = client.infer("credit", inputs(["u1", "u2", "u1"], BINARY))
found["binary"] = {"score": answer.as_numpy("score").tolist(), "answer": answer.get_response()}
for form in (JSON, BINARY):
    answer = client.infer("credit", inputs(["u1", "nobody", "u1"], form))
    mixed = {name: answer.as_numpy(name).tolist() for name in ("status", "label")}
    mixed["label"] = [one if isinstance(one, str) else one.decode() for one in mixed["label"]]
    mixed["missing"] = np.isnan(answer.as_numpy("score")).tolist()
    found["mixed_json" if form is JSON else "mixed"] = mixed
for name, send in (
    ("unknown", lambda: client.infer("other", inputs(["u1", "u2", "u1"]))),
    ("compressed", lambda: client.infer("credit", inputs(["u1"] * 3),
                                        request_compression_algorithm="gzip")),
):
    try:
        send()
        found[name] = None
    except InferenceServerException as error:
        found[name] = [error.status(), error.message()]
client.close()
print(json.dumps(found))
"""
_GRPC = """
import json, sys
import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(sys.argv[1])
key = {"authorization": "Bearer " + sys.argv[2]}
found = {"live": client.is_server_live(), "ready": client.is_server_ready(),
         "model": client.is_model_ready("credit", headers=key),
         "other": client.is_model_ready("other", headers=key),
         "v2": client.is_model_ready("credit", "v2", headers=key),
         "v9": client.is_model_ready("credit", "v9", headers=key),
         "server": client.get_server_metadata(headers=key, as_json=True),
         "facts": client.get_model_metadata("credit", headers=key, as_json=True)}

def column(name, values, datatype):
    one = grpc.InferInput(name, [len(values)], datatype)
    return one.set_data_from_numpy(np.array(values, np.object_ if datatype == "BYTES" else None))

def inputs(users):
    return [column("x0", [1.0, -2.0, 0.5], "FP64"), column("x1", [2, 1, -1], "INT64"),
            column("device_id", users, "BYTES")]

wanted = [grpc.InferRequestedOutput(name) for name in ("score", "status")]
for name, version in (("v1", ""), ("of_v2", "v2")):
    answer = client.infer("credit", inputs(["u1", "u2", "u1"]), model_version=version,
                          outputs=wanted, request_id="case-1", headers=key, client_timeout=20)
    found[name] = {"score": answer.as_numpy("score").tolist(),
                   "answer": answer.get_response(as_json=True)}
answer = client.infer("credit", inputs(["u1", "nobody", "u1"]), headers=key)
found["mixed"] = {"status": answer.as_numpy("status").tolist(),
                  "label": [one.decode() for one in answer.as_numpy("label").tolist()],
                  "missing": np.isnan(answer.as_numpy("score")).tolist()}
for name, send in (
    ("unknown", lambda: client.infer("other", inputs(["u1"] * 3), headers=key)),
    ("bad", lambda: client.infer("credit", [column("x9", [1.0], "FP64")], headers=key)),
    ("no key", lambda: client.infer("credit", inputs(["u1"] * 3))),
    ("no key, metadata", lambda: client.get_model_metadata("credit")),
):
    try:
        send()
        found[name] = None
    except InferenceServerException as error:
        found[name] = [error.status(), error.message()]
client.close()
print(json.dumps(found))
"""

X0, X1 = (1.0, -2.0, 0.5), (2, 1, -1)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[ServingPlace]:
    """Give a guest's process; v1 answers for `credit`, v2 is loaded."""
    guest, host = serving_pair(tmp_path, explicit_version=True, partner_ids=["device_id"])
    try:
        host.load("load-v2", share_of("host", "v2"))
        guest.load("load-v2", share_of("guest", "v2"))
        yield guest
    finally:
        guest.stop()
        host.stop()


def scores(version: str) -> Any:
    users = ("u1", "u2", "u1")
    rows = [{"x0": x0, "x1": x1, **ROWS[user]} for x0, x1, user in zip(X0, X1, users, strict=True)]
    return pytest.approx([expected_score(row, version=version) for row in rows], abs=1e-12)


def test_tritons_client_asks_for_health_metadata_versions_and_scores(
    guest: ServingPlace, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    address = f"127.0.0.1:{guest.settings['callers']['port']}"
    found = Environment("triton", work).python(_SCRIPT, address)
    ready = {name: found[name] for name in ("live", "ready", "model", "other", "v2", "v9")}
    assert [name for name, yes in ready.items() if not yes] == ["other", "v9"]
    assert found["server"]["name"] == "fedflow"
    assert found["facts"]["versions"] == ["v1", "v2"]
    assert found["v1"]["score"] == scores("v1")
    assert found["of_v2"]["score"] == scores("v2")
    assert found["binary"]["score"] == scores("v1")
    sizes = [one["parameters"]["binary_data_size"] for one in found["binary"]["answer"]["outputs"]]
    assert sizes == [24, 15, 12, 12]
    answer = found["of_v2"]["answer"]
    assert (answer["model_version"], answer["id"]) == ("v2", "case-1")
    assert [one["name"] for one in answer["outputs"]] == ["score", "status"]
    for mixed in ("mixed", "mixed_json"):
        assert found[mixed]["status"] == [0, 2113, 0]
        assert found[mixed]["missing"] == [False, True, False]
        assert found[mixed]["label"][1] == ""
    assert found["unknown"] == ["404", "There is no service other."]
    assert found["compressed"] == [
        "400", "The request cannot be used: compressed bodies are not read.",
    ]  # fmt: skip


def test_tritons_grpc_client_asks_for_the_same_with_a_key(tmp_path: Path) -> None:
    key = "a-key-of-this-test"
    keys = [{"name": "bank", "sha256": sha256(key.encode()).hexdigest()}]
    guest, host = serving_pair(
        tmp_path, explicit_version=True, partner_ids=["device_id"],
        callers={"port": 0, "grpc_port": 0, "keys": keys},
    )  # fmt: skip
    work = tmp_path / "work"
    work.mkdir()
    try:
        host.load("load-v2", share_of("host", "v2"))
        guest.load("load-v2", share_of("guest", "v2"))
        assert guest.state is not None
        found = Environment("triton", work).python(_GRPC, guest.state.callers_grpc, key)
    finally:
        guest.stop()
        host.stop()
    ready = {name: found[name] for name in ("live", "ready", "model", "other", "v2", "v9")}
    assert [name for name, yes in ready.items() if not yes] == ["other", "v9"]
    assert found["server"]["name"] == "fedflow"
    assert found["facts"]["versions"] == ["v1", "v2"]
    assert [one["name"] for one in found["facts"]["inputs"]] == ["x0", "x1", "device_id"]
    assert found["v1"]["score"] == scores("v1")
    assert found["of_v2"]["score"] == scores("v2")
    answer = found["of_v2"]["answer"]
    assert (answer["model_version"], answer["id"]) == ("v2", "case-1")
    assert [one["name"] for one in answer["outputs"]] == ["score", "status"]
    assert found["mixed"]["status"] == [0, 2113, 0]
    assert found["mixed"]["missing"] == [False, True, False]
    assert found["mixed"]["label"][1] == ""
    assert found["unknown"] == ["StatusCode.NOT_FOUND", "There is no service other."]
    assert found["bad"][0] == "StatusCode.INVALID_ARGUMENT"
    assert "'x9' is no input of the model" in found["bad"][1]
    for name in ("no key", "no key, metadata"):
        assert found[name][0] == "StatusCode.UNAUTHENTICATED"


pytestmark = pytest.mark.timeout(120)
