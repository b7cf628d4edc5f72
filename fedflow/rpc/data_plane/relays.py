"""Values and notices that arrive here for executors of another server of this party: passed on.

Other parties know a party's address, not which of its servers runs a task. What arrives for a
session that is not open here goes to the server that the database names, in one hop: whatever comes
from a server of this party is never passed on again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import grpc.aio

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.administration.servers import Instance
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.messages import Notice
from fedflow.federation.settings import FederationSettings
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import GrpcSender
from fedflow.rpc.data_plane.streams import BROKEN
from fedflow.rpc.server.servers import is_server
from fedflow.wire.servers import SECRET

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.2  #: pause between two searches for a session
_TRY_S: Final = 5.0  #: after this time it is searched again

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

    async def deliver(
        self, key: ValueKey, body: bytes, *, digest: str, is_here: Callable[[], bool]
    ) -> bool:
        """Deliver a small value where its session is; False as soon as that is here.

        Tries until canceled. Raises: what the other server refuses it with.
        """
        while not is_here():
            if not self.needed:
                return False
            found = await self.find(key.session, key.destination)
            if found is None:
                await asyncio.sleep(_LOOK_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_TRY_S):
                    await (await self._port(found)).deliver_small(key, body, digest=digest)
                    return True
        return False

    async def notify(self, notice: Notice, to: Instance, party_id: PartyId) -> None:
        """Pass a notice on."""
        (await self._port(to)).notify(party_id, notice)

    async def stream(self, context: Any, offer: bytes, to: Instance) -> None:
        """Pass a stream that carries one big value on, both ways, until it ends."""
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
            raise BadRequest(reason=f"the way to the task's own server broke: {exc}") from exc
        finally:
            await channel.close(None)

    async def close(self) -> None:
        """Close all channels."""
        for _, port in self._ports.values():
            await port.close()
        self._ports.clear()

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
