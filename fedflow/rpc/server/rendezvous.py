"""`fedflow.v1.Rendezvous`: runs of rendezvous, for members at other parties and at this one.

A call counts for the party of its certificate; where TLS is off, for the address it comes from, and
the party that it names is believed. A call that is too large is refused, and one of a caller that
used much time waits (`rpc/pace.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import grpc
import msgspec

from fedflow.app.administration.rendezvous import RendezvousRuns, RunCaller
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import NotPartner
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.ids import PartyId
from fedflow.base.thread_starts import Pool
from fedflow.domain.outside import outside_error
from fedflow.rpc.callers import caller_of
from fedflow.rpc.pace import Pace
from fedflow.rpc.turns import Turns
from fedflow.wire import envelope
from fedflow.wire.api.rendezvous import RunState
from fedflow.wire.paths import fits
from fedflow.wire.rendezvous import MAX_CALL_BYTES, RunCall, read_call

logger = logging.getLogger(__name__)

_THREADS: Final = 4
_RECEIVED: Final = 16  #: calls of all callers that are received at once, of any length
_RECEIVE_S: Final = 10.0  #: how long receiving one may take


class RendezvousService:
    """Serves the method. `allows` tells whether a party may have runs here."""

    def __init__(
        self, runs: RendezvousRuns, *, authenticate: Callable[[Any], PartyId | None],
        allows: Callable[[str], bool], pace: Pace,
    ) -> None:  # fmt: skip
        self._runs = runs
        self._authenticate = authenticate
        self._allows = allows
        self._pace = pace
        self._pool = Pool(_THREADS, thread_name_prefix="fedflow-rendezvous")
        self._threads = Turns(_THREADS)
        self._received = Turns(_RECEIVED)

    async def serve(self, _: object, context: Any) -> bytes:
        """Answer a call with an envelope."""
        caller = caller_of(context)
        await self._received.take(caller)
        try:
            async with asyncio.timeout(_RECEIVE_S):
                raw = await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the call comes too slowly")
            raise
        finally:
            self._received.give_back(caller)
        if not isinstance(raw, bytes) or len(raw) > MAX_CALL_BYTES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "it is no call")
            raise AssertionError  # `abort` has raised
        await self._threads.take(caller)
        return await asyncio.shield(self._in_thread(raw, self._authenticate(context), caller))

    def close(self) -> None:
        """Wait for the calls that run and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _in_thread(self, raw: bytes, party: PartyId | None, caller: str) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            answer, used_s = await loop.run_in_executor(
                self._pool, self._answer, raw, party, caller
            )
        finally:
            self._threads.give_back(caller)
        self._pace.charge(caller, used_s)
        return answer

    def _answer(self, raw: bytes, party: PartyId | None, caller: str) -> tuple[bytes, float]:
        """Return the envelope of an answer, and the processor time that it took, seconds."""
        begun_s = time.thread_time()
        try:
            answer = envelope.success(self._call(raw, party, caller))
        except FedflowError as exc:
            said = {"action": "refuse_rendezvous"}
            logger.info("refused a call of %s: %s", caller, exc.message, extra=said)
            answer = envelope.failure(outside_error(exc, "the server"))
        except Exception:
            logger.exception("a call of %s failed", caller, extra={"action": "call_failed"})
            answer = envelope.internal_error()
        return envelope.encode(answer), time.thread_time() - begun_s

    def _call(self, raw: bytes, party: PartyId | None, caller: str) -> RunState:
        try:
            call: RunCall = read_call(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
            raise BadRequest(reason=str(exc)[:200]) from None
        if not fits("party_id", call.party_id):
            raise BadRequest(reason="it names no party id", path="party_id")
        if party is not None and party != call.party_id:
            raise NotAuthenticated(reason=f"party {party} speaks for party {call.party_id}")
        if not self._allows(call.party_id):
            raise NotPartner
        counted = party if party is not None else caller
        run = self._runs.run(
            call.run_id, job_id=call.job_id,
            caller=RunCaller(party_id=call.party_id, counted=f"party {counted}"),
        )  # fmt: skip
        state, token = call.state, call.token
        reply = run.read(token) if state is None else run.write(state, token)
        return RunState(
            now_ms=reply.now_ms,
            token=reply.token,
            state=reply.text,
            was_set=reply.was_set,
            since_ms=reply.since_ms,
        )
