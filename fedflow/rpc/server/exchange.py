"""The service that an exchange calls: other parties' calls, sealed. See `rpc/sealed/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from fedflow.base.lazy import Lazy
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES
from fedflow.wire.exchange import METHOD, CallKind
from fedflow.wire.packet import METHOD as UNARY

if TYPE_CHECKING:
    from fedflow.rpc.sealed.incoming import IncomingCalls


KINDS: Final[Mapping[str, CallKind]] = {
    UNARY: CallKind.PACKET,
    MESSAGES: CallKind.MESSAGES,
    BULK: CallKind.BULK,
}
"""Path of each method that may be called over an exchange -> what kind of call it is."""


class ExchangeService:
    """Serves `Call`; what it needs is imported with the first call of an exchange."""

    def __init__(self, calls: Callable[[], IncomingCalls]) -> None:
        self._calls = Lazy(calls)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service on a server that has not started."""
        _, service, method = METHOD.split("/")
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: self.handler}),)
        )

    @property
    def handler(self) -> grpc.RpcMethodHandler:
        """Return what answers a call."""
        return grpc.stream_stream_rpc_method_handler(self._serve)

    async def _serve(self, _: object, context: Any) -> None:
        await self._calls().answer(context)
