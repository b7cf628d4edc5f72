"""Servers of one party over real gRPC: their door, its secret, and calls that find the next one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import grpc
import pytest

from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.base.clock import SystemClock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import NoRoute, PartyUnreachable
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.administration.servers import Instance
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.commands import GrpcClient
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.rpc.client.servers import ServerLinks
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.servers import ServersService
from fedflow.rpc.server.unary import UnaryService, UnarySettings
from fedflow.server.threads import Wakeups
from fedflow.web.leader_forwarding import LeaderForwarding
from fedflow.wire import envelope
from fedflow.wire.servers import METHOD, SECRET, Answer, PartyCommand, ScanNow, Wake, pack

SECRET_WORD = "of the store"  # of a test


class Other:
    """A server's door for the others; what it was told is kept."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.rpc = RpcServer(RpcSettings(port=0))
        self.service = ServersService(self.handle, secret=lambda: SECRET_WORD, pace=self.rpc.pace)
        self.rpc.open()
        self.rpc.listen([self.service.add_to])
        self.instance = Instance(
            instance_id="o", host="here", http="", grpc=f"127.0.0.1:{self.rpc.port}", version="1",
            shared_mark="m", secret=SECRET_WORD,
        )  # fmt: skip

    def handle(self, message: object) -> Answer:
        self.told.append(message)
        if isinstance(message, PartyCommand):
            return Answer(status=201, body=message.body[::-1])
        return Answer()

    def close(self) -> None:
        self.rpc.stop(0.0)
        self.service.close()


@pytest.fixture
def other() -> Iterator[Other]:
    made = Other()
    yield made
    made.close()


@pytest.fixture
def links() -> Iterator[ServerLinks]:
    made = ServerLinks("9999", credentials=None, command_s=5.0)
    yield made
    made.close()


def test_all_messages_arrive_and_a_command_has_an_answer(other: Other, links: ServerLinks) -> None:
    links.scan_now(other.instance)
    links.wake(other.instance, Wake(jobs=["1"], queue=True, destinations=["7"]))
    command = PartyCommand(path="/v1/party/heartbeat", headers={"a": "b"}, body=b"\x00\xff1")
    assert links.command(other.instance, command) == Answer(status=201, body=b"1\xff\x00")
    assert other.told == [ScanNow(), Wake(jobs=["1"], queue=True, destinations=["7"]), command]


def test_a_wrong_secret_is_refused_and_nothing_happens(other: Other, links: ServerLinks) -> None:
    stranger = replace(other.instance, secret="guessed")
    with pytest.raises(PartyUnreachable, match="secret"):
        links.scan_now(stranger)
    assert other.told == []


@pytest.mark.parametrize("metadata", [(), ((SECRET, ""),), ((SECRET.upper().lower(), "x"),)])
def test_a_call_without_the_secret_is_refused(other: Other, metadata: tuple) -> None:
    with grpc.insecure_channel(other.instance.grpc) as channel, pytest.raises(grpc.RpcError) as no:
        channel.unary_unary(METHOD)(pack(ScanNow()), timeout=60, metadata=metadata)
    assert no.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert other.told == []


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x80", b"x" * 100])
def test_bytes_that_are_no_message_are_refused(other: Other, raw: bytes) -> None:
    with grpc.insecure_channel(other.instance.grpc) as channel, pytest.raises(grpc.RpcError) as no:
        channel.unary_unary(METHOD)(raw, timeout=60, metadata=((SECRET, SECRET_WORD),))
    assert no.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert other.told == []


def test_a_server_that_is_gone_is_unreachable(other: Other, links: ServerLinks) -> None:
    other.rpc.stop(0.0)
    with pytest.raises(PartyUnreachable, match="refused"):
        links.scan_now(other.instance)


class Following:
    """The `Servers` of one that follows."""

    leads = False

    def __init__(self, leader: Instance | None) -> None:
        self._leader = leader

    def leader(self) -> Instance:
        if self._leader is None:
            raise NotLeading(reason="none does at the moment")
        return self._leader


def following(leader: Instance | None, links: ServerLinks) -> LeaderForwarding:
    """Return the forwarding of a server that does nothing itself."""
    return LeaderForwarding(
        Following(leader), links, lambda *_: pytest.fail("it does not lead"),
        events=Wakeups(JobNotifier(SystemClock())), check_executors=lambda: None,
    )  # fmt: skip


def test_a_command_is_passed_on_to_the_leader(other: Other, links: ServerLinks) -> None:
    answer = following(other.instance, links).dispatch("/v1/party/heartbeat", {}, b"12")
    assert answer == (201, b"21")


