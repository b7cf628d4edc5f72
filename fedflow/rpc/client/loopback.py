"""Commands to parties that this server hosts itself: no network, the same handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.wire.envelope import encode, parse_reply
from fedflow.wire.headers import party_headers
from fedflow.wire.paths import PREFIX

Dispatch = Callable[[str, Mapping[str, str], bytes], tuple[int, bytes]]
"""Path with prefix, headers, body -> HTTP status, body: what the gRPC door calls too."""


class LoopbackClient:
    """Hands commands to `dispatch` in the caller's thread."""

    def __init__(self, dispatch: Dispatch, *, own_party: str) -> None:
        self._dispatch = dispatch
        self._own_party = own_party

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """Return the handler's answer. The deadline has no effect. Raises: BadPacket."""
        headers = party_headers(
            source=source.party_id if source is not None else self._own_party,
            destination=destination,
            source_role=source.role.value if source is not None else "",
            request_id=request_id,
        )
        _, answer = self._dispatch(PREFIX + path, headers, encode(body))
        return parse_reply(answer)
