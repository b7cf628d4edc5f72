"""The ledger of a party task: what an attempt sent to each other site, received and waited for.

Names, kinds, sizes and times only, no contents. A site counts its own half.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.site import Site

MOST_NAMES: Final = 200  #: of messages with one peer; those of further names are counted together
OTHERS: Final = "..."  #: the name of these


@dataclass(frozen=True, kw_only=True, slots=True)
class Messages:
    """The messages of one name in one direction."""

    name: str
    is_sent: bool  #: False: they arrived
    calls: int
    size_bytes: int  #: of the encoded values
    first_ms: int
    last_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerLedger:
    """What one attempt exchanged with one other site."""

    peer: Site
    receives: int = 0  #: that waited for this site, however they ended
    receive_s: float = 0.0  #: time in which at least one of them waited
    send_s: float = 0.0  #: time that sends waited for room
    messages: tuple[Messages, ...] = ()

    def calls(self, *, sent: bool) -> int:
        """Return the number of messages in one direction."""
        return sum(one.calls for one in self.messages if one.is_sent is sent)

    def size_bytes(self, *, sent: bool) -> int:
        """Return the bytes of all messages in one direction."""
        return sum(one.size_bytes for one in self.messages if one.is_sent is sent)


def both_launches(
    known: Sequence[PeerLedger], more: Iterable[PeerLedger]
) -> tuple[PeerLedger, ...]:
    """Return two launches of an attempt as one."""
    by_peer = {one.peer: one for one in known}
    for one in more:
        old = by_peer.get(one.peer)
        by_peer[one.peer] = one if old is None else _sum(old, one)
    return tuple(by_peer.values())


def _sum(one: PeerLedger, other: PeerLedger) -> PeerLedger:
    by_name = {(m.name, m.is_sent): m for m in one.messages}
    for m in other.messages:
        old = by_name.get((m.name, m.is_sent))
        by_name[m.name, m.is_sent] = m if old is None else Messages(
            name=m.name, is_sent=m.is_sent,
            calls=old.calls + m.calls, size_bytes=old.size_bytes + m.size_bytes,
            first_ms=min(old.first_ms, m.first_ms), last_ms=max(old.last_ms, m.last_ms),
        )  # fmt: skip
    return PeerLedger(
        peer=one.peer, receives=one.receives + other.receives,
        receive_s=one.receive_s + other.receive_s, send_s=one.send_s + other.send_s,
        messages=tuple(by_name.values()),
    )  # fmt: skip
