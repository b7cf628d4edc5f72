"""A guest with caches: what is asked only once, what is forgotten, and what helps in need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedflow.cli.server_process import wait_for
from tests.storage_servers import RedisServer
from tests.support.linear_model import expected_score, share_of
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

ROW = {"x0": 1.0, "x1": 2.0}
SCORE = expected_score({**ROW, **ROWS["u1"]})


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


def with_redis(server: RedisServer) -> dict[str, Any]:
    shared = {"kind": "redis", "url": server.url, "timeout_ms": 5_000}
    return {"partners": {"enabled": True}, "shared": shared}


@pytest.fixture(params=["memory", "sqlite", "redis"])
def pair(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[ServingPlace, ServingPlace]]:
    caches: dict[str, Any] = {"partners": {"enabled": True}}
    if request.param == "sqlite":
        caches["shared"] = {"kind": "sqlite"}
    if request.param == "redis":
        caches = with_redis(request.getfixturevalue("redis"))
    guest, host = serving_pair(tmp_path, caches=caches)
    try:
        yield guest, host
    finally:
        guest.stop()
        host.stop()


def rows_asked(host: ServingPlace) -> int:
    """Return how many rows the host gave a part of."""
    text = host.call("admin", "GET", "/metrics")[1]
    found = re.findall(r'served_rows_total\{party="9999",retcode="0"\} (\d+)', text)
    return int(found[0]) if found else 0


def test_a_host_is_asked_once_for_the_same_ids(pair: tuple[ServingPlace, ServingPlace]) -> None:
    guest, host = pair
    for x0 in (1.0, 2.0, 3.0):  # the guest's own features are those of each request
        wanted = expected_score({**ROW, "x0": x0, **ROWS["u1"]})
        score = guest.infer({**ROW, "x0": x0})["data"]["score"]
        assert score == pytest.approx(wanted, abs=1e-12)
    assert rows_asked(host) == 1
    items = [
        {"index": n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": user}}
        for n, user in enumerate(("u1", "u2", "u1", "nobody"))
    ]
    for _ in range(2):
        found = guest.batch(items)["batchDataList"]
        assert [one["retcode"] for one in found] == [0, 0, 0, 2113]
        wanted = [expected_score({**ROW, **ROWS[user]}) for user in ("u1", "u2", "u1")]
        assert [one["data"]["score"] for one in found[:3]] == pytest.approx(wanted, abs=1e-12)
    assert rows_asked(host) == 2


def test_a_version_never_meets_parts_of_another(pair: tuple[ServingPlace, ServingPlace]) -> None:
    guest, host = pair
    assert guest.infer(ROW)["retcode"] == 0
    other = {"weights": {"y0": -1.0, "y1": 0.5}}
    host.load("load-v2", share_of("host", "v2", **other))
    guest.load("load-v2", share_of("guest", "v2"))
    guest.bind("v2")
    changed = guest.infer(ROW)["data"]["score"]
    assert changed != pytest.approx(expected_score({**ROW, **ROWS["u1"]}, version="v2"), abs=1e-6)
    guest.bind("v1")
    assert guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    assert rows_asked(host) == 2


@pytest.mark.parametrize("what", [{}, {"service_id": "credit"}, {"ids": {"device_id": "u1"}}])
def test_what_is_purged_is_asked_for_again(
    pair: tuple[ServingPlace, ServingPlace], what: dict[str, Any]
) -> None:
    guest, host = pair
    guest.infer(ROW)
    status, answer = guest.admin("POST", "caches/purge", {"service_id": "other"})
    assert (status, answer["data"]["purged"]) == (200, 0)
    status, answer = guest.admin("POST", "caches/purge", what)
    assert status == 200
    assert answer["data"]["purged"] >= 1
    guest.infer(ROW)
    assert rows_asked(host) == 2


def test_old_parts_help_when_the_host_is_away_and_the_answer_says_so(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, host = pair
    options = {"on_fault": "cached_stale", "stale_s": 600}
    change = {"service_id": "credit", "options": options}
    assert guest.admin("POST", "bindings", change)[0] == 200
    assert "degraded" not in guest.infer(ROW)["data"]
    host.kill()
    fresh = guest.infer(ROW)  # it is within its life
    assert (fresh["retcode"], "degraded" in fresh["data"]) == (0, False)
    assert guest.infer(ROW, user="u2")["retcode"] == 2105


def test_a_repeated_request_is_answered_again_and_another_under_its_id_is_not(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, host = pair
    first = guest.infer(ROW, case_id="case-1")
    assert guest.infer(ROW, case_id="case-1")["data"]["score"] == first["data"]["score"]
    other = guest.infer({**ROW, "x0": 5.0}, case_id="case-1")
    wanted = expected_score({**ROW, "x0": 5.0, **ROWS["u1"]})
    assert other["data"]["score"] == pytest.approx(wanted, abs=1e-12)
    text = guest.call("admin", "GET", "/metrics")[1]
    assert re.search(r'cache_lookups_total\{level="results",\w+="hit"\} 1', text), text
    assert host.process is not None


def test_parts_that_are_not_fresh_help_only_in_need(tmp_path: Path) -> None:
    caches = {"partners": {"enabled": True, "seconds": 0.2}}
    guest, host = serving_pair(tmp_path, caches=caches)
    try:
        options = {"on_fault": "cached_stale", "stale_s": 600}
        guest.admin("POST", "bindings", {"service_id": "credit", "options": options})
        assert "degraded" not in guest.infer(ROW)["data"]
        host.kill()
        assert wait_for(lambda: "degraded" in guest.infer(ROW)["data"], timeout_s=30)
        answer = guest.infer(ROW)
        assert (answer["retcode"], answer["data"]["degraded"]) == (0, "cached_stale")
        assert answer["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
        assert guest.infer(ROW, user="u2")["retcode"] == 2105
    finally:
        guest.stop()
        host.stop()


def test_cached_stale_needs_a_cache(tmp_path: Path) -> None:
    guest, host = serving_pair(tmp_path)
    try:
        change = {"service_id": "credit", "options": {"on_fault": "cached_stale"}}
        status, answer = guest.admin("POST", "bindings", change)
        assert (status, answer["retcode"]) == (409, 109)
        assert "caches.partners.enabled is false" in answer["retmsg"]
        status, answer = guest.admin("POST", "caches/purge", {"user": "u1"})
        assert (status, "user" in answer["retmsg"]) == (400, True)
    finally:
        guest.stop()
        host.stop()


def test_a_redis_that_dies_and_returns_empty_changes_no_score(
    tmp_path: Path, redis: RedisServer
) -> None:
    caches = {**with_redis(redis), "results": {"enabled": False}}
    guest, host = serving_pair(tmp_path, caches=caches)
    try:
        assert guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
        assert len(redis.run("KEYS", "fedflow:*")) == 2  # a part, and what the host says of itself
        assert b"u1" not in b"".join(redis.run("KEYS", "*"))
        redis.kill()
        for user in ("u1", "u2", "u3"):
            assert guest.infer(ROW, user=user)["retcode"] == 0
        status, answer = guest.admin("POST", "caches/purge", {})
        assert (status, answer["retcode"]) == (503, 110)
        redis.start()
        assert guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
        assert rows_asked(host) == 4
        assert "cache_errors_total" in guest.call("admin", "GET", "/metrics")[1]
    finally:
        guest.stop()
        host.stop()


# --- warm-up --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def memory_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingPlace]:
    """Return the guest of a pair that no test stops."""
    folder = tmp_path_factory.mktemp("pair")
    guest, host = serving_pair(folder, caches={"partners": {"enabled": True}})
    yield guest
    guest.stop()
    host.stop()


def warmed(guest: ServingPlace, *users: object, **more: Any) -> tuple[int, Any]:
    body = {"service_id": "credit", "ids": [{"device_id": user} for user in users], **more}
    status, answer = guest.admin("POST", "caches/warm-ups", body)
    return status, answer.get("data", answer)


def test_a_warm_up_asks_for_what_the_caches_lack_and_no_more(
    pair: tuple[ServingPlace, ServingPlace],
) -> None:
    guest, host = pair
    assert guest.infer(ROW)["retcode"] == 0  # of u1
    expected = {"rows": 4, "warmed": 3, "hosts": ["10000"], "retcodes": {"2113": 1}}
    assert warmed(guest, "u1", "u2", "u3", "nobody") == (200, expected)
    assert rows_asked(host) == 3
    host.stop()
    assert guest.infer(ROW, user="u2")["retcode"] == 0
    assert guest.infer(ROW, user="u9")["retcode"] == 2105
    assert warmed(guest, "u2", "u9")[1]["retcodes"] == {"2105": 1}


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"service_id": "none"}, 404, "no service none"),
        ({"ids": []}, 400, "0 rows"),
        ({"ids": [{}] * 301}, 400, "301 rows"),
        ({"ids": [{"device_id": []}]}, 400, "ids"),
        ({"more": 1}, 400, "more"),
    ],
)
def test_a_warm_up_that_cannot_be_is_refused(
    memory_pair: ServingPlace, change: dict[str, Any], status: int, reason: str
) -> None:
    found, answer = warmed(memory_pair, "u1", **change)
    assert (found, reason in answer["retmsg"]) == (status, True), answer


def test_the_command_warms_up_for_the_rows_of_a_file(
    memory_pair: ServingPlace, tmp_path: Path
) -> None:
    guest = memory_pair
    file = tmp_path / "users.csv"
    file.write_text("device_id\nu1\nu2\nnobody\nu3\n")
    done = command(guest, str(file), "--rate", "1000", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"rows": 4, "warmed": 3, "retcodes": {"2113": 1}}
    lines = tmp_path / "users.jsonl"
    lines.write_text('{"device_id": "u1"}\n\n{"device_id": "u2"}\n')
    done = command(guest, str(lines), "--skip", "1")
    assert "2 rows: 1 are in the caches" in done.stdout
    lines.write_text('{"device_id": "u1"}\n{"device_id": ')
    done = command(guest, str(lines), "--rate", "2")
    assert done.returncode != 0
    assert "line 2" in done.stderr
    assert "go on with --skip 1" in done.stdout


def command(guest: ServingPlace, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command beside a process."""
    program = [sys.executable, "-m", "fedflow.cli.main", "serving", "warm-up", "-s", "credit"]
    conf = Path(words[0]).with_name("conf.yaml")
    conf.write_text(yaml.safe_dump({**guest.settings, "home": str(guest.home)}))
    return subprocess.run(
        [*program, *words, "--conf", str(conf)],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
