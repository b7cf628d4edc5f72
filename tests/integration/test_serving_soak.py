"""Mixed traffic with loads, switches, unloads, caches and faults: nothing grows, nothing leaks.

Twenty seconds here; `bin/test --heavy` runs it for an hour, `FEDFLOW_SOAK_S` says how long instead.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil
import pytest

from fedflow.cli.server_process import wait_for
from tests.support.linear_model import HOST, MODEL_ID
from tests.support.serving_processes import ServingPlace, serving_pair
from tests.support.serving_traffic import Traffic, quiet_end, shares, traffic

HOUR_S = float(os.environ.get("FEDFLOW_SOAK_S", "3600"))
MIB = 1 << 20
VERSIONS = ("v1", "v2", "v3")
ROW = {"x0": 1.0, "x1": 2.0}
CODES = frozenset({0, 2105})  #: a host process is killed and frozen now and then
#: ids, features and scores: names of users, and numbers with more digits than times have
SECRET = re.compile(r"\bu[12]\b|device_id|-?\d\.\d{9,}")


@dataclass(frozen=True)
class Use:
    """What a process uses."""

    rss: int
    descriptors: int
    threads: int


def use_of(place: ServingPlace) -> Use:
    assert place.process is not None
    process = psutil.Process(place.process.pid)
    return Use(process.memory_info().rss, process.num_fds(), process.num_threads())


class Soak:
    """A guest's process and two of a host, and what is done to them."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.rng = rng
        self.number = 0
        self.bound = "v1"
        self.guest, first = serving_pair(
            folder, caches={"partners": {"enabled": True, "seconds": 0.5}},
            limits={"single_ms": 1500, "batch_ms": 1500},
        )  # fmt: skip
        own = {**first.settings["partners"], "port": 0}
        free = {"callers": {"port": 0}, "admin": {"port": 0}}
        second = ServingPlace(folder / "host-2", {**first.settings, **free, "partners": own})
        self.hosts = [first, second]

    def start(self) -> None:
        self.hosts[1].start()
        ports = [one.settings["partners"]["port"] for one in self.hosts]
        self.guest.settings["routes"] = {HOST: ",".join(f"127.0.0.1:{port}" for port in ports)}
        self.guest.stop()
        self.guest.start()
        for version in VERSIONS:
            self.load(version)

    def load(self, version: str) -> None:
        self.number += 1
        own, theirs = shares(version)
        for host in self.hosts:
            host.load(f"load-{self.number}", theirs)
        self.guest.load(f"load-{self.number}", own)

    def reload(self) -> None:
        self.load(self.rng.choice(VERSIONS))

    def switch(self) -> None:
        self.bound = self.rng.choice(VERSIONS)
        self.guest.bind(self.bound)

    def split(self) -> None:
        other = self.rng.choice([one for one in VERSIONS if one != self.bound])
        body = {"service_id": "credit", "model_id": MODEL_ID, "model_version": other, "weight": 50}
        assert self.guest.admin("POST", "bindings", body)[0] == 200
        self.guest.bind(self.bound)

    def unload(self) -> None:
        version = self.rng.choice([one for one in VERSIONS if one != self.bound])
        path = f"models/{version}?model_id={MODEL_ID.replace('#', '%23')}"
        for place in (self.guest, *self.hosts):
            assert place.admin("DELETE", path)[0] == 200
        self.load(version)

    def caches(self) -> None:
        for cached in (False, True):
            options = {"cache_partners": cached}
            body = {"service_id": "credit", "options": options}
            assert self.guest.admin("POST", "bindings", body)[0] == 200
        assert self.guest.admin("POST", "caches/purge")[0] == 200

    def batch(self) -> None:
        items = [
            {"index": n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": user}}
            for n, user in enumerate(("u1", "nobody", "u2"))
        ]
        found = self.guest.batch(items)["batchDataList"]
        assert found[1]["retcode"] in (2113, 2105)

    def bad(self) -> None:
        for body in (b"{", b"[" * 10_000):
            status, _ = self.guest.call("callers", "POST", "/federation/v1/inference", body)
            assert status == 200
        assert self.guest.infer({**ROW, "x0": "text"})["retcode"] == 102
        assert self.guest.infer(ROW, head={"serviceId": "none"})["retcode"] == 122

    def kill(self) -> None:
        self.hosts[0].kill()
        time.sleep(0.2)
        self.hosts[0].start()

    def restart(self) -> None:
        self.hosts[0].stop()
        self.hosts[0].start()

    def freeze(self) -> None:
        process = self.hosts[0].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        process.send_signal(signal.SIGCONT)

    def once(self) -> None:
        """Do everything, in any order."""
        steps: list[Callable[[], None]] = [
            self.reload, self.switch, self.split, self.unload, self.caches, self.batch, self.bad,
            self.switch, self.kill, self.restart, self.freeze, self.reload, self.switch,
        ]  # fmt: skip
        self.rng.shuffle(steps)
        for step in steps:
            step()

    def settled(self) -> tuple[Use, Use]:
        """Return what the processes use that were never restarted, when all is well again."""
        assert wait_for(lambda: self.guest.infer(ROW)["retcode"] == 0, timeout_s=60)
        return use_of(self.guest), use_of(self.hosts[1])


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Soak]:
    found = Soak(tmp_path, Random(1))
    with quiet_end(found.guest, *found.hosts):
        found.start()
        yield found


def check_level(before: tuple[Use, Use], after: tuple[Use, Use]) -> None:
    """Raises: AssertionError: a process uses more than it did."""
    for old, new in zip(before, after, strict=True):
        assert new.descriptors <= old.descriptors + 8, (before, after)
        assert new.threads <= old.threads + 8, (before, after)
        assert new.rss <= old.rss * 1.15 + 16 * MIB, (before, after)


def check_silent(soak: Soak, found: Traffic) -> None:
    """Raises: AssertionError: logs or metrics hold a feature, an id or a score."""
    texts = [place.log() for place in (soak.guest, *soak.hosts)]
    for place in (soak.guest, *soak.hosts):
        status, text = place.call("admin", "GET", "/metrics")
        assert status == 200
        texts.append(re.sub(r" [-+.e0-9]+$", "", text, flags=re.MULTILINE))  # sums of times
    assert "retcode=0" in texts[0]  # a line per request
    assert sum(found.codes.values()) > 100
    for text in texts:
        assert SECRET.findall(text) == []


def run(soak: Soak, seconds: float) -> None:
    with traffic(soak.guest, per_second=100) as found:
        soak.once()
        before, end_s = soak.settled(), time.monotonic() + seconds
        while time.monotonic() < end_s:
            soak.once()
            assert found.wrong == []
            assert set(found.codes) <= CODES, found.failures[-3:]
            failed = sum(found.codes.values()) - found.codes[0]
            assert failed < 0.2 * sum(found.codes.values()), found.codes
            del found.times_s[:], found.failures[:]
        after = soak.settled()
    check_level(before, after)
    check_silent(soak, found)


def test_nothing_grows_and_logs_hold_no_row(soak: Soak) -> None:
    run(soak, 4.0)


@pytest.mark.heavy
@pytest.mark.timeout(HOUR_S + 600)
def test_nothing_grows_in_an_hour(soak: Soak) -> None:
    run(soak, HOUR_S)
