"""Parties on loopback, with a TCP proxy with faults on each way between two of them.

A lost packet is one that arrives later, as TCP would send it again; a cut holds all bytes of one
direction back, on old and new connections, and passes them on when it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from tests.chaos.links import Address, Links
from tests.e2e.servers import free_ports

READ_BYTES = 64 * 1024
PACKET_BYTES = 1_400
RESEND_S = 0.2  #: what TCP waits before it sends a packet again, doubled each time
LOOK_S = 0.02  #: how often somebody who is held back looks whether he still is


class ProxyNetwork:
    """See `links.Network`. One thread with an event loop passes all bytes on."""

    def __init__(self, parties: Sequence[str], *, rng: Random) -> None:
        self.links = Links()
        self._rng = rng
        self._ports = {party: free_ports(2) for party in parties}
        self._ways: dict[tuple[str, str], int] = {}
        self._writers: dict[tuple[str, str], set[asyncio.StreamWriter]] = defaultdict(set)
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._thread.start()
        for caller in parties:
            for callee in parties:
                if caller != callee:
                    self._ways[caller, callee] = self._call(self._listen(caller, callee))

    def address(self, party: str) -> Address:
        http, grpc = self._ports[party]
        routes = {to: f"127.0.0.1:{p}" for (by, to), p in self._ways.items() if by == party}
        return Address(
            http_host="127.0.0.1", http_port=http, grpc_host="127.0.0.1", grpc_port=grpc,
            routes=routes,
        )  # fmt: skip

    def way(self, caller: str, callee: str, port: int) -> int:
        """Return a port at which a caller's way to `port` begins; `callee` names its end."""
        self._ports[callee] = [0, port]
        return int(self._call(self._listen(caller, callee)))

    def reset(self, source: str, destination: str) -> None:
        async def break_all() -> None:
            for way in ((source, destination), (destination, source)):
                for writer in list(self._writers[way]):
                    writer.transport.abort()

        self._call(break_all())

    def close(self) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for server in self._servers:
                server.close()

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- on the loop

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _listen(self, caller: str, callee: str) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.CancelledError):
                await self._serve(caller, callee, reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _serve(
        self, caller: str, callee: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass one connection on until both directions have ended."""
        if self.links.get(caller, callee).refused:
            writer.transport.abort()
            return
        own = {writer}
        live = self._writers[caller, callee]
        live.add(writer)
        try:
            await self._passage(caller, callee)
            await self._passage(callee, caller)
            port = self._ports[callee][1]
            target_reader, target = await asyncio.open_connection("127.0.0.1", port)
            own.add(target)
            live.add(target)
            await asyncio.gather(
                self._pipe(caller, callee, reader, target),
                self._pipe(callee, caller, target_reader, writer),
            )
        finally:
            live -= own
            for one in own:
                one.transport.abort()

    async def _pipe(
        self, source: str, destination: str,
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        """Pass one direction on, in order, each piece when it is due."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)

        async def read() -> None:
            due_s = 0.0
            while True:
                data = await reader.read(READ_BYTES)
                due_s = max(due_s, self._loop.time() + self._late_s(source, destination, data))
                await queue.put((due_s, data))
                if not data:
                    return

        reading = asyncio.ensure_future(read())
        try:
            while True:
                getting = asyncio.ensure_future(queue.get())
                await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
                if reading.done() and reading.exception() and not getting.done():
                    getting.cancel()
                    reading.result()
                due_s, data = await getting
                if (wait_s := due_s - self._loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                await self._passage(source, destination)
                if not data:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()
        finally:
            reading.cancel()

    async def _passage(self, source: str, destination: str) -> None:
        while self.links.get(source, destination).cut:
            await asyncio.sleep(LOOK_S)

    def _late_s(self, source: str, destination: str, data: bytes) -> float:
        condition = self.links.get(source, destination)
        late_s = condition.delay_s
        for _ in range(len(data) // PACKET_BYTES + 1 if condition.loss else 0):
            again_s = RESEND_S
            while self._rng.random() < condition.loss:
                late_s += again_s
                again_s *= 2
        return late_s
