"""Which task attempts take part in the data plane here, and what each one has got and waits for.

`SessionRegistry` is written by the server's threads (a dict under a lock, so a task that sends
nothing costs microseconds); a `Session` exists on the event loop only once something happens in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field

from fedflow.base.errors.data_plane import DuplicateValue, PeerFailed, SessionUnknown, ValueTooLate
from fedflow.base.errors.error import FedflowError
from fedflow.base.values import dataclass
from fedflow.domain.arrivals import Departure
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.spool import Blob

MAX_ENDED = 900
"""Ended sessions that are remembered: those of 15 s under full load, in which a broken stream comes
again. Values for older ones are held a while.
"""

NAMES_PER_VALUE = 128
"""Characters of name and tag that are free; for each so many more, a value counts as another one of
those that may arrive, as unread values keep their names.
"""

SessionKey = tuple[str, Site]  #: session name and the own site


@dataclass(kw_only=True, slots=True)
class Opening:
    """A session that is open at one site of this server."""

    token: str
    sites: tuple[Site, ...]
    active: bool = False  #: the event loop has a `Session` for it

    def admits(self, token: str) -> bool:
        """Tell whether `token` is the executor's, in constant time."""
        return hmac.compare_digest(token.encode(), self.token.encode())


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """A session that has ended at one site of this server;

    `reason` is None if it was closed in order.
    """

    sites: tuple[Site, ...]
    reason: str | None


