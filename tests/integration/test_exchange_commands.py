"""Commands over an exchange whose operator listens, changes and repeats: over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.ids import PartyId
from fedflow.domain.records import Reply
from fedflow.domain.site import Role, Site
from fedflow.rpc.client.channels import CallSealing, Channels, ChannelSettings
from fedflow.rpc.client.commands import GrpcClient
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.sealed.incoming import IncomingCalls
from fedflow.rpc.server.exchange import KINDS, ExchangeService
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.unary import UnaryService, UnarySettings
from fedflow.wire import envelope
from fedflow.wire.exchange import HEADER_BYTES, CallKind
from fedflow.wire.headers import SOURCE_PARTY
from tests.support.certificates import make_ca
from tests.support.data_plane import credentials_of
from tests.support.exchange import Passing, Tap, TestExchange
from tests.support.site_keys import MemorySiteKeys

JOB = "202611201000000000000"
PATH = f"/party/{JOB}/host/10000/create"
GUEST = Site(Role.GUEST, PartyId("9999"))
SECRET = "patient 4711 has it"


@dataclass
class Way:
    """The way of party 9999's commands to party 10000, and what arrived there."""

    exchange: TestExchange
    tap: Tap
    call: Callable[[Any], Reply]
    arrived: list[tuple[str, str, bytes]]  #: path, party that sent it, body
    restart: Callable[[], None]  #: of party 10000's server

    def of(self, kind: CallKind, way: str = "up") -> list[Passing]:
        """Return what has passed."""
        return [one for one in self.tap.seen if one.kind is kind and one.way == way]


