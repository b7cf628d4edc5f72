"""What the routes of rendezvous answer, and what the same calls over gRPC carry."""

from __future__ import annotations

from typing import Annotated

import msgspec


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What a run holds after a read, or after a try to write."""

    now_ms: Annotated[int, msgspec.Meta(ge=0)]
    token: str | None = None
    state: str | None = None
    was_set: bool = False
    since_ms: Annotated[int, msgspec.Meta(ge=0)] = 0


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the server stores."""

    scope: str
    run_id: str
    caller: str
    created_ms: int
    updated_ms: int