class SessionRegistry:
    """Open and ended sessions. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[SessionKey, Opening] = {}
        self._ended: OrderedDict[SessionKey, Ending] = OrderedDict()
        self._awaited: set[SessionKey] = set()

    def open(self, key: SessionKey, *, token: str, sites: tuple[Site, ...]) -> bool:
        """Note an open session; tell whether somebody on the loop awaits it. Again: new token."""
        with self._lock:
            known = self._open.get(key)
            if known is not None:
                known.token, known.sites = token, sites
                return False
            self._ended.pop(key, None)
            self._open[key] = Opening(token=token, sites=sites)
            return key in self._awaited

    def end(self, key: SessionKey, reason: str | None) -> tuple[Opening | None, bool]:
        """Note that a session has ended.

        Returns it if it was open, and whether the loop must know.
        """
        with self._lock:
            known = self._open.pop(key, None)
            if known is None:
                return None, False
            self._ended[key] = Ending(sites=known.sites, reason=reason)
            if len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
            return known, known.active or key in self._awaited or reason is not None

    def find(self, key: SessionKey) -> Opening | Ending | None:
        """Return what is known of a session."""
        with self._lock:
            return self._open.get(key) or self._ended.get(key)

    def activate(self, key: SessionKey) -> Opening | Ending | None:
        """Return what is known of a session; from now on the loop is notified of its end."""
        with self._lock:
            known = self._open.get(key)
            if known is not None:
                known.active = True
                return known
            return self._ended.get(key)

    def expect(self, key: SessionKey) -> bool:
        """Request a call when a session opens; False: it is open or ended already."""
        with self._lock:
            if key in self._open or key in self._ended:
                return False
            self._awaited.add(key)
            return True

    def expected(self, key: SessionKey) -> None:
        """Take back `expect`."""
        with self._lock:
            self._awaited.discard(key)

    def count(self) -> int:
        """Return the number of open sessions."""
        with self._lock:
            return len(self._open)


def _slot(key: ValueKey) -> bytes:
    """Return 16 bytes that name a value inside its receiver's session, however long its names are.

    Names hold no control characters, so different keys are different texts.
    """
    return _slot_of(key.source, key.name, key.tag)


def _slot_of(source: Site, name: str, tag: str) -> bytes:
    text = f"{source.key}\0{name}\0{tag}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(kw_only=True, slots=True, eq=False)
class Unread:
    """A value that has arrived, with what it is called."""

    source: Site
    name: str
    tag: str
    blob: Blob


@dataclass(frozen=True, kw_only=True, slots=True)
class AnyOf:
    """Which values a receive of whoever sends next is for."""

    name: str
    tags: str  #: how their tags begin
    sources: tuple[Site, ...]

    def covers(self, value: Unread) -> bool:
        """Tell whether `value` is one of them."""
        return (
            value.name == self.name
            and value.tag.startswith(self.tags)
            and value.source in self.sources
        )


@dataclass(kw_only=True, slots=True, eq=False)
class Session:
    """One site's share of one task attempt, on the event loop."""

    key: SessionKey
    sites: frozenset[Site]
    limit: int  #: values that may arrive
    release: Callable[[Blob], None]  #: drops a value that nobody reads any more
    arrived: int = 0  #: values, one with long names counted as several
    values: dict[bytes, Unread] = field(default_factory=dict)  #: by `_slot`, as the next three
    digests: dict[bytes, str] = field(default_factory=dict)
    taken: set[bytes] = field(default_factory=set)
    waiters: dict[bytes, tuple[Site, asyncio.Future[Blob]]] = field(default_factory=dict)
    any_waiters: dict[asyncio.Future[Unread | Departure], AnyOf] = field(default_factory=dict)
    noticed: set[tuple[str, str, Site]] = field(default_factory=set)  #: departures handed out
    ended_peers: dict[Site, str] = field(default_factory=dict)
    failed_peers: set[Site] = field(default_factory=set)
    deliveries: dict[asyncio.Task[FedflowError | None], Site] = field(default_factory=dict)
    on_end: set[Callable[[], None]] = field(default_factory=set)
    ended: bool = False

    @property
    def name(self) -> str:
        return self.key[0]

    @property
    def site(self) -> Site:
        return self.key[1]

    def knows(self, key: ValueKey, digest: str) -> bool:
        """Tell whether this value has arrived already (a repeat of the transport).

        Raises: DuplicateValue: another value has arrived under that key. SessionUnknown: it has
        ended.
        """
        if self.ended:
            raise SessionUnknown(session=self.name)
        found = self.digests.get(_slot(key))
        if found is not None and found != digest:
            raise DuplicateValue(name=key.name, tag=key.tag, site=str(self.site))
        return found is not None

    def accept(self, key: ValueKey, blob: Blob) -> None:
        """Hand `blob` to who waits for it, or keep it. The caller has asked `knows`."""
        slot = _slot(key)
        self.digests[slot] = blob.digest
        self.arrived += 1 + (len(key.name) + len(key.tag)) // NAMES_PER_VALUE
        _, waiter = self.waiters.get(slot, (None, None))
        if waiter is not None and not waiter.done():
            waiter.set_result(blob)
            return
        value = Unread(source=key.source, name=sys.intern(key.name), tag=key.tag, blob=blob)
        for asked, which in self.any_waiters.items():
            if not asked.done() and which.covers(value):
                self.taken.add(slot)
                asked.set_result(value)
                return
        self.values[slot] = value

    async def take(self, key: ValueKey, timeout_s: float) -> Blob:
        """Return the value, which is then the caller's.

        Raises: DuplicateValue: it was asked for before. PeerFailed. ValueTooLate. SessionUnknown.
        """
        slot = _slot(key)
        if self.ended:
            raise SessionUnknown(session=self.name)
        if slot in self.taken:
            raise DuplicateValue(name=key.name, tag=key.tag, site=str(self.site))
        if slot in self.values:
            self.taken.add(slot)
            return self.values.pop(slot).blob
        if key.source in self.ended_peers:
            raise PeerFailed(site=str(key.source), reason=self.ended_peers[key.source])
        self.taken.add(slot)
        waiter: asyncio.Future[Blob] = asyncio.get_running_loop().create_future()
        self.waiters[slot] = (key.source, waiter)
        got = False
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
            if not waiter.done():
                raise ValueTooLate(
                    seconds=timeout_s, name=key.name, tag=key.tag, site=str(key.source)
                )
            blob = waiter.result()
            got = True
            return blob
        finally:
            del self.waiters[slot]
            if not got:
                self._give_back(key, slot, waiter)

    async def take_any(self, which: AnyOf, timeout_s: float) -> Unread | Departure | None:
        """Return the unread value that arrived first, which is then the caller's.

        A site's departure comes once per `name` and `tags`, after what has arrived of it. None:
        nothing came in time. Raises: SessionUnknown. What ended the session.
        """
        if self.ended:
            raise SessionUnknown(session=self.name)
        found = self._first(which)
        if found is not None or timeout_s <= 0:
            return found
        waiter: asyncio.Future[Unread | Departure] = asyncio.get_running_loop().create_future()
        self.any_waiters[waiter] = which
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        except asyncio.CancelledError:
            self._give_back_any(which, waiter)
            raise
        finally:
            del self.any_waiters[waiter]
        return waiter.result() if waiter.done() else None

    def _first(self, which: AnyOf) -> Unread | Departure | None:
        for slot, value in self.values.items():
            if which.covers(value):
                self.taken.add(slot)
                return self.values.pop(slot)
        for site in which.sources:
            if site in self.ended_peers and (departure := self._departure(which, site)):
                return departure
        return None

    def _departure(self, which: AnyOf, site: Site) -> Departure | None:
        """Return that a site has ended, None: this was handed out before."""
        notice = (which.name, which.tags, site)
        if notice in self.noticed:
            return None
        self.noticed.add(notice)
        return Departure(site=site, reason=self.ended_peers[site])

    def _give_back_any(self, which: AnyOf, waiter: asyncio.Future[Unread | Departure]) -> None:
        """Undo a `take_any` whose caller went away; what came at the last moment comes first."""
        if not waiter.done() or waiter.exception() is not None:
            return
        found = waiter.result()
        if isinstance(found, Departure):
            self.noticed.discard((which.name, which.tags, found.site))
            return
        slot = _slot_of(found.source, found.name, found.tag)
        self.taken.discard(slot)
        if self.ended:
            self.release(found.blob)
        else:
            self.values = {slot: found, **self.values}

    def peer_ended(self, site: Site, reason: str, *, failed: bool) -> None:
        """Fail everything that waits, now or later, for a value of `site` that is not here.

        Deliveries to `site` are stopped. Values of it that have arrived stay readable.
        """
        self.ended_peers.setdefault(site, reason)
        if failed:
            self.failed_peers.add(site)
        for task, destination in self.deliveries.items():
            if destination == site:
                task.cancel()
        for source, waiter in self.waiters.values():
            if source == site and not waiter.done():
                waiter.set_exception(PeerFailed(site=str(site), reason=reason))
        for asked, which in self.any_waiters.items():
            if site not in which.sources or asked.done():
                continue
            if (departure := self._departure(which, site)) is not None:
                asked.set_result(departure)

    def awaited_sites(self) -> set[Site]:
        """Return the sites whose values somebody waits for and that may still send them."""
        one = {source for source, _ in self.waiters.values()}
        return one.union(*(which.sources for which in self.any_waiters.values())).difference(
            self.ended_peers
        )

    def end(self, error: FedflowError) -> None:
        """Fail all waiters, stop all deliveries, and drop the unread values."""
        self.ended = True
        for _, waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_exception(error)
        for asked in self.any_waiters:
            if not asked.done():
                asked.set_exception(error)
        for task in self.deliveries:
            task.cancel()
        for callback in tuple(self.on_end):
            callback()
        for value in self.values.values():
            self.release(value.blob)
        self.values.clear()

    def _give_back(self, key: ValueKey, slot: bytes, waiter: asyncio.Future[Blob]) -> None:
        """Undo an unfinished `take`; a value that came at the last moment is kept until the end."""
        self.taken.discard(slot)
        if not waiter.done():
            waiter.cancel()
        elif waiter.exception() is None:
            if self.ended:
                self.release(waiter.result())
            else:
                self.values[slot] = Unread(
                    source=key.source, name=key.name, tag=key.tag, blob=waiter.result()
                )