@dataclass
class _Host:
    """Party 10000's server, which answers each command with a secret."""

    keys: MemorySiteKeys
    credentials: Any
    port: int = 0
    arrived: list[tuple[str, str, bytes]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        server = RpcServer(RpcSettings(port=self.port), credentials=self.credentials.for_server())
        server.open()
        service = UnaryService(
            self._dispatch, authenticate=certificate_party, packets=ProtobufPackets(),
            hosts=lambda party: party == "10000", admits=lambda party: party == "9999",
            pace=server.pace, settings=UnarySettings(),
        )  # fmt: skip
        (handler,) = service.handlers.values()
        calls = ExchangeService(
            lambda: IncomingCalls(
                {CallKind.PACKET: server.shares.counting(handler)},
                keys=self.keys,
                clock=SystemClock(),
                hosts=lambda party: party == "10000",
                admits=lambda party: party == "9999",
                pace=server.pace,
            )
        )
        self.stack.callback(service.close)
        self.stack.callback(server.stop, 0.2)
        server.listen([service.add_to, calls.add_to])
        self.port = server.port

    def restart(self) -> None:
        self.stack.close()
        self.start()

    def _dispatch(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.arrived.append((path, headers[SOURCE_PARTY], body))
        return 200, envelope.encode(envelope.success({"said": SECRET}))


@pytest.fixture(scope="module")
def keys() -> tuple[MemorySiteKeys, MemorySiteKeys]:
    guest, host = MemorySiteKeys("9999"), MemorySiteKeys("10000")
    return guest.trust(host), host.trust(guest)


@pytest.fixture
def way(keys: tuple[MemorySiteKeys, MemorySiteKeys]) -> Iterator[Way]:
    authority, tap = make_ca(), Tap()
    host = _Host(keys[1], credentials_of("10000", authority))
    with ExitStack() as stack:
        stack.callback(host.stack.close)
        host.start()
        addresses = {"9999": "127.0.0.1:1", "10000": f"127.0.0.1:{host.port}"}
        exchange = stack.enter_context(TestExchange(addresses, authority=authority, tap=tap))
        channels = Channels(
            RouteTable(
                make_routes(["9999"], {"10000": f"exchange://127.0.0.1:{exchange.port}"}, tls=True)
            ),
            credentials=credentials_of("9999", authority).for_client(),
            settings=ChannelSettings(),
            sealing=CallSealing(party_id="9999", keys=lambda: keys[0], kinds=KINDS),
        )
        stack.callback(channels.close)
        client = GrpcClient(channels, packets=ProtobufPackets(), own_party="9999")

        def call(body: Any) -> Reply:
            return client.call(
                GUEST, "10000", PATH, body, request_id="request-4711", job_id=JOB, deadline_s=20.0
            )

        yield Way(exchange, tap, call, host.arrived, host.restart)


def test_a_command_arrives_in_its_senders_name_and_is_answered(way: Way) -> None:
    reply = way.call({"text": SECRET})
    assert reply.data == {"said": SECRET}
    ((path, source, body),) = way.arrived
    assert (path, source) == (f"/v1{PATH}", "9999")
    assert SECRET.encode() in body


def test_neither_path_nor_ids_nor_contents_can_be_read_on_the_way(way: Way) -> None:
    for number in range(3):
        way.call({"text": SECRET, "number": number})
    everything = b"".join(one.data for one in way.tap.seen)
    for secret in (SECRET, JOB, PATH, "create", "request-4711", "said", "retcode", "HTTP", "FATE"):
        assert secret.encode() not in everything
    assert len(way.of(CallKind.HELLO)) == 1  # one session for all
    assert len(way.of(CallKind.PACKET)) == 3


def test_a_repeated_command_does_not_arrive_twice(way: Way) -> None:
    way.call({})
    (sent,) = way.of(CallKind.PACKET)
    assert way.exchange.call_again("10000", [sent.data]).startswith("SealReplayed")
    assert len(way.arrived) == 1


@pytest.mark.parametrize("at", [1, 5, 20, 30, HEADER_BYTES, HEADER_BYTES + 9, -1], ids=str)
def test_a_changed_command_does_not_arrive(way: Way, at: int) -> None:
    way.tap.alter = lambda one: (
        [_flipped(one.data, at)] if one.kind is CallKind.PACKET else [one.data]
    )
    with pytest.raises(PartyUnreachable):
        way.call({})
    assert way.arrived == []


def test_a_changed_answer_is_not_believed(way: Way) -> None:
    def alter(one: Passing) -> Sequence[bytes]:
        return [_flipped(one.data, 7)] if one.way == "down" and one.number == 0 else [one.data]

    way.call({})
    way.tap.alter = alter
    with pytest.raises(PartyUnreachable, match="SealBroken"):
        way.call({})


def test_the_answer_to_another_command_is_not_believed(way: Way) -> None:
    way.call({"number": 1})
    (other,) = way.of(CallKind.PACKET, "down")
    way.tap.alter = lambda one: [other.data] if one.way == "down" else [one.data]
    with pytest.raises(PartyUnreachable, match="SealBroken"):
        way.call({"number": 2})


def test_a_party_that_was_started_again_is_called_with_a_new_session(way: Way) -> None:
    way.call({"number": 1})
    way.restart()
    assert way.call({"number": 2}).data == {"said": SECRET}
    assert len(way.arrived) == 2
    assert len(way.of(CallKind.HELLO)) == 2


def test_an_operator_that_denies_every_session_ends_a_call_and_does_not_hang_it(way: Way) -> None:
    def alter(one: Passing) -> Sequence[bytes]:
        denies = one.way == "down" and one.kind is not CallKind.HELLO
        return [b"\x80"] if denies else [one.data]

    way.tap.alter = alter
    with pytest.raises(PartyUnreachable, match="the party takes no session"):
        way.call({})
    assert len(way.arrived) == 2  # it was done under one request id, which the receiver knows


def test_what_the_receiver_refuses_is_sealed_too(way: Way) -> None:
    with pytest.raises(PartyUnreachable, match="it is no message"):
        way.call({"text": "x" * 5_000_000})
    assert b"no message" not in b"".join(one.data for one in way.tap.seen)


def _flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
