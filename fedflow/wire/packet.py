"""The packet of FATE's transport as a plain value: what its fields mean, without protobuf.

`rpc/packets.py` turns it into bytes and back. Source: `docs/reference/packets.md#packet`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Protocol

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import BadPacket
from fedflow.base.values import dataclass
from fedflow.wire import headers as names
from fedflow.wire.envelope import encode
from fedflow.wire.json_text import decode_json

METHOD: Final = "/com.webank.ai.eggroll.api.networking.proxy.DataTransferService/unaryCall"
_HEADERS: Final = 1000  #: that one packet may have
HEADERS_MODEL: Final = "headers"  #: header.task.model.name when dataKey holds HTTP headers
ROLE: Final = names.SERVICE  #: header.src.role and header.dst.role

Dispatch = Callable[[str, Mapping[str, str], bytes], tuple[int, bytes]]
"""Path with prefix, headers, body -> HTTP status, body. May block; must not raise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where a party can be called back."""

    ip: str = ""
    port: int = 0
    hostname: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PacketFields:
    """One packet. In FATE 1.5 `headers` is empty; since 1.11 `command` is the path."""

    job_id: str
    source: str  #: party id
    destination: str  #: party id
    path: str  #: with version prefix, for example `/v1/party/...`
    body: bytes  #: UTF-8 JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    operator: str = "POST"
    command: str = ""
    timeout_ms: int = 0
    callback: Endpoint | None = None  #: of the source


class PacketCodec(Protocol):
    """Turns packets into bytes and back."""

    def encode(self, packet: PacketFields) -> bytes: ...

    def decode(self, raw: bytes) -> PacketFields:
        """Raises: BadPacket: the bytes are no packet."""


def request_packet(
    path: str, body: bytes, *, source: str, source_role: str, destination: str, job_id: str,
    request_id: str | None, timeout_ms: int, callback: Endpoint | None = None,
    protocol: str | None = None,
) -> PacketFields:  # fmt: skip
    """Return the packet of a call; `path` is complete, `timeout_ms` is the call's deadline."""
    return PacketFields(
        job_id=job_id,
        source=source,
        destination=destination,
        path=path,
        body=body,
        headers=names.party_headers(
            source=source,
            destination=destination,
            source_role=source_role,
            request_id=request_id,
            protocol=protocol,
        ),
        command=path,
        timeout_ms=timeout_ms,
        callback=callback,
    )


def reply_packet(
    request: PacketFields, body: bytes, *, protocol: str | None = None
) -> PacketFields:  # fmt: skip
    """Return the answer to a packet: the same fields with source and destination swapped.

    `protocol` is what the answering server speaks, as in `wire/versions.py`.
    """
    headers = request.headers
    if protocol is not None:
        headers = {**headers, names.ANSWER_PROTOCOL: protocol}
    return PacketFields(
        job_id=request.job_id,
        source=request.destination,
        destination=request.source,
        path=request.path,
        body=body,
        headers=headers,
        operator=request.operator,
        command=request.command,
        timeout_ms=request.timeout_ms,
    )


def call_metadata(source: str, destination: str) -> tuple[tuple[str, str], ...]:
    """Return the gRPC metadata of a call; the answer's trailing metadata is the same."""
    return (
        ("service", names.SERVICE),
        ("src-party-id", source),
        ("src-role", "guest"),  # a constant in FATE
        ("dest-party-id", destination),
        ("dest-role", "host"),  # a constant in FATE
    )


def headers_to_text(headers: Mapping[str, str]) -> str:
    """Return headers as `header.task.model.dataKey` holds them."""
    return encode(dict(headers)).decode()


def headers_from_text(model: str, text: str) -> dict[str, str]:
    """Return the headers that a packet carries, under the names as we compare them.

    Raises: BadPacket: it claims to have headers, but they are no JSON object of texts.
    """
    if model != HEADERS_MODEL or not text:
        return {}
    try:
        value = decode_json(text, max_depth=2, max_values=_HEADERS)
    except FedflowError as exc:
        raise BadPacket(reason="its headers are not JSON") from exc
    if not isinstance(value, dict):
        raise BadPacket(reason="its headers are not a JSON object")
    return names.plain_names({k: str(v) for k, v in value.items() if isinstance(v, (str, int))})
