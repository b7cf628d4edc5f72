"""What a session's values cost: counts per peer, always; a record of each, while it is traced.

Names, tags, sizes and times only; no contents.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import Final, Literal

from fedflow.base.values import dataclass
from fedflow.domain.job.ledger import MOST_NAMES, OTHERS, Messages, PeerLedger
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey

MAX_RECORDS: Final = 2000  #: of one session; the oldest go first

Kind = Literal["sent", "arrived", "received"]


@dataclass(kw_only=True, slots=True, eq=False)
class Count:
    """Messages of one name in one direction; times since the epoch."""

    first_s: float
    last_s: float = 0.0
    calls: int = 0
    size: int = 0  #: bytes


@dataclass(kw_only=True, slots=True, eq=False)
class Traffic:
    """What one site of a session exchanged with one other."""

    sent: int = 0  #: values
    sent_bytes: int = 0
    arrived: int = 0  #: values
    arrived_bytes: int = 0
    receives: int = 0  #: that waited for this site, however they ended
    receive_s: float = 0.0  #: time in which at least one of them waited
    send_s: float = 0.0  #: time that sends waited for room
    waiting: int = 0  #: receives that wait now
    since_s: float = 0.0  #: monotonic: since when, if there are some
    sent_names: dict[str, Count] = field(default_factory=dict)
    arrived_names: dict[str, Count] = field(default_factory=dict)

    def count(self, name: str, size: int, *, is_sent: bool) -> None:
        """Count a message under its name."""
        now_s, names = time.time(), self.sent_names if is_sent else self.arrived_names
        found = names.get(name)
        if found is None:
            kept = name if len(names) < MOST_NAMES else OTHERS
            found = names.setdefault(kept, Count(first_s=now_s))
        found.calls += 1
        found.size += size
        found.last_s = now_s

    def blocked_s(self) -> float:
        """Return for how long receives have waited, those that wait now included."""
        since_s = self.since_s
        return self.receive_s + (time.monotonic() - since_s if self.waiting else 0.0)


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
    incarnation: int = 0  #: of the session
    peers: dict[Site, Traffic] = field(default_factory=dict)
    records: deque[Record] = field(default_factory=lambda: deque(maxlen=MAX_RECORDS))

    def sent(self, key: ValueKey, size: int) -> None:
        """Count a value that the own executor sent."""
        traffic = self.of(key.destination)
        traffic.sent += 1
        traffic.sent_bytes += size
        traffic.count(key.name, size, is_sent=True)
        if self.is_on:
            self._record("sent", key.destination, key.name, key.tag, size)

    def arrived(self, key: ValueKey, size: int) -> None:
        """Count a value of another site."""
        traffic = self.of(key.source)
        traffic.arrived += 1
        traffic.arrived_bytes += size
        traffic.count(key.name, size, is_sent=False)
        if self.is_on:
            self._record("arrived", key.source, key.name, key.tag, size)

    def waits(self, site: Site) -> None:
        """Note that a receive begins to wait for a site, until `waits_no_more`."""
        traffic = self.of(site)
        if not traffic.waiting:
            traffic.since_s = time.monotonic()
        traffic.waiting += 1

    def waits_no_more(self, site: Site) -> None:
        """Count a receive that waited; time that several waited at once counts once."""
        traffic = self.of(site)
        traffic.receives += 1
        traffic.waiting -= 1
        if not traffic.waiting:
            traffic.receive_s += time.monotonic() - traffic.since_s

    def waited(self, site: Site, seconds: float) -> None:
        """Count a receive of whoever sends next, which a site has answered."""
        traffic = self.of(site)
        traffic.receives += 1
        traffic.receive_s += seconds

    def received(self, site: Site, name: str, tag: str, *, size: int, waited_s: float) -> None:
        """Record a value that the own executor received; it is counted already."""
        if self.is_on:
            self._record("received", site, name, tag, size, waited_s)

    def ledger(self) -> tuple[PeerLedger, ...]:
        """Return the counts as they are now; any thread."""
        return tuple(
            PeerLedger(
                peer=peer,
                receives=of.receives,
                receive_s=round(of.blocked_s(), 6),
                send_s=round(of.send_s, 6),
                messages=tuple(_messages(of.sent_names, is_sent=True))
                + tuple(_messages(of.arrived_names, is_sent=False)),
            )
            for peer, of in self.peers.copy().items()
        )

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


def _messages(names: dict[str, Count], *, is_sent: bool) -> Iterator[Messages]:
    for name, one in names.copy().items():
        yield Messages(
            name=name,
            is_sent=is_sent,
            calls=one.calls,
            size_bytes=one.size,
            first_ms=int(one.first_s * 1000),
            last_ms=int(one.last_s * 1000),
        )
