"""The command door over real sockets and mutual TLS: who gets in, and what is answered."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from flask import Flask

from fedflow.app.administration.leadership import OnlyServer
from fedflow.app.protocol.commands import Commands, Incoming
from fedflow.app.protocol.party_router import PartyRouter
from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.parties import NoRoute, PartyUnreachable
from fedflow.base.errors.start import AddressNotHere, BadSetting, PortInUse
from fedflow.base.ids import PartyId
from fedflow.base.thread_starts import Pool
from fedflow.domain.records import Reply
from fedflow.domain.site import Role, Site
from fedflow.rpc.callers import DEFECT
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.commands import GrpcClient
from fedflow.rpc.client.routes import Route, Routes, RouteTable, make_routes
from fedflow.rpc.client.servers import ServerLinks
from fedflow.rpc.credentials import Credentials, certificate_party, load_credentials
from fedflow.rpc.data_plane.links import MESSAGES
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.pb import proxy_pb2
from fedflow.rpc.server import connections
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.unary import UnaryService, UnarySettings
from fedflow.web.relay import Relay
from fedflow.wire import envelope
from fedflow.wire.packet import METHOD, Dispatch, request_packet
from tests.support.certificates import Authority, make_ca, make_certificate
from tests.support.proxy import FaultyProxy
from tests.unit.app.fakes import FakeClock

PATH = "/party/202611201000000000000/host/10000/create"
GUEST = Site(Role.GUEST, PartyId("9999"))
PACKETS = ProtobufPackets()
MIB = 1024 * 1024
GZIP = b"\x1f\x8b"  #: how bytes begin that gzip has packed
SMALL = UnarySettings(threads=4, waiting=2, body_bytes=10_000)  # a party gets 3, and 1 waits


@dataclass
class Handler:
    """A dispatch that remembers; while `gate` is not set it waits."""

    seen: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    answer: bytes = envelope.encode(envelope.success({"hello": "host"}))
    error: Exception | None = None
    pass_by: bool = False

    def __call__(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.seen.append((path, headers, body))
        assert self.pass_by or self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return 200, self.answer


def wait_for(condition: Callable[[], bool], *, limit_s: float = 60.0) -> None:
    """Wait until a condition holds; the test fails after `limit_s`."""
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + limit_s
    while not condition():
        assert clock.monotonic_s() < deadline_s
        pause(0.01, never)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_ca()


@pytest.fixture
def handler() -> Handler:
    handler = Handler()
    handler.gate.set()
    return handler


def credentials(folder: Path, authority: Authority, party_id: str, name: str = "") -> Credentials:
    made = make_certificate(party_id, authority=authority)
    paths = [folder / f"{name or party_id}.{kind}" for kind in ("crt", "key", "ca")]
    for path, pem in zip(paths, (made.certificate, made.key, authority.certificate)):
        path.write_bytes(pem)
    return load_credentials(
        paths[0], paths[1], authorities=paths[2], party_id=party_id,
        now_ms=SystemClock().now_ms(),
    )  # fmt: skip


def serve(
    stack: ExitStack, handler: Dispatch, creds: Credentials | None, *,
    settings: UnarySettings = SMALL, message_bytes: int = 64 * 1024, connections: int = 2048,
) -> int:  # fmt: skip
    """Start the server of party 10000 and return its port."""
    server = RpcServer(
        RpcSettings(port=0, message_bytes=message_bytes, connections=connections),
        credentials=creds.for_server() if creds else None,
    )
    service = UnaryService(
        handler, authenticate=certificate_party, packets=PACKETS,
        hosts=lambda party: party == "10000",
        admits=lambda _: True, pace=server.pace, settings=settings,
    )  # fmt: skip
    server.open()
    stack.callback(service.close)
    stack.callback(server.stop, 0.2)
    server.listen([service.add_to])
    return server.port


def caller(
    stack: ExitStack, port: int, creds: Credentials | None, *, destination: str = "10000",
    own: str = "9999", settings: ChannelSettings | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that sends one command as `own`."""
    routes = Routes(
        local=frozenset({own}),
        remote={destination: Route(host="127.0.0.1", port=port, tls=creds is not None)},
    )
    channels = Channels(
        RouteTable(routes),
        credentials=creds.for_client() if creds else None,
        settings=settings or ChannelSettings(),
    )
    stack.callback(channels.close)
    client = GrpcClient(channels, packets=PACKETS, own_party=own)

    def call(path: str = PATH, body: Any = None, **changes: Any) -> Any:
        given: dict[str, Any] = {
            "source": Site(Role.GUEST, PartyId(own)), "destination": destination,
            "request_id": "r1", "job_id": "j1", "deadline_s": 5.0,
        }  # fmt: skip
        given.update(changes)
        source, to = given.pop("source"), given.pop("destination")
        return client.call(source, to, path, body if body is not None else {}, **given)

    return call


