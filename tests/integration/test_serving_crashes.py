"""Kills at any moment of loads, binds and switches; a full disk. No score of a mixture, ever."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from random import Random

import psutil
import pytest

from fedflow.cli.server_process import wait_for
from tests.support.linear_model import MODEL_ID
from tests.support.serving_processes import ServingPlace, serving_pair
from tests.support.serving_traffic import offline, quiet_end, shares, traffic

ROW = {"x0": 1.0, "x1": 2.0}
KILLS = 6

Pair = tuple[ServingPlace, ServingPlace]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    guest, host = serving_pair(tmp_path_factory.mktemp("crashes"), limits={"single_ms": 2000})
    with quiet_end(guest, host):
        load_both((guest, host), "v1", "first")
        yield guest, host


def load_both(pair: Pair, version: str, load_id: str) -> None:
    own, theirs = shares(version)
    pair[1].load(load_id, theirs)
    pair[0].load(load_id, own)


def score_is_of_one_version(guest: ServingPlace) -> None:
    answer = guest.infer(ROW)
    assert answer["retcode"] == 0, answer
    version = answer["data"]["modelVersion"]
    assert answer["data"]["score"] == pytest.approx(offline(version, ROW, "u1"), abs=1e-12)


@pytest.mark.parametrize("number", [0, 1], ids=["guest", "host"])
def test_a_kill_at_any_moment_of_loads_and_switches_loses_and_mixes_nothing(
    pair: Pair, number: int
) -> None:
    victim, rng = pair[number], Random(number)
    for turn in range(KILLS):
        stop = threading.Event()

        def churn(turn: int = turn, stop: threading.Event = stop) -> None:
            step = 0
            while not stop.is_set():
                version = ("v1", "v2")[step % 2]
                with suppress(OSError, HTTPException, AssertionError, ValueError):
                    load_both(pair, version, f"{number}-{turn}-{step}")
                    pair[0].bind(version)
                step += 1

        thread = threading.Thread(target=churn)
        with traffic(pair[0], per_second=100) as found:
            thread.start()
            time.sleep(rng.uniform(0.02, 0.3))
            victim.kill()
            stop.set()
            thread.join(60)
            victim.start()
            assert wait_for(lambda: pair[0].infer(ROW)["retcode"] in (0, 2104), timeout_s=30)
        assert found.wrong == []
        wanted = {0, 2105, 2104, -1} if number == 0 else {0, 2105, 2104}
        assert set(found.codes) <= wanted, found.failures[:5]
        for version in ("v1", "v2"):
            load_both(pair, version, f"again-{number}-{turn}-{version}")
            pair[0].bind(version)
            score_is_of_one_version(pair[0])


def test_a_full_disk_fails_changes_and_no_request(pair: Pair) -> None:
    guest = pair[0]
    assert guest.process is not None
    process = psutil.Process(guest.process.pid)
    pair[1].load("full-host", shares("v3")[1])
    guest.bind("v1")
    process.rlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # nothing can be written
    try:
        with traffic(guest, per_second=50) as found:
            body = {"load_id": "full", "share": shares("v3")[0]}
            status, answer = guest.admin("POST", "loads", body)
            assert (status, answer["retcode"] != 0) == (500, True), answer
            bind = {"service_id": "credit", "model_id": MODEL_ID, "model_version": "v2"}
            status, answer = guest.admin("POST", "bindings", bind)
            assert (status, answer["retcode"] != 0) == (500, True), answer
            path = f"models/v2?model_id={MODEL_ID.replace('#', '%23')}"
            assert guest.admin("DELETE", path)[0] == 500
            assert wait_for(lambda: sum(found.codes.values()) > 20, timeout_s=30)
        assert (found.wrong, found.failures, set(found.versions)) == ([], [], {"v1"})
    finally:
        infinite = resource.RLIM_INFINITY
        process.rlimit(resource.RLIMIT_FSIZE, (infinite, infinite))
    guest.load("after-full", shares("v3")[0])
    guest.bind("v3")
    score_is_of_one_version(guest)
    guest.kill()
    guest.start()
    assert guest.infer(ROW)["data"]["modelVersion"] == "v3"
