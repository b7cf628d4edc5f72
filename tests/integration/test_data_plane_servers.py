"""Values and notices for a party of two servers: they find the one that runs the executor."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import Ack, Put, pack, split_frames
from fedflow.federation.settings import MIB, FederationSettings
from fedflow.rpc.data_plane.links import MESSAGES
from tests.support.data_plane import DataPlaneServer, Directory, Party

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
SITES = [GUEST, HOST]
S = "job_task_0"
TOKEN = "t"
FAST = FederationSettings(
    receive_timeout_s=100,
    send_timeout_s=60,
    progress_timeout_s=1,
    watch_interval_s=60,  # so that only notices tell of an end
    reconnect_min_s=0.02,
    reconnect_max_s=0.1,
)


class Guest:
    """The party 9999: the host's values come to `first`, its executor runs at `second`."""

    def __init__(self, home: Path) -> None:
        self.directory = Directory()
        self.first = self._server(home / "first")
        self.second = self._server(home / "second")

    def _server(self, home: Path) -> DataPlaneServer:
        home.mkdir()
        server = DataPlaneServer(Party(party_id="9999", home=home), settings=FAST)
        server.directory = self.directory
        return server

    def open(self) -> None:
        """Begin the attempt at the second server."""
        self.directory.place(S, GUEST, self.second)
        self.second.open(S, SITES, token=TOKEN)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    made = Guest(tmp_path)
    with made.first, made.second:
        yield made


@pytest.fixture
def host(tmp_path: Path, guest: Guest) -> Iterator[DataPlaneServer]:
    home = tmp_path / "host"
    home.mkdir()
    with DataPlaneServer(Party(party_id="10000", home=home), settings=FAST) as server:
        server.route_to({"9999": guest.first.port})
        guest.second.route_to({"10000": server.port})
        server.open(S, SITES, token=TOKEN)
        yield server


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        threading.Event().wait(0.005)


@pytest.mark.parametrize("value", [b"small", np.arange(MIB, dtype=np.uint8)], ids=["small", "big"])
def test_a_value_that_meets_a_server_without_database_is_taken_in_later(
    guest: Guest, host: DataPlaneServer, value: object
) -> None:
    guest.open()
    guest.directory.is_away = True
    with (
        host.handle(S, HOST, token=TOKEN) as sender,
        guest.second.handle(S, GUEST, token=TOKEN) as receiver,
    ):
        sender.send("x", value, to=GUEST)
        until(lambda: guest.directory.asked > 1)
        guest.directory.is_away = False
        assert np.array_equal(receiver.recv("x", from_=HOST), value)
        sender.flush()


@pytest.mark.parametrize("value", [b"small", np.arange(MIB, dtype=np.uint8)], ids=["small", "big"])
def test_a_value_follows_the_calls_to_the_server_that_has_its_database(
    guest: Guest, host: DataPlaneServer, value: object
) -> None:
    guest.open()
    guest.directory.is_away = True  # and stays so
    with (
        host.handle(S, HOST, token=TOKEN) as sender,
        guest.second.handle(S, GUEST, token=TOKEN) as receiver,
    ):
        sender.send("x", value, to=GUEST)
        until(lambda: guest.directory.asked > 1)
        host.route_to({"9999": guest.second.port})  # as a command does that the first one refused
        assert np.array_equal(receiver.recv("x", from_=HOST), value)
        sender.flush()


@pytest.mark.parametrize("value", [b"small", np.arange(MIB, dtype=np.uint8)], ids=["small", "big"])
def test_a_value_goes_on_when_its_server_learns_that_it_is_not_alone(
    guest: Guest, host: DataPlaneServer, value: object
) -> None:
    guest.directory.has_others = False
    with host.handle(S, HOST, token=TOKEN) as sender:
        sender.send("x", value, to=GUEST)
        until(lambda: bool(guest.first.plane.mailbox._openings))
        guest.open()
        guest.directory.has_others = True
        with guest.second.handle(S, GUEST, token=TOKEN) as receiver:
            assert np.array_equal(receiver.recv("x", from_=HOST), value)
        sender.flush()
    assert guest.first.plane.stats().held_bytes == 0


def test_a_notice_that_meets_a_server_without_database_is_told_later(
    guest: Guest, host: DataPlaneServer
) -> None:
    guest.open()
    guest.directory.is_away = True
    with (
        guest.second.handle(S, GUEST, token=TOKEN) as receiver,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(receiver.recv, "x", from_=HOST)
        until(lambda: guest.second.plane.stats().waiting == 1)
        host.plane.fail_site(S, HOST, "it was killed")
        until(lambda: guest.directory.asked > 1)
        assert not waiting.done()
        guest.directory.is_away = False
        with pytest.raises(PeerFailed, match="it was killed"):
            waiting.result()


def test_a_big_value_is_sent_again_when_the_way_between_the_servers_breaks(
    guest: Guest, host: DataPlaneServer
) -> None:
    guest.open()
    right = guest.directory.places[S, GUEST]
    guest.directory.places[S, GUEST] = replace(right, grpc="127.0.0.1:1")
    with (
        host.handle(S, HOST, token=TOKEN) as sender,
        guest.second.handle(S, GUEST, token=TOKEN) as receiver,
    ):
        sender.send("x", np.arange(MIB, dtype=np.uint8), to=GUEST)
        until(lambda: guest.directory.asked > 1)
        guest.directory.places[S, GUEST] = right
        assert receiver.recv("x", from_=HOST)[-1] == 255
        sender.flush()


def test_values_for_nobody_are_counted_while_they_wait_and_end_with_their_stream(
    guest: Guest,
) -> None:
    body = bytes(MIB)
    key = WireKey("nowhere", "x", "", HOST.key, GUEST.key)
    put = Put(seq=7, key=key, digest="d" * 64, crc32=zlib.crc32(body))  # each has the same `seq`
    stop = threading.Event()

    def values() -> Iterator[bytes]:
        for _ in range(20):
            yield pack(put, body)
        stop.wait(5)

    stats = guest.first.plane.stats
    with grpc.insecure_channel(f"127.0.0.1:{guest.first.port}") as channel:
        statuses: list[str] = []
        for raw in channel.stream_stream(MESSAGES)(values(), timeout=60):
            statuses += [ack.status for ack, _ in split_frames(raw) if isinstance(ack, Ack)]
            if statuses.count("held") >= 20 and "later" in statuses:
                break
        assert 4 * MIB < stats().held_bytes <= FAST.held_bytes
        stop.set()
    until(lambda: stats().held_bytes == 0)
