"""Two parties that reach each other only over an exchange: jobs, and what ends in between."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.e2e.jobs import empty_job, example, upload_data
from tests.e2e.servers import (
    ARBITER,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    Pair,
    Place,
    environment,
    free_ports,
    make_certificates,
    pass_time,
    running,
    wait_for,
)
from tests.e2e.test_administration import exchange_keys

pytestmark = pytest.mark.e2e


class Exchange:
    """A real `fedflow exchange run`, and its place."""

    def __init__(self, folder: Path, conf: dict[str, Any]) -> None:
        self.home = folder / "exchange"
        self.home.mkdir(parents=True)
        self.conf = self.home / "exchange_conf.yaml"
        self.conf.write_text(yaml.safe_dump(conf))
        self.status = f"http://127.0.0.1:{conf['status']['port']}"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> list[str]:
        home = ["--home", str(self.home)]
        return [sys.executable, "-m", "fedflow.cli.main", "exchange", *words, *home]

    def start(self) -> None:
        with (self.home / "exchange.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command("run"), "--conf", str(self.conf)],
                cwd=self.home, env=environment({}), stdout=log, stderr=log,
            )  # fmt: skip
        wait_for(self._answers, "the exchange to answer")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(20) == 0, (self.home / "exchange.log").read_text()

    def traffic(self) -> dict[tuple[str, str], dict[str, Any]]:
        rows = requests.get(f"{self.status}/traffic", timeout=10).json()
        return {(row["source"], row["destination"]): row for row in rows}

    def _answers(self) -> bool:
        assert self.process is not None
        log = self.home / "exchange.log"
        assert self.process.poll() is None, log.read_text()
        try:
            return requests.get(f"{self.status}/readyz", timeout=5).json()["ready"] is True
        except requests.RequestException:
            return False


@contextmanager
def behind_an_exchange(folder: Path) -> Iterator[tuple[Pair, Exchange]]:
    """Run an exchange and two parties that know its address, and not each other's. It cannot call
    the host.
    """
    tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID, "exchange")
    http_g, http_h, grpc_g, grpc_h, port, status = free_ports(6)
    exchange = Exchange(
        folder,
        {
            "port": port,
            "status": {"port": status},
            "tls": {
                "ca": str(tls / "ca.pem"),
                "certificate": str(tls / "exchange.pem"),
                "key": str(tls / "exchange.key"),
            },
            "parties": {GUEST_ID: f"127.0.0.1:{grpc_g}", HOST_ID: "dial-in"},
        },
    )
    over = f"exchange://127.0.0.1:{port}"
    dials = {"FEDFLOW__DIAL_IN": json.dumps([f"127.0.0.1:{port}"])}
    places = [
        Place(
            home=folder / name, party_id=own, http_port=http, grpc_port=grpc,
            routes={other: over}, tls=tls, settings={**QUICK, **more},
        )
        for name, own, other, http, grpc, more in (
            ("guest", GUEST_ID, HOST_ID, http_g, grpc_g, {}),
            ("host", HOST_ID, GUEST_ID, http_h, grpc_h, dials),
        )
    ]  # fmt: skip
    exchange.start()
    try:
        with running(*places) as (guest, host):
            pair = Pair(guest, host)
            exchange_keys(pair)
            pair.wait_connected()
            yield pair, exchange
    finally:
        exchange.stop()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Exchange]]:
    with behind_an_exchange(tmp_path_factory.mktemp("exchange")) as found:
        yield found


def test_a_job_runs_over_an_exchange_that_is_killed_in_between(
    both: tuple[Pair, Exchange],
) -> None:
    pair, exchange = both
    upload_data(pair)
    job_id = pair.guest.client.submit(*example(iterations=4)).job_id
    pair.host.wait_executor(job_id, component="hetero_lr_0", site=HOST)
    metrics = pair.host.client.metrics
    wait_for(lambda: metrics(job_id, "hetero_lr_0", site=ARBITER), "the first iteration")
    exchange.kill()
    pass_time(0.1)
    exchange.start()
    assert set(pair.ends(job_id, within_s=150).values()) == {"success"}
    view = pair.guest.client.job(job_id)
    assert {task.version for task in view.tasks} == {0}
    traffic = exchange.traffic()
    assert traffic[GUEST_ID, HOST_ID]["calls"] > 0
    assert traffic[HOST_ID, GUEST_ID]["bytes_up"] > 0


def test_the_exchange_says_what_passed(both: tuple[Pair, Exchange]) -> None:
    pair, exchange = both
    job_id = pair.guest.client.submit(*empty_job({})).job_id
    assert set(pair.ends(job_id).values()) == {"success"}
    shown = subprocess.run(
        [*exchange.command("status"), "--json"],
        env=environment({}),
        capture_output=True,
        check=True,
    )
    found = json.loads(shown.stdout)
    assert found["running"] is True
    assert found["pid"] == exchange.process.pid if exchange.process else False
    assert {row["source"] for row in found["traffic"]} == {GUEST_ID, HOST_ID}
    here = {row["party_id"]: len(row["dialled_in"]) for row in found["parties"]}
    assert here == {GUEST_ID: 0, HOST_ID: 1}
    metrics = requests.get(f"{exchange.status}/metrics", timeout=10).text
    pairs = f'{{source="{GUEST_ID}",destination="{HOST_ID}"}}'
    assert f"fedflow_exchange_calls_total{pairs}" in metrics
    assert f'fedflow_exchange_dialled_in{{party="{HOST_ID}"}} 1' in metrics
    assert job_id not in (exchange.home / "exchange.log").read_text()


def test_a_party_that_is_down_is_reported_as_that(both: tuple[Pair, Exchange]) -> None:
    pair, _ = both
    pair.host.kill()
    try:
        ping = pair.guest.client.parties.ping(HOST_ID)
        assert not ping.ok
        assert f"the exchange cannot reach party {HOST_ID}: it has not dialled in" in str(ping)
    finally:
        pair.host.start().wait_ready()
    pair.wait_connected()


def test_an_exchange_that_is_down_is_reported_with_its_address(
    both: tuple[Pair, Exchange],
) -> None:
    pair, exchange = both
    exchange.kill()
    try:
        ping = pair.guest.client.parties.ping(HOST_ID)
        assert not ping.ok
        assert "exchange://127.0.0.1:" in str(ping)
    finally:
        exchange.start()
    pair.wait_connected()
    assert os.listdir(exchange.home)


def line_of(place: Place) -> dict[str, Any]:
    """Return how the line of a server to its one exchange stands."""
    [one] = requests.get(f"{place.url}/readyz", timeout=10).json()["dial_in"]
    return dict(one)


def test_a_server_shows_whether_calls_come_over_the_exchange(both: tuple[Pair, Exchange]) -> None:
    pair, exchange = both
    at = exchange_address(exchange)
    board = f"{pair.host.url}/board/parties"
    wait_for(lambda: line_of(pair.host)["connected"], "the host to dial in")
    assert (line_of(pair.host)["exchange"], line_of(pair.host)["last_error"]) == (at, "")
    shown = party_ping(pair.host, GUEST_ID)
    assert shown.returncode == 0
    assert f"Calls for this server come over the exchange {at} since 20" in shown.stdout
    assert f"Calls for this server come over the exchange {at}." in requests.get(board).text
    assert "dial_in" not in requests.get(f"{pair.guest.url}/readyz", timeout=10).json()
    exchange.kill()
    try:
        wait_for(lambda: "refused" in line_of(pair.host)["last_error"], "the host to notice")
        ready = requests.get(f"{pair.host.url}/readyz", timeout=10).json()
        assert ready["ready"] is True
        [warning] = ready["warnings"]
        assert warning.startswith(f"dial-in: no calls come over the exchange {at}: connection")
        shown = party_ping(pair.host, GUEST_ID)
        assert shown.returncode == 1
        said = rf"No calls for this server come over the exchange {at} since 20.*: connection "
        assert re.search(said + r"refused.*\. Last try: 20", shown.stdout)
        assert f"No calls for this server come over the exchange {at}: " in requests.get(board).text
    finally:
        exchange.start()
    pair.wait_connected()
    assert line_of(pair.host)["connected"]


def exchange_address(exchange: Exchange) -> str:
    return f"127.0.0.1:{yaml.safe_load(exchange.conf.read_text())['port']}"


def party_ping(place: Place, party_id: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main", "party", "ping", party_id,
         "--server", place.url],
        env=environment({}), capture_output=True, text=True, check=False,
    )  # fmt: skip
