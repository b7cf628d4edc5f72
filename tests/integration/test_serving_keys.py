"""Keys of callers at a serving process: who is let in, what it may ask, how often, what is said."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.linear_model import share_of
from tests.support.serving_processes import ServingPlace

TOKEN, BANK, SLOW = "the-token-of-everybody", "key-of-the-bank", "key-of-who-is-slow"
SINGLE, BATCH = "/federation/v1/inference", "/federation/v1/batchInference"
ITEM = {"featureData": {"x0": 1.0}, "sendToRemoteFeatureData": {"device_id": "u1"}}


def key(name: str, token: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "sha256": sha256(token.encode()).hexdigest(), **more}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    """Give a process of both parties; `credit` and `fraud` are bound."""
    folder: Path = tmp_path_factory.mktemp("keys")
    (folder / "f.csv").write_text("device_id,y0,y1\nu1,1.5,-2.0\n")
    keys = [
        key("bank", BANK, services=["credit"]),
        key("slow", SLOW, per_second=0.01),
    ]  # fmt: skip
    features = {"path": str(folder / "f.csv"), "ids": ["device_id"]}
    place = ServingPlace(
        folder,
        {
            "callers": {"port": 0, "token": TOKEN, "keys": keys}, "admin": {"port": 0},
            "partners": {"port": 0}, "explicit_version": True,
            "features": {"source": "table", "options": features},
        },
    )  # fmt: skip
    place.start()
    try:
        place.load("g", share_of("guest"))
        place.load("h", share_of("host"))
        place.bind()
        place.bind(service="fraud")
        yield place
    finally:
        place.stop()


def ask(
    place: ServingPlace, token: str, service: str = "credit", *, rows: int = 0, **head: Any
) -> tuple[int, Any]:
    """Return HTTP status and answer of FATE's routes; without `rows` to a single request."""
    items = [{"index": index, **ITEM} for index in range(rows)]
    body = {"batchDataList": items} if rows else ITEM
    request = {"head": {"serviceId": service, **head}, "body": body}
    headers = {"Authorization": f"Bearer {token}"}
    return place.call("callers", "POST", BATCH if rows else SINGLE, request, headers=headers)


def infer(place: ServingPlace, token: str, service: str = "credit", path: str = "") -> Any:
    """Return HTTP status and answer of the Open Inference Protocol."""
    ids = {"name": "device_id", "shape": [1], "datatype": "BYTES", "data": ["u1"]}
    request = {"inputs": [ids | {"parameters": {"send_to_remote": True}}]}
    path = f"/v2/models/{service}{path}/infer"
    headers = {"Authorization": f"Bearer {token}"}
    return place.call("callers", "POST", path, request, headers=headers)


def test_a_wrong_key_is_refused_and_counted(place: ServingPlace) -> None:
    for wrong in ("", "nonsense-of-somebody", sha256(BANK.encode()).hexdigest()):
        status, answer = ask(place, wrong)
        assert (status, answer["retcode"]) == (401, 127)
        assert infer(place, wrong)[0] == 401
    assert ask(place, TOKEN)[1]["retcode"] == 0
    text = place.call("admin", "GET", "/metrics")[1]
    assert 'rows_total{service="",version="",retcode="127",caller=""} 6' in text


def test_a_caller_asks_its_services_alone(place: ServingPlace) -> None:
    assert ask(place, BANK)[1]["retcode"] == 0
    for service in ("fraud", "unknown"):
        status, answer = ask(place, BANK, service)
        assert (status, answer["retcode"]) == (200, 121)
        assert infer(place, BANK, service)[0] == 403
        path = f"/v2/models/{service}"
        for one in (path, f"{path}/ready"):
            headers = {"Authorization": f"Bearer {BANK}"}
            assert place.call("callers", "GET", one, headers=headers)[0] == 403
    assert ask(place, BANK, "", modelVersion="v1", modelId="m")[1]["retcode"] == 121
    assert infer(place, BANK)[0] == 200
    assert infer(place, BANK, path="/versions/v1")[0] == 200
    assert infer(place, TOKEN, "fraud")[0] == 200


def test_rows_beyond_the_rate_are_refused(place: ServingPlace) -> None:
    status, answer = ask(place, SLOW, rows=3)
    assert (status, answer["retcode"]) == (200, 0)
    for rows in (0, 1):
        status, answer = ask(place, SLOW, rows=rows)
        assert (status, answer["retcode"]) == (200, 124)
    assert infer(place, SLOW) == (429, {"error": "more rows per second than this key may ask for"})
    assert ask(place, BANK)[1]["retcode"] == 0


def test_log_and_metrics_name_the_caller_and_hold_no_key(place: ServingPlace) -> None:
    answer = ask(place, BANK)[1]
    assert f"{answer['caseId']} single caller=bank service=credit" in place.log()
    text = place.call("admin", "GET", "/metrics")[1]
    labels = 'service="credit",version="v1",kind="single",caller="bank"'
    assert f"fedflow_serving_requests_total{{{labels}}}" in text
    for secret in (TOKEN, BANK, SLOW):
        assert secret not in place.log() + text
