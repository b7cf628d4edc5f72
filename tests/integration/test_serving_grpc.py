"""The callers' gRPC port of a serving process: both services, their forms, errors and limits."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from fedflow import __version__
from fedflow.cli.server_process import wait_for
from fedflow.cli.tls import create_files
from fedflow.serving.pb import fate_serving_pb2 as fate_pb
from fedflow.serving.pb import open_inference_pb2 as pb
from tests.support.linear_model import GUEST, MODEL_ID, expected_score, share_of
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

X0, X1 = [1.0, -2.0, 0.5], [2, 1, -1]
USERS = ["u1", "u2", "u1"]
SCORES = [
    expected_score({"x0": x0, "x1": x1, **ROWS[user]})
    for x0, x1, user in zip(X0, X1, USERS, strict=True)
]
OPEN = "/inference.GRPCInferenceService/"
FATE = "/com.webank.ai.fate.api.serving.InferenceService/"
ITEM = {"featureData": {"x0": 1.0, "x1": 2}, "sendToRemoteFeatureData": {"device_id": "u1"}}


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ServingPlace, ServingPlace]]:
    """Give a guest's and a host's process; v1 answers for `credit`, v2 is loaded."""
    guest, host = serving_pair(
        tmp_path_factory.mktemp("grpc"),
        explicit_version=True,
        partner_ids=["device_id"],
        callers={"port": 0, "grpc_port": 0, "body_mib": 1, "threads": 4},
    )
    try:
        host.load("load-v2", share_of("host", "v2"))
        guest.load("load-v2", share_of("guest", "v2"))
        yield guest, host
    finally:
        guest.stop()
        host.stop()


@pytest.fixture(scope="module")
def guest(both: tuple[ServingPlace, ServingPlace]) -> ServingPlace:
    return both[0]


@pytest.fixture(scope="module")
def channel(guest: ServingPlace) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address(guest)) as channel:
        yield channel


def address(place: ServingPlace) -> str:
    assert place.state is not None
    assert place.state.callers_grpc is not None
    return place.state.callers_grpc


def call(channel: grpc.Channel, method: str, request: Any, kind: Any, **more: Any) -> Any:
    """Return the answer to a call."""
    stub = channel.unary_unary(
        method, request_serializer=_bytes_of, response_deserializer=kind.FromString
    )
    return stub(request, timeout=more.pop("timeout", 30), **more)


def _bytes_of(request: Any) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


def fails(channel: grpc.Channel, method: str, request: Any, **more: Any) -> tuple[Any, str]:
    """Return status and sentence of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, method, request, pb.ModelInferResponse, **more)
    return caught.value.code(), caught.value.details()


def tensor(name: str, datatype: str, rows: int = 3, **contents: Any) -> Any:
    return pb.ModelInferRequest.InferInputTensor(
        name=name, datatype=datatype, shape=[rows], contents=pb.InferTensorContents(**contents)
    )


def typed(**more: Any) -> Any:
    """Return a request with three rows, its values in `contents`."""
    inputs = [
        tensor("x0", "FP64", fp64_contents=X0),
        tensor("x1", "INT32", int_contents=X1),
        tensor("device_id", "BYTES", bytes_contents=[user.encode() for user in USERS]),
    ]
    return pb.ModelInferRequest(**{"model_name": "credit", "inputs": inputs, **more})


def marked() -> Any:
    """Return a request whose ids are marked, for a process that does not declare them."""
    request = typed()
    request.inputs[2].parameters["send_to_remote"].bool_param = True
    return request


def raw(**more: Any) -> Any:
    """Return the same request with values as bytes."""
    inputs = [tensor("x0", "FP64"), tensor("x1", "INT64"), tensor("device_id", "BYTES")]
    users = b"".join(struct.pack("<I", len(user)) + user.encode() for user in USERS)
    values = [struct.pack("<3d", *X0), struct.pack("<3q", *X1), users]
    given = {"model_name": "credit", "inputs": inputs, "raw_input_contents": values, **more}
    return pb.ModelInferRequest(**given)


def infer(channel: grpc.Channel, request: Any, **more: Any) -> Any:
    return call(channel, OPEN + "ModelInfer", request, pb.ModelInferResponse, **more)