@pytest.mark.parametrize("gone", [True, False])
def test_without_a_leader_the_sender_is_asked_to_try_again_and_told_no_address(
    other: Other, links: ServerLinks, gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader = other.instance if gone else None
    other.rpc.stop(0.0)
    status, body = following(leader, links).dispatch("/v1/party/heartbeat", {}, b"{}")
    reply = envelope.parse_reply(body)
    assert (status, reply.retcode, reply.error) == (200, 105, "NotLeading")
    address = other.instance.grpc
    assert address not in body.decode()
    assert (address in caplog.text) is gone


# --- routes with several addresses ----------------------------------------------------------------


@contextmanager
def party_server(
    name: str, *, hangs: threading.Event | None = None, refuses: FedflowError | None = None,
    seen: list[str] | None = None,
) -> Iterator[int]:  # fmt: skip
    """Serve the commands of party 10000; each answer says by which server; give its port.

    `seen` gets the name with each call; with `refuses` that is the answer.
    """

    def dispatch(_path: str, _headers: object, _body: bytes) -> tuple[int, bytes]:
        if hangs is not None:
            hangs.wait(20)
        if seen is not None:
            seen.append(name)
        if refuses is not None:
            return 200, envelope.encode(envelope.failure(refuses))
        return 200, envelope.encode({"retcode": 0, "retmsg": "success", "data": name})

    rpc = RpcServer(RpcSettings(port=0))
    unary = UnaryService(
        dispatch, authenticate=lambda _: None, packets=ProtobufPackets(),
        hosts=lambda party: party == "10000",
        admits=lambda _: True, pace=rpc.pace, settings=UnarySettings(),
    )  # fmt: skip
    rpc.open()
    rpc.listen([unary.add_to])
    try:
        yield rpc.port
    finally:
        if hangs is not None:
            hangs.set()
        rpc.stop(0.0)
        unary.close()


@contextmanager
def client(*ports: int) -> Iterator[GrpcClient]:
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    table = RouteTable(make_routes({"9999"}, {"10000": addresses}, tls=False))
    channels = Channels(table, credentials=None, settings=ChannelSettings())
    try:
        yield GrpcClient(channels, packets=ProtobufPackets(), own_party="9999")
    finally:
        channels.close()


def ask(one: GrpcClient, *, deadline_s: float = 60.0) -> str:
    reply = one.call(
        None, "10000", "/party/heartbeat", {}, request_id="r", job_id="", deadline_s=deadline_s
    )
    return str(reply.data)


def test_a_call_goes_to_the_first_server_that_accepts_connections() -> None:
    with party_server("first") as gone:
        pass
    with party_server("second") as second, client(gone, second) as caller:
        assert ask(caller) == "second"


def test_calls_go_to_the_second_server_when_the_first_has_ended() -> None:
    with party_server("second") as second:
        with party_server("first") as first:
            caller = client(first, second)
            calls = caller.__enter__()
            assert ask(calls) == "first"
        try:
            answers = [_try(calls) for _ in range(5)]
        finally:
            caller.__exit__(None, None, None)
    assert answers[-1] == "second"


def test_a_server_that_stands_still_is_passed_over_within_the_deadline() -> None:
    hangs = threading.Event()
    with (
        party_server("first", hangs=hangs) as first,
        party_server("second") as second,
        client(first, second) as caller,
    ):
        assert ask(caller, deadline_s=6.0) == "second"
        assert ask(caller, deadline_s=6.0) == "second"


def test_a_party_all_of_whose_servers_stand_still_is_unreachable_after_the_deadline() -> None:
    hangs = threading.Event()
    with (
        party_server("first", hangs=hangs) as first,
        party_server("second", hangs=hangs) as second,
        client(first, second) as caller,
        pytest.raises(PartyUnreachable, match=r"no answer within 0\.2 s"),
    ):
        ask(caller, deadline_s=0.4)


@pytest.mark.parametrize(
    "away",
    [StoreUnavailable(reason="its server's log says why"), NotLeading(reason="none does")],
    ids=lambda error: error.name,
)
def test_calls_turn_to_the_server_that_has_its_store(away: FedflowError) -> None:
    seen: list[str] = []
    with (
        party_server("first", refuses=away, seen=seen) as first,
        party_server("second", seen=seen) as second,
        client(first, second) as caller,
    ):
        assert [ask(caller) for _ in range(3)] == ["second"] * 3
    assert seen == ["first", "second", "second", "second"]


def test_a_party_all_of_whose_servers_lack_the_store_says_so() -> None:
    away = StoreUnavailable(reason="its server's log says why")
    with (
        party_server("first", refuses=away) as first,
        party_server("second", refuses=away) as second,
        client(first, second) as caller,
    ):
        reply = caller.call(
            None, "10000", "/party/heartbeat", {}, request_id="r", job_id="", deadline_s=60.0
        )
    assert reply.error == "StoreUnavailable"


def test_another_refusal_is_the_answer() -> None:
    seen: list[str] = []
    with (
        party_server("first", refuses=NoRoute(party_id="1"), seen=seen) as first,
        party_server("second", seen=seen) as second,
        client(first, second) as caller,
    ):
        ask(caller)
    assert seen == ["first"]


def _try(caller: GrpcClient) -> str:
    try:
        return ask(caller)
    except PartyUnreachable as exc:
        return exc.message
