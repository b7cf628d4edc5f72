"""An exchange whose operator looks at what passes, and changes it: for tests.

The relay, the port and the channels are those of a real exchange; a `Tap` sits on its way to the
called party.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import grpc
import grpc.aio

from fedflow.exchange.dialled import DialledParties
from fedflow.exchange.parties import DIAL_IN, parties_of
from fedflow.exchange.relay import RelayService, WaysToParties
from fedflow.exchange.traffic import RelayTraffic
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.rpc.data_plane.streams import BROKEN
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.wire.exchange import METHOD, CallKind
from tests.support.certificates import Authority
from tests.support.data_plane import credentials_of

Way = Literal["up", "down"]
MIB = 1 << 20


@dataclass(frozen=True)
class Passing:
    """One message that passes."""

    party: str  #: the called one
    kind: CallKind
    call: int  #: which one, counted from 1
    way: Way
    number: int  #: in its call and way, from 0
    data: bytes = field(repr=False)


@dataclass
class Tap:
    """What an operator does: keeps everything, and gives other messages on in place of one."""

    alter: Callable[[Passing], Sequence[bytes]] | None = None
    cut: Callable[[Passing], bool] = lambda _: False  #: end the caller's direction in place of it
    redirect: Mapping[str, str] = field(default_factory=dict)  #: who is called in place of whom
    keeps: bool = True
    stalls: bool = False  #: the called party reads nothing
    seen: list[Passing] = field(default_factory=list)
    calls: int = 0

    def passes(self, one: Passing) -> Sequence[bytes]:
        """Return what is given on."""
        if self.keeps:
            self.seen.append(one)
        return [one.data] if self.alter is None else self.alter(one)


class TestExchange:
    """A running exchange with a tap. A context manager."""

    __test__ = False

    def __init__(
        self, addresses: dict[str, str], *, authority: Authority, tap: Tap, keepalive_s: float = 10
    ) -> None:
        self._keepalive_s = keepalive_s
        self._credentials = credentials_of("exchange", authority)
        self._addresses = addresses
        self._tap = tap
        self._stack = ExitStack()
        self.traffic = RelayTraffic()
        self.port = 0

    def __enter__(self) -> Self:
        credentials = self._credentials
        called = {party: at for party, at in self._addresses.items() if at != DIAL_IN}
        self.dialled = DialledParties(party for party in self._addresses if party not in called)
        channels = Channels(
            RouteTable(make_routes((), called, tls=True)),
            credentials=credentials.for_client(),
            settings=ChannelSettings(message_bytes=16 * MIB),
        )
        self._rpc = RpcServer(
            RpcSettings(
                port=self.port,
                message_bytes=16 * MIB,
                keepalive_s=self._keepalive_s,
                ping_timeout_s=2 * self._keepalive_s,
            ),
            credentials=credentials.for_server(),
        )
        self._rpc.open()
        ways = _TappedWays(channels.open_aio_channel, self.dialled, self._tap)
        service = RelayService(parties_of(self._addresses, None), ways, self.traffic)
        self._rpc.listen([service.add_to, self.dialled.add_to])
        self.port = self._rpc.port
        self._stack.callback(self._rpc.stop, 0.0)
        self._stack.callback(self._on_loop, ways.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def stop(self) -> None:
        """Stop; `start` starts it again at the same port."""
        self._stack.close()

    def start(self) -> None:
        """Start again after `stop`."""
        self.__enter__()

    def restart(self) -> None:
        """Stop, and start again at the same port."""
        self.stop()
        self.start()

    def call_again(self, party: str, messages: Sequence[bytes]) -> str:
        """Send messages to a party as a new call; return why it ended, empty: it was answered."""

        async def call() -> str:
            channel = grpc.aio.secure_channel(
                self._addresses[party], self._credentials.for_client(),
                options=[("grpc.ssl_target_name_override", f"party-{party}")],
            )  # fmt: skip
            async with channel:
                stream = channel.stream_stream(METHOD)()
                with suppress(*BROKEN):  # it may end before it has all
                    for message in messages:
                        await stream.write(message)
                    await stream.done_writing()
                    while isinstance(await stream.read(), bytes):
                        pass
                return str(await stream.details() or "")

        return asyncio.run_coroutine_threadsafe(call(), self._rpc.loop).result(20)

    def _on_loop(self, work: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._rpc.loop).result(10)


class _TappedWays(WaysToParties):
    def __init__(
        self, open_channel: Callable[[str], grpc.aio.Channel], dialled: DialledParties, tap: Tap
    ) -> None:
        super().__init__(open_channel, dialled)
        self._tap = tap

    async def call(self, party_id: str, kind: CallKind, *, source: str) -> Any:
        found = await super().call(self._tap.redirect.get(party_id, party_id), kind, source=source)
        self._tap.calls += 1
        return _TappedCall(found, self._tap, party_id, kind, self._tap.calls)


class _TappedCall:
    def __init__(self, call: Any, tap: Tap, party: str, kind: CallKind, number: int) -> None:
        self._call = call
        self._tap = tap
        self._about = (party, kind, number)
        self._up = self._down = 0
        self._waiting: list[bytes] = []
        self.cancel = call.cancel
        self.done_writing = call.done_writing

    async def write(self, data: bytes) -> None:
        passing = Passing(*self._about, "up", self._up, data)
        self._up += 1
        if self._tap.stalls:
            await asyncio.Event().wait()  # until the call is canceled
        if self._tap.cut(passing):
            await self._call.done_writing()
            return
        for one in self._tap.passes(passing):
            await self._call.write(one)

    async def read(self) -> Any:
        while not self._waiting:
            raw = await self._call.read()
            if not isinstance(raw, bytes):
                return raw
            passing = Passing(*self._about, "down", self._down, raw)
            self._down += 1
            self._waiting += self._tap.passes(passing)
        return self._waiting.pop(0)
