"""Single requests that operators send to the admin port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.linear_model import expected_score
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

pytestmark = pytest.mark.timeout(120)

ROW = {"x0": 1.0, "x1": 2.0}


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    folder: Path = tmp_path_factory.mktemp("tries")
    callers = {"port": 0, "token": "of-callers-alone"}
    guest, host = serving_pair(folder, callers=callers, partner_ids=["device_id"])
    yield guest
    guest.stop()
    host.stop()


def request(service: str = "credit", **ids: str) -> object:
    body = {"featureData": ROW, "sendToRemoteFeatureData": ids or {"device_id": "u1"}}
    return {"head": {"serviceId": service}, "body": body}


def test_a_try_is_answered_as_the_callers_port_does(guest: ServingPlace) -> None:
    status, answer = guest.admin("POST", "tries", request())
    assert (status, answer["retcode"]) == (200, 0)
    given = answer["data"]
    assert given["data"]["score"] == pytest.approx(expected_score({**ROW, **ROWS["u1"]}))
    assert (given["data"]["modelVersion"], given["data"]["selectedBy"]) == ("v1", "service")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({}, 100), (request("none"), 122), (request(other="x"), 100)],
)
def test_what_callers_are_refused_a_try_is_refused_too(
    guest: ServingPlace, wrong: object, code: int
) -> None:
    status, answer = guest.admin("POST", "tries", wrong)
    assert (status, answer["data"]["retcode"]) == (200, code)


def test_names_of_ids_are_told(guest: ServingPlace) -> None:
    _, answer = guest.admin("GET", "tries")
    assert answer["data"] == {"partner_ids": ["device_id"]}
