"""A guest's process that looks up its own features, through both doors of callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.linear_model import expected_score
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

OWN = {"u1": {"x0": 1.0, "x1": 2.0}, "u2": {"x0": -1.0, "x1": 0.5}}


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    folder = tmp_path_factory.mktemp("own")
    path = folder / "own.csv"
    lines = [f"{user},{row['x0']},{row['x1']}" for user, row in OWN.items()]
    path.write_text("\n".join(["device_id,X0,x1", *lines, ""]))
    options = {"path": str(path), "ids": ["device_id"], "names": {"X0": "x0"}}
    features = {"source": "table", "options": options}
    guest, host = serving_pair(folder, guest_features=features)
    yield guest
    guest.stop()
    host.stop()


def expected(user: str, **given: float) -> Any:
    return pytest.approx(expected_score({**OWN[user], **given, **ROWS[user]}), abs=1e-12)


def test_a_caller_sends_an_id_alone_or_features_that_win(guest: ServingPlace) -> None:
    assert guest.infer({}, "u1")["data"]["score"] == expected("u1")
    assert guest.infer({"x1": 7.0}, "u2")["data"]["score"] == expected("u2", x1=7.0)


def test_rows_of_a_batch_have_errors_of_their_own(guest: ServingPlace) -> None:
    full = {"x0": 1.0, "x1": 2.0}
    rows = [({}, "u1"), ({}, "nobody"), (full, "nobody"), ({}, True), (full, "u1")]
    items = [
        {"index": n, "featureData": features, "sendToRemoteFeatureData": {"device_id": user}}
        for n, (features, user) in enumerate(rows)
    ]
    found = guest.batch(items)["batchDataList"]
    assert [one["retcode"] for one in found] == [0, 113, 2113, 102, 0]
    assert found[1]["retmsg"] == "the guest's features: there are no features for the id"


def test_the_open_inference_protocol_needs_ids_alone(guest: ServingPlace) -> None:
    tensor = {"name": "device_id", "datatype": "BYTES", "shape": [2], "data": ["u1", "u2"],
              "parameters": {"send_to_remote": True}}  # fmt: skip
    status, answer = guest.call("callers", "POST", "/v2/models/credit/infer", {"inputs": [tensor]})
    assert status == 200, answer
    (scores,) = [one["data"] for one in answer["outputs"] if one["name"] == "score"]
    assert scores == [expected("u1"), expected("u2")]


def test_the_open_inference_protocol_takes_ids_that_stay(guest: ServingPlace) -> None:
    tensors = [
        {"name": name, "datatype": "BYTES", "shape": [1], "data": [user],
         "parameters": {"send_to_remote": sent}}
        for name, user, sent in (("phone", "1", True), ("device_id", "u1", False))
    ]  # fmt: skip
    status, answer = guest.call("callers", "POST", "/v2/models/credit/infer", {"inputs": tensors})
    assert status == 200, answer
    outputs = {one["name"]: one["data"] for one in answer["outputs"]}
    assert outputs["status"] == [2102]  # the guest has found its part; the host has no device_id


def test_a_source_that_cannot_be_opened_stops_the_start_by_its_key(tmp_path: Path) -> None:
    features = {"source": "table", "options": {"path": str(tmp_path / "none.csv"), "ids": ["a"]}}
    place = ServingPlace(tmp_path, {"guest_features": features, "callers": {"port": 0}})
    try:
        with pytest.raises(Exception, match=r"guest_features\.options\.path"):
            place.start()
    finally:
        place.stop()
