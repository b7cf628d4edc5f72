"""Parties that cannot be called: each opens lines to the exchange, and calls for it go over them.

A line is one stream of `Serve` for one call. A party opens a few ahead, and another one for each
that is taken. An empty message ends a direction; what a party writes after its end is how its call
failed. All belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.clock import SystemClock
from fedflow.base.shares import Shares
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.refusals import refused
from fedflow.wire.exchange import END, LANE, SAYS, SERVE, SERVER, Lane

logger = logging.getLogger(__name__)

AHEAD: Final = 16  #: lines of one server and lane that wait for a call; further ones are refused
SERVERS: Final = 16  #: of one party
CALLS: Final = 192  #: to one party and lane at once; one calling party has three quarters at most
FREE_S: Final = 5.0  #: how long a call waits for a line, seconds
END_S: Final = 0.5  #: after which a party learns that its caller sends no more, seconds
_SERVER: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


class LineLost(ConnectionError):
    """A call to a party that dials in cannot be passed on."""


class Line:
    """One line: it waits for a call, then carries it."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.over = asyncio.Event()


class ServerLines:
    """The lines of one server in one lane."""

    def __init__(self) -> None:
        self.peer = ""  #: where its connection comes from
        self.since_ms = 0
        self.open: set[Line] = set()
        self._ahead: deque[Line] = deque()
        self._asking: deque[asyncio.Future[Line]] = deque()

    @property
    def is_full(self) -> bool:
        """Tell whether enough lines wait."""
        return len(self._ahead) >= AHEAD

    @property
    def calls(self) -> int:
        """Return how many calls are under way."""
        return len(self.open) - len(self._ahead)

    def add(self, line: Line, peer: str) -> None:
        """Take a new line; those that wait on an older connection go: nobody may be there."""
        if peer != self.peer:
            while self._ahead:
                self._ahead.popleft().over.set()
            self.peer, self.since_ms = peer, SystemClock().now_ms()
        self.open.add(line)
        while self._asking:
            asking = self._asking.popleft()
            if not asking.done():
                asking.set_result(line)
                return
        self._ahead.append(line)

    def remove(self, line: Line) -> None:
        """Forget a line that has ended."""
        self.open.discard(line)
        if line in self._ahead:
            self._ahead.remove(line)

    async def free(self, wait_s: float) -> Line | None:
        """Return a line for a call, None if none was free in time."""
        if self._ahead:
            return self._ahead.popleft()
        asking: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._asking.append(asking)
        try:
            await asyncio.wait((asking,), timeout=wait_s)
            return asking.result() if asking.done() else None
        except asyncio.CancelledError:
            if asking.done():
                asking.result().over.set()
            raise
        finally:
            asking.cancel()


class _DialledParty:
    """What one party has open here; its server that dialled in first is called while it is."""

    def __init__(self) -> None:
        self.servers: dict[str, dict[Lane, ServerLines]] = {}
        self.shares = {lane: Shares(CALLS) for lane in Lane}

    def lines(self, server: str, lane: Lane) -> ServerLines | None:
        """Return where a new line belongs, None if there are too many."""
        if server not in self.servers and len(self.servers) >= SERVERS:
            return None
        lanes = self.servers.setdefault(server, {lane: ServerLines() for lane in Lane})
        return None if lanes[lane].is_full else lanes[lane]

    def forget(self, server: str) -> None:
        """Forget a server without lines."""
        if not any(lines.open for lines in self.servers[server].values()):
            del self.servers[server]

    async def free(self, lane: Lane) -> Line:
        """Return a line for a call. Raises: LineLost."""
        wait_s = FREE_S
        for lanes in list(self.servers.values()):
            if (line := await lanes[lane].free(wait_s)) is not None:
                return line
            wait_s = 0.0
        raise LineLost("all lines to it are taken" if self.servers else "it has not dialled in")


class DialledParties:
    """Serves `Serve`, and gives calls their lines."""

    def __init__(self, parties: Iterable[str]) -> None:
        """`parties` are those that dial in."""
        self._of = {party: _DialledParty() for party in parties}

    def __contains__(self, party_id: str) -> bool:
        return party_id in self._of

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service on a server that has not started."""
        _, service, method = SERVE.split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )

    async def _serve(self, _: object, context: Any) -> None:
        """Keep one line open until its call is over."""
        party = certificate_party(context) or ""
        if party not in self._of:
            logger.warning(
                "refused a line of %s: it does not dial in here", party[:64],
                extra={"action": "refuse_line"},
            )  # fmt: skip
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{SAYS}: your party does not dial in here; its conf has no `dial-in` for it",
            )
        given = {name: str(value) for name, value in context.invocation_metadata() or ()}
        server, lane = given.get(SERVER, ""), given.get(LANE, "")
        if not _SERVER.fullmatch(server) or lane not in set(Lane):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{SAYS}: it is no line")
        own = self._of[party]
        lines = own.lines(server, Lane(lane))
        if lines is None:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{SAYS}: your party has too many lines"
            )
            return
        line = Line(context)
        new = not lines.open
        lines.add(line, str(context.peer()))
        if new:
            logger.info(
                "party %s dialled in from %s", party, lines.peer, extra={"action": "dial_in"}
            )
        try:
            await context.write(END)  # it is known that the line waits
            await line.over.wait()
        finally:
            lines.remove(line)
            own.forget(server)

    async def call(self, party_id: str, lane: Lane, *, source: str) -> DialledCall:
        """Return a new call to a party. Raises: LineLost."""
        own = self._of[party_id]
        shares = own.shares[lane]
        if not shares.take(source):
            raise LineLost("your party has too many calls to it open")
        try:
            return DialledCall(await own.free(lane), at_end=lambda: shares.give_back(source))
        except BaseException:
            shares.give_back(source)
            raise

    def dialled_in(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the servers that are here, by party."""
        for party, own in self._of.items():
            for server, lanes in list(own.servers.items()):
                found = [lines for lines in lanes.values() if lines.open]
                if found:
                    yield (
                        party,
                        {
                            "server": server,
                            "from": found[0].peer,
                            "since_ms": found[0].since_ms,
                            "calls": sum(lines.calls for lines in found),
                        },
                    )


class DialledCall:
    """A call over a line; the relay uses it as gRPC's. Raises LineLost when the line breaks."""

    def __init__(self, line: Line, *, at_end: Callable[[], None]) -> None:
        self._line = line
        self._at_end: Callable[[], None] | None = at_end

    async def write(self, data: bytes) -> None:
        """Send a message to the party."""
        try:
            await self._line.context.write(data)
        except grpc.aio.BaseError as exc:
            raise LineLost("its line broke") from exc

    async def done_writing(self) -> None:
        """End the direction to the party, if its call is not over soon.

        A sealed call says itself which message is its last; a caller that is gone ends the line.
        """
        await asyncio.sleep(END_S)
        await self.write(END)

    async def read(self) -> Any:
        """Return the party's next message, `grpc.aio.EOF` after the last.

        Raises: LineLost; AioRpcError: it refused the call.
        """
        try:
            raw = await self._line.context.read()
            last = await self._line.context.read() if raw == END else None
        except grpc.aio.BaseError as exc:
            raise LineLost("its line broke") from exc
        if isinstance(last, bytes):
            raise refused(last)
        if last is None and not isinstance(raw, bytes):
            raise LineLost("its line broke")
        return raw if last is None else grpc.aio.EOF

    def cancel(self) -> None:
        """End the call."""
        self._line.over.set()
        if self._at_end is not None:
            self._at_end()
            self._at_end = None
