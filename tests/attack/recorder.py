"""A relay in front of a party's server that keeps what passes: what a partner knows of a job.

It shows the certificates of both ends, which the authority of the tests has signed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from fedflow.wire.packet import METHOD
from tests.attack.loop import Loop

_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One call or message on its way to a party."""

    method: str
    source: str  #: party id
    destination: str
    raw: bytes


class Recorder:
    """Runs relays on a loop. A context manager."""

    def __init__(self, loop: Loop, *, tls: Path) -> None:
        self._loop = loop
        self._tls = tls
        self._records = True
        self._found: list[Recorded] = []
        self._hear: Callable[[str, bytes], None] | None = None
        self._held = ""  #: whose values wait until `_passes` is set
        self._passes = asyncio.Event()
        self._passes.set()
        self._servers: list[grpc.aio.Server] = []

    @property
    def found(self) -> tuple[Recorded, ...]:
        """Return what has passed, in that order."""
        return tuple(self._found)

    def stop_recording(self) -> None:
        """Go on to pass bytes, but keep no more of them."""
        self._records = False

    @contextmanager
    def hearing(self, hear: Callable[[str, bytes], None]) -> Iterator[None]:
        """Call `hear(to, raw)` with all that is said to a party, and answered to it, in a block."""
        self._hear = hear
        try:
            yield
        finally:
            self._hear = None

    @asynccontextmanager
    async def holding_values(self, source: str) -> AsyncIterator[None]:
        """Hold up the values of a party as long as the block runs; its commands pass."""
        self._held = source
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def relay(self, source: str, *, to: tuple[str, int]) -> int:
        """Relay what a party says to another one at a port; return where it shall call instead."""
        return self._loop.run(self._listen(source, *to))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.run(self._stop())

    # --- on the loop

    async def _listen(self, source: str, destination: str, port: int) -> int:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_Relay(self, source, destination, port),))
        credentials = grpc.ssl_server_credentials(
            [(self._read(f"{destination}.key"), self._read(f"{destination}.pem"))],
            root_certificates=self._read("ca.pem"),
            require_client_auth=True,
        )
        found = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        self._servers.append(server)
        return found

    async def _stop(self) -> None:
        await asyncio.gather(*(server.stop(0.0) for server in self._servers))

    def channel(self, source: str, destination: str, port: int) -> grpc.aio.Channel:
        """Return a channel to a party's server in the name of another one."""
        name = f"party-{destination}"
        credentials = grpc.ssl_channel_credentials(
            self._read("ca.pem"), self._read(f"{source}.key"), self._read(f"{source}.pem")
        )
        options = [
            *_OPTIONS,
            ("grpc.ssl_target_name_override", name),
            ("grpc.default_authority", name),
        ]
        return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options)

    def note(self, recorded: Recorded) -> None:
        if self._records:
            self._found.append(recorded)
        self.heard(recorded.destination, recorded.raw)

    def heard(self, to: str, raw: bytes) -> None:
        if self._hear is not None:
            self._hear(to, raw)

    async def may_pass(self, source: str) -> None:
        """Return when values of a party pass."""
        if source == self._held:
            await self._passes.wait()

    def _read(self, name: str) -> bytes:
        return (self._tls / name).read_bytes()


class _Relay(grpc.GenericRpcHandler):
    """Passes the calls of one party on to another."""

    def __init__(self, recorder: Recorder, source: str, destination: str, port: int) -> None:
        self._recorder = recorder
        self._source = source
        self._destination = destination
        self._channel = recorder.channel(source, destination, port)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method
        if method == METHOD:
            return grpc.unary_unary_rpc_method_handler(self._call)

        async def stream(_: Any, context: Any) -> None:
            await self._pass_on(method, context)

        return grpc.stream_stream_rpc_method_handler(stream)

    def _note(self, method: str, raw: bytes) -> None:
        self._recorder.note(
            Recorded(
                method=method, source=self._source, destination=self._destination, raw=raw
            )
        )  # fmt: skip

    async def _call(self, raw: bytes, context: Any) -> bytes:
        self._note(METHOD, raw)
        call = self._channel.unary_unary(METHOD)(raw, timeout=context.time_remaining())
        try:
            answer: bytes = await call
        except grpc.aio.AioRpcError as exc:
            self._recorder.heard(self._source, (exc.details() or "").encode())
            await context.abort(exc.code(), exc.details() or "")
            raise
        self._recorder.heard(self._source, answer)
        context.set_trailing_metadata(tuple(await call.trailing_metadata() or ()))
        return answer

    async def _pass_on(self, method: str, context: Any) -> None:
        call = self._channel.stream_stream(method)()

        async def up() -> None:
            while isinstance(raw := await context.read(), bytes):
                self._note(method, raw)
                await self._recorder.may_pass(self._source)
                await call.write(raw)
            await call.done_writing()

        sending = asyncio.create_task(up())
        try:
            while isinstance(raw := await call.read(), bytes):
                self._recorder.heard(self._source, raw)
                await context.write(raw)
        except grpc.aio.AioRpcError as exc:
            await context.abort(exc.code(), exc.details() or "")
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                await sending
            call.cancel()
