"""tritonclient 2.73.0 asks a serving process by the Open Inference Protocol v2, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
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
found = {"live": client.is_server_live(), "ready": client.is_server_ready(),
         "model": client.is_model_ready("credit"), "other": client.is_model_ready("other"),
         "v2": client.is_model_ready("credit", "v2"), "v9": client.is_model_ready("credit", "v9"),
         "server": client.get_server_metadata(), "facts": client.get_model_metadata("credit")}

def column(name, values, datatype, binary=False):
    one = http.InferInput(name, [len(values)], datatype)
    return one.set_data_from_numpy(np.array(values), binary_data=binary)

def inputs(users):
    ids = http.InferInput("device_id", [len(users)], "BYTES")
    ids.set_data_from_numpy(np.array(users, dtype=np.object_), binary_data=False)
    return [column("x0", [1.0, -2.0, 0.5], "FP64"), column("x1", [2, 1, -1], "INT64"), ids]

wanted = [http.InferRequestedOutput(name, binary_data=False) for name in ("score", "status")]
for name, version in (("v1", ""), ("of_v2", "v2")):
    answer = client.infer("credit", inputs(["u1", "u2", "u1"]), model_version=version,
                          outputs=wanted, request_id="case-1")
    found[name] = {"score": answer.as_numpy("score").tolist(), "answer": answer.get_response()}
answer = client.infer("credit", inputs(["u1", "nobody", "u1"]))
found["mixed"] = {name: answer.as_numpy(name).tolist() for name in ("status", "label")}
found["mixed"]["missing"] = np.isnan(answer.as_numpy("score")).tolist()
for name, send in (
    ("binary", lambda: client.infer("credit", [column("x0", [1.0], "FP64", binary=True)])),
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
    answer = found["of_v2"]["answer"]
    assert (answer["model_version"], answer["id"]) == ("v2", "case-1")
    assert [one["name"] for one in answer["outputs"]] == ["score", "status"]
    assert found["mixed"]["status"] == [0, 2113, 0]
    assert found["mixed"]["missing"] == [False, True, False]
    assert found["mixed"]["label"][1] == ""
    assert found["binary"][0] == "400"
    assert "binary_data=False" in found["binary"][1]
    assert found["unknown"] == ["404", "There is no service other."]
    assert found["compressed"] == [
        "400", "The request cannot be used: compressed bodies are not read.",
    ]  # fmt: skip


pytestmark = pytest.mark.timeout(120)
