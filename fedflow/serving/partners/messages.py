"""What serving processes tell each other: one gRPC method, MessagePack both ways."""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

METHOD: Final = "/fedflow.serving.v1.Partner/Score"

MOST_VERSION: Final = 200  #: characters of a version of features

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
    feature_version: str = ""  #: of the host's features; parts of another one are not used again
    valid_s: float | None = None  #: parts may be used again for so long; 0: never; None: any time


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
    if len(response.feature_version) > MOST_VERSION:
        raise ValueError("the version of its features is too long")
    if response.valid_s is not None and not 0 <= response.valid_s < inf:
        raise ValueError(f"{response.valid_s} is no time for which a part is valid")
    return response
