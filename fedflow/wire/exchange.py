"""What an exchange reads of a call between two parties: the routing envelope, in clear.

A call is a stream of messages under `METHOD`. The first one begins with a `CallHeader`; what
follows it, and all later messages, are records that only the other party can open
(`rpc/sealed/`). Source: docs/reference/packets.md#calls-over-an-exchange.
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import Final

from fedflow.base.errors.parties import SealBroken
from fedflow.base.values import dataclass

SERVICE: Final = "fedflow.v1.Exchange"
METHOD: Final = f"/{SERVICE}/Call"
SERVE: Final = f"/{SERVICE}/Serve"  #: a line that a party opens ahead, for one call to it
DESTINATION: Final = "fedflow-destination"  #: gRPC metadata: the party that is called
SERVER: Final = "fedflow-server"  #: the same of a line: which of its party's servers opened it
LANE: Final = "fedflow-lane"  #: the same: what its call may be
END: Final = b""  #: the message that ends one direction of a line; no call has such a message
EXCHANGE: Final = "exchange"  #: common name in an exchange's certificate; no party's id
SAYS: Final = "the exchange"  #: what an exchange itself says of a call begins so
VERSION: Final = 1
UNKNOWN_SESSION: Final = b"\x80"  #: the answer to a call of a session that the receiver has not


class CallKind(IntEnum):
    """What a call is for."""

    HELLO = 0  #: the two parties agree on a session
    PACKET = 1  #: one command
    MESSAGES = 2  #: small values and notices
    BULK = 3  #: one big value

    @property
    def lane(self) -> Lane:
        """Return which connection carries such calls."""
        return Lane.BIG if self is CallKind.BULK else Lane.SMALL


class Lane(StrEnum):
    """Connections of their own, so that a big value does not delay a command."""

    SMALL = "small"
    BIG = "big"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallHeader:
    """The first bytes of a call; all of its records are bound to them."""

    kind: CallKind
    session: bytes = bytes(16)
    call: int = 0  #: each try of a call has a number of its own in its session
    time_ms: int = 0  #: when it began, as its sender's clock says

    def pack(self) -> bytes:
        """Return the bytes."""
        return _HEADER.pack(VERSION, self.kind, self.session, self.call, self.time_ms)


_HEADER: Final = struct.Struct("<BB16sQQ")
HEADER_BYTES: Final = _HEADER.size


def read_header(message: object) -> CallHeader:
    """Return the header that a call's first message begins with. Raises: SealBroken."""
    if not isinstance(message, bytes) or len(message) < HEADER_BYTES:
        raise SealBroken(reason="a call begins with a header")
    version, kind, session, call, time_ms = _HEADER.unpack_from(message)
    if version != VERSION or kind not in _KINDS:
        raise SealBroken(reason=f"version {version}, kind {kind} is not known here")
    return CallHeader(kind=CallKind(kind), session=session, call=call, time_ms=time_ms)


_KINDS: Final = frozenset(CallKind)
