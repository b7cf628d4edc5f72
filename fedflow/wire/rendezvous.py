"""A call about a run of rendezvous over gRPC: JSON both ways, answered with an envelope."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from fedflow.domain.administration.rendezvous import MAX_STATE_TEXT
from fedflow.wire.api.rendezvous import RunState

MAX_CALL_BYTES: Final = MAX_STATE_TEXT + 2_048  #: of a call


class RunCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read a run, or write to it if `state` is given."""

    party_id: Annotated[str, msgspec.Meta(max_length=64)]  #: of the member
    run_id: Annotated[str, msgspec.Meta(max_length=256)]
    job_id: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    token: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    state: Annotated[str, msgspec.Meta(max_length=MAX_STATE_TEXT)] | None = None


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of an answer."""

    retcode: int
    retmsg: str = ""
    data: RunState | None = None
    error: dict[str, Any] = {}


_calls: Final = msgspec.json.Decoder(RunCall)
_answers: Final = msgspec.json.Decoder(RunAnswer)


def read_call(raw: bytes) -> RunCall:
    """Raises: msgspec.MsgspecError."""
    return _calls.decode(raw)


def read_answer(raw: bytes) -> RunAnswer:
    """Raises: msgspec.MsgspecError."""
    return _answers.decode(raw)
