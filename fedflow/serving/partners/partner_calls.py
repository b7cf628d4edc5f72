"""Calls to the serving processes of hosts: all hosts at once, each within the request's budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import msgspec

from fedflow.base.clock import Clock
from fedflow.base.errors.parties import NoRoute
from fedflow.base.thread_starts import Pool
from fedflow.rpc.client.channels import Channels
from fedflow.serving.codes import OF_HOST, ItemAnswer, ServingCode, failed, failed_at_host
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.partners.circuit import PartnerCircuit
from fedflow.serving.partners.messages import (
    METHOD,
    PartnerRequest,
    PartnerResponse,
    pack_message,
    read_partner_response,
)
from fedflow.serving.settings import ServingLimits

logger = logging.getLogger(__name__)

_CODES: Final = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: ServingCode.OVERLOAD,
    grpc.StatusCode.PERMISSION_DENIED: ServingCode.AUTHORISATION,
    grpc.StatusCode.UNAUTHENTICATED: ServingCode.AUTHORISATION,
}

#: a server that stops, or a connection that ended; asking for a part twice changes nothing
_GONE: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
_OPEN: Final = "it did not answer lately; it is asked again soon"
#: what a call without an answer comes to
_NO_ANSWER: Final = frozenset(OF_HOST + code for code in (ServingCode.NETWORK, ServingCode.SYSTEM))

Own = Callable[[PartnerRequest, float], PartnerResponse]
"""Answers a request to a host of this very process, within so many seconds."""


class PartnerCalls:
    """Asks hosts for their parts. Thread-safe."""

    def __init__(
        self,
        channels: Channels,
        own: Own | None,
        *,
        limits: ServingLimits,
        metrics: ServingMetrics,
        clock: Clock,
    ) -> None:
        """`own` answers for hosts without a route; None: they cannot be asked."""
        self._channels = channels
        self._own = own
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._circuits: dict[str, PartnerCircuit] = {}
        self._pool = Pool(16, thread_name_prefix="fedflow-partners")
        self._stubs: dict[str, tuple[grpc.Channel, Any]] = {}
        self._last: dict[str, str] = {}  #: what came of the last call to a party; "": it answered

    def ask(
        self, requests: Mapping[str, PartnerRequest], deadline_s: float
    ) -> dict[str, PartnerResponse | ItemAnswer]:
        """Return each host's part, or the answer to all rows if it has none.

        `requests` are by host; `deadline_s` is a moment of the monotonic clock.
        """
        if not requests:
            return {}
        first, *others = requests
        running = {one: self._pool.submit(self._ask, requests[one], deadline_s) for one in others}
        found = {first: self._ask(requests[first], deadline_s)}
        return found | {one: done.result() for one, done in running.items()}

    def states(self) -> dict[str, str]:
        """Return what came of the last call to each party; an empty text: it answered."""
        return dict(self._last)

    def circuits(self) -> dict[str, str]:
        """Return the state of each partner's circuit: closed, open or half-open."""
        return {party: circuit.state for party, circuit in self._circuits.items()}

    def close(self) -> None:
        """End the threads; calls under way fail."""
        self._channels.close()
        self._pool.shutdown()

    def _ask(self, request: PartnerRequest, deadline_s: float) -> PartnerResponse | ItemAnswer:
        party, started_s = request.host, self._clock.monotonic_s()
        circuit = self._circuit(party)
        if not circuit.lets_through():
            return failed_at_host(party, ServingCode.NETWORK, _OPEN)
        answer = self._answer(request, deadline_s)
        if answer.retcode in _NO_ANSWER:
            if self._was_hasty(started_s, deadline_s):
                circuit.undecided()
            else:
                circuit.failed()
        else:
            circuit.answered()
        self._metrics.partner_latency.observe(self._clock.monotonic_s() - started_s, party)
        self._metrics.partner_answers.add(party, str(int(answer.retcode)))
        self._last[party] = answer.message if isinstance(answer, ItemAnswer) else ""
        return answer

    def _was_hasty(self, started_s: float, deadline_s: float) -> bool:
        """Tell whether a call ended because its caller gave it much less time than is usual."""
        usual_s = self._limits.single_ms / 1000
        return (
            deadline_s - started_s < usual_s / 2 and self._clock.monotonic_s() >= deadline_s - 0.02
        )

    def _circuit(self, party: str) -> PartnerCircuit:
        known = self._circuits.get(party)
        if known is None:
            made = PartnerCircuit(
                failures=self._limits.circuit_failures,
                open_s=self._limits.circuit_open_ms / 1000,
                clock=self._clock,
            )
            known = self._circuits.setdefault(party, made)
        return known

    def _answer(self, request: PartnerRequest, deadline_s: float) -> PartnerResponse | ItemAnswer:
        party = request.host
        try:
            route = self._channels.route(party)
        except NoRoute:
            if self._own is not None:
                return self._checked(self._own(request, deadline_s), party)
            return failed(ServingCode.ROUTING, f"there is no route to host {party}")
        raw = pack_message(request)
        try:
            try:
                answer = self._call(party, raw, deadline_s)
            except grpc.RpcError as exc:
                if exc.code() not in _GONE:
                    raise
                self._channels.gave_no_answer(party, route)
                answer = self._call(party, raw, deadline_s)  # another server, or a new connection
        except grpc.RpcError as exc:
            return _unanswered(party, exc)
        try:
            return self._checked(read_partner_response(answer, len(request.ids)), party)
        except (msgspec.MsgspecError, ValueError) as exc:
            logger.warning("host %s: %s", party, exc, extra={"action": "bad_partner_answer"})
            return failed_at_host(party, ServingCode.BAD_RESPONSE, f"its answer is none: {exc}")

    def _call(self, party: str, raw: bytes, deadline_s: float) -> bytes:
        left_s = max(deadline_s - self._clock.monotonic_s(), 0.001)
        try:
            answer: bytes = self._stub(party)(raw, timeout=left_s)
        except ValueError:  # another thread has closed the channel, as the route turned
            answer = self._stub(party)(raw, timeout=left_s)
        return answer

    def _stub(self, party: str) -> Any:
        channel = self._channels.channel(party)
        known = self._stubs.get(party)
        if known is None or known[0] is not channel:
            known = self._stubs[party] = (channel, channel.unary_unary(METHOD))
        return known[1]

    @staticmethod
    def _checked(response: PartnerResponse, party: str) -> PartnerResponse | ItemAnswer:
        if response.retcode:
            return failed_at_host(party, response.retcode, response.message[:500])
        return response


def _unanswered(party: str, error: grpc.RpcError) -> ItemAnswer:
    """Return the answer to rows of a call that came to nothing."""
    code = error.code()
    reasons = {
        grpc.StatusCode.DEADLINE_EXCEEDED: "it did not answer in time",
        grpc.StatusCode.UNAVAILABLE: "it cannot be reached",
        grpc.StatusCode.RESOURCE_EXHAUSTED: "it has too many calls at once",
        grpc.StatusCode.PERMISSION_DENIED: "it does not answer this party",
    }
    reason = reasons.get(code, f"the call failed ({code.name})")
    logger.warning(
        "no answer of host %s: %s", party, error.details(), extra={"action": "no_partner_answer"}
    )
    return failed_at_host(party, _CODES.get(code, ServingCode.NETWORK), reason)
