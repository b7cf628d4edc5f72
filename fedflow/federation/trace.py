"""What a session's values cost: counts per peer, always; a record of each, while it is traced.

Names, tags, sizes and times only; no contents.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import field
from typing import Final, Literal

from fedflow.base.values import dataclass
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey

MAX_RECORDS: Final = 2000  #: of one session; the oldest go first

Kind = Literal["sent", "arrived", "received"]


@dataclass(kw_only=True, slots=True, eq=False)
class Traffic:
    """What one site of a session exchanged with one other."""

    sent: int = 0  #: values
    sent_bytes: int = 0
    arrived: int = 0  #: values
    arrived_bytes: int = 0
    receives: int = 0  #: that waited for this site, however they ended
    receive_s: float = 0.0  #: time that they waited
    send_s: float = 0.0  #: time that sends waited for room


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One value at one moment."""

    time_s: float  #: since the epoch
    kind: Kind  #: `sent`: accepted from the own executor; `received`: given to it
    site: Site  #: the other one
    name: str
    tag: str
    size: int  #: bytes; of the encoded value
    waited_s: float  #: of `received`: how long the executor waited for it


@dataclass(kw_only=True, slots=True, eq=False)
class Trace:
    """The counts of a session, and its latest records if `is_on`."""

    is_on: bool = False
    peers: dict[Site, Traffic] = field(default_factory=dict)
    records: deque[Record] = field(default_factory=lambda: deque(maxlen=MAX_RECORDS))

    def sent(self, key: ValueKey, size: int) -> None:
        """Count a value that the own executor sent."""
        traffic = self.of(key.destination)
        traffic.sent += 1
        traffic.sent_bytes += size
        if self.is_on:
            self._record("sent", key.destination, key.name, key.tag, size)

    def arrived(self, key: ValueKey, size: int) -> None:
        """Count a value of another site."""
        traffic = self.of(key.source)
        traffic.arrived += 1
        traffic.arrived_bytes += size
        if self.is_on:
            self._record("arrived", key.source, key.name, key.tag, size)

    def waited(self, site: Site, seconds: float) -> None:
        """Count a receive that waited for a site."""
        traffic = self.of(site)
        traffic.receives += 1
        traffic.receive_s += seconds

    def received(self, site: Site, name: str, tag: str, *, size: int, waited_s: float) -> None:
        """Record a value that the own executor received; it is counted already."""
        if self.is_on:
            self._record("received", site, name, tag, size, waited_s)

    def _record(
        self, kind: Kind, site: Site, name: str, tag: str, size: int, waited_s: float = 0.0
    ) -> None:
        self.records.append(
            Record(
                time_s=time.time(), kind=kind, site=site, name=name, tag=tag, size=size,
                waited_s=waited_s,
            )
        )  # fmt: skip

    def of(self, site: Site) -> Traffic:
        """Return the counts of a peer, which the caller adds to."""
        found = self.peers.get(site)
        if found is None:
            found = self.peers[site] = Traffic()
        return found
