"""Serving processes of a guest and a host, with mutual TLS: loads, services, scores, faults."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from fedflow.cli.server_process import wait_for
from tests.support.linear_model import HOST, MODEL_ID, WEIGHTS, expected_score, share_of
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

ROW = {"x0": 1.0, "x1": 2.0}
SCORE = expected_score({**ROW, **ROWS["u1"]})
SCORE_V2 = expected_score({**ROW, **ROWS["u1"]}, version="v2")


class Pair:
    """Both parties; a test may stop one, the next one finds it running with v1 bound."""

    def __init__(self, guest: ServingPlace, host: ServingPlace) -> None:
        self.guest = guest
        self.host = host
        self._numbers = count()

    def load(self, version: str, **host_changes: Any) -> None:
        """Load a version at both parties."""
        load_id = f"load-{next(self._numbers)}"
        self.host.load(load_id, share_of("host", version, **host_changes))
        self.guest.load(load_id, share_of("guest", version))

    def put_back(self) -> None:
        for place in (self.guest, self.host):
            assert place.process is not None
            if place.process.poll() is not None:
                place.start()
            for model in place.admin("GET", "models")[1]["data"]:
                if model["model_version"] != "v1":
                    path = (
                        f"models/{model['model_version']}?model_id={MODEL_ID.replace('#', '%23')}"
                    )
                    assert place.admin("DELETE", path)[0] == 200
        self.guest.bind("v1")
        whole = {"service_id": "credit", "rules": [], "options": {}}
        assert self.guest.admin("POST", "bindings", whole)[0] == 200
        assert wait_for(lambda: self.guest.infer(ROW)["retcode"] == 0, timeout_s=60)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    guest, host = serving_pair(
        tmp_path_factory.mktemp("serving"), explicit_version=True, default_service="credit",
        limits={"single_ms": 2000, "batch_ms": 2000}, callers={"port": 0, "body_mib": 1},
    )  # fmt: skip
    yield Pair(guest, host)
    guest.stop()
    host.stop()


@pytest.fixture
def pair(both: Pair) -> Iterator[Pair]:
    yield both
    both.put_back()


# --- scores ---------------------------------------------------------------------------------------


def test_a_score_is_that_of_both_parties_features(pair: Pair) -> None:
    answer = pair.guest.infer(ROW, case_id="case-1")
    assert (answer["retcode"], answer["retmsg"], answer["flag"]) == (0, "", 0)
    assert answer["caseId"] == "case-1"
    assert answer["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    assert answer["data"]["modelId"] == f"guest#9999#{MODEL_ID}"
    assert (answer["data"]["modelVersion"], answer["data"]["selectedBy"]) == ("v1", "service")


def test_a_host_takes_no_features_from_the_request(pair: Pair) -> None:
    body = {"featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1", "y0": 99.0}}
    request = {"head": {"serviceId": "credit"}, "body": body}
    answer = pair.guest.call("callers", "POST", "/federation/v1/inference", request)[1]
    assert answer["data"]["score"] == pytest.approx(SCORE, abs=1e-12)


@pytest.mark.parametrize(
    ("version", "status"),
    [("v1", 200), ("1.0", 200), ("v2", 200), ("1.0.0", 404), ("v", 404), ("\u0661.0", 404)],
)
def test_the_version_in_fates_path_has_no_meaning(pair: Pair, version: str, status: int) -> None:
    ids = {"device_id": "u1"}
    request = {
        "head": {"serviceId": "credit"},
        "body": {"featureData": ROW, "sendToRemoteFeatureData": ids},
    }
    path = quote(f"/federation/{version}/inference")
    found, answer = pair.guest.call("callers", "POST", path, request)
    assert found == status
    if status == 200:
        assert answer["data"]["score"] == pytest.approx(SCORE, abs=1e-12)


@pytest.mark.parametrize(
    ("head", "by"),
    [
        ({"serviceId": "credit"}, "service"),
        ({"modelId": MODEL_ID, "modelVersion": "v1"}, "version"),
        ({"serviceId": ""}, "default"),
    ],
)
def test_the_answer_says_why_a_version_was_chosen(pair: Pair, head: Any, by: str) -> None:
    data = pair.guest.infer(ROW, head=head)["data"]
    assert (data["selectedBy"], data["modelVersion"]) == (by, "v1")


def test_a_batch_answers_each_row_by_its_index(pair: Pair) -> None:
    users = ["u1", "nobody", "u2", "u3"]
    items = [
        {"index": 7 - n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": user}}
        for n, user in enumerate(users)
    ]
    items[3]["featureData"] = {**ROW, "x1": "text"}
    answer = pair.guest.batch(items)
    assert (answer["retcode"], answer["data"]["modelVersion"]) == (0, "v1")
    found = answer["batchDataList"]
    assert [one["index"] for one in found] == [7, 6, 5, 4]
    assert [one["retcode"] for one in found] == [0, 2113, 0, 102]
    assert found[0]["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    expected = expected_score({**ROW, **ROWS["u2"]})
    assert found[2]["data"]["score"] == pytest.approx(expected, abs=1e-12)
    assert answer["singleInferenceResultMap"]["5"] == found[2]
    assert "no features" in found[1]["retmsg"]
    assert "x1" in found[3]["retmsg"]


def test_300_rows_are_a_batch_and_301_are_none(pair: Pair) -> None:
    item = {"featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}}
    items = [{"index": n, **item} for n in range(301)]
    found = pair.guest.batch(items[:300])["batchDataList"]
    assert [one["data"]["score"] for one in found] == pytest.approx([SCORE] * 300, abs=1e-12)
    assert pair.guest.batch(items)["retcode"] == 100
    assert pair.guest.batch([items[0], items[0]])["retmsg"] == "an index is there twice"
    assert pair.guest.batch([])["retcode"] == 100


def test_requests_at_once_get_each_its_own_score(pair: Pair) -> None:
    def score(number: int) -> tuple[float, float]:
        row, user = {"x0": number / 10, "x1": -number / 7}, f"u{1 + number % 2}"
        found = pair.guest.infer(row, user)["data"]["score"]
        return found, expected_score({**row, **ROWS[user]})

    with ThreadPoolExecutor(16) as pool:
        for found, expected in pool.map(score, range(120)):
            assert found == pytest.approx(expected, abs=1e-12)


# --- loads, bindings, restarts --------------------------------------------------------------------


def test_binding_again_switches_and_rollback_goes_back(pair: Pair) -> None:
    pair.load("v2")
    assert pair.guest.bind("v2")["before"]["model_version"] == "v1"
    assert pair.guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE_V2, abs=1e-12)
    status, answer = pair.guest.admin("POST", "bindings/credit/rollback")
    assert (status, answer["data"]["now"]["model_version"]) == (200, "v1")
    assert pair.guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    (binding,) = pair.guest.admin("GET", "bindings")[1]["data"]
    assert [one["model_version"] for one in binding["history"]][:2] == ["v2", "v1"]


def test_users_are_split_by_weight_row_by_row_and_stay_after_a_restart(pair: Pair) -> None:
    pair.load("v2")
    body = {"service_id": "credit", "model_id": MODEL_ID, "model_version": "v2", "weight": 50}
    assert pair.guest.admin("POST", "bindings", body)[0] == 200
    items = [
        {"index": n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1", "n": n}}
        for n in range(40)
    ]
    before = pair.guest.batch(items)["batchDataList"]
    wanted = {"v1": SCORE, "v2": SCORE_V2}
    assert {one["data"]["modelVersion"] for one in before} == {"v1", "v2"}
    for one in before:
        assert one["data"]["score"] == pytest.approx(wanted[one["data"]["modelVersion"]], abs=1e-12)
        assert one["data"]["selectedBy"] == "weight"
    pair.guest.stop()
    pair.guest.start()
    after = pair.guest.batch(items)["batchDataList"]
    versions = [[one["data"]["modelVersion"] for one in found] for found in (before, after)]
    assert versions[0] == versions[1]


def test_a_rule_on_a_header_chooses_the_version(pair: Pair) -> None:
    pair.load("v2")
    version = {"model_id": MODEL_ID, "model_version": "v2"}
    rule = {"header": "X-Channel", "values": ["beta"], **version}
    body = {"service_id": "credit", **version, "weight": 0, "rules": [rule]}
    status, answer = pair.guest.admin("POST", "bindings", body)
    assert status == 200, answer
    body = {"featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}}
    request = {"head": {"serviceId": "credit"}, "body": body}
    found = {}
    for channel in ("beta", "other"):
        _, answer = pair.guest.call(
            "callers", "POST", "/federation/v1/inference", request, headers={"X-Channel": channel}
        )
        found[channel] = answer["data"]["modelVersion"], answer["data"]["selectedBy"]
    assert found == {"beta": ("v2", "rule"), "other": ("v1", "service")}


def test_a_shadow_scores_the_same_rows_and_answers_nobody(pair: Pair) -> None:
    pair.load("v2")
    body = {"service_id": "credit", "model_id": MODEL_ID, "model_version": "v2", "shadow": True}
    assert pair.guest.admin("POST", "bindings", body)[0] == 200
    for number in range(50):
        answer = pair.guest.infer({**ROW, "x0": number / 50})
        assert answer["data"]["modelVersion"] == "v1"

    def compared() -> Any:
        found = pair.guest.admin("GET", "bindings/credit/comparison")[1]["data"]
        return {one["model_version"]: one for one in found}

    assert wait_for(lambda: compared()["v2"]["rows"] == 50, timeout_s=60)
    found = compared()
    assert (found["v1"]["part"], found["v2"]["part"]) == ("100%", "shadow")
    assert (found["v1"]["rows"], found["v1"]["errors"]) == (50, 0)
    scores = [
        [expected_score({**ROW, "x0": n / 50, **ROWS["u1"]}, version=version) for n in range(50)]
        for version in ("v1", "v2")
    ]
    means = [sum(one) / 50 for one in scores]
    assert [found[one]["mean_score"] for one in ("v1", "v2")] == pytest.approx(means, abs=1e-9)
    assert found["v2"]["compared_rows"] == 50
    difference = sum(abs(a - b) for a, b in zip(*scores, strict=True)) / 50
    assert found["v2"]["mean_difference"] == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"versions": [{"model_id": MODEL_ID, "model_version": "v1", "weight": 60}]}, "sum up to"),
        ({"model_id": MODEL_ID, "model_version": "v1", "weight": 101}, "weight"),
        ({"model_id": MODEL_ID, "model_version": "v1", "wieght": 10}, "wieght"),
        ({"options": {"on_fault": "panic"}}, "on_fault"),
    ],
)
def test_a_release_that_cannot_be_is_refused_and_nothing_changes(
    pair: Pair, body: Any, why: str
) -> None:
    before = pair.guest.admin("GET", "bindings")
    status, answer = pair.guest.admin("POST", "bindings", {"service_id": "credit", **body})
    assert status in (400, 409)
    assert why in answer["retmsg"]
    assert pair.guest.admin("GET", "bindings") == before


def test_unloading_unbinds(pair: Pair) -> None:
    pair.load("v3")
    pair.guest.bind("v3", "other")
    path = f"models/v3?model_id={MODEL_ID.replace('#', '%23')}"
    status, answer = pair.guest.admin("DELETE", path)
    assert (status, answer["data"]) == (200, {"unbound": ["other"]})
    assert pair.guest.infer(ROW, head={"serviceId": "other"})["retcode"] == 122
    assert pair.guest.admin("DELETE", path)[0] == 404


def test_services_are_bound_at_the_guest(pair: Pair) -> None:
    body = {"service_id": "x", "model_id": MODEL_ID, "model_version": "v1"}
    status, answer = pair.host.admin("POST", "bindings", body)
    assert (status, answer["retcode"]) == (409, 109)
    assert "at its guest" in answer["retmsg"]
    status, answer = pair.guest.admin("POST", "bindings", {**body, "service_id": "a/b?"})
    assert (status, answer["retcode"]) == (409, 109)
    status, answer = pair.guest.admin("POST", "bindings", {**body, "model_version": "v9"})
    assert (status, answer["retcode"]) == (404, 104)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"damaged": True}, "damaged"),
        ({"party_id": "7"}, "party 7"),
        ({"role": "arbiter"}, "arbiter"),
        ({"weights": {"x0": "text"}}, "weights"),
    ],
)
def test_a_load_that_cannot_be_served_is_refused_and_changes_nothing(
    pair: Pair, changes: dict[str, Any], said: str
) -> None:
    share = {**share_of("guest", "v4"), **changes}
    status, answer = pair.guest.admin("POST", "loads", {"load_id": "bad", "share": share})
    assert 400 <= status < 500
    assert answer["retcode"] in (100, 107)
    assert said in answer["retmsg"] or "could not be built" in answer["retmsg"]
    assert pair.guest.admin("POST", "loads/bad/commit")[0] == 404
    assert pair.guest.infer(ROW)["retcode"] == 0


def test_a_load_is_tried_with_its_sample(pair: Pair) -> None:
    body = {"load_id": "s", "share": share_of("guest", "v5"), "sample": {"x0": "text"}}
    status, answer = pair.guest.admin("POST", "loads", body)
    assert (status, answer["retcode"]) == (409, 107)
    assert "sample row" in answer["retmsg"]


def test_loads_are_idempotent(pair: Pair) -> None:
    body = {"load_id": "twice", "share": share_of("guest", "v6")}
    for _ in range(2):
        assert pair.guest.admin("POST", "loads", body)[0] == 200
    other = {**body, "share": share_of("guest", "v7")}
    assert pair.guest.admin("POST", "loads", other)[0] == 409
    for _ in range(2):
        assert pair.guest.admin("POST", "loads/twice/commit")[0] == 200
    assert pair.guest.admin("POST", "loads/twice/abort")[0] == 409
    for _ in range(2):
        assert pair.guest.admin("POST", "loads/never/abort")[0] == 200


def test_a_restart_keeps_loads_and_services(pair: Pair) -> None:
    pair.load("v2")
    pair.guest.bind("v2")
    for place in (pair.guest, pair.host):
        place.stop()
        assert place.process is not None
        assert place.process.returncode == 0
        place.start()
    assert pair.guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE_V2, abs=1e-12)
    assert pair.guest.admin("POST", "bindings/credit/rollback")[0] == 200


def test_a_kill_in_the_middle_of_a_load_leaves_what_was_loaded(pair: Pair) -> None:
    body = {"load_id": "half", "share": share_of("guest", "v8", pad="x" * 1_000_000)}
    assert pair.guest.admin("POST", "loads", body)[0] == 200
    asked = threading.Thread(target=_ignored, args=(pair.guest, {**body, "load_id": "half-2"}))
    asked.start()
    pair.guest.kill()
    asked.join()
    pair.guest.start()
    assert pair.guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    assert [one["model_version"] for one in pair.guest.admin("GET", "models")[1]["data"]] == ["v1"]
    assert pair.guest.admin("POST", "loads/half/commit")[0] == 200  # it was prepared
    pair.guest.kill()
    pair.guest.start()
    versions = [one["model_version"] for one in pair.guest.admin("GET", "models")[1]["data"]]
    assert versions == ["v1", "v8"]


def _ignored(place: ServingPlace, body: object) -> None:
    try:
        place.admin("POST", "loads", body)
    except OSError:  # it is killed meanwhile
        return


def test_a_damaged_share_is_named_and_the_others_are_served(pair: Pair) -> None:
    pair.load("v2")
    pair.guest.bind("v2", "second")
    pair.guest.stop()
    with closing(sqlite3.connect(pair.guest.home / "serving.sqlite")) as link, link:
        link.execute("UPDATE load SET share = x'7b7d' WHERE model_version = 'v2'")
    pair.guest.start()
    assert pair.guest.infer(ROW)["retcode"] == 0
    assert pair.guest.infer(ROW, head={"serviceId": "second"})["retcode"] == 104
    models = pair.guest.admin("GET", "models")[1]["data"]
    assert [(one["model_version"], one["status"]) for one in models] == [
        ("v1", "loaded"), ("v2", "refused"),
    ]  # fmt: skip
    status, ready = pair.guest.call("callers", "GET", "/readyz")
    assert (status, ready["ready"]) == (200, True)
    assert ready["refused"][0]["model_version"] == "v2"
    assert "v2 cannot be loaded: the stored share is damaged" in pair.guest.log()


# --- faults ---------------------------------------------------------------------------------------


def test_a_host_that_is_down_is_said_and_answers_again_later(pair: Pair) -> None:
    pair.host.kill()
    answer = pair.guest.infer(ROW)
    assert answer["retcode"] == 2105
    assert f"host {HOST} msg: it cannot be reached" in answer["retmsg"]
    assert "score" not in answer["data"]
    status, ready = pair.guest.call("callers", "GET", "/readyz")
    assert (status, ready["ready"]) == (200, True)
    assert "cannot be reached" in ready["partners"][HOST]
    items = [{"index": 0, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}}]
    assert pair.guest.batch(items)["batchDataList"][0]["retcode"] == 2105
    pair.host.start()
    assert wait_for(lambda: pair.guest.infer(ROW)["retcode"] == 0, timeout_s=60)
    assert pair.guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)


def test_a_host_that_is_down_is_left_out_until_a_probe_is_answered(pair: Pair) -> None:
    pair.host.kill()
    for _ in range(5):
        assert pair.guest.infer(ROW)["retcode"] == 2105
    answer = pair.guest.infer(ROW)
    assert answer["retcode"] == 2105
    assert "asked again soon" in answer["retmsg"]
    ready = pair.guest.call("callers", "GET", "/readyz")[1]
    assert ready["circuits"] == {HOST: "open"}
    pair.host.start()
    assert wait_for(lambda: pair.guest.infer(ROW)["retcode"] == 0, timeout_s=60)
    assert pair.guest.call("callers", "GET", "/readyz")[1]["circuits"] == {}


@pytest.mark.parametrize(
    ("options", "score"),
    [
        ({"on_fault": "guest_only"}, expected_score({**ROW, "y0": 0.0, "y1": 0.0})),
        ({"on_fault": "default_score", "default_score": 0.125}, 0.125),
    ],
)
def test_a_service_may_do_without_a_host_and_says_so(
    pair: Pair, options: dict[str, Any], score: float
) -> None:
    change = {"service_id": "credit", "options": options}
    assert pair.guest.admin("POST", "bindings", change)[0] == 200
    unknown = pair.guest.infer(ROW, user="nobody")
    assert (unknown["retcode"], unknown["data"]["degraded"]) == (0, options["on_fault"])
    assert unknown["data"]["score"] == pytest.approx(score, abs=1e-12)
    items = [
        {"index": n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": user}}
        for n, user in enumerate(("u1", "nobody", "u1"))
    ]
    found = pair.guest.batch(items)["batchDataList"]
    wanted = [SCORE, score, SCORE]
    assert [one["data"]["score"] for one in found] == pytest.approx(wanted, abs=1e-12)
    assert ["degraded" in one["data"] for one in found] == [False, True, False]
    pair.host.kill()
    answer = pair.guest.infer(ROW)
    assert (answer["retcode"], answer["data"]["degraded"]) == (0, options["on_fault"])
    assert answer["data"]["score"] == pytest.approx(score, abs=1e-12)
    assert "cannot be reached" in answer["data"]["degradedReason"]
    text = pair.guest.call("admin", "GET", "/metrics")[1]
    assert (
        f'degraded_rows_total{{service="credit",version="v1",how="{options["on_fault"]}"}}' in text
    )


def test_hooks_of_a_service_work_before_and_after_its_model(pair: Pair) -> None:
    options = {
        "before": [
            {"hook": "rename", "options": {"names": {"first": "x0"}}},
            {"hook": "defaults", "options": {"values": {"x1": 2.0}}},
        ],
        "after": [{"hook": "threshold", "options": {"cuts": [0.5], "names": ["low", "high"]}}],
    }
    change = {"service_id": "credit", "options": options}
    status, answer = pair.guest.admin("POST", "bindings", change)
    assert status == 200, answer
    found = pair.guest.infer({"first": 1.0})
    assert found["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    assert found["data"]["label"] == "high"
    bad = {**change, "options": {"before": [{"hook": "rename", "options": {"nmaes": {}}}]}}
    status, answer = pair.guest.admin("POST", "bindings", bad)
    assert status == 400
    assert "before[0].options" in answer["retmsg"]
    assert pair.guest.infer({"first": 1.0})["retcode"] == 0


def test_rows_beyond_a_services_rate_are_code_124(pair: Pair) -> None:
    change = {"service_id": "credit", "options": {"rows_per_s": 0.001}}
    assert pair.guest.admin("POST", "bindings", change)[0] == 200
    assert [pair.guest.infer(ROW)["retcode"] for _ in range(3)] == [0, 124, 124]
    again = {"service_id": "credit", "rules": []}  # what changes no option gives no new rows
    assert pair.guest.admin("POST", "bindings", again)[0] == 200
    assert pair.guest.infer(ROW)["retcode"] == 124


def test_rows_beyond_a_guests_rate_are_the_hosts_code_124(pair: Pair) -> None:
    pair.host.stop()
    pair.host.settings["partners"]["rows_per_s"] = 0.001
    try:
        pair.host.start()
        assert wait_for(lambda: pair.guest.infer(ROW)["retcode"] != 2105, timeout_s=60)
        answer = pair.guest.infer(ROW)
        assert answer["retcode"] == 2124
        assert "more rows per second than this guest may ask" in answer["retmsg"]
    finally:
        del pair.host.settings["partners"]["rows_per_s"]
        pair.host.stop()


def test_a_host_may_round_its_part_and_write_down_who_was_asked_about(pair: Pair) -> None:
    exact = pair.guest.infer(ROW)["data"]["score"]
    pair.host.stop()
    limits = {"score_decimals": 1, "audit": True}
    pair.host.settings["partners"] |= limits
    try:
        pair.host.start()
        assert wait_for(lambda: pair.guest.infer(ROW)["retcode"] == 0, timeout_s=60)
        rounded = pair.guest.infer(ROW, user="u2", case_id="case-7")["data"]["score"]
        part = round(sum(w * ROWS["u2"][name] for name, w in WEIGHTS["host"].items()), 1)
        own = {**ROW, "y0": part / WEIGHTS["host"]["y0"], "y1": 0.0}
        assert rounded == pytest.approx(expected_score(own), abs=1e-12)
        words = ["-m", "fedflow.cli.main", "serving", "audit", "--conf",
                 str(pair.host.home / "serving_conf.yaml"), "--home", str(pair.host.home),
                 "--id", "device_id=u2", "--json"]  # fmt: skip
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=False,
            env={**os.environ, "FEDFLOW_SERVING__HOME": str(pair.host.home)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        calls = json.loads(done.stdout)["calls"]
        assert [one["requests"] for one in calls] == [["case-7"]]
    finally:
        for name in limits:
            del pair.host.settings["partners"][name]
        pair.host.stop()
    pair.host.start()
    assert wait_for(lambda: pair.guest.infer(ROW)["retcode"] == 0, timeout_s=60)
    assert pair.guest.infer(ROW)["data"]["score"] == exact


def test_a_frozen_host_takes_no_longer_than_the_budget(pair: Pair) -> None:
    assert pair.host.process is not None
    pair.host.process.send_signal(signal.SIGSTOP)
    try:
        frozen = psutil.Process(pair.host.process.pid)
        assert wait_for(lambda: frozen.status() == psutil.STATUS_STOPPED, timeout_s=30)
        answer = pair.guest.infer(ROW)
    finally:
        pair.host.process.send_signal(signal.SIGCONT)
    assert answer["retcode"] == 2105, answer
    assert "did not answer in time" in answer["retmsg"]
    assert pair.guest.infer(ROW)["retcode"] == 0


def test_versions_never_mix(pair: Pair) -> None:
    pair.load("v2", digest="another")
    pair.guest.bind("v2")
    answer = pair.guest.infer(ROW)
    assert answer["retcode"] == 2104
    assert "digests differ" in answer["retmsg"]


def test_a_version_that_the_host_has_not_got(pair: Pair) -> None:
    pair.guest.load("only-guest", share_of("guest", "v2"))
    pair.guest.bind("v2")
    assert pair.guest.infer(ROW)["retcode"] == 2104


def test_who_is_no_guest_of_the_model_gets_no_part(pair: Pair) -> None:
    pair.load("v2", roles={"guest": ["1"], "host": [HOST]})
    pair.guest.bind("v2")
    assert pair.guest.infer(ROW)["retcode"] == 2121


# --- bad input ------------------------------------------------------------------------------------

SINGLE = {
    "head": {"serviceId": "credit"},
    "body": {"featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}},
}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"head": {"serviceId": "credit"}}',
        b'{"head": {"serviceId": "credit"}, "body": {"featureData": {}}}',
        b'{"head": {"serviceId": "credit"}, "body": {"featureData": {"x0": NaN}}}',
        json.dumps(SINGLE).replace("1.0", "1e999").encode(),
        json.dumps(SINGLE).replace("1.0", "[1.0]").encode(),
        json.dumps(SINGLE).replace('"u1"', "{}").encode(),
        b"[" * 100_000,
        b'{"body": ' * 50_000,
        json.dumps(SINGLE).replace("1.0", "[" * 50_000).encode(),
    ],
    ids=lambda body: body[:12].decode("latin-1"),
)
def test_a_body_that_cannot_be_read_is_code_100(pair: Pair, body: bytes) -> None:
    for path in ("inference", "batchInference"):
        status, answer = pair.guest.call("callers", "POST", f"/federation/v1/{path}", body)
        assert (status, answer["retcode"]) == (200, 100), answer
        assert answer["retmsg"]


def test_a_model_with_hosts_needs_ids(pair: Pair) -> None:
    row = {"featureData": ROW}
    request = {"head": {"serviceId": "credit"}, "body": row}
    _, answer = pair.guest.call("callers", "POST", "/federation/v1/inference", request)
    item = {**row, "sendToRemoteFeatureData": {"device_id": "u1"}}
    batch = pair.guest.batch([{"index": 0, **item}, {"index": 1, **row}])
    for one in (answer, batch):
        assert one["retcode"] == 100
        assert "hosts of this model need ids" in one["retmsg"]


def test_features_that_are_no_numbers_are_code_102(pair: Pair) -> None:
    assert pair.guest.infer({**ROW, "x0": "text"})["retcode"] == 102


def test_ids_that_do_not_fit_are_the_hosts_code_102(pair: Pair) -> None:
    for user in (None, True, 1.5, ""):
        assert pair.guest.infer(ROW, user)["retcode"] == 2102


def test_an_unknown_service_is_code_122_and_an_unknown_version_104(pair: Pair) -> None:
    assert pair.guest.infer(ROW, head={"serviceId": "x\n"})["retcode"] == 122
    head = {"modelId": MODEL_ID, "modelVersion": "v9"}
    assert pair.guest.infer(ROW, head=head)["retcode"] == 104


def test_too_large_a_body_is_refused(pair: Pair) -> None:
    status, _ = pair.guest.call("callers", "POST", "/federation/v1/inference", b" " * 2_000_000)
    assert status == 413
    assert pair.guest.infer(ROW)["retcode"] == 0


def test_a_case_id_that_could_forge_a_log_line_is_replaced(pair: Pair) -> None:
    answer = pair.guest.infer(ROW, case_id="x y=1")
    assert answer["caseId"] != "x y=1"
    assert pair.guest.infer(ROW, case_id="a" * 65)["caseId"] != "a" * 65


def test_the_admin_port_refuses_what_it_does_not_know(pair: Pair) -> None:
    for method, path in (("GET", "nothing"), ("PUT", "models"), ("POST", "loads/a/b/c")):
        assert pair.guest.admin(method, path)[0] == 404
    for body in (b"", b"[", b"[" * 100_000, b'{"load_id": 1}', b"\xff"):
        status, answer = pair.guest.admin("POST", "loads", body)
        assert (status, answer["retcode"]) == (400, 100)
    bad = {"load_id": "../x", "share": share_of("guest")}
    assert pair.guest.admin("POST", "loads", bad)[0] == 400
    other = {"Content-Type": "text/plain"}
    assert pair.guest.call("admin", "POST", "/admin/v1/loads", b"{}", headers=other)[0] == 400
    assert pair.guest.call("callers", "GET", "/federation/v1/inference")[0] == 404
    assert pair.guest.call("callers", "GET", "/admin/v1/models")[0] == 404


# --- what it shows --------------------------------------------------------------------------------


def test_metrics_count_by_service_and_version_and_hold_no_id(pair: Pair) -> None:
    pair.guest.infer(ROW)
    status, text = pair.guest.call("admin", "GET", "/metrics")
    assert status == 200
    assert 'fedflow_serving_rows_total{service="credit",version="v1",retcode="0",caller=""}' in text
    assert 'fedflow_serving_partner_seconds_count{party="10000"}' in text
    served = pair.host.call("admin", "GET", "/metrics")[1]
    assert 'fedflow_serving_served_rows_total{party="9999",retcode="0"}' in served
    secrets = ("u1", "device_id", "x0", "y0", str(SCORE)[:8])
    for shown in (text, served, pair.guest.log(), pair.host.log()):
        assert [secret for secret in secrets if secret in shown] == []


def test_health_is_answered_at_both_http_ports(pair: Pair) -> None:
    for port in ("callers", "admin"):
        assert pair.guest.call(port, "GET", "/healthz") == (200, {"alive": True})
    assert "request_id" not in pair.guest.log()


# --- ports with tokens, and the command line ------------------------------------------------------


def test_ports_ask_for_their_tokens(tmp_path: Path) -> None:
    token = "a-secret-of-this-test"
    place = ServingPlace(
        tmp_path,
        {
            "callers": {"port": 0, "token": token}, "admin": {"port": 0, "token": token[::-1]},
            "partners": {"port": 0},
        },
    )  # fmt: skip
    place.start()
    try:
        for port, right in (("callers", token), ("admin", token[::-1])):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer é"}):
                path = "/federation/v1/inference" if port == "callers" else "/admin/v1/loads"
                status, answer = place.call(port, "POST", path, b"{}", headers=headers)
                assert (status, answer["retcode"]) == (401, 127)
            status, _ = place.call(port, "POST", path, b"{}", headers={
                "Authorization": f"Bearer {right}"})  # fmt: skip
            assert status in (200, 400)
            assert place.call(port, "GET", "/healthz")[0] == 200
    finally:
        place.stop()


def test_one_process_serves_both_parties_without_a_route(tmp_path: Path) -> None:
    table = tmp_path / "f.csv"
    table.write_text("device_id,y0,y1\nu1,1.5,-2.0\n")
    place = ServingPlace(
        tmp_path,
        {
            "callers": {"port": 0}, "admin": {"port": 0}, "partners": {"port": 0},
            "features": {"source": "table", "options": {"path": str(table), "ids": ["device_id"]}},
        },
    )  # fmt: skip
    place.start()
    try:
        place.load("g", share_of("guest"))
        place.load("h", share_of("host"))
        place.bind()
        assert place.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
        assert place.infer(ROW, "u2")["retcode"] == 2113
    finally:
        place.stop()


def _fedflow(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main", "serving", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_command_line_starts_shows_and_stops(tmp_path: Path) -> None:
    conf = tmp_path / "c.yaml"
    conf.write_text("callers: {port: 0}\npartners: {port: 0}\nadmin: {port: 0}\n")
    options = ("--home", tmp_path / "home", "--conf", conf)
    assert _fedflow("status", *options).returncode == 4
    started = _fedflow("start", *options, "--json")
    assert started.returncode == 0, started.stderr
    pid = json.loads(started.stdout)["pid"]
    try:
        status = json.loads(_fedflow("status", *options, "--json").stdout)
        assert (status["ready"], status["models"], status["pid"]) == (True, 0, pid)
        second = _fedflow("run", *options)
        assert (second.returncode, "Another fedflow server uses" in second.stderr) == (1, True)
    finally:
        stopped = json.loads(_fedflow("stop", *options, "--json").stdout)
    assert (stopped["stopped"], stopped["killed"]) == (True, False)
    conf.write_text("calers: {}\n")
    wrong = _fedflow("start", *options)
    assert (wrong.returncode, "calers" in wrong.stderr) == (1, True)
