"""Floods against the ports of a real server: jobs go on, and the log stays short."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from tests.e2e.jobs import empty_job
from tests.e2e.packets import sending
from tests.e2e.servers import QUICK, Pair, Party, two_parties

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LOG_BYTES = 100_000
HOST = Site(Role.HOST, PartyId("10000"))
HELLO = b"\x16\x03\x01"  #: how TLS begins


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))  # what a server usually begins with
    with two_parties(tmp_path_factory.mktemp("floods"), settings=QUICK) as pair:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        yield pair


def connect(port: int, sent: bytes) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    with suppress(OSError):
        opened.sendall(sent)
    return opened


def runs_a_job(pair: Pair) -> None:
    """Run a chain of tasks at both parties; look at both servers meanwhile."""
    clock = SystemClock()
    job_id = pair.guest.client.submit(*empty_job({}, {}, {})).job_id
    for party in (pair.guest, pair.host):
        begin_s = clock.monotonic_s()
        assert party.readiness()["ready"]
        assert clock.monotonic_s() - begin_s < 30
    assert set(pair.ends(job_id).values()) == {"success"}


def size(party: Party) -> int:
    return party.log.stat().st_size


@pytest.mark.parametrize("sent", [b"", HELLO], ids=["silent", "half a handshake"])
def test_1500_connections_hold_up_no_job_and_no_page(pair: Pair, sent: bytes) -> None:
    assert pair.host.client.parties.ping("9999").ok  # they know each other
    assert pair.guest.process is not None
    process = psutil.Process(pair.guest.process.pid)
    before, memory = size(pair.guest), process.memory_info().rss
    with ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(connect(pair.guest.place.grpc_port, sent))
        runs_a_job(pair)
        assert process.memory_info().rss - memory < 64 * 1024 * 1024
    assert size(pair.guest) - before < LOG_BYTES


def test_handshakes_that_fail_and_packets_that_are_refused_fill_no_log(pair: Pair) -> None:
    before = size(pair.guest)
    for _ in range(500):
        connect(pair.guest.place.grpc_port, b"GET / HTTP/1.1\r\n\r\n" * 10).close()
    with sending(pair.guest) as send:
        for number in range(500):
            path = f"/party/{number}/local/9999/create"
            assert send(HOST, path, {}).retcode != 0
    runs_a_job(pair)
    assert size(pair.guest) - before < LOG_BYTES