def fate(channel: grpc.Channel, method: str, body: Any, **more: Any) -> Any:
    """Return the JSON of an answer of FATE's service."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = fate_pb.InferenceMessage
    return json.loads(call(channel, FATE + method, kind(body=text), kind, **more).body)


# --- the Open Inference Protocol ------------------------------------------------------------------


def test_values_in_contents_are_answered_in_contents(channel: grpc.Channel) -> None:
    answer = infer(channel, typed(id="case-1"))
    assert (answer.model_name, answer.model_version, answer.id) == ("credit", "v1", "case-1")
    assert answer.parameters["selected_by"].string_param == "service"
    assert not answer.raw_output_contents
    found = {one.name: one for one in answer.outputs}
    assert list(found) == ["score", "label", "status", "message"]
    assert (found["score"].datatype, list(found["score"].shape)) == ("FP64", [3])
    assert found["score"].contents.fp64_contents == pytest.approx(SCORES, abs=1e-12)
    labels = [str(int(score > 0.5)).encode() for score in SCORES]
    assert list(found["label"].contents.bytes_contents) == labels
    assert list(found["status"].contents.int_contents) == [0, 0, 0]


def test_values_as_bytes_are_answered_as_bytes(channel: grpc.Channel) -> None:
    wanted = pb.ModelInferRequest.InferRequestedOutputTensor
    answer = infer(channel, raw(outputs=[wanted(name="status"), wanted(name="score")]))
    assert [one.name for one in answer.outputs] == ["status", "score"]
    assert not any(one.contents.ByteSize() for one in answer.outputs)
    status, score = answer.raw_output_contents
    assert struct.unpack("<3i", status) == (0, 0, 0)
    assert struct.unpack("<3d", score) == pytest.approx(SCORES, abs=1e-12)


@pytest.mark.parametrize("form", [typed, raw])
def test_nan_is_a_missing_value_in_both_directions(channel: grpc.Channel, form: Any) -> None:
    users = [b"u1", b"nobody", b"u1"]
    if form is typed:
        request = typed()
        del request.inputs[0].contents.fp64_contents[:]
        request.inputs[0].contents.fp64_contents.extend([math.nan, -2.0, 0.5])
        del request.inputs[2].contents.bytes_contents[:]
        request.inputs[2].contents.bytes_contents.extend(users)
        scores = list(infer(channel, request).outputs[0].contents.fp64_contents)
    else:
        request = raw()
        request.raw_input_contents[0] = struct.pack("<3d", math.nan, -2.0, 0.5)
        texts = b"".join(struct.pack("<I", len(user)) + user for user in users)
        request.raw_input_contents[2] = texts
        scores = list(struct.unpack("<3d", infer(channel, request).raw_output_contents[0]))
    assert scores[0] == pytest.approx(expected_score({"x1": X1[0], **ROWS["u1"]}), abs=1e-12)
    assert math.isnan(scores[1])
    assert scores[2] == pytest.approx(SCORES[2], abs=1e-12)


def test_what_the_server_says_of_itself(channel: grpc.Channel) -> None:
    def ready(name: str, version: str = "") -> bool:
        request = pb.ModelReadyRequest(name=name, version=version)
        return bool(call(channel, OPEN + "ModelReady", request, pb.ModelReadyResponse).ready)

    request = pb.ServerLiveRequest()
    assert call(channel, OPEN + "ServerLive", request, pb.ServerLiveResponse).live
    assert call(channel, OPEN + "ServerReady", request, pb.ServerReadyResponse).ready
    server = call(channel, OPEN + "ServerMetadata", request, pb.ServerMetadataResponse)
    assert (server.name, server.version, list(server.extensions)) == ("fedflow", __version__, [])
    found = [ready("credit"), ready("credit", "v2"), ready("credit", "v9"), ready("other")]
    assert found == [True, True, False, False]
    request = pb.ModelMetadataRequest(name="credit")
    facts = call(channel, OPEN + "ModelMetadata", request, pb.ModelMetadataResponse)
    assert (facts.name, list(facts.versions), facts.platform) == ("credit", ["v1", "v2"], "fedflow")
    assert [(one.name, one.datatype) for one in facts.inputs] == [
        ("x0", "FP64"), ("x1", "FP64"), ("device_id", "BYTES"),
    ]  # fmt: skip
    assert [list(one.shape) for one in facts.outputs] == [[-1]] * 4


def test_a_version_and_a_parameter_of_a_tensor(channel: grpc.Channel) -> None:
    answer = infer(channel, typed(model_version="v2"))
    row = {"x0": X0[0], "x1": X1[0], **ROWS["u1"]}
    expected = expected_score(row, version="v2")
    assert answer.outputs[0].contents.fp64_contents[0] == pytest.approx(expected, abs=1e-12)
    request = typed()
    request.inputs[0].parameters["send_to_remote"].bool_param = True
    code, said = fails(channel, OPEN + "ModelInfer", request)
    assert (code, "'x0' may not leave" in said) == (grpc.StatusCode.INVALID_ARGUMENT, True)


def changed(**contents: Any) -> Any:
    request = typed()
    request.inputs[0].contents.CopyFrom(pb.InferTensorContents(**contents))
    return request


@pytest.mark.parametrize(
    ("request_message", "code", "said"),
    [
        (typed(model_name="other"), "NOT_FOUND", "no service other"),
        (typed(model_version="v9"), "NOT_FOUND", "v9"),
        (typed(inputs=[]), "INVALID_ARGUMENT", "no inputs"),
        (changed(fp32_contents=X0), "INVALID_ARGUMENT", "0 values, its shape says 3"),
        (changed(fp64_contents=[1.0, math.inf, 0.0]), "INVALID_ARGUMENT", "NaN or infinite"),
        (typed(inputs=[tensor("x0", "FP16")]), "INVALID_ARGUMENT", "raw_input_contents alone"),
        (typed(inputs=[tensor("x0", "FP65")]), "INVALID_ARGUMENT", "the datatype 'FP65'"),
        (
            typed(inputs=[tensor("x0", "BYTES", bytes_contents=[b"\xff"] * 3)]),
            "INVALID_ARGUMENT", "no UTF-8",
        ),
        (raw(raw_input_contents=[b"\0" * 24]), "INVALID_ARGUMENT", "1 raw_input_contents"),
        (raw(raw_input_contents=[b"\0" * 23, b"", b""]), "INVALID_ARGUMENT", "'x0' has 23 bytes"),
        (
            raw(inputs=[tensor("x0", "FP64", fp64_contents=X0)] * 3),
            "INVALID_ARGUMENT", "beside raw_input_contents",
        ),
        (b"\xff\xff\xff", "INVALID_ARGUMENT", "cannot be read"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)  # fmt: skip
def test_what_is_wrong_is_a_status_with_a_sentence(
    channel: grpc.Channel, request_message: Any, code: str, said: str
) -> None:
    found, sentence = fails(channel, OPEN + "ModelInfer", request_message)
    assert (found.name, said in sentence) == (code, True), sentence


def test_other_methods_and_large_messages_are_refused(channel: grpc.Channel) -> None:
    code, _ = fails(channel, OPEN + "RepositoryIndex", b"")
    assert code == grpc.StatusCode.UNIMPLEMENTED
    code, _ = fails(channel, OPEN + "ModelInfer", raw(raw_input_contents=[b"\0" * 1_100_000]))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED


# --- FATE's service -------------------------------------------------------------------------------


def test_fates_answers_are_those_of_http(guest: ServingPlace, channel: grpc.Channel) -> None:
    def same(one: dict[str, Any]) -> dict[str, Any]:
        return {**one, "data": {**one["data"], "timestamp": 0}, "caseId": ""}

    head = {"serviceId": "credit"}
    found = fate(channel, "inference", {**head, **ITEM})
    assert found["data"]["score"] == pytest.approx(SCORES[0], abs=1e-12)
    assert same(found) == same(guest.infer(ITEM["featureData"]))
    items = [{"index": index, **ITEM} for index in (4, 7)]
    items[1]["sendToRemoteFeatureData"] = {"device_id": "nobody"}
    found = fate(channel, "batchInference", {**head, "batchDataList": items})
    assert [one["retcode"] for one in found["batchDataList"]] == [0, 2113]
    assert same(found) == same(guest.batch(items))


def test_fates_errors_are_return_codes_in_the_body(channel: grpc.Channel) -> None:
    bodies = {
        "no JSON": b"{", "no features": {"serviceId": "credit"}, "no service": ITEM,
        "unknown": {"serviceId": "x", **ITEM}, "nested": {"head": {}, "body": ITEM},
    }  # fmt: skip
    codes = {name: fate(channel, "inference", body)["retcode"] for name, body in bodies.items()}
    assert codes == {
        "no JSON": 100, "no features": 100, "no service": 100, "unknown": 122, "nested": 100,
    }  # fmt: skip
    batch = {"serviceId": "credit", "batchDataList": []}
    assert fate(channel, "batchInference", batch)["retcode"] == 100


def test_a_case_id_comes_in_the_body_or_in_metadata(channel: grpc.Channel) -> None:
    body = {"serviceId": "credit", **ITEM}
    assert fate(channel, "inference", {**body, "caseId": "case-7"})["caseId"] == "case-7"
    named = fate(channel, "inference", body, metadata=[("caseid", "case-8")])
    assert named["caseId"] == "case-8"
    assert fate(channel, "inference", {**body, "caseId": "a\nb"})["caseId"] != "a\nb"


def test_metadata_are_the_headers_of_rules(guest: ServingPlace, channel: grpc.Channel) -> None:
    version = {"model_id": MODEL_ID, "model_version": "v2"}
    rules = [{"header": "X-Channel", "values": ["beta"], **version}]
    versions = [
        {"model_id": MODEL_ID, "model_version": "v1", "weight": 100},
        {**version, "weight": 0},
    ]
    change = {"service_id": "ruled", "versions": versions, "rules": rules}
    assert guest.admin("POST", "bindings", change)[0] == 200
    beta = [("x-channel", "beta")]
    body = {"serviceId": "ruled", **ITEM}
    assert fate(channel, "inference", body)["data"]["modelVersion"] == "v1"
    found = fate(channel, "inference", body, metadata=beta)["data"]
    assert (found["modelVersion"], found["selectedBy"]) == ("v2", "rule")
    request = typed(model_name="ruled")
    assert infer(channel, request, metadata=beta).model_version == "v2"


def test_compressed_messages_are_refused(channel: grpc.Channel) -> None:
    request = typed(id="x" * 10_000)
    code, said = fails(channel, OPEN + "ModelInfer", request, compression=grpc.Compression.Gzip)
    assert (code, said != "internal error") == (grpc.StatusCode.INVALID_ARGUMENT, True)


def test_a_stop_ends_calls_and_leaves_no_process(tmp_path: Path) -> None:
    guest, host = serving_pair(tmp_path, callers={"port": 0, "grpc_port": 0})
    codes: list[str] = []

    def ask_on(number: int) -> None:
        with grpc.insecure_channel(address(guest)) as channel:
            while True:
                try:
                    infer(channel, marked(), timeout=10)
                    codes.append("OK")
                except grpc.RpcError as exc:
                    codes.append(exc.code().name)
                    return

    try:
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(ask_on, number) for number in range(4)]
            assert wait_for(lambda: codes.count("OK") > 20, timeout_s=20)
            assert guest.process is not None
            guest.process.send_signal(signal.SIGTERM)
            assert guest.process.wait(20) == 0
            for one in asked:
                one.result(20)
        assert set(codes) <= {"OK", "UNAVAILABLE", "CANCELLED"}
        assert len(codes) - codes.count("OK") == 4
    finally:
        guest.stop()
        host.stop()


# --- budgets, keys, TLS ---------------------------------------------------------------------------


def halt(pid: int) -> None:
    """Stop a process, and wait until it stands still: its threads may still be answering."""
    os.kill(pid, signal.SIGSTOP)
    assert wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, timeout_s=10)


def test_the_callers_deadline_shortens_the_budget(
    both: tuple[ServingPlace, ServingPlace], channel: grpc.Channel
) -> None:
    guest, host = both
    assert host.process is not None
    halt(host.process.pid)
    try:
        begin = time.monotonic()
        for number in range(6):  # more than there are threads
            code, _ = fails(channel, OPEN + "ModelInfer", typed(id=f"late-{number}"), timeout=0.3)
            assert code == grpc.StatusCode.DEADLINE_EXCEEDED
        assert time.monotonic() - begin < 3.0
        assert wait_for(lambda: "late-0 infer" in guest.log(), timeout_s=10)
        (line,) = [one for one in guest.log().splitlines() if "late-0 infer" in one]
        assert float(line.split()[-2]) < 1000
    finally:
        os.kill(host.process.pid, signal.SIGCONT)
    assert wait_for(
        lambda: list(infer(channel, typed()).outputs[2].contents.int_contents) == [0, 0, 0],
        timeout_s=40,
    )


def test_cancelled_calls_take_no_thread_for_ever(
    both: tuple[ServingPlace, ServingPlace], channel: grpc.Channel
) -> None:
    host = both[1]
    assert host.process is not None
    halt(host.process.pid)
    stub = channel.unary_unary(OPEN + "ModelInfer", request_serializer=_bytes_of)
    try:
        calls = [stub.future(typed(), timeout=60) for _ in range(12)]
        time.sleep(0.2)
        assert all(one.cancel() for one in calls)
    finally:
        os.kill(host.process.pid, signal.SIGCONT)
    assert wait_for(
        lambda: list(infer(channel, typed()).outputs[2].contents.int_contents) == [0, 0, 0],
        timeout_s=40,
    )


def test_keys_are_those_of_http(tmp_path: Path) -> None:
    keys = [
        {"name": name, "sha256": sha256(name.encode()).hexdigest(), **more}
        for name, more in (("bank", {"services": ["credit"]}), ("slow", {"per_second": 0.01}))
    ]
    table = tmp_path / "f.csv"
    table.write_text("device_id,y0,y1\nu1,1.5,-2.0\nu2,0.25,8.0\n")
    features = {"source": "table", "options": {"path": str(table), "ids": ["device_id"]}}
    place = ServingPlace(
        tmp_path,
        {
            "callers": {"port": 0, "grpc_port": 0, "keys": keys}, "admin": {"port": 0},
            "partners": {"port": 0}, "features": features, "partner_ids": ["device_id"],
        },
    )  # fmt: skip
    place.start()
    try:
        place.load("g", share_of("guest"))
        place.load("h", share_of("host"))
        place.bind()
        place.bind(service="fraud")
        bank, slow = (
            {"metadata": [("authorization", f"Bearer {one}")]} for one in ("bank", "slow")
        )
        with grpc.insecure_channel(address(place)) as channel:
            live = call(channel, OPEN + "ServerLive", b"", pb.ServerLiveResponse)
            assert live.live
            wrong = {"metadata": [("authorization", "Bearer nonsense")]}
            for method in (OPEN + "ModelInfer", OPEN + "ServerMetadata", FATE + "inference"):
                for more in ({}, wrong):
                    assert fails(channel, method, b"", **more)[0].name == "UNAUTHENTICATED"
            assert len(infer(channel, typed(), **bank).outputs) == 4
            for method in ("ModelInfer", "ModelReady", "ModelMetadata"):
                request = pb.ModelReadyRequest(name="fraud")  # the same members as ModelMetadata
                message = typed(model_name="fraud") if method == "ModelInfer" else request
                code, _ = fails(channel, OPEN + method, message, **bank)
                assert code == grpc.StatusCode.PERMISSION_DENIED
            body = {"serviceId": "fraud", **ITEM}
            assert fate(channel, "inference", body, **bank)["retcode"] == 121
            assert fate(channel, "inference", body, **slow)["retcode"] == 0
            assert fate(channel, "inference", body, **slow)["retcode"] == 124
            code, said = fails(channel, OPEN + "ModelInfer", typed(), **slow)
            assert (code, "rows per second" in said) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert "infer caller=bank service=credit" in place.log()
    finally:
        place.stop()


@pytest.mark.parametrize("mutual", [False, True])
def test_tls_and_certificates_of_callers(tmp_path: Path, mutual: bool) -> None:
    own, other = create_files(tmp_path / "tls", (GUEST, "1"))
    tls = {"certificate": str(own.certificate), "key": str(own.key)}
    if mutual:
        tls["ca"] = str(own.ca)
    place = ServingPlace(
        tmp_path,
        {
            "callers": {"port": 0, "grpc_port": 0, "tls": tls}, "admin": {"port": 0},
            "partners": {"port": 0},
        },
    )  # fmt: skip
    place.start()
    pair = {
        "private_key": other.key.read_bytes(),
        "certificate_chain": other.certificate.read_bytes(),
    }
    options = [("grpc.ssl_target_name_override", f"party-{GUEST}")]
    try:
        for given, good in (({}, not mutual), (pair, True)):
            credentials = grpc.ssl_channel_credentials(own.ca.read_bytes(), **given)
            with grpc.secure_channel(address(place), credentials, options) as channel:
                if good:
                    answer = call(channel, OPEN + "ServerLive", b"", pb.ServerLiveResponse)
                    assert answer.live
                else:
                    code, _ = fails(channel, OPEN + "ServerLive", b"")
                    assert code == grpc.StatusCode.UNAVAILABLE
    finally:
        place.stop()


def test_files_that_are_no_certificates_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nonsense")
    tls = dict.fromkeys(("certificate", "key"), str(tmp_path / "x.pem"))
    place = ServingPlace(
        tmp_path,
        {
            "callers": {"port": 0, "grpc_port": 0, "tls": tls}, "admin": {"port": 0},
            "partners": {"port": 0},
        },
    )  # fmt: skip
    with pytest.raises(Exception, match=r"callers\.tls\.certificate"):
        place.start()


def test_no_service_code_is_loaded_unless_the_port_is_on() -> None:
    program = (
        "import sys, fedflow.serving.process\n"
        "print([n for n in sys.modules if 'protobuf' in n or n.endswith(('_pb2', 'callers_grpc'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
