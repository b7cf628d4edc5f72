"""The Open Inference Protocol v2 of a serving process, as plain HTTP and with Triton's client."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from fedflow import __version__
from tests.support.linear_model import HOST, expected_score, share_of
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

X0, X1 = [1.0, -2.0, 0.5], [2.0, 0.25, -1.0]
USERS = ["u1", "u2", "u1"]
SCORES = [
    expected_score({"x0": x0, "x1": x1, **ROWS[user]})
    for x0, x1, user in zip(X0, X1, USERS, strict=True)
]
INFER = "/v2/models/credit/infer"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    """Give a guest's process; v1 answers for `credit`, v2 is loaded."""
    guest, host = serving_pair(
        tmp_path_factory.mktemp("serving"), explicit_version=True, partner_ids=["device_id"]
    )
    try:
        host.load("load-v2", share_of("host", "v2"))
        guest.load("load-v2", share_of("guest", "v2"))
        yield guest
    finally:
        guest.stop()
        host.stop()


def tensor(name: str, data: list[Any], datatype: str = "FP64", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)], "datatype": datatype, "data": data, **more}


def ids(users: list[Any], datatype: str = "BYTES", **more: Any) -> dict[str, Any]:
    return tensor("device_id", users, datatype, parameters={"send_to_remote": True}, **more)


