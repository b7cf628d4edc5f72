"""The data plane when something breaks: restarts, stalled peers, strangers, nobody who reads."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from fedflow.base.errors.data_plane import (
    CodecError,
    PeerFailed,
    ServerRestarted,
    SessionUnknown,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.digest import digest_of
from fedflow.federation.executor_socket import read_frame
from fedflow.federation.handle import FederationHandle
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import (
    Ack,
    Done,
    Hello,
    Notice,
    Offer,
    Progress,
    Put,
    Recv,
    Refused,
    Send,
    Value,
    Welcome,
    pack,
    split_frames,
)
from fedflow.federation.settings import KIB, MIB, FederationSettings
from fedflow.rpc.data_plane import service
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES, GrpcSender
from fedflow.rpc.data_plane.service import MAX_LINKS
from tests.support.certificates import Authority, make_ca, make_certificate
from tests.support.data_plane import (
    DataPlaneServer,
    Party,
    credentials_of,
    is_equal_on_disk,
    value_on_disk,
)
from tests.support.proxy import FaultyProxy

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
SITES = [GUEST, HOST]
S = "job_task_0"
TOKEN = "t"
FAST = FederationSettings(
    receive_timeout_s=100,
    send_timeout_s=60,
    progress_timeout_s=0.4,
    watch_interval_s=0.2,
    reconnect_min_s=0.02,
    reconnect_max_s=0.1,
)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_ca()


def make_server(
    home: Path, party: str, *, authority: Authority | None, settings: FederationSettings = FAST,
    port: int = 0,
) -> DataPlaneServer:  # fmt: skip
    folder = home / party
    folder.mkdir(exist_ok=True)
    credentials = credentials_of(party, authority) if authority else None
    return DataPlaneServer(
        Party(party_id=party, home=folder, credentials=credentials, port=port), settings=settings
    )


@contextmanager
def pair(
    home: Path, *, authority: Authority | None = None, settings: FederationSettings = FAST
) -> Iterator[tuple[DataPlaneServer, DataPlaneServer]]:
    guest = make_server(home, "9999", authority=authority, settings=settings)
    host = make_server(home, "10000", authority=authority, settings=settings)
    with guest, host:
        guest.route_to({"10000": host.port})
        host.route_to({"9999": guest.port})
        for server in (guest, host):
            server.open(S, SITES, token=TOKEN)
        yield guest, host


def until(condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        threading.Event().wait(0.005)


# --- breaks --------------------------------------------------------------------------------------


def test_a_transfer_goes_on_where_it_was_when_the_connection_breaks(tmp_path: Path) -> None:
    array = np.random.default_rng(1).standard_normal(4 * MIB)  # 32 MiB
    settings = FederationSettings(progress_timeout_s=0.5)
    guest = make_server(tmp_path, "9999", authority=None, settings=settings)
    host = make_server(tmp_path, "10000", authority=None)
    with guest, host, FaultyProxy(host.port, stall_after=20 * MIB) as proxy:
        guest.route_to({"10000": proxy.port})
        for server in (guest, host):
            server.open(S, SITES, token=TOKEN)
        with guest.handle(S, GUEST, token=TOKEN) as sender, host.handle(S, HOST, token=TOKEN) as to:
            sender.send("big", array, to=HOST)
            assert proxy.stalled.wait(60)
            proxy.heal()
            assert np.array_equal(to.recv("big", from_=GUEST, timeout_s=100), array)
            sender.flush(60)
        assert proxy.passed < 50 * MIB  # 32 + what was in flight, not 20 + 32


def test_a_value_arrives_although_the_link_is_cut_ten_times(tmp_path: Path) -> None:
    array = np.arange(3 * MIB, dtype=np.int64)  # 24 MiB
    send_over_cuts(tmp_path, array, 10)


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_5_gib_arrive_although_the_link_is_cut_ten_times(
    tmp_path: Path, authority: Authority
) -> None:
    value = value_on_disk(tmp_path / "value", 5 * 1024 * MIB)
    send_over_cuts(tmp_path, value, 10, authority=authority, settings=FederationSettings())


def send_over_cuts(
    home: Path, value: NDArray[np.int64], times: int, *, authority: Authority | None = None,
    settings: FederationSettings = FAST,
) -> None:  # fmt: skip
    """Send a value while its link is cut, evenly over its length, and compare what arrives."""
    guest = make_server(home, "9999", authority=authority, settings=settings)
    host = make_server(home, "10000", authority=authority, settings=settings)
    with guest, host, FaultyProxy(host.port) as proxy:
        guest.route_to({"10000": proxy.port})
        for server in (guest, host):
            server.open(S, SITES, token=TOKEN)
        with guest.handle(S, GUEST, token=TOKEN) as sender, host.handle(S, HOST, token=TOKEN) as to:
            sender.send("big", value, to=HOST)
            for cut in range(times):
                at = (cut + 1) * value.nbytes // (times + 2)
                until(
                    lambda at=at: proxy.passed >= at or host.plane.stats().unread == 1,
                    within_s=600,
                )
                proxy.reset()
            assert is_equal_on_disk(to.recv("big", from_=GUEST, timeout_s=1000), value)
            sender.flush(60)
        assert proxy.passed < value.nbytes + times * 16 * MIB  # and what was under way at each cut


def test_a_peer_that_accepts_and_stops_reading_is_noticed_and_gone_around(
    tmp_path: Path, authority: Authority
) -> None:
    with pair(tmp_path, authority=authority) as (guest, host):
        array = np.random.default_rng(1).standard_normal(2 * MIB)  # 16 MiB
        with FaultyProxy(host.port, stall_after=8 * MIB) as proxy:
            guest.route_to({"10000": proxy.port})
            with (
                guest.handle(S, GUEST, token=TOKEN) as sender,
                host.handle(S, HOST, token=TOKEN) as receiver,
            ):
                sender.send("big", array, to=HOST)
                assert proxy.stalled.wait(60)
                proxy.heal()
                assert np.array_equal(receiver.recv("big", from_=GUEST, timeout_s=100), array)
                sender.flush(60)


def test_small_values_survive_a_stalled_and_a_reset_connection(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, host):
        with FaultyProxy(host.port, stall_after=300_000) as proxy:
            guest.route_to({"10000": proxy.port})
            with (
                guest.handle(S, GUEST, token=TOKEN) as sender,
                host.handle(S, HOST, token=TOKEN) as receiver,
            ):
                for i in range(40):
                    sender.send("n", bytes([i]) * 20_000, to=HOST, tag=str(i))
                assert proxy.stalled.wait(60)
                proxy.heal()
                for i in range(40):
                    assert receiver.recv("n", from_=GUEST, tag=str(i)) == bytes([i]) * 20_000
                proxy.reset()
                sender.send("n", b"after", to=HOST, tag="after")
                assert receiver.recv("n", from_=GUEST, tag="after") == b"after"
                sender.flush(60)


def test_a_receive_fails_at_once_when_its_own_server_was_restarted(tmp_path: Path) -> None:
    with pair(tmp_path) as (_, host):
        receiver = host.handle(S, HOST, token=TOKEN)
        failures: list[Exception] = []

        def read() -> None:
            try:
                receiver.recv("x", from_=GUEST)
            except ServerRestarted as exc:
                failures.append(exc)

        reading = threading.Thread(target=read)
        reading.start()
        until(lambda: host.plane.stats().waiting == 1)
        port = host.port
        host.stop()
        with make_server(tmp_path, "10000", authority=None, port=port) as again:
            again.open(S, SITES, token=TOKEN)
            reading.join(60)
            receiver.close()
        host.start()  # so that the fixture can stop it
    assert "restarted" in str(failures[0])


def test_a_receiver_that_cannot_be_reached_fails_the_flush_at_its_deadline(tmp_path: Path) -> None:
    settings = FederationSettings(send_timeout_s=0.5, reconnect_min_s=0.05)
    with pair(tmp_path, settings=settings) as (guest, _):
        guest.route_to({"10000": 1})
        with guest.handle(S, GUEST, token=TOKEN) as sender:
            sender.send("x", 1, to=HOST)
            sender.send("big", np.zeros(MIB), to=HOST)
            with pytest.raises(PeerFailed, match=r"0\.5 s"):
                sender.flush(60)
        guest.route_to({})
        with guest.handle(S, GUEST, token=TOKEN) as sender:
            sender.send("y", 1, to=HOST)
            with pytest.raises(BadRequest, match="No route"):
                sender.flush(60)


def test_a_delivery_that_failed_for_good_ends_a_receive_that_waits(tmp_path: Path) -> None:
    patient = FederationSettings(receive_timeout_s=60, send_timeout_s=0.5, reconnect_min_s=0.05)
    with pair(tmp_path, settings=patient) as (guest, _):
        guest.route_to({"10000": 1})
        with guest.handle(S, GUEST, token=TOKEN) as sender:
            sender.send("question", 1, to=HOST)
            for _ in range(2):  # the one that waits, and the next
                with pytest.raises(PeerFailed, match=r"could not be delivered in 0\.5 s"):
                    sender.recv("answer", from_=HOST)


# --- bounds --------------------------------------------------------------------------------------


def test_memory_stays_bounded_when_nobody_reads(tmp_path: Path) -> None:
    bounded = FederationSettings(
        memory_bytes=MIB, inbound_bytes=8 * MIB, progress_timeout_s=2, watch_interval_s=1
    )
    with pair(tmp_path, settings=bounded) as (guest, host):
        small, big = b"x" * 50_000, np.arange(MIB, dtype=np.int64)  # 8 MiB each
        with (
            guest.handle(S, GUEST, token=TOKEN) as sender,
            host.handle(S, HOST, token=TOKEN) as receiver,
        ):
            for i in range(100):
                sender.send("small", small, to=HOST, tag=str(i))
            before = anonymous_bytes()
            for i in range(8):
                sender.send("big", big, to=HOST, tag=str(i))
            sender.flush(60)
            stats = host.plane.stats()
            assert stats.unread == 108
            assert stats.memory_bytes <= MIB
            assert stats.spool_bytes > 4_000_000 + 8 * 8 * MIB - MIB
            assert anonymous_bytes() - before < 48 * MIB
            for i in range(100):
                assert receiver.recv("small", from_=GUEST, tag=str(i)) == small
            for i in range(8):
                assert np.array_equal(receiver.recv("big", from_=GUEST, tag=str(i)), big)
        until(lambda: host.plane.stats().spool_bytes == 0)
        assert host.plane.stats().memory_bytes == 0


def anonymous_bytes() -> int:
    """Return the memory in use: what the allocator keeps of freed memory is given back first."""
    ctypes.CDLL(None).malloc_trim(0)
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024


@pytest.mark.parametrize("size", [50_000, MIB], ids=["small", "big"])
def test_a_party_that_takes_nothing_in_holds_up_no_values_for_others(
    tmp_path: Path, size: int
) -> None:
    silent = Site(Role.HOST, PartyId("5555"))
    tight = FederationSettings(
        memory_bytes=4 * MIB, spool_bytes=64 * MIB, send_timeout_s=10, receive_timeout_s=5
    )
    with pair(tmp_path, settings=tight) as (guest, host), ThreadPoolExecutor(1) as pool:
        guest.route_to({"10000": host.port, "5555": 1})
        guest.open("other_0", [GUEST, silent], token=TOKEN)
        with (
            guest.handle("other_0", GUEST, token=TOKEN) as to_silent,
            guest.handle(S, GUEST, token=TOKEN) as sender,
            host.handle(S, HOST, token=TOKEN) as receiver,
        ):

            def fill() -> None:
                with contextlib.suppress(FedflowError):
                    for i in range(100):
                        to_silent.send("x", bytes(size), to=silent, tag=str(i))

            filling = pool.submit(fill)
            stats = guest.plane.stats
            until(lambda: max(stats().outgoing_bytes / 2.9, stats().spool_bytes / 47) > MIB)
            for i in range(10):
                sender.send("x", bytes(size), to=HOST, tag=str(i))
                assert len(receiver.recv("x", from_=GUEST, tag=str(i))) == size
            sender.flush()
            guest.plane.fail_site("other_0", GUEST, "enough")
            filling.result()


def test_a_value_for_several_sites_is_counted_until_the_last_has_it(tmp_path: Path) -> None:
    other = Site(Role.HOST, PartyId("5555"))
    sites = [GUEST, HOST, other]
    with pair(tmp_path) as (guest, host):
        guest.route_to({"10000": host.port, "5555": 1})
        guest.open(S, sites, token=TOKEN)
        host.open(S, sites, token=TOKEN)
        with (
            guest.handle(S, GUEST, token=TOKEN) as sender,
            host.handle(S, HOST, token=TOKEN) as receiver,
        ):
            sender.send("small", bytes(1000), to=[HOST, other])
            sender.send("big", bytes(MIB), to=[HOST, other])
            assert len(receiver.recv("small", from_=GUEST)) == 1000
            assert len(receiver.recv("big", from_=GUEST)) == MIB
            until(lambda: guest.plane.stats().delivered == 2)
            assert 1000 < guest.plane.stats().outgoing_bytes < 2000
            assert guest.plane.mailbox.ledger._spool.used("5555") > MIB
            assert guest.plane.mailbox.ledger._spool.used("10000") == 0
        guest.plane.fail_site(S, GUEST, "enough")
        until(lambda: guest.plane.stats().spool_bytes == guest.plane.stats().outgoing_bytes == 0)


def test_more_big_values_than_may_arrive_at_once_take_turns(tmp_path: Path) -> None:
    few = FederationSettings(max_inbound=2, progress_timeout_s=1, inbound_bytes=8 * MIB)
    with pair(tmp_path, settings=few) as (guest, host):
        with (
            guest.handle(S, GUEST, token=TOKEN) as sender,
            host.handle(S, HOST, token=TOKEN) as receiver,
        ):
            for i in range(10):
                sender.send("big", np.full(300_000, i), to=HOST, tag=str(i))
            for i in range(10):
                assert receiver.recv("big", from_=GUEST, tag=str(i))[-1] == i
            sender.flush(60)


@pytest.mark.parametrize(
    ("window", "values"), [(1, 2), (32, 20)], ids=["by_setting", "by_many_values"]
)
def test_a_window_of_one_chunk_flows_on_without_a_time_out(
    tmp_path: Path, window: int, values: int
) -> None:
    chunk, size = 64 * KIB, 640 * KIB  # whoever waits for the other does so for an hour
    narrow = FederationSettings(
        inline_bytes=chunk, chunk_bytes=chunk, window_bytes=min(window, 8) * chunk,
        inbound_bytes=window * chunk, max_inbound=32, progress_timeout_s=3600,
    )  # fmt: skip
    with pair(tmp_path, settings=narrow) as (guest, host):
        guest.open("late_0", SITES, token=TOKEN)
        with guest.handle("late_0", GUEST, token=TOKEN) as sender:
            for i in range(values):
                sender.send("big", bytes([i]) * size, to=HOST, tag=str(i))
            until(lambda: host.service._streams.total == values, within_s=40)
            host.open("late_0", SITES, token=TOKEN)  # now all begin at once
            with host.handle("late_0", HOST, token=TOKEN) as receiver:
                for i in range(values):
                    got = receiver.recv("big", from_=GUEST, tag=str(i), timeout_s=40)
                    assert got == bytes([i]) * size


def test_a_window_of_one_chunk_may_be_less_than_a_chunk_of_the_sender(tmp_path: Path) -> None:
    chunk, value = 64 * KIB, bytes(range(250)) * 4000
    narrow = FederationSettings(
        chunk_bytes=chunk, window_bytes=chunk, inbound_bytes=chunk, progress_timeout_s=3600
    )
    wide = FederationSettings(
        inline_bytes=chunk, chunk_bytes=4 * chunk, window_bytes=8 * chunk, progress_timeout_s=3600
    )
    guest = make_server(tmp_path, "9999", authority=None, settings=wide)
    host = make_server(tmp_path, "10000", authority=None, settings=narrow)
    with guest, host:
        guest.route_to({"10000": host.port})
        for server in (guest, host):
            server.open(S, SITES, token=TOKEN)
        with guest.handle(S, GUEST, token=TOKEN) as sender, host.handle(S, HOST, token=TOKEN) as to:
            sender.send("big", value, to=HOST)
            assert to.recv("big", from_=GUEST, timeout_s=40) == value


def test_a_full_spool_at_the_receiver_only_delays(tmp_path: Path) -> None:
    tight = FederationSettings(
        spool_bytes=4 * MIB, memory_bytes=MIB, reconnect_min_s=0.02, reconnect_max_s=0.05
    )
    with pair(tmp_path, settings=tight) as (guest, host):
        with (
            guest.handle(S, GUEST, token=TOKEN) as sender,
            host.handle(S, HOST, token=TOKEN) as receiver,
        ):
            first = np.arange(300_000)  # 2.3 MiB
            sender.send("big", first, to=HOST, tag="0")
            sender.flush(60)
            sender.send("big", first + 1, to=HOST, tag="1")
            assert np.array_equal(receiver.recv("big", from_=GUEST, tag="0"), first)
            assert np.array_equal(receiver.recv("big", from_=GUEST, tag="1"), first + 1)
            sender.flush(60)


# --- hostile executors ---------------------------------------------------------------------------


def raw_executor(server: DataPlaneServer, *, site: Site = GUEST) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(3)
    sock.connect(str(server.socket_path))
    sock.sendall(pack(Hello(session=S, site=site.key, token=TOKEN)))
    assert b"welcome" in sock.recv(1000)
    return sock


def test_a_session_forgets_the_connections_that_its_executor_has_closed(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, _):
        for _turn in range(5):
            raw_executor(guest).close()
        (session,) = guest.plane.mailbox.sessions()
        until(lambda: not guest.plane.stats().executors, within_s=30)
        assert len(session.on_end) == 1  # its trace stays for a while


def test_nonsense_on_the_unix_socket_is_answered_and_hung_up_on(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, _):
        for nonsense in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 64, pack(Ack(seq=1, status="stored"))):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(3)
                sock.connect(str(guest.socket_path))
                sock.sendall(nonsense)
                assert b"BadRequest" in sock.recv(1000)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(3)
            sock.connect(str(guest.socket_path))
            sock.sendall(pack(Recv(id=1, name="x", tag="", source="host-10000", timeout_s=1)))
            assert b"NotAuthenticated" in sock.recv(1000)
        until(lambda: guest.plane.stats().executors == 0)


def test_the_unix_socket_of_a_server_that_came_after_stays(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        with pair(tmp_path) as (guest, _):
            path = guest.socket_path
            path.unlink()
            other.bind(str(path))
        assert path.is_socket()


def test_a_value_whose_digest_is_wrong_is_not_handed_over(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, host):
        with raw_executor(guest) as sock, host.handle(S, HOST, token=TOKEN) as receiver:
            send = Send(id=1, name="x", tag="", to=[HOST.key], size=3, digest="0" * 64, file=False)
            sock.sendall(pack(send, b"abc"))
            with pytest.raises(CodecError, match="digest"):
                receiver.recv("x", from_=GUEST)
            body = b"not a value"
            send = Send(
                id=2, name="y", tag="", to=[HOST.key], size=len(body),
                digest=digest_of([body]), file=False,
            )  # fmt: skip
            sock.sendall(pack(send, body))
            with pytest.raises(CodecError, match=r"too short|begin"):
                receiver.recv("y", from_=GUEST)


def test_a_file_that_its_executor_cuts_off_is_an_error_and_harms_nobody(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, host):
        host.plane.close_session(S, HOST)
        guest.route_to({"10000": 1})  # nothing is read before the file is cut off
        path = tmp_path / "value"
        path.write_bytes(bytes(4 * MIB))
        with raw_executor(guest) as sock, path.open("rb") as file:
            send = Send(
                id=7, name="x", tag="", to=[HOST.key], size=4 * MIB, digest="0" * 64, file=True
            )
            socket.send_fds(sock, [pack(send)], [file.fileno()])
            assert b"accepted" in sock.recv(1000)
            os.truncate(path, 1000)
            host.plane.open_session(S, HOST, token=TOKEN, sites=SITES)
            guest.route_to({"10000": host.port})
            answer = b""
            deadline = time.monotonic() + 8
            while b"delivered" not in answer and time.monotonic() < deadline:
                answer += sock.recv(1000)
            assert b"cut off" in answer
        assert guest.plane.stats().executors <= 1


def test_a_descriptor_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, _):
        read, write = os.pipe()
        try:
            for descriptors in ([read], []):
                with raw_executor(guest) as sock:
                    send = Send(
                        id=7,
                        name="x",
                        tag="",
                        to=[HOST.key],
                        size=2 * MIB,
                        digest="0" * 64,
                        file=True,
                    )
                    if descriptors:
                        socket.send_fds(sock, [pack(send)], descriptors)
                    else:
                        sock.sendall(pack(send))
                    assert b"BadRequest" in sock.recv(1000)
        finally:
            os.close(read)
            os.close(write)


# --- hostile parties -----------------------------------------------------------------------------


def call_as(
    party: str,
    server: DataPlaneServer,
    *,
    authority: Authority,
    method: str,
    messages: list[bytes],
    trusted: Authority | None = None,
) -> bytes:
    """Return the first answer of a server to a stream that a party's certificate opens.

    Raises: grpc.RpcError.
    """
    made = make_certificate(party, authority=trusted or authority)
    credentials = grpc.ssl_channel_credentials(authority.certificate, made.key, made.certificate)
    stop = threading.Event()

    def requests() -> Iterator[bytes]:
        yield from messages
        stop.wait(5)  # an open stream, as a real sender's

    with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
        stream = channel.stream_stream(method)(requests(), timeout=3)
        try:
            answer: bytes = next(stream)
            return answer
        finally:
            stop.set()
            stream.cancel()


def test_a_party_cannot_speak_for_another_or_for_a_site_outside_the_task(
    tmp_path: Path, authority: Authority
) -> None:
    with pair(tmp_path, authority=authority) as (_, host):
        foreign = WireKey(S, "x", "", "guest-9999", "host-10000")
        outside = WireKey(S, "x", "", "guest-5555", "host-10000")
        notice = Notice(
            seq=1, kind="failed", session=S, source=GUEST.key, destination=HOST.key, reason="lie"
        )
        for message in (
            Put(seq=1, key=foreign, digest="d" * 64, crc32=0),
            Put(seq=1, key=outside, digest="d" * 64, crc32=0),
            notice,
        ):
            answer = call_as(
                "5555", host, authority=authority, method=MESSAGES, messages=[pack(message)]
            )
            (ack, _), *_ = split_frames(answer)
            assert isinstance(ack, Ack)
            assert ack.status == "refused"
            assert ack.error is not None
            assert ack.error.name == "NotAuthenticated"
        for key in (foreign, outside):
            answer = call_as(
                "5555",
                host,
                authority=authority,
                method=BULK,
                messages=[pack(Offer(key=key, size=2 * MIB, digest="d" * 64))],
            )
            (progress, _), *_ = split_frames(answer)
            assert isinstance(progress, Progress)
            assert progress.status == "refused"
            assert progress.error is not None
            assert progress.error.name == "NotAuthenticated"
        assert host.plane.stats().unread == 0


@contextmanager
def many_streams(
    party: str, server: DataPlaneServer, *, authority: Authority, offers: list[bytes]
) -> Iterator[list[str]]:
    """Hold one stream per offer open, send nothing more; gives the last status of each.

    An empty offer is not sent.
    """
    made = make_certificate(party, authority=authority)
    credentials = grpc.ssl_channel_credentials(authority.certificate, made.key, made.certificate)
    stop, said = threading.Event(), [""] * len(offers)

    def requests(first: bytes) -> Iterator[bytes]:
        if first:
            yield first
        stop.wait(20)

    def listen(number: int, stream: Iterator[bytes]) -> None:
        with contextlib.suppress(grpc.RpcError):
            for raw in stream:
                for message, _ in split_frames(raw):
                    assert isinstance(message, Progress)
                    said[number] = message.status

    with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
        streams = [channel.stream_stream(BULK)(requests(first)) for first in offers]
        threads = [threading.Thread(target=listen, args=args) for args in enumerate(streams)]
        for thread in threads:
            thread.start()
        try:
            yield said
        finally:
            stop.set()
            for stream in streams:
                stream.cancel()
            for thread in threads:
                thread.join()


def test_offers_for_tasks_that_do_not_exist_keep_no_value_of_others_waiting(
    tmp_path: Path, authority: Authority
) -> None:
    few = FederationSettings(max_inbound=2, progress_timeout_s=2, send_timeout_s=10)
    key = WireKey("nowhere", "x", "", "host-5555", "host-10000")
    offers = [pack(Offer(key=key, size=MIB, digest="d" * 64))] * 30
    with (
        pair(tmp_path, authority=authority, settings=few) as (guest, host),
        many_streams("5555", host, authority=authority, offers=offers) as said,
    ):
        until(lambda: said.count("later") >= 14)  # of 16 places for waiting streams
        assert_a_big_value_arrives(guest, host)


def test_streams_without_an_offer_hold_up_their_own_party_only(
    tmp_path: Path, authority: Authority
) -> None:
    patient = FederationSettings(progress_timeout_s=8)
    with (
        pair(tmp_path, authority=authority, settings=patient) as (guest, host),
        many_streams("5555", host, authority=authority, offers=[b""] * 20),
    ):
        until(lambda: "5555" in host.service._offers._waiting)
        assert_a_big_value_arrives(guest, host)


def test_values_that_do_not_go_on_hold_the_slots_of_their_own_party_only(
    tmp_path: Path, authority: Authority
) -> None:
    few = FederationSettings(max_inbound=4, progress_timeout_s=8, send_timeout_s=8)
    other = Site(Role.HOST, PartyId("5555"))
    sites = [GUEST, HOST, other]
    offers = [
        pack(Offer(key=WireKey(S, str(i), "", other.key, HOST.key), size=MIB, digest="d" * 64))
        for i in range(6)
    ]
    with pair(tmp_path, authority=authority, settings=few) as (guest, host):
        guest.open(S, sites, token=TOKEN)
        host.open(S, sites, token=TOKEN)
        with many_streams("5555", host, authority=authority, offers=offers) as said:
            until(lambda: said.count("wait") + said.count("go") == len(said))
            assert said.count("go") == 3
            assert_a_big_value_arrives(guest, host)


def test_a_stream_that_is_silent_is_closed_and_opened_again_on_demand(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "IDLE_S", 0.3)
    quiet = FederationSettings(watch_interval_s=60)
    with (
        pair(tmp_path, authority=authority, settings=quiet) as (guest, host),
        guest.handle(S, GUEST, token=TOKEN) as sender,
        host.handle(S, HOST, token=TOKEN) as receiver,
    ):
        for tag in ("first", "second"):
            sender.send("x", tag, to=HOST, tag=tag)
            sender.flush()
            assert host.service._links == {"9999": 1}
            until(lambda: not host.service._links)
        assert receiver.recv("x", from_=GUEST, tag="second") == "second"


def test_a_party_has_few_streams_of_messages(tmp_path: Path, authority: Authority) -> None:
    made = make_certificate("5555", authority=authority)
    credentials = grpc.ssl_channel_credentials(authority.certificate, made.key, made.certificate)
    stop = threading.Event()

    def nothing() -> Iterator[bytes]:
        stop.wait(20)
        yield from ()

    with (
        pair(tmp_path, authority=authority) as (guest, host),
        grpc.secure_channel(f"localhost:{host.port}", credentials) as channel,
    ):
        streams = [channel.stream_stream(MESSAGES)(nothing()) for _ in range(50)]
        until(lambda: sum(stream.done() for stream in streams) == 50 - MAX_LINKS)
        codes = {stream.code() for stream in streams if stream.done()}
        assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert_a_small_value_arrives(guest, host)
        stop.set()
        until(lambda: "5555" not in host.service._links)


def test_messages_of_tiny_frames_do_not_hold_up_another_party(
    tmp_path: Path, authority: Authority
) -> None:
    notice = Notice(
        seq=1, kind="ended", session="nowhere", source="host-5555", destination=HOST.key, reason=""
    )
    message = pack(notice) * 50_000
    with pair(tmp_path, authority=authority) as (guest, host):
        assert_a_small_value_arrives(guest, host)  # connects
        taken: list[None] = []
        take = host.plane.on_notice
        host.plane.on_notice = lambda one: taken.append(take(one))  # type: ignore[method-assign]
        pool = ThreadPoolExecutor(1)
        flood = pool.submit(
            call_as, "5555", host, authority=authority, method=MESSAGES, messages=[message] * 4
        )
        until(lambda: bool(taken))
        before = len(taken)
        assert_a_small_value_arrives(guest, host, tag="meanwhile")
        meanwhile = len(taken) - before
        with contextlib.suppress(grpc.RpcError):
            flood.result()
        pool.shutdown()
    assert meanwhile < 25_000  # a message has twice as many


def test_questions_for_an_ended_task_are_answered_once_at_a_time(
    tmp_path: Path, authority: Authority
) -> None:
    watch = Notice(
        seq=1, kind="watch", session=S, source=GUEST.key, destination=HOST.key, reason=""
    )
    with pair(tmp_path, authority=authority) as (_, host):
        host.plane.close_session(S, HOST)
        host.route_to({"9999": 1})  # the one who asks takes no answers
        call_as("9999", host, authority=authority, method=MESSAGES, messages=[pack(watch) * 1000])
        sender = host.plane.port
        assert isinstance(sender, GrpcSender)
        assert len(sender._links[GUEST.party_id]._pending) == 1


def assert_a_small_value_arrives(
    guest: DataPlaneServer, host: DataPlaneServer, *, tag: str = ""
) -> None:
    with (
        guest.handle(S, GUEST, token=TOKEN) as sender,
        host.handle(S, HOST, token=TOKEN) as receiver,
    ):
        sender.send("small", 1, to=HOST, tag=tag)
        assert receiver.recv("small", from_=GUEST, tag=tag) == 1
        sender.flush()


def assert_a_big_value_arrives(guest: DataPlaneServer, host: DataPlaneServer) -> None:
    with (
        guest.handle(S, GUEST, token=TOKEN) as sender,
        host.handle(S, HOST, token=TOKEN) as receiver,
    ):
        sender.send("big", np.arange(300_000), to=HOST)
        assert receiver.recv("big", from_=GUEST)[-1] == 299_999
        sender.flush()


def test_a_party_without_a_certificate_of_the_authority_gets_no_stream(
    tmp_path: Path, authority: Authority
) -> None:
    with pair(tmp_path, authority=authority) as (_, host):
        with pytest.raises(grpc.RpcError) as caught:
            call_as(
                "9999",
                host,
                authority=authority,
                method=MESSAGES,
                messages=[pack(Ack(seq=1, status="stored"))],
                trusted=make_ca("stranger"),
            )
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]


def offer(*, size: int = 5, source: str = "guest-9999", digest: str = "d" * 64) -> bytes:
    return pack(Offer(key=WireKey(S, "x", "", source, "host-10000"), size=size, digest=digest))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (MESSAGES, b"nonsense"),
        (MESSAGES, pack(Ack(seq=1, status="stored"))),
        (BULK, b"nonsense"),
        (BULK, pack(Ack(seq=1, status="stored"))),
        (BULK, offer(size=-1)),
        (BULK, offer(size=2**60)),
        (BULK, offer(source="king-9999")),
        (BULK, offer(digest="/../../../escaped")),
        (BULK, offer(digest="d" * 64 + "\n")),
    ],
)
def test_nonsense_of_a_party_is_refused(
    tmp_path: Path, authority: Authority, method: str, message: bytes
) -> None:
    with pair(tmp_path, authority=authority) as (_, host):
        try:
            answer = call_as("9999", host, authority=authority, method=method, messages=[message])
        except grpc.RpcError as exc:
            answer = exc.code().name.encode()
        assert b"BadRequest" in answer or answer == b"INVALID_ARGUMENT"
        assert host.plane.stats().spool_bytes == 0
        assert not list(tmp_path.glob("**/*escaped*"))


@pytest.mark.parametrize("size", [100, 3 * MIB])
def test_an_executor_whose_connection_breaks_gets_what_was_on_its_way_again(
    tmp_path: Path, size: int
) -> None:
    """At its own server: its requests are executed once, and no value is lost or sent twice."""
    with pair(tmp_path) as (guest, host):
        sender = guest.handle(S, GUEST, token=TOKEN)
        receiver = host.handle(S, HOST, token=TOKEN)
        for number in range(20):
            body = bytes([number]) * size
            sender.send("x", body, to=HOST, tag=str(number))
            _break(sender if number % 2 else receiver)
            found = receiver.recv("x", from_=GUEST, tag=str(number))
            assert found == body
            waiting = ThreadPoolExecutor(1)
            later = waiting.submit(receiver.recv, "y", from_=GUEST, tag=str(number))
            until(lambda: host.plane.stats().waiting == 1)
            _break(receiver)
            sender.send("y", number, to=HOST, tag=str(number))
            assert later.result(60) == number
            waiting.shutdown()
        sender.flush(60)
        assert guest.plane.stats().delivered == 40
        sender.close()
        receiver.close()


def _break(handle: FederationHandle) -> None:
    """Cut the connection of an executor, as its server sees it."""
    sock = handle._sock
    if sock is not None:
        sock.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_was_lost_with_its_connection_is_given_again(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, host), guest.handle(S, GUEST, token=TOKEN) as sender:
        sender.send("x", b"once", to=HOST)
        hello = Hello(session=S, site=HOST.key, token=TOKEN, executor="one")
        ask = Recv(id=1, name="x", tag="", source=GUEST.key, timeout_s=60)
        for _ in range(3):  # each time the answer is written, and its connection closed
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(host.socket_path))
                sock.sendall(pack(hello))
                assert isinstance(read_frame(sock)[0], Welcome)
                sock.sendall(pack(ask))
                reply, body, _ = read_frame(sock)
                assert isinstance(reply, Value)
                assert b"once" in bytes(body)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(host.socket_path))
            sock.sendall(pack(hello) + pack(Done(ids=[1])) + pack(ask))
            assert isinstance(read_frame(sock)[0], Welcome)
            reply, _, _ = read_frame(sock)
            assert isinstance(reply, Refused)
            assert reply.error.name == "ReplyFreed"
        assert host.plane.stats().memory_bytes == 0


def test_a_value_that_a_lost_executor_waited_for_is_there_for_the_next(tmp_path: Path) -> None:
    with pair(tmp_path) as (guest, host), guest.handle(S, GUEST, token=TOKEN) as sender:
        first = host.handle(S, HOST, token=TOKEN)
        waiting = ThreadPoolExecutor(1)
        lost = waiting.submit(first.recv, "x", from_=GUEST)
        until(lambda: host.plane.stats().waiting == 1)
        first.close()
        with pytest.raises(SessionUnknown):
            lost.result(60)
        with host.handle(S, HOST, token=TOKEN) as second:
            sender.send("x", 1, to=HOST)
            assert second.recv("x", from_=GUEST) == 1
        waiting.shutdown()
