"""FATE-Serving's callers get the answers that stand in `fate_serving/`, over HTTP and over gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedflow.serving.pb import fate_serving_pb2 as pb
from tests.support.serving_processes import ServingPlace, serving_pair

FOLDER = Path(__file__).with_name("fate_serving")
CASES: list[dict[str, Any]] = [
    case for file in sorted(FOLDER.glob("*.json")) for case in json.loads(file.read_text())
]
CASE_ID = "case-of-a-caller"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    guest, host = serving_pair(
        tmp_path_factory.mktemp("fate"), partner_ids=["device_id"],
        callers={"port": 0, "grpc_port": 0},
    )  # fmt: skip
    yield guest
    guest.stop()
    host.stop()


def by_http(guest: ServingPlace, case: dict[str, Any]) -> Any:
    request = {"head": case["head"], "body": case["body"]}
    path = f"/federation/v1/{case['call']}"
    headers = {"caseId": CASE_ID}
    status, answer = guest.call("callers", "POST", path, request, headers=headers)
    assert status == 200
    return answer


def by_grpc(guest: ServingPlace, case: dict[str, Any]) -> Any:
    assert guest.state is not None
    assert guest.state.callers_grpc is not None
    with grpc.insecure_channel(guest.state.callers_grpc) as channel:
        call = channel.unary_unary(
            f"/com.webank.ai.fate.api.serving.InferenceService/{case['call']}",
            request_serializer=pb.InferenceMessage.SerializeToString,
            response_deserializer=pb.InferenceMessage.FromString,
        )
        body = json.dumps({**case["head"], **case["body"]}).encode()
        metadata = [("caseid", CASE_ID)]
        return json.loads(call(pb.InferenceMessage(body=body), timeout=30, metadata=metadata).body)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
@pytest.mark.parametrize("ask", [by_http, by_grpc])
def test_the_answer_is_the_one_that_is_written(
    guest: ServingPlace, ask: Any, case: dict[str, Any]
) -> None:
    answer = ask(guest, case)
    data = answer["data"]
    assert isinstance(data.get("timestamp", 0), int)
    if "timestamp" in data:
        data["timestamp"] = "any"
    check(answer, case["answer"])


def check(found: Any, written: Any, path: str = "") -> None:
    """Compare an answer with the one that is written, member by member."""
    if isinstance(written, dict):
        assert found.keys() == written.keys(), path
        for name, value in written.items():
            check(found[name], value, f"{path}.{name}")
    elif isinstance(written, list):
        assert len(found) == len(written), path
        for number, value in enumerate(written):
            check(found[number], value, f"{path}.{number}")
    elif isinstance(written, str) and written.startswith("~"):
        assert written[1:] in found, path
    else:
        same = pytest.approx(written, abs=1e-12) if isinstance(written, float) else written
        assert found == same, path
