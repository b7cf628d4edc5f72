"""A slow link between two servers: a TCP relay that delays and paces what it hands on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_PIECE = 64 << 10  # bytes read at a time
_MOST_WAITING = 256  # pieces on their way, per connection and direction


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a link of one direction is like."""

    mbit_s: float
    delay_ms: float  #: of one way

    @staticmethod
    def parse(text: str) -> Link:
        """Read `100/10`: Mbit/s and milliseconds of one way. Raises: ValueError."""
        rate, delay = (float(part) for part in text.split("/"))
        return Link(mbit_s=rate, delay_ms=delay)


@dataclass(kw_only=True)
class Relay:
    """One direction of calls: who connects to its port talks to `target`."""

    target: int
    link: Link
    carried: int = 0  #: bytes to the target, and back
    _free_s: list[float] = field(default_factory=lambda: [0.0, 0.0])

    async def serve(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        pumps = [self._pump(reader, back, 0), self._pump(there, writer, 1)]
        with suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(*pumps)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: int
    ) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_WAITING)
        deliver = asyncio.ensure_future(_deliver(waiting, writer))
        loop = asyncio.get_running_loop()
        while True:
            data = await reader.read(_PIECE)
            self.carried += len(data)
            seconds = len(data) * 8 / (self.link.mbit_s * 1e6)
            self._free_s[way] = max(self._free_s[way], loop.time()) + seconds
            await waiting.put((self._free_s[way] + self.link.delay_ms / 1e3, data))
            if not data:
                break
        await deliver


async def _deliver(
    waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
) -> None:
    """Write what waits, each piece when its time has come; end after an empty one."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while True:
            due_s, data = await waiting.get()
            if (pause_s := due_s - loop.time()) > 0:
                await asyncio.sleep(pause_s)
            if not data:
                break
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def relays(ports: dict[int, int], link: Link) -> Iterator[list[Relay]]:
    """Relay each port (key) to another one, in a thread; end all after."""
    found = [Relay(target=target, link=link) for target in ports.values()]
    loop = asyncio.new_event_loop()

    async def start() -> None:
        for port, relay in zip(ports, found, strict=True):
            await relay.serve(port)

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