def raw_packet(body: bytes = b"{}") -> bytes:
    """Return the bytes of a packet from party 9999 to party 10000."""
    packet = request_packet(
        f"/v1{PATH}", body, source="9999", source_role="guest", destination="10000",
        job_id="j1", request_id=None, timeout_ms=5000,
    )  # fmt: skip
    return PACKETS.encode(packet)


# --- a call that goes well ------------------------------------------------------------------------


def test_a_command_arrives_with_its_source_and_request_id(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"))
    call = caller(stack, port, credentials(tmp_path, authority, "9999"))
    reply = call(body={"a": 1})
    assert (reply.retcode, reply.data) == (0, {"hello": "host"})
    ((path, headers, body),) = handler.seen
    assert (path, body) == (f"/v1{PATH}", b'{"a":1}')
    assert headers["SRC-PARTY-ID"] == "9999"
    assert headers["X-FEDFLOW-REQUEST-ID"] == "r1"
    assert headers["SRC-ROLE"] == "guest"


def test_the_answer_is_a_packet_with_fates_trailing_metadata(
    stack: ExitStack, handler: Handler
) -> None:
    port = serve(stack, handler, None)
    channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
    raw, call = channel.unary_unary(METHOD).with_call(raw_packet(), timeout=60)
    reply = PACKETS.decode(raw)
    assert envelope.parse_reply(reply.body).data == {"hello": "host"}
    assert (reply.source, reply.destination, reply.path) == ("10000", "9999", f"/v1{PATH}")
    trailing = dict(call.trailing_metadata())
    assert trailing["src-party-id"] == "9999"
    assert trailing["dest-party-id"] == "10000"
    assert trailing["service"] == "fateflow"


def test_a_waiting_call_does_not_hold_up_others(stack: ExitStack, handler: Handler) -> None:
    port = serve(stack, handler, None)
    call = caller(stack, port, None)
    handler.gate.clear()
    waiting = threading.Thread(target=call)
    waiting.start()
    wait_for(lambda: bool(handler.seen))
    handler.pass_by = True
    assert call().retcode == 0
    assert waiting.is_alive()
    handler.gate.set()
    waiting.join(5)
    assert not waiting.is_alive()


# --- calls that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/job/submit", "ForbiddenRoute"),
        ("/party/j/lr_0/j_lr_0/0/host/10000/report", "ForbiddenRoute"),
        ("/party/../job/submit", "ForbiddenRoute"),
        ("/party/j/local/0/create", "ForbiddenRoute"),
        ("/party/j/upload_0/j_upload_0/0/local/0/start", "ForbiddenRoute"),
    ],
)
def test_a_forbidden_path_never_reaches_a_handler(
    stack: ExitStack, handler: Handler, path: str, name: str
) -> None:
    call = caller(stack, serve(stack, handler, None), None)
    reply = call(path)
    assert (reply.retcode, handler.seen) == (108, [])