def body(*changed: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a request with three rows, some of its tensors changed."""
    tensors = {one["name"]: one for one in (tensor("x0", X0), tensor("x1", X1), ids(USERS))}
    return {"inputs": list({**tensors, **{one["name"]: one for one in changed}}.values()), **more}


def infer(guest: ServingPlace, request: object, path: str = INFER) -> dict[str, Any]:
    """Return an answer with its outputs by name."""
    status, answer = guest.call("callers", "POST", path, request)
    assert status == 200, answer
    return {**answer, **{one["name"]: one for one in answer["outputs"]}}


def refused(guest: ServingPlace, request: object, path: str = INFER) -> tuple[int, str]:
    """Return status and sentence of an error."""
    status, answer = guest.call("callers", "POST", path, request)
    assert set(answer) == {"error"}, answer
    return status, answer["error"]


# --- scores ---------------------------------------------------------------------------------------


def test_tensors_in_rows_get_the_scores_of_both_parties_features(guest: ServingPlace) -> None:
    answer = infer(guest, body(id="case 1"))
    assert (answer["model_name"], answer["model_version"]) == ("credit", "v1")
    assert (answer["id"], answer["parameters"]) == ("case 1", {"selected_by": "service"})
    assert (answer["score"]["datatype"], answer["score"]["shape"]) == ("FP64", [3])
    assert answer["score"]["data"] == pytest.approx(SCORES, abs=1e-12)
    labels = [str(int(score > 0.5)) for score in SCORES]
    assert answer["label"] == tensor("label", labels, "BYTES")
    assert answer["status"] == tensor("status", [0, 0, 0], "INT32")
    assert answer["message"]["data"] == ["", "", ""]


def test_scores_are_those_of_fates_door(guest: ServingPlace) -> None:
    found = infer(guest, body())["score"]["data"]
    for x0, x1, user, score in zip(X0, X1, USERS, found, strict=True):
        assert guest.infer({"x0": x0, "x1": x1}, user)["data"]["score"] == score


@pytest.mark.parametrize("datatype", ["INT8", "INT64", "UINT16", "FP16", "FP32", "FP64"])
def test_numbers_of_every_type_are_read(guest: ServingPlace, datatype: str) -> None:
    answer = infer(guest, body(tensor("x0", [1, 2, 3], datatype)))
    expected = expected_score({"x0": 2, "x1": X1[1], **ROWS["u2"]})
    assert answer["score"]["data"][1] == pytest.approx(expected, abs=1e-12)


def test_true_is_1_and_null_is_missing(guest: ServingPlace) -> None:
    answer = infer(guest, body(tensor("x0", [True, False, None], "BOOL")))
    expected = [
        expected_score({"x0": x0, "x1": x1, **ROWS[user]})
        for x0, x1, user in zip([1, 0, 0], X1, USERS, strict=True)
    ]
    assert answer["score"]["data"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("nested", [True, False])
def test_a_column_may_have_two_dimensions(guest: ServingPlace, nested: bool) -> None:
    column = tensor("x0", [[x] for x in X0] if nested else X0, shape=[3, 1])
    answer = infer(guest, body(column))
    assert answer["score"]["data"] == pytest.approx(SCORES, abs=1e-12)


def test_rows_that_fail_have_null_and_their_return_code(guest: ServingPlace) -> None:
    request = body(tensor("x1", ["no number", "2", ""], "BYTES"), ids(["u1", "nobody", "u1"]))
    answer = infer(guest, body(ids(["u1", "nobody", "u1"])))
    assert answer["status"]["data"] == [0, 2113, 0]
    assert answer["score"]["data"][1] is None
    assert answer["label"]["data"][1] == ""
    assert "no features" in answer["message"]["data"][1]
    assert answer["score"]["data"][0] == pytest.approx(SCORES[0], abs=1e-12)
    assert infer(guest, request)["status"]["data"] == [102, 102, 102]


def test_one_row_is_a_single_request(guest: ServingPlace) -> None:
    request = {"inputs": [tensor("x0", X0[:1]), tensor("x1", X1[:1]), ids(["u1"])]}
    answer = infer(guest, request)
    assert answer["score"]["data"] == pytest.approx(SCORES[:1], abs=1e-12)
    assert answer["id"]


def test_300_rows_are_answered_and_301_are_not(guest: ServingPlace) -> None:
    def rows(number: int) -> dict[str, Any]:
        return {"inputs": [tensor("x0", [1.0] * number), ids(["u1"] * number)]}

    expected = expected_score({"x0": 1.0, **ROWS["u1"]})
    found = infer(guest, rows(300))["score"]["data"]
    assert found == pytest.approx([expected] * 300, abs=1e-12)
    assert refused(guest, rows(301)) == (
        400, "The request cannot be used: the tensor 'x0' has 301 rows, not 1 to 300.",
    )  # fmt: skip


def test_only_the_outputs_that_are_asked_for_are_answered(guest: ServingPlace) -> None:
    asked = [{"name": "status"}, {"name": "score", "parameters": {"binary_data": False}}]
    answer = guest.call("callers", "POST", INFER, body(outputs=asked))[1]
    assert [one["name"] for one in answer["outputs"]] == ["status", "score"]


def test_tensors_may_come_and_go_as_bytes(guest: ServingPlace) -> None:
    x0 = struct.pack("<3d", *X0)
    users = b"".join(struct.pack("<I", len(user)) + user.encode() for user in USERS)
    leaves = {"send_to_remote": True}
    head = json.dumps(
        body(
            {**NO_LIST, "parameters": {"binary_data_size": len(x0)}},
            ids(USERS) | {"data": None, "parameters": {**leaves, "binary_data_size": len(users)}},
            parameters={"binary_data_output": True},
            outputs=[{"name": "score"}, {"name": "status", "parameters": {"binary_data": False}}],
        )
    ).encode()  # fmt: skip
    url = f"http://127.0.0.1:{guest.settings['callers']['port']}{INFER}"
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = requests.post(url, data=head + x0 + users, headers=headers, timeout=30)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    length = int(answer.headers["Inference-Header-Content-Length"])
    score, status = json.loads(answer.content[:length])["outputs"]
    assert (score["parameters"], "data" in score) == ({"binary_data_size": 24}, False)
    assert struct.unpack("<3d", answer.content[length:]) == pytest.approx(SCORES, abs=1e-12)
    assert status["data"] == [0, 0, 0]
    short = requests.post(url, data=head + x0 + users[:-1], headers=headers, timeout=30)
    assert (short.status_code, "binary_data_size" in short.json()["error"]) == (400, True)


def test_a_declared_id_needs_no_parameter(guest: ServingPlace) -> None:
    answer = infer(guest, body(tensor("device_id", USERS, "BYTES")))
    assert answer["score"]["data"] == pytest.approx(SCORES, abs=1e-12)


def test_a_version_of_the_services_model_can_be_asked(guest: ServingPlace) -> None:
    answer = infer(guest, body(), "/v2/models/credit/versions/v2/infer")
    assert (answer["model_version"], answer["parameters"]) == ("v2", {"selected_by": "version"})
    row = {"x0": X0[0], "x1": X1[0], **ROWS["u1"]}
    expected = expected_score(row, version="v2")
    assert answer["score"]["data"][0] == pytest.approx(expected, abs=1e-12)


# --- what it says of itself -----------------------------------------------------------------------


def test_health_and_metadata(guest: ServingPlace) -> None:
    def get(path: str) -> Any:
        return guest.call("callers", "GET", path)

    assert get("/v2/health/live") == (200, {"live": True})
    assert get("/v2/health/ready") == (200, {"live": True, "ready": True})
    assert get("/v2") == (
        200, {"name": "fedflow", "version": __version__, "extensions": ["binary_tensor_data"]},
    )  # fmt: skip
    assert get("/v2/models/credit/ready") == (200, {"name": "credit", "ready": True})
    assert get("/v2/models/credit/versions/v2/ready")[0] == 200
    status, facts = get("/v2/models/credit")
    assert (status, facts["name"], facts["versions"]) == (200, "credit", ["v1", "v2"])
    leave = {one["name"]: one["parameters"]["send_to_remote"] for one in facts["inputs"]}
    assert leave == {"x0": False, "x1": False, "device_id": True}
    assert facts["parameters"] == {"partners": HOST, "ids_declared": True}
    outputs = {one["name"]: (one["datatype"], one["shape"]) for one in facts["outputs"]}
    assert outputs == {
        "score": ("FP64", [-1]), "label": ("BYTES", [-1]), "status": ("INT32", [-1]),
        "message": ("BYTES", [-1]),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "/v2/models/other", "no service other"),
        ("GET", "/v2/models/other/ready", "no service other"),
        ("GET", "/v2/models/credit/versions/v9/ready", "v9"),
        ("GET", "/v2/models", "There is no GET"),
        ("GET", INFER, "There is no GET"),
        ("PUT", "/v2/models/credit", "There is no PUT"),
        ("GET", "/v2/repository/index", "There is no"),
    ],
)
def test_what_is_not_there_is_404_with_a_sentence(
    guest: ServingPlace, method: str, path: str, said: str
) -> None:
    status, answer = guest.call("callers", method, path)
    assert (status, said in answer["error"]) == (404, True), answer
    assert refused(guest, body(), "/v2/models/other/infer")[0] == 404


# --- bad input ------------------------------------------------------------------------------------

NO_LIST = {"name": "x0", "shape": [3], "datatype": "FP64"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (tensor("x0", X0, "STRING"), "the datatype 'STRING'"),
        (tensor("x0", ["1", "2", "3"]), "values that are no FP64"),
        (tensor("x0", [1.5, 2, 3], "INT32"), "values that are no INT32"),
        (tensor("x0", [True, 1, 0], "INT32"), "values that are no INT32"),
        (tensor("x0", [[1.0], [2.0], [3.0]]), "values that are no FP64"),
        (tensor("x0", [1, 0, 1], "BOOL"), "values that are no BOOL"),
        (tensor("x0", [1, 128, 0], "INT8"), "values beyond INT8"),
        (tensor("x0", [1, -1, 0], "UINT64"), "values beyond UINT64"),
        (tensor("x0", [1.0, 1e39, 0], "FP32"), "values beyond FP32"),
        (tensor("x0", [1, 10**400, 0]), "NaN or infinite"),
        (tensor("x0", [1.0, float("nan"), 0.0]), "NaN or infinite"),
        (tensor("x0", [1.0, float("-inf"), 0.0]), "NaN or infinite"),
        (tensor("x0", X0, shape=[2]), "others have 2"),
        (tensor("x1", X1, shape=[2]), "2 rows, others have 3"),
        (tensor("x0", X0[:2], shape=[3]), "2 values, its shape says 3"),
        (tensor("x0", X0, shape=[3, 2]), "the shape [3, 2]"),
        (tensor("x0", X0, shape=[]), "the shape []"),
        (tensor("x0", X0, shape=[-1]), "-1 rows"),
        (tensor("x0", [[1.0], [2.0, 3.0], [4.0]], shape=[3, 1]), "rows with another number"),
        (tensor("x0", [], shape=[0]), "0 rows"),
        (NO_LIST, "has no data"),
        ({**NO_LIST, "parameters": {"binary_data_size": 24}}, "is binary, but no header"),
        ({**NO_LIST, "parameters": {"shared_memory_region": "r"}}, "shared memory"),
        (tensor("y", X0), "no input of the model"),
        (tensor("y", USERS, "BYTES", parameters={"send_to_remote": True}), "may not leave"),
        (tensor("x0", X0, parameters={"send_to_remote": True}), "may not leave"),
        (tensor("x0", X0, parameters={"send_to_remote": "yes"}), "neither true nor false"),
        (ids([1.0, 2.0, 3.0], "FP64"), "BYTES or INT64"),
        (ids(["u1", None, "u2"]), "no value is missing"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_bad_tensor_is_named(guest: ServingPlace, changed: dict[str, Any], said: str) -> None:
    status, sentence = refused(guest, body(changed))
    assert (status, said in sentence) == (400, True), sentence
    assert changed["name"] in sentence or "x1" in sentence


@pytest.mark.parametrize(
    ("request_body", "said"),
    [
        (b"", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"inputs": NaN}', "inputs"),
        (b'{"inputs": [NaN', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        ({"inputs": []}, "no inputs"),
        ({"inputs": [tensor("x0", X0)]}, "send_to_remote"),
        ({"inputs": [*body()["inputs"], tensor("x0", X0)]}, "'x0' is there twice"),
        (body(outputs=[{"name": "nothing"}]), "no output 'nothing'"),
        (body(outputs=[{"name": "score"}, {"name": "score"}]), "an output is there twice"),
        (body(outputs=[{"name": "score", "parameters": {"classification": 2}}]), "classification"),
        (body(parameters={"a": {}}), "parameters"),
        ({"inputs": [tensor(f"c{n}", [0.0] * 300) for n in range(400)]}, "more than 100000"),
    ],
    ids=str,
)
def test_a_bad_request_is_400_with_a_sentence(
    guest: ServingPlace, request_body: Any, said: str
) -> None:
    status, sentence = refused(guest, request_body)
    assert (status, said in sentence) == (400, True), sentence


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Inference-Header-Content-Length": "10"}, "cannot be read"),
        ({"Inference-Header-Content-Length": "1000000"}, "no number of bytes"),
        ({"Content-Encoding": "gzip"}, "compressed"),
    ],
)
def test_headers_that_cannot_be_kept_to_are_said(
    guest: ServingPlace, headers: dict[str, str], said: str
) -> None:
    status, answer = guest.call("callers", "POST", INFER, body(), headers=headers)
    assert (status, said in answer["error"]) == (400, True)


def test_fates_door_sends_declared_ids_only(guest: ServingPlace) -> None:
    item = {"featureData": {}, "sendToRemoteFeatureData": {"phone": "1", "device_id": "u1"}}
    request = {"head": {"serviceId": "credit"}, "body": item}
    answer = guest.call("callers", "POST", "/federation/v1/inference", request)[1]
    assert (answer["retcode"], answer["retmsg"]) == (100, "'phone' may not leave this site")
    assert guest.batch([{"index": 0, **item}])["retcode"] == 100


def test_metrics_count_what_is_answered_and_refused(guest: ServingPlace) -> None:
    infer(guest, body())
    refused(guest, {"inputs": []})
    text = guest.call("admin", "GET", "/metrics")[1]
    assert (
        'fedflow_serving_requests_total{service="credit",version="v1",kind="infer",caller=""}'
        in text
    )
    assert 'fedflow_serving_requests_total{service="",version="",kind="infer",caller=""}' in text
    for secret in ("device_id", "u1", "x0"):
        assert secret not in guest.log()


def test_tokens_versions_and_undeclared_ids(guest: ServingPlace, tmp_path: Any) -> None:
    token = "a-secret-of-this-test"
    table = tmp_path / "f.csv"
    table.write_text("device_id,y0,y1\n7,1.5,-2.0\n")
    place = ServingPlace(
        tmp_path,
        {
            "callers": {"port": 0, "token": token}, "admin": {"port": 0}, "partners": {"port": 0},
            "features": {"source": "table", "options": {"path": str(table), "ids": ["device_id"]}},
        },
    )  # fmt: skip
    place.start()
    try:
        place.load("g", share_of("guest"))
        place.load("h", share_of("host"))
        place.bind()
        right = {"Authorization": f"Bearer {token}"}
        for path in ("/v2", "/v2/models/credit", "/v2/models/credit/ready"):
            assert place.call("callers", "GET", path)[0] == 401
            assert place.call("callers", "GET", path, headers=right)[0] == 200
        assert place.call("callers", "GET", "/v2/health/ready")[0] == 200
        status, answer = place.call("callers", "POST", INFER, body())
        assert (status, set(answer)) == (401, {"error"})
        path = "/v2/models/credit/versions/v1/infer"
        assert place.call("callers", "POST", path, body(), headers=right)[0] == 403
        request = {"inputs": [tensor("x0", [1.0]), tensor("x1", [2.0]), ids([7], "INT64")]}
        answer = place.call("callers", "POST", INFER, request, headers=right)[1]
        (score,) = [one["data"] for one in answer["outputs"] if one["name"] == "score"]
        assert score == pytest.approx(SCORES[:1], abs=1e-12)
        facts = place.call("callers", "GET", "/v2/models/credit", headers=right)[1]
        assert facts["parameters"] == {"partners": HOST, "ids_declared": False}
        assert json.dumps(facts["inputs"]).count("true") == 0
    finally:
        place.stop()
