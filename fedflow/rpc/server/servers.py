"""The door for the other servers of this party: they prove themselves with a secret of the store.

Whoever reads the party's database knows the secret, and nobody else; TLS, where it is on, protects
it on its way.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from fedflow.base.thread_starts import Pool
from fedflow.rpc.pace import Pace, price_s
from fedflow.rpc.turns import Turns
from fedflow.wire.headers import SOURCE_PARTY
from fedflow.wire.servers import (
    METHOD,
    SECRET,
    Answer,
    Message,
    PartyCommand,
    pack,
    read_message,
)

logger = logging.getLogger(__name__)

_THREADS: Final = 16


class ServersService:
    """Serves the calls of other servers. `handle` may block; it runs in threads.

    Of these each party whose commands they pass on has a share.
    """

    def __init__(
        self, handle: Callable[[Message], Answer], *, secret: Callable[[], str], pace: Pace
    ) -> None:
        self._handle = handle
        self._secret = secret
        self._pace = pace
        self._pool = Pool(_THREADS, thread_name_prefix="fedflow-servers")
        self._turns = Turns(_THREADS)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register the service; call it on the server's event loop."""
        _, service, method = METHOD.split("/")
        handler = grpc.stream_unary_rpc_method_handler(self._serve)  # called before it is received
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )

    def close(self) -> None:
        """Wait for the calls that run and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _serve(self, _: object, context: Any) -> bytes:
        if not is_server(context, self._secret()):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the secret is wrong")
        try:
            raw = await context.read()
            message = read_message(raw if isinstance(raw, bytes) else b"")
        except msgspec.MsgspecError as exc:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(exc))
        party = message.headers.get(SOURCE_PARTY, "") if isinstance(message, PartyCommand) else ""
        if party:
            await self._pace.turn(party)
        await self._turns.take(party)
        return await asyncio.shield(self._in_thread(message, party))

    async def _in_thread(self, message: Message, party: str) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            answer, used_s = await loop.run_in_executor(self._pool, self._answer, message)
        finally:
            self._turns.give_back(party)
        if isinstance(message, PartyCommand):
            self._pace.charge(party, price_s(message.path, answer.body, used_s))
        return pack(answer)

    def _answer(self, message: Message) -> tuple[Answer, float]:
        """Return what came of a call, and the processor time that it took, seconds."""
        begun_s = time.thread_time()
        try:
            answer = self._handle(message)
        except Exception:
            logger.exception("A call of another server of this party failed")
            answer = Answer(status=500)
        return answer, time.thread_time() - begun_s


def is_server(context: Any, secret: str) -> bool:
    """Tell whether a call is from another server of this party."""
    given = dict(context.invocation_metadata() or ()).get(SECRET)
    return isinstance(given, str) and hmac.compare_digest(given.encode(), secret.encode())
