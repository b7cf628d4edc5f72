"""Drift as two real serving processes count it, and what of it leaves the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fedflow.serving.drift import LEAST
from tests.support.linear_model import share_of
from tests.support.serving_processes import ServingPlace, serving_pair

pytestmark = pytest.mark.timeout(120)

RNG = np.random.default_rng(7)
NORMAL = {"edges": [-0.6745, 0.0, 0.6745], "counts": [250, 250, 250, 250]}
REFERENCE = {
    "source": "scores of the training",
    "features": {"x0": NORMAL, "x1": NORMAL},
    "scores": {"score": {"edges": [0.5], "counts": [1, 999]}},
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServingPlace, ServingPlace]]:
    guest, host = serving_pair(tmp_path_factory.mktemp("drift"))
    host.load("load-v2", share_of("host", "v2"))
    guest.load("load-v2", share_of("guest", "v2", reference=REFERENCE))
    guest.bind("v2", service="drifting")
    try:
        yield guest, host
    finally:
        guest.stop()
        host.stop()


def ask(guest: ServingPlace, x1_shift: float, rows: int) -> None:
    for start in range(0, rows, 25):
        items = [
            {
                "index": n,
                "featureData": {"x0": float(RNG.normal()), "x1": float(RNG.normal()) + x1_shift},
                "sendToRemoteFeatureData": {"device_id": "u1"},
            }
            for n in range(min(25, rows - start))
        ]
        assert guest.batch(items, "drifting")["retcode"] == 0


def drift(place: ServingPlace, version: str) -> Any:
    status, answer = place.admin("GET", "drift")
    assert status == 200
    (found,) = [one for one in answer["data"] if one["model_version"] == version]
    return found


def test_a_feature_that_moved_is_told_from_one_that_did_not(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, host = pair
    ask(guest, 1.5, LEAST + 100)
    found = drift(guest, "v2")
    assert {one["reference"] for one in found["columns"]} == {"scores of the training"}
    columns = {(one["kind"], one["column"]): one for one in found["columns"]}
    assert list(columns) == [("score", "score"), ("feature", "x0"), ("feature", "x1")]
    assert columns["feature", "x0"]["state"] == "stable"
    assert columns["feature", "x1"]["state"] == "shifted"
    assert columns["score", "score"]["rows"] == LEAST + 100
    status, text = guest.call("admin", "GET", "/metrics")
    assert status == 200
    labels = 'model="guest#9999#guest-9999#host-10000#model",version="v2",kind="feature"'
    (line,) = [
        one
        for one in text.splitlines()
        if one.startswith("fedflow_serving_psi{" + labels + ',column="x1"')
    ]
    assert float(line.rpartition(" ")[2]) == columns["feature", "x1"]["psi"]
    of_host = drift(host, "v2")
    assert {one["reference"] for one in of_host["columns"]} == {"the first 1000 rows"}
    assert [(one["column"], one["psi"]) for one in of_host["columns"]] == [
        ("y0", None),
        ("y1", None),
    ]


def test_what_was_counted_of_other_versions_is_apart(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, _ = pair
    assert {one["rows"] for one in drift(guest, "v1")["columns"]} == {0}


def test_a_restart_counts_anew_against_the_same_reference(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, _ = pair
    guest.stop()
    guest.start()
    found = drift(guest, "v2")
    assert {one["reference"] for one in found["columns"]} == {"scores of the training"}
    assert {one["rows"] for one in found["columns"]} == {0}


def test_what_the_first_rows_gave_outlives_a_restart(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, host = pair
    ask(guest, 0, 1025)
    before = {one["column"]: one["edges"] for one in drift(host, "v2")["columns"]}
    assert before["y0"]
    host.kill()
    host.start()
    found = drift(host, "v2")["columns"]
    assert {one["column"]: one["edges"] for one in found} == before
    assert {one["reference"] for one in found} == {"the first 1000 rows"}


def test_a_reference_that_is_none_is_refused(pair: tuple[ServingPlace, ServingPlace]) -> None:
    guest, _ = pair
    wrong = {**REFERENCE, "features": {"x0": {"edges": [1.0], "counts": [1]}}}
    share = share_of("guest", "v3", reference=wrong)
    status, answer = guest.admin("POST", "loads", {"load_id": "load-v3", "share": share})
    assert (status, answer["retcode"] != 0) == (400, True)
    assert "one count more than edges" in answer["retmsg"]
