"""Commands to other parties over gRPC, as FATE's packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import Message
from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.rpc.client.channels import Channels
from fedflow.wire.envelope import encode, parse_reply
from fedflow.wire.exchange import SAYS
from fedflow.wire.headers import ANSWER_PROTOCOL, SITE_SIGNATURE
from fedflow.wire.packet import (
    METHOD,
    Endpoint,
    PacketCodec,
    PacketFields,
    call_metadata,
    request_packet,
)
from fedflow.wire.paths import PREFIX
from fedflow.wire.versions import BEFORE, OURS, Speaks


class GrpcClient:
    """Sends packets over channels that stay open; used by many threads at once."""

    def __init__(
        self, channels: Channels, *, packets: PacketCodec, own_party: str,
        callback: Endpoint | None = None, sign: Callable[[bytes], str] | None = None,
        speaks: Speaks | None = OURS,
    ) -> None:  # fmt: skip
        """`speaks` None: say nothing of it, as releases of protocol 1."""
        self._speaks = speaks.header if speaks is not None else None
        self._sign = sign
        self._channels = channels
        self._packets = packets
        self._own_party = own_party
        self._callback = callback

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """Send once and return the answer; `path` is below `/v1`, `deadline_s` in seconds.

        To a party with several servers it is sent to the next one, too, if one does not answer in
        its share of the time, or answers that it cannot use its store.

        Raises: NoRoute; PartyUnreachable: no answer, the reason says why; BadPacket: an answer that
            cannot be read.
        """
        own = source.party_id if source is not None else self._own_party
        packet = request_packet(
            PREFIX + path,
            encode(body),
            source=own,
            source_role=source.role.value if source is not None else "",
            destination=destination,
            job_id=job_id,
            request_id=request_id,
            timeout_ms=int(deadline_s * 1000),
            callback=self._callback,
            protocol=self._speaks,
        )
        if self._sign is not None:
            signed = {**packet.headers, SITE_SIGNATURE: self._sign(packet.body)}
            packet = replace(packet, headers=signed)
        return self._answer_of(packet, own, destination, deadline_s)

    def _answer_of(
        self, packet: PacketFields, own: str, destination: str, deadline_s: float
    ) -> Reply:
        """Return the answer of the first server of a party that can do what it is asked.

        A server without its store, or without a leader, does nothing: the request id lets the next
        one do it once. If all are so, the last one's answer is returned.
        """
        raw = self._packets.encode(packet)
        servers = 1 + len(self._channels.route(destination).others)
        reply: Reply | None = None
        for left in reversed(range(servers)):
            route = self._channels.route(destination)
            unary = self._channels.channel(destination).unary_unary(METHOD)  # raw bytes in and out
            try:
                answer: bytes = unary(
                    raw, timeout=deadline_s / servers, metadata=call_metadata(own, destination)
                )
            except (grpc.RpcError, ValueError) as exc:  # ValueError: the channel was closed
                self._channels.gave_no_answer(destination, route)
                if left or reply is not None:
                    continue
                raise PartyUnreachable(
                    party_id=destination,
                    address=route.address,
                    reason=why(exc, deadline_s / servers, tls=route.tls),
                ) from exc
            reply = self._read(answer)
            if servers == 1 or reply.error not in _ELSEWHERE:
                return reply
            self._channels.gave_no_answer(destination, route)
        assert reply is not None  # noqa: S101  # else it was raised above
        return reply

    def _read(self, raw: bytes) -> Reply:
        """Return an answer. Raises: BadPacket."""
        answer = self._packets.decode(raw)
        theirs = answer.headers.get(ANSWER_PROTOCOL, BEFORE.header)
        return replace(parse_reply(answer.body), speaks=theirs)


_ELSEWHERE: Final = frozenset({StoreUnavailable.__name__, NotLeading.__name__})
"""Errors that another server of the same party may not have."""

_CLOSED: Final = "it closed the connection"
_UNTRUSTED: Final = "its certificate is not accepted: no trusted authority signed it"
_CAUSES: Final = (
    # (what gRPC's text contains, in lower case; what we say)
    ("connection refused", "connection refused"),
    ("is not in peer certificate", "its certificate is that of another party"),
    ("hostname verification check failed", "its certificate is that of another party"),
    ("certificate_required", "it asks for a certificate and this server sent none"),
    ("wrong_version_number", "it does not use TLS"),
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet; compare the clocks"),
    ("certificate_verify_failed", _UNTRUSTED),
    ("certificate signature failure", _UNTRUSTED),
    ("certificate_expired", "it does not accept our certificate: it has expired"),
    ("unknown_ca", "it does not accept our certificate: it does not trust the authority"),
    ("tlsv1_alert", "it does not accept our certificate"),
    ("sslv3_alert", "it does not accept our certificate"),
    ("handshake read failed (endpoint closing", "it does not answer the TLS handshake"),
    ("handshake read failed", "it closed the connection during the TLS handshake"),
    ("ssl", "the TLS handshake failed"),
    ("handshake", "the TLS handshake failed"),
    ("name or service not known", "its host name is unknown"),
    ("dns resolution failed", "its host name is unknown"),
    ("domain name not found", "its host name is unknown"),
    ("ping timeout", "the connection has died: nothing came over it any more"),
    ("no route to host", "no route to the host"),
    ("network is unreachable", "the network is unreachable"),
    ("timed out", "the connection timed out"),
    ("timeout occurred", "the connection timed out"),
    ("connection reset", _CLOSED),
    ("socket closed", _CLOSED),
    ("broken pipe", _CLOSED),
)


def why(exc: grpc.RpcError | ValueError, deadline_s: float, *, tls: bool) -> str:
    """Return in a few words why a call failed."""
    if not isinstance(exc, grpc.Call | grpc.aio.AioRpcError):
        return "the channel was closed"
    code, details = exc.code(), (exc.details() or "")
    if details.startswith(SAYS):
        return details
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Message("no answer within {seconds:g} s", deadline_s)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return "what answers there is no server of a party"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return f"too much at once: {details}"
    if code is grpc.StatusCode.CANCELLED:
        return "the call was cancelled"
    text = details.lower()
    for part, reason in _CAUSES:
        if part in text:
            may_refuse = tls and reason == _CLOSED and "failed to connect" in text
            return f"{reason}; it may not accept our certificate" if may_refuse else reason
    return f"{code.name.lower()}: {details[:200]}"
