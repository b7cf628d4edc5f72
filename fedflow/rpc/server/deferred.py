"""gRPC services that are imported with the first call of them: most servers never get one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import grpc
import grpc.aio

RENDEZVOUS: Final = "/fedflow.v1.Rendezvous/Call"


class CalledLate(Protocol):
    """A service with one method, from a stream of messages to one answer."""

    async def serve(self, messages: object, context: Any) -> bytes:
        """Answer a call."""

    def close(self) -> None:
        """Let calls end, and release what the service holds."""


class DeferredService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Serves `method` with what `make` returns; it is called on the event loop, once."""

    def __init__(self, method: str, make: Callable[[], CalledLate]) -> None:
        self._method = method
        self._make = make
        self._service: CalledLate | None = None

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service on a server that has not started."""
        server.add_generic_rpc_handlers((self,))

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call; None: it is for another service."""
        if details.method != self._method:
            return None
        if self._service is None:
            self._service = self._make()
        return grpc.stream_unary_rpc_method_handler(self._service.serve)

    def close(self) -> None:
        """Close the service, if there was a call of it."""
        if self._service is not None:
            self._service.close()