def test_a_party_cannot_speak_for_another(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"))
    call = caller(stack, port, credentials(tmp_path, authority, "6666"), own="9999")
    reply = call()
    assert reply.retcode == 109
    assert "6666" in reply.retmsg
    assert handler.seen == []


def test_header_and_topic_must_name_the_same_source(stack: ExitStack, handler: Handler) -> None:
    port = serve(stack, handler, None)
    channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
    raw = raw_packet().replace(b'"SRC-PARTY-ID":"9999"', b'"SRC-PARTY-ID":"9998"')
    answer = channel.unary_unary(METHOD)(raw, timeout=60)
    assert envelope.parse_reply(PACKETS.decode(answer).body).retcode == 101
    assert handler.seen == []


def test_a_packet_for_another_party_is_refused(stack: ExitStack, handler: Handler) -> None:
    call = caller(stack, serve(stack, handler, None), None, destination="7777")
    assert "7777" in call().retmsg
    assert handler.seen == []


@pytest.mark.parametrize("raw", [b"", b"\xff\xff\xff", b"x" * 1000])
def test_bytes_that_are_no_packet_are_answered_as_an_error(
    stack: ExitStack, handler: Handler, raw: bytes
) -> None:
    port = serve(stack, handler, None)
    channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
    answer = channel.unary_unary(METHOD)(raw, timeout=60)
    packet = proxy_pb2.Packet.FromString(answer)  # it has no path
    assert envelope.parse_reply(packet.body.value).retcode == 101


def test_a_body_over_the_limit_is_refused_and_a_message_far_over_it_is_not_read(
    stack: ExitStack, handler: Handler
) -> None:
    call = caller(stack, serve(stack, handler, None), None)
    assert "bytes" in call(body={"a": "x" * 20_000}).retmsg
    with pytest.raises(PartyUnreachable, match="too much at once"):
        call(body={"a": "x" * 200_000})
    assert handler.seen == []


def test_deeply_nested_json_is_refused(stack: ExitStack, handler: Handler) -> None:
    body: list[Any] = []
    for _ in range(150):
        body = [body]
    call = caller(stack, serve(stack, Relay(_nobody(handler)), None), None)
    assert call(body={"a": body}).retcode == 101
    assert handler.seen == []


def _nobody(handler: Handler) -> Flask:
    """Return an application that says what reached it."""
    app = Flask(__name__)

    @app.post("/v1/<path:path>")
    def reached(path: str) -> str:
        handler.seen.append((path, {}, b""))
        return '{"retcode":0,"retmsg":"success"}'

    return app


def test_a_command_without_a_conf_may_be_neither_large_nor_have_many_values(
    stack: ExitStack, handler: Handler
) -> None:
    settings = UnarySettings()
    port = serve(stack, Relay(_nobody(handler)), None, settings=settings, message_bytes=33 * MIB)
    call = caller(stack, port, None)
    start = "/party/1/host/10000/start"
    assert call(start, {"a": "x" * 4_000_000}).retcode == 0
    assert "4194304 are allowed" in call(start, {"a": "x" * 4_200_000}).retmsg
    assert "more than 262144 values" in call(start, {"a": [0] * 300_000}).retmsg
    assert call("/party/1/host/10000/create", {"a": [0] * 300_000}).retcode == 0
    assert len(handler.seen) == 2


@pytest.mark.parametrize(
    ("field", "words"),
    [("taskId", "beside its body"), ("key", "beside its body"), ("dataKey", "headers")],
)
def test_what_stands_beside_a_body_is_short_and_does_not_come_back(
    stack: ExitStack, handler: Handler, field: str, words: str
) -> None:
    port = serve(stack, handler, None, settings=UnarySettings(), message_bytes=33 * MIB)
    channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
    packet = proxy_pb2.Packet.FromString(raw_packet())
    if field == "dataKey":
        packet.header.task.model.dataKey = "{" + ",".join(f'"{n}":1' for n in range(3000)) + "}"
    else:
        part = packet.body if field == "key" else packet.header.task
        setattr(part, field, "x" * MIB)
    raw = channel.unary_unary(METHOD)(packet.SerializeToString(), timeout=60)
    assert len(raw) < 1000
    answer = proxy_pb2.Packet.FromString(raw)
    assert words in envelope.parse_reply(answer.body.value).retmsg
    assert handler.seen == []


def test_a_handlers_defect_is_answered_without_details(stack: ExitStack, handler: Handler) -> None:
    handler.error = RuntimeError("secret")
    reply = caller(stack, serve(stack, handler, None), None)()
    assert (reply.retcode, reply.retmsg) == (100, "internal error")


def test_a_defect_of_the_port_itself_is_answered_without_details_too(
    stack: ExitStack, handler: Handler, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    port = serve(stack, handler, None)

    async def breaks(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/srv/patients/spool")

    monkeypatch.setattr(UnaryService, "_receive", breaks)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(METHOD)(raw_packet(), timeout=20)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNKNOWN, DEFECT)
    assert "/srv/patients/spool" in caplog.text


def test_calls_that_together_are_too_large_are_told_to_come_back(
    stack: ExitStack, handler: Handler
) -> None:
    settings = UnarySettings(threads=2, waiting=100, body_bytes=10_000, largest=1)
    call = caller(stack, serve(stack, handler, None, settings=settings), None)
    handler.gate.clear()
    waiting = threading.Thread(target=call, kwargs={"body": {"a": "x" * 8_000}})
    waiting.start()
    wait_for(lambda: bool(handler.seen))
    with pytest.raises(PartyUnreachable, match="too many calls at once"):
        call(body={"a": "x" * 8_000})
    handler.gate.set()
    waiting.join(5)
    assert not waiting.is_alive()
    assert call(body={"a": "x" * 9_000}).retcode == 0


def test_calls_over_the_limit_are_told_to_come_back(stack: ExitStack, handler: Handler) -> None:
    call = caller(stack, serve(stack, handler, None), None)
    handler.gate.clear()
    codes: list[Any] = []

    def one() -> None:
        try:
            codes.append(call().retcode)
        except PartyUnreachable as exc:
            codes.append(exc.fields["reason"])

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(codes) == 4)
    handler.gate.set()
    for thread in threads:
        thread.join(5)
    assert codes.count(0) == 4
    assert sum("too much at once" in str(code) for code in codes) == 4


# --- calls that do not arrive ---------------------------------------------------------------------


def test_a_foreign_certificate_is_refused_on_both_sides(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    other = make_ca("somebody else")
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"))
    foreign = credentials(tmp_path, other, "9999", "foreign")
    with pytest.raises(PartyUnreachable, match="certificate"):
        caller(stack, port, foreign)()
    trusting = Credentials(  # it trusts the server, but the server does not trust it
        party_id=foreign.party_id, certificate=foreign.certificate, key=foreign.key,
        authorities=authority.certificate, expires_ms=0,
    )  # fmt: skip
    with pytest.raises(PartyUnreachable, match="certificate"):
        caller(stack, port, trusting)()
    assert handler.seen == []


def test_a_server_with_another_partys_certificate_is_not_talked_to(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"))
    call = caller(stack, port, credentials(tmp_path, authority, "9999"), destination="7777")
    with pytest.raises(PartyUnreachable, match="another party"):
        call()
    assert handler.seen == []


def test_a_client_without_tls_is_refused(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"))
    with pytest.raises(PartyUnreachable):
        caller(stack, port, None)(deadline_s=2.0)
    assert handler.seen == []


def test_a_server_without_tls_is_told_apart(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    call = caller(stack, serve(stack, handler, None), credentials(tmp_path, authority, "9999"))
    with pytest.raises(PartyUnreachable, match="TLS"):
        call()


def test_a_port_where_nobody_listens_says_connection_refused(stack: ExitStack) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        call = caller(stack, probe.getsockname()[1], None)
        with pytest.raises(PartyUnreachable, match="connection refused") as caught:
            call()
    assert caught.value.fields["party_id"] == "10000"


def listens(stack: ExitStack, treat: Callable[[socket.socket], None]) -> int:
    """Return a port whose connections are kept open unless `treat` closes them."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    kept: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                kept.append(listener.accept()[0])
                treat(kept[-1])

    thread = threading.Thread(target=accept)

    def stop() -> None:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in kept:
            one.close()

    thread.start()
    stack.callback(stop)
    port: int = listener.getsockname()[1]
    return port


def keeps(_: socket.socket) -> None:
    """Say nothing, ever."""


def resets(connection: socket.socket) -> None:
    connection.recv(1)  # bytes that are left make it a reset
    connection.close()


def hangs_up(connection: socket.socket) -> None:
    connection.recv(64 * 1024)
    connection.close()


@pytest.mark.parametrize(
    ("treat", "tls", "reason"),
    [
        (keeps, True, "it does not answer the TLS handshake"),
        (resets, True, "it closed the connection during the TLS handshake"),
        (hangs_up, True, "it closed the connection during the TLS handshake"),
        (resets, False, "it closed the connection"),
    ],
)
def test_a_connection_that_ends_or_stalls_is_no_matter_of_certificates(
    stack: ExitStack, authority: Authority, tmp_path: Path,
    treat: Callable[[socket.socket], None], tls: bool, reason: str,
) -> None:  # fmt: skip
    creds = credentials(tmp_path, authority, "9999") if tls else None
    with pytest.raises(PartyUnreachable) as caught:
        caller(stack, listens(stack, treat), creds, settings=ChannelSettings(connect_s=0.3))()
    assert caught.value.fields["reason"] == reason


def test_a_server_that_dies_in_mid_call_is_not_said_to_refuse_our_certificate(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"))
    proxy = stack.enter_context(FaultyProxy(port))
    call = caller(stack, proxy.port, credentials(tmp_path, authority, "9999"))
    handler.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call)
        wait_for(lambda: bool(handler.seen))
        proxy.reset()
        with pytest.raises(PartyUnreachable) as caught:
            waiting.result(20)
    handler.gate.set()
    assert caught.value.fields["reason"] == "it closed the connection"


def test_a_link_that_died_without_a_word_is_noticed_before_the_deadline(
    stack: ExitStack, handler: Handler
) -> None:
    proxy = stack.enter_context(FaultyProxy(serve(stack, handler, None)))
    settings = ChannelSettings(keepalive_s=0.3, ping_timeout_s=0.3)
    call = caller(stack, proxy.port, None, settings=settings)
    handler.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, deadline_s=60.0)
        wait_for(lambda: bool(handler.seen))
        proxy.stall()
        with pytest.raises(PartyUnreachable, match="the connection has died"):
            waiting.result(50)
    handler.gate.set()


@pytest.mark.parametrize(
    ("signed_by", "days", "reason"),
    [
        ("somebody else", 0, "its certificate is not accepted: no trusted authority signed it"),
        ("of the same name", 0, "its certificate is not accepted: no trusted authority signed it"),
        ("the authority", -60, "its certificate has expired"),
        ("the authority", 60, "its certificate is not valid yet; compare the clocks"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_said_to_be_so(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority,
    signed_by: str, days: int, reason: str,
) -> None:  # fmt: skip
    others = {"somebody else": make_ca("somebody else"), "of the same name": make_ca()}
    now_ms = SystemClock().now_ms() + days * 86_400_000
    made = make_certificate(
        "10000", authority=others.get(signed_by, authority), clock=FakeClock(now_ms)
    )
    shown = Credentials(
        party_id=PartyId("10000"), certificate=made.certificate, key=made.key,
        authorities=authority.certificate, expires_ms=0,
    )  # fmt: skip
    port = serve(stack, handler, shown)
    with pytest.raises(PartyUnreachable) as caught:
        caller(stack, port, credentials(tmp_path, authority, "9999"))()
    assert caught.value.fields["reason"] == reason
    assert handler.seen == []


def test_a_late_answer_says_how_long_was_waited(stack: ExitStack, handler: Handler) -> None:
    call = caller(stack, serve(stack, handler, None), None)
    handler.gate.clear()
    with pytest.raises(PartyUnreachable, match=r"no answer within 0\.2 s"):
        call(deadline_s=0.2)
    handler.gate.set()


def test_something_else_that_listens_is_no_party(stack: ExitStack) -> None:
    server = RpcServer(RpcSettings(port=0))
    server.open()
    stack.callback(server.stop, 0.1)
    server.listen([])
    with pytest.raises(PartyUnreachable, match="no server of a party"):
        caller(stack, server.port, None)()


def test_a_server_that_comes_back_is_reached_again(stack: ExitStack, handler: Handler) -> None:
    first = ExitStack()
    port = serve(first, handler, None)
    call = caller(stack, port, None)
    assert call().retcode == 0
    first.close()
    with pytest.raises(PartyUnreachable):
        call()
    server = RpcServer(RpcSettings(port=port))
    service = UnaryService(
        handler, authenticate=certificate_party, packets=PACKETS,
        hosts=lambda party: party == "10000",
        admits=lambda _: True, pace=server.pace, settings=SMALL,
    )  # fmt: skip
    server.open()
    stack.callback(service.close)
    stack.callback(server.stop, 0.2)
    server.listen([service.add_to])

    wait_for(lambda: reached(call))


# --- the server itself ----------------------------------------------------------------------------


def test_a_port_in_use_is_a_readable_error(stack: ExitStack) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = RpcServer(RpcSettings(port=taken.getsockname()[1]))
        server.open()
        stack.callback(server.stop)
        with pytest.raises(PortInUse, match="in use"):
            server.listen([])


def test_an_address_of_another_machine_is_told_apart_from_a_port_in_use(stack: ExitStack) -> None:
    server = RpcServer(RpcSettings(host="192.0.2.1"))
    server.open()
    stack.callback(server.stop)
    with pytest.raises(AddressNotHere, match="Cannot listen on 192"):
        server.listen([])


def test_stop_leaves_no_thread(handler: Handler) -> None:
    before = set(threading.enumerate())
    with ExitStack() as stack:
        call = caller(stack, serve(stack, handler, None), None)
        call()
    left = {t for t in threading.enumerate() if t.name.startswith("fedflow")} - before
    assert left == set()


# --- routes ---------------------------------------------------------------------------------------


class OwnCommands(Commands):
    """Handlers that remember who asked."""

    def __init__(self) -> None:
        self.seen: list[Incoming] = []
        self.hosts = lambda party: party == "9999"

    def handle(self, incoming: Incoming) -> Reply:
        self.seen.append(incoming)
        return Reply(retcode=0, data={"hello": "host"})


def test_local_parties_take_no_network() -> None:
    table = RouteTable(make_routes({"9999"}, {"10000": "127.0.0.1:1"}, tls=False))
    channels = Channels(table, credentials=None, settings=ChannelSettings())
    own = OwnCommands()
    router = PartyRouter(
        table,
        servers=OnlyServer(),
        own_party="9999",
        remote=GrpcClient(channels, packets=PACKETS, own_party="9999"),
    )
    router.connect(own, forward=lambda *_: pytest.fail("this server leads"))
    for party in ("9999", "0"):
        reply = router.call(GUEST, party, PATH, {}, request_id="r", job_id="j", deadline_s=1)
        assert reply.data == {"hello": "host"}
    assert [s.source_party for s in own.seen] == ["9999", "9999"]
    with pytest.raises(PartyUnreachable):
        router.call(None, "10000", PATH, {}, request_id="r", job_id="j", deadline_s=1)
    with pytest.raises(NoRoute):
        router.call(None, "8888", PATH, {}, request_id="r", job_id="j", deadline_s=1)
    assert (router.knows("10000"), router.knows("8888"), router.is_local("0")) == (
        True,
        False,
        True,
    )
    channels.close()


def test_a_changed_route_takes_effect_at_the_next_call(stack: ExitStack, handler: Handler) -> None:
    table = RouteTable(make_routes({"9999"}, {"10000": "127.0.0.1:1"}, tls=False))
    channels = Channels(table, credentials=None, settings=ChannelSettings())
    stack.callback(channels.close)
    client = GrpcClient(channels, packets=PACKETS, own_party="9999")
    with pytest.raises(PartyUnreachable):
        client.call(GUEST, "10000", PATH, {}, request_id="r", job_id="j", deadline_s=2)
    port = serve(stack, handler, None)
    table.replace(make_routes({"9999"}, {"10000": f"127.0.0.1:{port}"}, tls=False))
    reply = client.call(GUEST, "10000", PATH, {}, request_id="r", job_id="j", deadline_s=5)
    assert reply.retcode == 0


# --- credentials ----------------------------------------------------------------------------------


def test_credentials_are_checked_before_anything_listens(
    tmp_path: Path, authority: Authority
) -> None:
    now_ms = SystemClock().now_ms()
    credentials(tmp_path, authority, "9999")
    credentials(tmp_path, authority, "10000")
    (tmp_path / "other.ca").write_bytes(make_ca("other").certificate)
    (tmp_path / "rubbish").write_bytes(b"rubbish")
    files = {
        "certificate": tmp_path / "9999.crt", "key": tmp_path / "9999.key",
        "authorities": tmp_path / "9999.ca",
    }  # fmt: skip
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"certificate": tmp_path / "none"}, "cannot be read"),
        ({"certificate": tmp_path / "rubbish"}, "no PEM certificate"),
        ({"key": tmp_path / "rubbish"}, "no plain PEM key"),
        ({"key": tmp_path / "10000.key"}, "not the key of the certificate"),
        ({"authorities": tmp_path / "other.ca"}, "none of the authorities"),
        ({"party_id": "10000"}, "common name is 9999"),
        ({"now_ms": now_ms + 400 * 86_400_000}, "expired on"),
        ({"now_ms": now_ms - 86_400_000}, "valid only from"),
    ]
    for changes, message in wrong:
        given: dict[str, Any] = {**files, "party_id": "9999", "now_ms": now_ms, **changes}
        with pytest.raises(BadSetting, match=message):
            load_credentials(given.pop("certificate"), given.pop("key"), **given)


def test_good_files_need_no_library_to_look_at_them(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.rpc.certificate_check.check_certificate", None)
    assert credentials(tmp_path, authority, "9999").party_id == "9999"
    with pytest.raises(TypeError):
        load_credentials(
            tmp_path / "9999.crt", tmp_path / "9999.key", authorities=tmp_path / "9999.ca",
            party_id="10000", now_ms=SystemClock().now_ms(),
        )  # fmt: skip


def test_the_end_of_a_certificate_is_known(tmp_path: Path, authority: Authority) -> None:
    loaded = credentials(tmp_path, authority, "9999")
    assert loaded.expires_ms > SystemClock().now_ms()
    assert b"PRIVATE" not in repr(loaded).encode()


def test_a_connection_that_never_speaks_is_closed(
    stack: ExitStack, tmp_path: Path, authority: Authority
) -> None:
    creds = credentials(tmp_path, authority, "10000")
    server = RpcServer(RpcSettings(port=0, handshake_s=0.5), credentials=creds.for_server())
    server.open()
    stack.callback(server.stop, 0.2)
    server.listen([])
    silent = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
    with silent.makefile("rb") as stream:
        stream.read()  # ends with the connection; one that is kept raises TimeoutError


def test_a_call_for_which_there_is_no_thread_comes_again(
    stack: ExitStack, handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def no_thread(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    call = caller(stack, serve(stack, handler, None), None)
    with monkeypatch.context() as moment:
        moment.setattr(Pool, "_adjust_thread_count", no_thread)
        with pytest.raises(PartyUnreachable, match="stops, or has no thread"):
            call()
    assert not [record for record in caplog.records if record.exc_info]
    assert call(request_id="r2").retcode == 0


def test_the_look_at_connections_outlives_one_without_a_descriptor(
    stack: ExitStack, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def no_descriptor(folder: str) -> list[str]:
        looks.append(folder)
        raise OSError(errno.EMFILE, "Too many open files")

    serve(stack, handler, None)
    with monkeypatch.context() as moment:
        moment.setattr(connections, "_PAUSE_S", 0.01)
        pause(1.1, threading.Event())  # the first look is over
        moment.setattr(connections.os, "listdir", no_descriptor)
        wait_for(lambda: len(looks) > 2)


def flood(stack: ExitStack, port: int, number: int, sent: bytes) -> list[socket.socket]:
    """Return connections that never get through a handshake."""
    opened = []
    for _ in range(number):
        one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        one.sendall(sent)
        opened.append(one)
    return opened


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_connections_that_send_nothing_cost_no_descriptor_and_hold_up_nobody(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"), connections=20)
    before = descriptors()
    flood(stack, port, 100, b"")
    pause(0.3, threading.Event())
    assert descriptors() - before == 100  # those of this end
    assert caller(stack, port, credentials(tmp_path, authority, "9999"))().retcode == 0


def test_an_address_with_most_connections_loses_some_before_others_are_kept_out(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    """Who is through the handshake stays, even at the same address."""
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"), connections=80)
    old = caller(stack, port, credentials(tmp_path, authority, "9999"))
    assert old().retcode == 0
    (first,) = connected(port)
    new = caller(stack, port, credentials(tmp_path, authority, "8888"), own="8888")
    stop = threading.Event()

    def attack() -> None:
        opened: list[socket.socket] = []
        while not stop.is_set():
            opened = [one for one in opened if not is_closed(one)]
            with contextlib.suppress(OSError):
                opened += flood(stack, port, 100 - len(opened), b"\x16")
            pause(0.02, stop)

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        wait_for(lambda: len(connected(port)) >= 60)
        wait_for(lambda: reached(new), limit_s=20.0)
        assert old().retcode == 0
        assert first in connected(port)
    finally:
        stop.set()
        attacker.join()


def is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def connected(port: int) -> set[int]:
    """Return the ports at the other end of a server's connections."""
    found = psutil.Process().net_connections("tcp")
    return {one.raddr.port for one in found if one.raddr and one.laddr.port == port}


def reached(call: Callable[..., Any]) -> bool:
    try:
        return bool(call().retcode == 0)
    except PartyUnreachable:
        return False


def test_connections_beyond_their_number_are_closed_and_those_that_stand_go_on(
    stack: ExitStack, handler: Handler, tmp_path: Path, authority: Authority
) -> None:
    port = serve(stack, handler, credentials(tmp_path, authority, "10000"), connections=20)
    call = caller(stack, port, credentials(tmp_path, authority, "9999"))
    assert call().retcode == 0
    before = descriptors()
    opened = flood(stack, port, 100, b"\x16")
    wait_for(lambda: descriptors() - before <= 100 + 20)
    assert call().retcode == 0
    for one in opened:
        one.close()
    wait_for(lambda: descriptors() <= before)
    assert caller(stack, port, credentials(tmp_path, authority, "8888"), own="8888")().retcode == 0


def test_a_compressed_message_is_not_unpacked(stack: ExitStack, handler: Handler) -> None:
    port = serve(stack, handler, None)
    packet = raw_packet(b'{"x": "' + b"0" * 9000 + b'"}')
    channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
    call = channel.unary_unary(METHOD)
    call(packet, timeout=60)
    assert len(handler.seen) == 1
    with contextlib.suppress(grpc.RpcError):
        call(packet, timeout=10, compression=grpc.Compression.Gzip)
    assert len(handler.seen) == 1


class Inflates(grpc.GenericRpcHandler):
    """A party whose answer is small on the wire and large when it is unpacked."""

    answer = b"0" * MIB

    def service(self, _: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(lambda *_: iter([self.answer]))


@pytest.fixture
def inflating(stack: ExitStack) -> int:
    """Return the port of a server that compresses its answers."""
    pool = stack.enter_context(ThreadPoolExecutor(2))
    server = grpc.server(pool, handlers=[Inflates()], compression=grpc.Compression.Gzip)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stack.callback(lambda: server.stop(0).wait(10))
    return port


def test_a_compressed_answer_to_a_command_is_not_unpacked(stack: ExitStack, inflating: int) -> None:
    table = RouteTable(make_routes({"9999"}, {"10000": f"127.0.0.1:{inflating}"}, tls=False))
    channels = Channels(table, credentials=None, settings=ChannelSettings())
    stack.callback(channels.close)
    links = ServerLinks("9999", credentials=None, command_s=10)
    stack.callback(links.close)
    for channel in (channels.channel("10000"), links._channel(f"127.0.0.1:{inflating}")):
        answer: bytes = channel.unary_unary(METHOD)(b"x", timeout=30)
        assert answer.startswith(GZIP)
        assert len(answer) < MIB // 100


def test_a_compressed_answer_on_the_data_plane_is_not_unpacked(inflating: int) -> None:
    async def asked() -> AsyncIterator[bytes]:
        yield b"x"

    async def read() -> None:
        table = RouteTable(make_routes({"9999"}, {"10000": f"127.0.0.1:{inflating}"}, tls=False))
        channels = Channels(table, credentials=None, settings=ChannelSettings())
        async with channels.open_aio_channel("10000") as channel:
            call = channel.stream_stream(MESSAGES)(asked(), timeout=30)  # it may end before that
            answer = await anext(aiter(call))
            assert isinstance(answer, bytes)
            assert answer.startswith(GZIP)
            assert len(answer) < MIB // 100

    asyncio.run(read())
