"""What the tab *Trace* of a job shows: what one site exchanged with each peer, without contents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedflow.base.values import dataclass
from fedflow.wire.api.traces import JobTrace, PeerTraffic, SessionTrace, TracedValue

MOST_PEERS: Final = 500  #: rows of one page
MOST_VALUES: Final = 10  #: the largest, and those that were waited for longest


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerLine:
    """What one attempt of a component exchanged with one peer."""

    component: str
    version: int
    peer: PeerTraffic


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueLine:
    """A value that was recorded."""

    component: str
    version: int
    value: TracedValue


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceView:
    """The traffic of one site of a job."""

    is_on: bool  #: values are recorded at this server
    lines: tuple[PeerLine, ...]
    lines_left: int  #: that are not shown
    recorded: int  #: values
    largest: tuple[ValueLine, ...]
    longest: tuple[ValueLine, ...]


def trace_view(found: JobTrace, site: str) -> TraceView:
    """Return what the sessions of one site counted and recorded; those of others are left out."""
    own = [session for session in found.sessions if session.site == site]
    lines = [
        PeerLine(component=session.component, version=session.version, peer=peer)
        for session in own
        for peer in sorted(session.peers, key=lambda peer: peer.site)
    ]
    values = list(_values(own))
    moved = [line for line in values if line.value.kind in ("sent", "arrived")]
    waited = [line for line in values if line.value.waited_s > 0]
    return TraceView(
        is_on=found.is_on,
        lines=tuple(lines[:MOST_PEERS]),
        lines_left=max(0, len(lines) - MOST_PEERS),
        recorded=len(values),
        largest=tuple(sorted(moved, key=lambda line: -line.value.size)[:MOST_VALUES]),
        longest=tuple(sorted(waited, key=lambda line: -line.value.waited_s)[:MOST_VALUES]),
    )


def _values(sessions: Iterable[SessionTrace]) -> Iterable[ValueLine]:
    for one in sessions:
        for value in one.values:
            yield ValueLine(component=one.component, version=one.version, value=value)
