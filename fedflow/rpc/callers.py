"""Who calls the gRPC port: names that shares of limits are counted by, and the share of calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import grpc
import grpc.aio

from fedflow.base.shares import Shares
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.pace import CALL_S, Pace
from fedflow.wire.exchange import METHOD as OVER_EXCHANGE

logger = logging.getLogger(__name__)

NOT_PARTNER: Final = "this party is no partner of this server"
DEFECT: Final = "internal error"
TOO_MANY: Final = "this party has too many calls and streams open at once"

_Find = Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]]


def caller_of(context: grpc.aio.ServicerContext) -> str:
    """Return the party that the caller's certificate names; without TLS the caller's address."""
    party = certificate_party(context)
    if party is not None:
        return party
    address, _, _port = str(context.peer()).rpartition(":")
    return address


class CallShares(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Counts calls and streams of all services before their first message is received.

    A caller whose share is used up is refused, one that used too much time waits, and nobody else
    notices. Streams of values of a certificate that `admits` does not know are refused; its
    commands are answered with an error. What an exchange brings is counted twice: as the
    exchange's, and once it is opened as the party's. Belongs to one event loop.
    """

    def __init__(self, calls: int, *, admits: Callable[[str], bool], pace: Pace) -> None:
        self._admits = admits
        self._pace = pace
        self._shares = Shares(calls)
        self._counted: dict[str, grpc.RpcMethodHandler] = {}

    async def intercept_service(
        self, continuation: _Find, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        """Return the handler of a method, which counts now; None: there is no such method."""
        method = handler_call_details.method
        if method not in self._counted:
            found = await continuation(handler_call_details)
            if found is None:
                return None
            self._counted[method] = self.counting(found, sealed=method == OVER_EXCHANGE)
        return self._counted[method]

    def counting(
        self, handler: grpc.RpcMethodHandler, *, sealed: bool = False
    ) -> grpc.RpcMethodHandler:
        """Return a handler that counts, and then does what `handler` does.

        `sealed`: what it brings is opened first, and then comes to another such handler.
        """
        streams = handler.response_streaming
        serve = handler.stream_stream if streams else handler.stream_unary

        async def counted(messages: object, context: grpc.aio.ServicerContext) -> bytes | None:
            party = certificate_party(context)
            admitted = sealed or party is None or self._admits(party)
            if streams and not admitted:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, NOT_PARTNER)
            caller = caller_of(context)
            if not self._shares.take(caller):
                logger.warning(
                    "refused a call of %s: %s", caller, TOO_MANY, extra={"action": "refuse_call"}
                )
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY)
            try:
                if not sealed:
                    await self._pace.turn(caller, CALL_S)
                answer: bytes | None = await serve(messages, context)
            except grpc.aio.BaseError:  # a refusal, or the caller is gone
                raise
            except Exception:  # gRPC would tell the caller its text
                logger.exception("A call of %s failed", caller, extra={"action": "call_failed"})
                await context.abort(grpc.StatusCode.UNKNOWN, DEFECT)
            finally:
                self._shares.give_back(caller)
            return answer

        if streams:
            return grpc.stream_stream_rpc_method_handler(counted)
        return grpc.stream_unary_rpc_method_handler(counted)
