"""200 requests a second while versions switch and one of two host processes restarts or dies."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedflow.cli.server_process import wait_for
from tests.support.linear_model import HOST
from tests.support.serving_processes import ServingPlace, serving_pair
from tests.support.serving_traffic import Traffic, quiet_end, shares, traffic

PER_SECOND = 200.0


class Three:
    """A guest's process, and two processes of one host behind one route."""

    def __init__(self, guest: ServingPlace, hosts: list[ServingPlace]) -> None:
        self.guest = guest
        self.hosts = hosts

    def load(self, version: str, load_id: str) -> None:
        own, theirs = shares(version)
        for host in self.hosts:
            host.load(load_id, theirs)
        self.guest.load(load_id, own)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("load")
    guest, first = serving_pair(folder, limits={"single_ms": 2000}, access_log=False)
    second = _beside(first, folder / "host-2")
    with quiet_end(guest, first, second):
        second.start()
        ports = [one.settings["partners"]["port"] for one in (first, second)]
        guest.settings["routes"] = {HOST: ",".join(f"127.0.0.1:{port}" for port in ports)}
        guest.stop()
        guest.start()
        found = Three(guest, [first, second])
        for version in ("v1", "v2"):
            found.load(version, f"two-{version}")
        yield found


def _beside(first: ServingPlace, home: Path) -> ServingPlace:
    settings = {**first.settings, "callers": {"port": 0}, "admin": {"port": 0}}
    settings["partners"] = {**first.settings["partners"], "port": 0}
    return ServingPlace(home, settings)


def none_failed(found: Traffic) -> None:
    assert found.wrong == []
    assert (found.failures, set(found.codes)) == ([], {0})


def test_switches_rollbacks_and_reloads_fail_nothing_and_mix_nothing(three: Three) -> None:
    with traffic(three.guest, per_second=PER_SECOND) as found:
        for turn in range(6):
            three.guest.bind("v2")
            time.sleep(0.15)
            three.load("v2", f"again-{turn}")
            assert three.guest.admin("POST", "bindings/credit/rollback")[0] == 200
            time.sleep(0.15)
        assert wait_for(lambda: sum(found.codes.values()) > 400, timeout_s=60)
    none_failed(found)
    assert set(found.versions) == {"v1", "v2"}


def test_a_graceful_restart_of_one_of_two_host_processes_fails_nothing(three: Three) -> None:
    with traffic(three.guest, per_second=PER_SECOND) as found:
        for host in (*three.hosts, *three.hosts):
            before = sum(found.codes.values())
            host.stop()
            assert wait_for(lambda n=before: sum(found.codes.values()) > n + 50, timeout_s=60)
            host.start()
            before = sum(found.codes.values())
            assert wait_for(lambda n=before: sum(found.codes.values()) > n + 50, timeout_s=60)
    none_failed(found)


def test_a_killed_host_process_fails_few_and_says_why(three: Three) -> None:
    with traffic(three.guest, per_second=PER_SECOND) as found:
        for host in three.hosts:
            begun_s = time.monotonic()
            host.kill()
            time.sleep(3.0)
            before = sum(found.codes.values())
            assert wait_for(lambda n=before: sum(found.codes.values()) > n + 50, timeout_s=60)
            late = [one for one in found.failures if one[0] > begun_s + 3.0]
            assert late == []
            host.start()
    assert found.wrong == []
    assert set(found.codes) <= {0, 2105}, found.codes


def test_a_guest_that_stops_fails_nobody_who_asks_whether_it_is_ready(tmp_path: Path) -> None:
    """A load balancer asks `/readyz` and sends nothing more to a process that stops."""
    guest, host = serving_pair(tmp_path, limits={"drain_ms": 1500})
    with quiet_end(guest, host):
        for place, share in zip((guest, host), shares("v1"), strict=True):
            place.load("load", share)
        with traffic(guest, per_second=PER_SECOND) as found:
            assert wait_for(lambda: sum(found.codes.values()) > 100, timeout_s=60)
            assert guest.process is not None
            guest.process.send_signal(signal.SIGTERM)
            begun_s = time.monotonic()
            assert wait_for(lambda: guest.call("callers", "GET", "/readyz")[0] == 503, timeout_s=30)
            assert time.monotonic() - begun_s < 1.0
            time.sleep(0.3)  # until the balancer asks
        assert guest.process.wait(30) == 0
    none_failed(found)
