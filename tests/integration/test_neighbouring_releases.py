"""Two whole servers: one says that it is of another release, or cannot reach the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.parties import PartiesNotReady, PartyTooOld
from fedflow.base.settings import parse_settings
from fedflow.client.client import Client
from fedflow.server.build import FedflowServer
from fedflow.wire.versions import OURS, Speaks
from tests.e2e.jobs import empty_job
from tests.e2e.servers import free_ports, refusal_of

FUTURE = Speaks(lowest=3, highest=3, product="9.0.0")
LIMIT_S = 60.0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def pair(
    stack: ExitStack, home: Path, theirs: Speaks | None, *, way_back: int | None = None
) -> tuple[Client, Client]:
    """Return clients of the servers of 9999, of this release, and of 10000, of another.

    The server of 10000 looks for that of 9999 at the port `way_back`, if it is given.
    """
    grpc = dict(zip(("9999", "10000"), free_ports(2), strict=True))

    def server(party_id: str, other: str, speaks: Speaks | None) -> Client:
        back = party_id == "10000" and way_back is not None
        given: dict[str, Any] = {
            "party_id": party_id,
            "fateflow": {"http_port": 0, "grpc_port": grpc[party_id]},
            "routes": {other: f"127.0.0.1:{way_back if back else grpc[other]}"},
        }
        for folder in Folders(home / party_id).all():
            folder.mkdir(parents=True, exist_ok=True)
        one = FedflowServer(parse_settings(given), home / party_id, speaks=speaks)
        stack.callback(one.close)
        one.open()
        assert one.place is not None
        client = Client(f"http://127.0.0.1:{one.place.http_port}")
        wait_for_ready(client)
        return client

    return server("9999", "10000", OURS), server("10000", "9999", theirs)


def wait_for_ready(client: Client) -> None:
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + LIMIT_S
    while not client.readiness().get("ready"):
        assert clock.monotonic_s() < deadline_s
        pause(0.05, never)


def test_a_job_runs_with_the_release_before(stack: ExitStack, tmp_path: Path) -> None:
    guest, host = pair(stack, tmp_path, None)
    job_id = guest.submit(*empty_job({})).job_id
    assert guest.wait(job_id, timeout_s=LIMIT_S).succeeded
    assert host.job(job_id).succeeded
    [party] = guest.parties.all()
    assert (party.protocol, party.version) == (1, None)
    assert guest.parties.ping("10000").ok
    job_id = guest.submit(*empty_job({"sleep_s": 600.0})).job_id
    refused = refusal_of(lambda: host.pause(job_id))
    assert isinstance(refused, PartyTooOld)
    assert "protocol 2" in refused.message
    guest.stop(job_id)


def test_a_release_without_a_common_protocol_is_refused_both_ways(
    stack: ExitStack, tmp_path: Path
) -> None:
    guest, host = pair(stack, tmp_path, FUTURE)
    refused = refusal_of(lambda: guest.submit(*empty_job({})))
    assert isinstance(refused, PartiesNotReady)
    assert str(FUTURE) in refused.message
    assert str(OURS) in refused.message
    [broken] = host.parties.ping("9999").broken
    assert str(FUTURE) in broken
    assert str(OURS) in broken
    assert guest.parties.all()[0].protocol is None


def test_a_submit_names_the_hop_back_that_is_broken(stack: ExitStack, tmp_path: Path) -> None:
    [nobody] = free_ports(1)
    guest, _ = pair(stack, tmp_path, OURS, way_back=nobody)
    refused = refusal_of(lambda: guest.submit(*empty_job({})))
    assert isinstance(refused, PartiesNotReady)
    sentence = "10000 cannot reach 9999 at …"  # where that is stays at 10000
    assert sentence in refused.message
    assert str(nobody) not in refused.message
    assert guest.parties.ping("10000").broken[0].startswith(sentence)
    assert guest.jobs(10).jobs == ()
