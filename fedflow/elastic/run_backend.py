"""A back end over a run that a server stores: in this process, over HTTP or gRPC.

Its time is the server's, which all members have in common: clocks of their machines may differ, and
a server that was down for a while does not take that for the silence of members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fedflow.base.errors.rendezvous import RendezvousStateCorrupt
from fedflow.domain.administration.rendezvous import RunReply
from fedflow.elastic.backend import StoredState, WrittenState
from fedflow.elastic.stored import bytes_of, text_of


class RunAccess(Protocol):
    """The way to one run."""

    def read(self, known: str | None) -> RunReply:
        """Return what the run holds; no text if that is the one whose token is `known`."""

    def write(self, text: str, token: str | None) -> RunReply:
        """Write if `token` is that of what is stored, or None and nothing is stored."""


class RunBackend:
    """See `backend.Backend`. One thread at a time uses it."""

    def __init__(self, name: str, link: RunAccess, *, monotonic_s: Callable[[], float]) -> None:
        self.name = name
        self._link = link
        self._monotonic_s = monotonic_s
        self._known: tuple[str, str] | None = None  #: token and text of the last answer
        self._at: tuple[int, float] | None = None  #: the server's time, and ours then

    def now_ms(self) -> int:
        if self._at is None:
            self._at = self._link.read(None).now_ms, self._monotonic_s()
        server_ms, ours_s = self._at
        return server_ms + int((self._monotonic_s() - ours_s) * 1000)

    def get_state(self) -> StoredState | None:
        return self._stored(self._link.read(self._known[0] if self._known is not None else None))

    def set_state(self, state: bytes, token: str | None) -> WrittenState | None:
        text = text_of(state)
        reply = self._link.write(text, token)
        if reply.was_set and reply.token is not None:
            self._known = (reply.token, text)
        stored = self._stored(reply)
        return None if stored is None else WrittenState(stored=stored, was_set=reply.was_set)

    def _stored(self, reply: RunReply) -> StoredState | None:
        self._at = reply.now_ms, self._monotonic_s()
        if reply.token is None:
            self._known = None
            return None
        if reply.text is not None:
            self._known = (reply.token, reply.text)
        if self._known is None or self._known[0] != reply.token:
            raise RendezvousStateCorrupt(reason="the server left it out")
        return StoredState(
            state=bytes_of(self._known[1]),
            token=reply.token,
            now_ms=reply.now_ms,
            since_ms=reply.since_ms,
        )
