"""One party at its limits of the gRPC port, over mutual TLS: nobody else notices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.rpc.callers import TOO_MANY
from fedflow.rpc.credentials import Credentials, certificate_party
from fedflow.rpc.pace import BURST_S, IDLE, PAUSE_S, SHARE
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.servers import ServersService
from fedflow.rpc.server.unary import BUSY, UnaryService, UnarySettings
from fedflow.wire.packet import METHOD
from fedflow.wire.servers import METHOD as SERVERS
from fedflow.wire.servers import SECRET, Answer, Message, PartyCommand, ScanNow, pack
from tests.integration.test_unary_grpc import (
    PACKETS,
    Handler,
    caller,
    credentials,
    raw_packet,
    wait_for,
)
from tests.support.certificates import Authority, make_ca

MIB = 1024 * 1024
OTHER = "/party/heartbeat"
CREATE = "/party/202611201000000000000/host/10000/create"


class Gate(Handler):
    """Lets heartbeats pass and keeps all other calls until the gate is open."""

    used_s = 0.0  #: processor time that a heartbeat takes

    def __call__(self, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        if path.endswith(OTHER):
            end_s = time.thread_time() + self.used_s
            while time.thread_time() < end_s:
                pass
            return 200, self.answer
        return super().__call__(path, headers, body)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_ca()


class Port:
    """The gRPC port of party 10000; the outsider is 7777, the honest party 9999."""

    def __init__(self, stack: ExitStack, folder: Path, authority: Authority) -> None:
        self.stack = stack
        self.handler = Gate()
        self._known = {
            party: credentials(folder, authority, party) for party in ("10000", "9999", "7777")
        }

    def open(self, settings: UnarySettings, **limits: Any) -> None:
        server = RpcServer(
            RpcSettings(port=0, **limits), credentials=self._known["10000"].for_server()
        )
        unary = UnaryService(
            self.handler, authenticate=certificate_party, packets=PACKETS,
            hosts=lambda party: party == "10000", admits=lambda _: True, settings=settings,
            pace=server.pace,
        )  # fmt: skip
        servers = ServersService(self._of_server, secret=lambda: "secret", pace=server.pace)
        server.open()
        for close in (unary.close, servers.close):
            self.stack.callback(close)
        self.stack.callback(server.stop, 0.2)
        self.stack.callback(self.handler.gate.set)
        server.listen([unary.add_to, servers.add_to])
        self.port = server.port

    def call(self, party: str, path: str = OTHER, **given: Any) -> int:
        """Return the retcode of a call, on a connection of its own."""
        with ExitStack() as stack:
            credentials: Credentials = self._known[party]
            reply = caller(stack, self.port, credentials, own=party)(path, **given)
            return int(reply.retcode)

    def start(self, number: int, path: str = CREATE, **given: Any) -> list[Any]:
        """Let the outsider call at once; return where the answers will be."""
        pool = self.stack.enter_context(ThreadPoolExecutor(number))
        return [
            pool.submit(self.call, "7777", path, deadline_s=60.0, **given) for _ in range(number)
        ]

    def channel(self) -> grpc.aio.Channel:
        """Return a connection of the outsider."""
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.ssl_target_name_override", "party-10000"),
        ]
        return grpc.aio.secure_channel(
            f"127.0.0.1:{self.port}", self._known["7777"].for_client(), options=options
        )

    def _of_server(self, message: Message) -> Answer:
        if isinstance(message, PartyCommand) and message.headers["SRC-PARTY-ID"] == "7777":
            assert self.handler.gate.wait(60)
        return Answer()


@pytest.fixture
def port(stack: ExitStack, tmp_path: Path, authority: Authority) -> Port:
    return Port(stack, tmp_path, authority)


def of_one(answers: list[Any]) -> str:
    """Return the sentence of the calls that were refused, which is one and the same."""
    sentences = {str(answer.exception()) for answer in answers if answer.done()}
    assert len(sentences) == 1
    return sentences.pop()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_silent_streams_of_one_party_take_its_share_only(port: Port) -> None:
    port.open(UnarySettings(), calls=40)

    async def scenario() -> None:
        async with port.channel() as channel:
            await channel.channel_ready()
            silent = [channel.stream_unary(METHOD)() for _ in range(60)]
            refused = await over(silent, at_least=30)
            assert len(refused) == 30
            assert {await call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert {await call.details() for call in refused} == {TOO_MANY}
            assert await asyncio.to_thread(port.call, "9999") == 0
            assert await asyncio.to_thread(port.call, "9999") == 0

    run(scenario)


async def over(calls: list[Any], *, at_least: int = 0) -> list[Any]:
    """Return the calls that end: so many, and those that do so a moment later."""
    codes = {asyncio.ensure_future(call.code()): call for call in calls}
    async with asyncio.timeout(60):
        while sum(code.done() for code in codes) < at_least:
            await asyncio.sleep(0.01)
    done, left = await asyncio.wait(codes, timeout=1.0)
    for code in left:
        code.cancel()
    return [codes[code] for code in done]


def test_calls_of_one_party_that_wait_for_a_thread_delay_nobody_else(port: Port) -> None:
    port.open(UnarySettings(threads=4, waiting=36))
    answers = port.start(50)
    wait_for(lambda: sum(answer.done() for answer in answers) == 20)
    assert BUSY in of_one(answers) or "too much at once" in of_one(answers)
    assert len(port.handler.seen) == 3  # one thread is left to others
    assert port.call("9999", deadline_s=30.0) == 0
    port.handler.gate.set()
    wait_for(lambda: all(answer.done() for answer in answers))
    assert sum(answer.exception() is None for answer in answers) == 30


def test_messages_of_one_party_are_received_within_its_share_only(port: Port) -> None:
    """Eight of the largest have room, so one party gets six."""
    settings = UnarySettings(threads=32, body_bytes=MIB, largest=8, turn_s=1.0)
    port.open(settings)
    answers = port.start(20, body={"a": "x" * (MIB - 20)})
    wait_for(lambda: sum(answer.done() for answer in answers) >= 5)
    assert len(port.handler.seen) <= 6
    assert port.call("9999", body={"a": "x" * (MIB - 20)}, deadline_s=30.0) == 0
    port.handler.gate.set()
    wait_for(lambda: all(answer.done() for answer in answers))


def test_large_calls_of_one_party_come_one_after_the_other(port: Port) -> None:
    port.open(UnarySettings())
    large = {"a": "x" * 200_000}
    answers = port.start(5, body=large)
    wait_for(lambda: len(port.handler.seen) == 1)
    assert port.call("9999", body=large, deadline_s=30.0) == 0
    assert port.call("7777", deadline_s=30.0) == 0  # a small one of the same party
    assert len(port.handler.seen) == 1
    port.handler.gate.set()
    wait_for(lambda: all(answer.done() for answer in answers))
    assert [answer.result() for answer in answers] == [0] * 5


def test_who_used_too_much_processor_time_waits_and_nobody_else_does(port: Port) -> None:
    port.open(UnarySettings())
    port.handler.used_s = (BURST_S + PAUSE_S * SHARE) / IDLE
    assert port.call("7777") == 0  # takes all that it may use, and a pause
    port.handler.used_s = 0.0
    waiting = port.start(5, path=OTHER)
    assert port.call("9999", deadline_s=30.0) == 0
    assert not any(answer.done() for answer in waiting)
    assert [answer.result() for answer in waiting] == [0] * 5


def test_places_that_one_party_holds_silently_leave_room_for_the_largest_call(port: Port) -> None:
    port.open(UnarySettings(body_bytes=MIB))

    async def scenario() -> None:
        async with port.channel() as channel:
            await channel.channel_ready()
            silent = [channel.stream_unary(METHOD)() for _ in range(40)]
            assert not await over(silent)  # they wait, and nothing of them is received
            body = {"a": "x" * (MIB - 20)}
            assert await asyncio.to_thread(port.call, "9999", body=body, deadline_s=30.0) == 0

    run(scenario)


def test_a_message_that_does_not_come_is_not_waited_for(port: Port) -> None:
    port.open(UnarySettings(receive_s=0.3))

    async def scenario() -> None:
        async with port.channel() as channel:
            call = channel.stream_unary(METHOD)()
            assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED

    run(scenario)


def test_a_caller_that_does_not_wait_frees_no_thread_that_still_works(port: Port) -> None:
    port.open(UnarySettings(threads=4, waiting=36))
    answers = port.start(3, body={})
    wait_for(lambda: len(port.handler.seen) == 3)
    with ExitStack() as stack:
        call = caller(stack, port.port, port._known["7777"], own="7777")
        with pytest.raises(PartyUnreachable, match="no answer"):
            call(deadline_s=0.3)
    assert len(port.handler.seen) == 3
    port.handler.gate.set()
    wait_for(lambda: all(answer.done() for answer in answers))
    assert [answer.result() for answer in answers] == [0, 0, 0]


def test_who_lacks_the_secret_of_the_servers_is_refused_before_its_message_comes(
    port: Port,
) -> None:
    port.open(UnarySettings())

    async def scenario() -> None:
        async with port.channel() as channel:
            silent = channel.stream_unary(SERVERS)(metadata=((SECRET, "guessed"),))
            assert await silent.code() == grpc.StatusCode.PERMISSION_DENIED
            known = channel.unary_unary(SERVERS)(pack(ScanNow()), metadata=((SECRET, "secret"),))
            assert await known == pack(Answer())

    run(scenario)


def test_commands_that_another_server_passes_on_leave_threads_to_other_parties(port: Port) -> None:
    port.open(UnarySettings())

    def command(party: str) -> bytes:
        return pack(PartyCommand(path="/v1/x", headers={"SRC-PARTY-ID": party}, body=b""))

    async def scenario() -> None:
        async with port.channel() as channel:
            call = channel.unary_unary(SERVERS)
            secret = ((SECRET, "secret"),)
            waiting = [call(command("7777"), metadata=secret) for _ in range(100)]
            for raw in (command("9999"), pack(ScanNow())):
                assert await call(raw, metadata=secret, timeout=60) == pack(Answer())
            port.handler.gate.set()
            assert await asyncio.gather(*waiting) == [pack(Answer())] * 100

    run(scenario)


def test_a_call_as_earlier_releases_send_it_is_answered(port: Port) -> None:
    port.open(UnarySettings())
    port.handler.gate.set()

    async def scenario() -> None:
        async with port.channel() as channel:
            raw = raw_packet().replace(b"9999", b"7777")
            assert PACKETS.decode(await channel.unary_unary(METHOD)(raw)).source == "10000"

    run(scenario)
