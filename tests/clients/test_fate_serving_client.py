"""A client that protoc makes from FATE-Serving's service definition asks a serving process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clients.environments import Environment
from tests.support.linear_model import expected_score
from tests.support.serving_processes import ROWS, serving_pair

_DEFINITION = """
syntax = "proto3";

package com.webank.ai.fate.api.serving;

message InferenceMessage {
    bytes header = 1;
    bytes body = 2;
}

service InferenceService {
    rpc batchInference(InferenceMessage) returns (InferenceMessage);
    rpc inference(InferenceMessage) returns (InferenceMessage);
}
"""
_SCRIPT = """
import json, sys
import grpc
from grpc_tools import protoc

done = protoc.main(["protoc", "-I.", "--python_out=.", "--grpc_python_out=.",
                    "inference_service.proto"])
assert done == 0
sys.path.insert(0, ".")
import inference_service_pb2 as messages
import inference_service_pb2_grpc as services

def asked(call, body, **more):
    message = messages.InferenceMessage(header=b"{}", body=json.dumps(body).encode())
    return json.loads(call(message, timeout=20, **more).body)

token = (("authorization", "Bearer " + sys.argv[2]),)
row = {"featureData": {"x0": 1.0, "x1": 2}, "sendToRemoteFeatureData": {"device_id": "u1"}}
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = services.InferenceServiceStub(channel)
    head = {"serviceId": "credit", "caseId": "case-1", "appid": "9999", "seqno": "1"}
    found = {"single": asked(stub.inference, {**head, **row}, metadata=token)}
    items = [{**row, "index": 0}, {**row, "index": 1}]
    items[1]["sendToRemoteFeatureData"] = {"device_id": "nobody"}
    found["batch"] = asked(stub.batchInference, {**head, "batchDataList": items}, metadata=token)
    unknown = {**head, **row, "serviceId": "other"}
    found["unknown"] = asked(stub.inference, unknown, metadata=token)
    found["nothing"] = asked(stub.inference, {}, metadata=token)
    try:
        asked(stub.inference, {**head, **row})
    except grpc.RpcError as error:
        found["no token"] = error.code().name
print(json.dumps(found))
"""
SCORE = expected_score({"x0": 1.0, "x1": 2, **ROWS["u1"]})
TOKEN = "a-secret-of-this-test"


def test_a_client_of_fates_definition_gets_scores_and_return_codes(tmp_path: Path) -> None:
    guest, host = serving_pair(tmp_path, callers={"port": 0, "grpc_port": 0, "token": TOKEN})
    work = tmp_path / "work"
    work.mkdir()
    (work / "inference_service.proto").write_text(_DEFINITION, encoding="utf-8")
    try:
        assert guest.state is not None
        client = Environment("fate-serving", work)
        found: dict[str, Any] = client.python(_SCRIPT, guest.state.callers_grpc, TOKEN)
    finally:
        guest.stop()
        host.stop()
    single, batch = found["single"], found["batch"]
    assert (single["retcode"], single["retmsg"], single["flag"]) == (0, "", 0)
    assert single["caseId"] == "case-1"
    assert single["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    assert {"modelId", "modelVersion", "timestamp"} <= single["data"].keys()
    assert batch["retcode"] == 0
    assert [one["retcode"] for one in batch["batchDataList"]] == [0, 2113]
    assert batch["singleInferenceResultMap"]["0"] == batch["batchDataList"][0]
    assert (found["unknown"]["retcode"], found["nothing"]["retcode"]) == (122, 100)
    assert found["no token"] == "UNAUTHENTICATED"


pytestmark = pytest.mark.timeout(120)
