"""How a call ends otherwise than with its answer: a gRPC status and a sentence, also as bytes."""

from __future__ import annotations

import struct
from typing import Final

import grpc
import grpc.aio

_CODE: Final = struct.Struct("<B")
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class CallRefused(grpc.aio.BaseError):  # type: ignore[misc]
    """A handler ended its call with a status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


def refusal_bytes(code: grpc.StatusCode, details: str) -> bytes:
    """Return how a call ended, as bytes."""
    return _CODE.pack(code.value[0]) + details.encode()


def refused(data: bytes) -> grpc.aio.AioRpcError:
    """Return what such bytes say, as gRPC says it."""
    code = _CODES.get(data[0] if data else -1, grpc.StatusCode.UNKNOWN)
    return call_error(code, data[1:].decode(errors="replace"))


def call_error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    """Return how a call ended, as gRPC says it."""
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing, details=details)
