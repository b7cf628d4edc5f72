"""What serving processes tell each other: one gRPC method, MessagePack both ways."""

from __future__ import annotations

from typing import Final

import msgspec

METHOD: Final = "/fedflow.serving.v1.Partner/Score"

IdValue = str | int | float | bool | None


class PartnerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A guest asks a host for its part of the scores of some rows."""

    guest: str  #: party id
    host: str  #: party id
    model_id: str
    model_version: str
    digest: str  #: of the version as the guest has it
    request_ids: list[str]  #: of the callers' requests, for logs
    ids: list[dict[str, IdValue]]  #: per row, what finds its features


class PartnerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A host's part; or a return code, 100 to 999, and why there is none."""

    retcode: int = 0
    message: str = ""
    partial: bytes = b""  #: of all rows, those with an error too; empty if there is no other
    errors: dict[int, tuple[int, str]] = {}  #: rows without a part: return code and sentence


_requests: Final = msgspec.msgpack.Decoder(PartnerRequest)
_responses: Final = msgspec.msgpack.Decoder(PartnerResponse)
_encoder: Final = msgspec.msgpack.Encoder()


def pack_message(message: PartnerRequest | PartnerResponse) -> bytes:
    """Return a message's bytes."""
    return _encoder.encode(message)


def read_partner_request(raw: bytes) -> PartnerRequest:
    """Raises: msgspec.MsgspecError."""
    return _requests.decode(raw)


def read_partner_response(raw: bytes, rows: int) -> PartnerResponse:
    """Return a response to a request with so many rows.

    Raises: msgspec.MsgspecError, ValueError: it cannot be one.
    """
    response = _responses.decode(raw)
    codes = [code for code, _ in response.errors.values()]
    if response.retcode and not 100 <= response.retcode < 1000:
        raise ValueError(f"{response.retcode} is no return code")
    if not all(100 <= code < 1000 for code in codes):
        raise ValueError("there are errors without a return code")
    if not all(0 <= row < rows for row in response.errors):
        raise ValueError("there are errors of other rows")
    if not response.retcode and not response.partial and len(response.errors) < rows:
        raise ValueError("a part is missing")
    return response
