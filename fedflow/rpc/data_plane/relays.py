"""Values and notices that arrive here for executors of another server of this party: passed on.

Other parties know a party's address, not which of its servers runs a task. What arrives for a
session that is not open here goes to the server that the database names, in one hop: whatever comes
from a server of this party is never passed on again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import grpc.aio

from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.domain.administration.servers import Instance
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.messages import Notice
from fedflow.federation.session import SessionKey
from fedflow.federation.settings import FederationSettings
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import GrpcSender
from fedflow.rpc.data_plane.streams import BROKEN
from fedflow.rpc.server.servers import is_server
from fedflow.wire.servers import SECRET

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.2  #: pause between two searches for a session
_TRY_S: Final = 5.0  #: after this time the sender tries again, and the session is searched again

RunsAt = Callable[[str, Site], Instance | None]
"""Return the other server that runs a session's site, None if it is none; may ask the database."""


class Relays:
    """The ways to the other servers of this party. Belongs to one event loop."""

    def __init__(
        self,
        *,
        runs_at: RunsAt,
        has_others: Callable[[], bool],
        open_channel: Callable[[Instance], grpc.aio.Channel],
        secret: Callable[[], str],
        settings: FederationSettings,
    ) -> None:
        """`secret` returns what the others prove themselves with."""
        self._secret = secret
        self._runs_at = runs_at
        self._has_others = has_others
        self._open_channel = open_channel
        self._settings = settings
        self._sought: dict[SessionKey, set[asyncio.Future[Instance]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._ports: dict[str, tuple[str, GrpcSender]] = {}  #: instance -> its secret, the way

    @property
    def needed(self) -> bool:
        """Tell whether there is another server at the moment."""
        return self._has_others()

    def is_server(self, context: Any) -> bool:
        """Tell whether a stream is from another server of this party."""
        return is_server(context, self._secret())

    async def find(self, session: str, site: Site) -> Instance | None:
        """Return the other server where a session is open, None if it is none, or none yet."""
        return await asyncio.to_thread(self._runs_at, session, site)

    async def locate(self, session: str, site: Site) -> Instance:
        """Return the other server where a session is open, once it is; tries until canceled."""
        key = (session, site)
        if self._has_others() and (to := await asyncio.to_thread(self._find_all, [key])):
            return to[key]
        found: asyncio.Future[Instance] = asyncio.get_running_loop().create_future()
        waiting = self._sought.setdefault(key, set())
        waiting.add(found)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_forever(), name="data-plane-look")
        try:
            return await found
        finally:
            waiting.discard(found)
            if not waiting and self._sought.get(key) is waiting:
                del self._sought[key]

    async def deliver(self, key: ValueKey, body: bytes, *, digest: str, to: Instance) -> None:
        """Deliver a small value where its session is.

        Raises: TimeoutError: try again. What the other server refuses it with.
        """
        async with asyncio.timeout(_TRY_S):
            await (await self._port(to)).deliver_small(key, body, digest=digest)

    async def notify(self, notice: Notice, to: Instance, party_id: PartyId) -> None:
        """Pass a notice on; return when it has arrived. Raises: TimeoutError: try again."""
        async with asyncio.timeout(_TRY_S):
            await (await self._port(to)).deliver_notice(party_id, notice)

    async def stream(self, context: Any, offer: bytes, to: Instance) -> None:
        """Pass a stream that carries one big value on, both ways, until it ends.

        Raises: PeerFailed: the way to that server broke.
        """
        channel = self._open_channel(to)
        try:
            call = channel.stream_stream(BULK)(metadata=((SECRET, to.secret),))
            await call.write(offer)
            up = asyncio.create_task(_pump(context, call))
            try:
                while isinstance(raw := await call.read(), bytes):
                    await context.write(raw)
            finally:
                up.cancel()
                call.cancel()
        except BROKEN as exc:
            server = f"server {to.instance_id}"
            raise PeerFailed(site=server, reason=f"the way to it broke: {exc}") from exc
        finally:
            await channel.close(None)

    async def close(self) -> None:
        """Close all channels."""
        if self._looking is not None:
            self._looking.cancel()
        for _, port in self._ports.values():
            await port.close()
        self._ports.clear()

    async def _look_forever(self) -> None:
        """Look where the sessions are that somebody waits for, until nobody does.

        What the look costs is at most a quarter of the time, however many they are.
        """
        loop = asyncio.get_running_loop()
        while self._sought:
            begun_s = loop.time()
            if self._has_others():
                for key, to in (
                    await asyncio.to_thread(self._find_all, list(self._sought))
                ).items():
                    for found in self._sought.get(key, ()):
                        if not found.done():
                            found.set_result(to)
            await asyncio.sleep(max(_LOOK_S, 3 * (loop.time() - begun_s)))

    def _find_all(self, keys: list[SessionKey]) -> dict[SessionKey, Instance]:
        try:
            return {key: to for key in keys if (to := self._runs_at(*key)) is not None}
        except FedflowError:  # the database is away; whoever uses it for more says so
            return {}
        except Exception:
            logger.exception("Cannot look where sessions are")
            return {}

    async def _port(self, to: Instance) -> GrpcSender:
        """Return the way to a server; when it was started again the old way is closed."""
        known = self._ports.get(to.instance_id)
        if known is not None and known[0] == to.secret:
            return known[1]
        port = GrpcSender(
            open_channel=lambda _: self._open_channel(to),
            is_local=lambda _: False,
            settings=self._settings,
            metadata=((SECRET, to.secret),),
        )
        self._ports[to.instance_id] = (to.secret, port)
        if known is not None:
            await known[1].close()
        return port


async def _pump(context: Any, call: Any) -> None:
    try:
        while isinstance(raw := await context.read(), bytes):
            await call.write(raw)
        await call.done_writing()
    except (*BROKEN, FedflowError):
        call.cancel()
