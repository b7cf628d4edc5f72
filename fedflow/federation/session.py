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
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import field, replace

from fedflow.base.errors.data_plane import DuplicateValue, PeerFailed, SessionUnknown, ValueTooLate
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.arrivals import Departure
from fedflow.domain.site import Site
from fedflow.federation.departures import Departures
from fedflow.federation.keys import ValueKey
from fedflow.federation.spool import Blob
from fedflow.federation.trace import Trace

MAX_ENDED = 900
"""Ended sessions that are remembered: those of 15 s under full load, in which a broken stream comes
again. Values for older ones are held a while.
"""

NAMES_PER_VALUE = 128
"""Characters of name and tag that are free; for each so many more, a value counts as another one of
those that may arrive, as unread values keep their names.
"""

MAX_DROPPED = 100  #: beginnings of tags
MAX_REVIVALS = 1000  #: of other sites in one session
AGAIN = "it was launched again"

SessionKey = tuple[str, Site]  #: session name and the own site


@dataclass(kw_only=True, slots=True)
class Opening:
    """A session that is open at one site of this server."""

    token: str
    sites: tuple[Site, ...]
    incarnation: int = 0
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
    incarnation: int = 0


class SessionRegistry:
    """Open and ended sessions. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[SessionKey, Opening] = {}
        self._ended: OrderedDict[SessionKey, Ending] = OrderedDict()
        self._awaited: set[SessionKey] = set()

    def open(
        self, key: SessionKey, *, token: str, sites: tuple[Site, ...], incarnation: int = 0
    ) -> bool:
        """Note an open session; tell whether the loop must know. Again: new token.

        A later incarnation takes the place of an earlier one; an earlier one changes nothing.
        """
        with self._lock:
            known = self._open.get(key)
            if known is not None and incarnation <= known.incarnation:
                if incarnation == known.incarnation:
                    known.token, known.sites = token, sites
                return False
            self._ended.pop(key, None)
            self._open[key] = Opening(token=token, sites=sites, incarnation=incarnation)
            return key in self._awaited or incarnation > 0

    def end(
        self, key: SessionKey, reason: str | None, *, incarnation: int | None = None
    ) -> tuple[Opening | None, bool]:
        """Note that a session has ended, if it is of that incarnation; None: whichever is open.

        Returns it if it was open, and whether the loop must know.
        """
        with self._lock:
            known = self._open.get(key)
            if known is None or incarnation not in (None, known.incarnation):
                return None, False
            del self._open[key]
            self._ended[key] = Ending(
                sites=known.sites, reason=reason, incarnation=known.incarnation
            )
            if len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
            return known, known.active or key in self._awaited or reason is not None

    def find(self, key: SessionKey) -> Opening | Ending | None:
        """Return what is known of a session."""
        with self._lock:
            return self._open.get(key) or self._ended.get(key)

    def activate(self, key: SessionKey, incarnation: int = 0) -> Opening | Ending | None:
        """Return what is known of a session, from that incarnation on; from now on the loop is
        notified of its end.
        """
        with self._lock:
            known = self._open.get(key)
            if known is not None:
                known.active = True
                return known
            return self._ending(key, incarnation)

    def expect(self, key: SessionKey, incarnation: int = 0) -> bool:
        """Request a call when a session opens; False: it is open or ended already."""
        with self._lock:
            if key in self._open or self._ending(key, incarnation) is not None:
                return False
            self._awaited.add(key)
            return True

    def expected(self, key: SessionKey) -> None:
        """Take back `expect`."""
        with self._lock:
            self._awaited.discard(key)

    def _ending(self, key: SessionKey, incarnation: int) -> Ending | None:
        ending = self._ended.get(key)
        return None if ending is None or ending.incarnation < incarnation else ending

    def count(self) -> int:
        """Return the number of open sessions."""
        with self._lock:
            return len(self._open)


def _slot(source: Site, name: str, tag: str, incarnation: int) -> bytes:
    """Return 16 bytes that name a value inside its receiver's session, however long its names are.

    Names hold no control characters, so different keys are different texts.
    """
    text = f"{source.key}\0{name}\0{tag}\0{incarnation or ''}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(kw_only=True, slots=True, eq=False)
class Unread:
    """A value that has arrived, with what it is called."""

    source: Site
    name: str
    tag: str
    incarnation: int  #: of the source
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
    """One site's share of one task attempt, on the event loop.

    Another site may be launched again: `revive`. From then on what its earlier incarnation sent, or
    was sent, is gone.
    """

    key: SessionKey
    sites: frozenset[Site]
    limit: int  #: values that may arrive
    release: Callable[[Blob], None]  #: drops a value that nobody reads any more
    incarnation: int = 0
    incarnations: dict[Site, int] = field(default_factory=dict)  #: of those launched again
    revivals: int = 0
    arrived: int = 0  #: values, one with long names counted as several
    values: dict[bytes, Unread] = field(default_factory=dict)  #: by `_slot`, as the next three
    digests: dict[bytes, str] = field(default_factory=dict)
    taken: set[bytes] = field(default_factory=set)
    waiters: dict[bytes, tuple[Site, asyncio.Future[Blob]]] = field(default_factory=dict)
    dropped: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_DROPPED))
    """How tags begin whose values nobody will read."""
    trace: Trace = field(default_factory=Trace)
    any_waiters: dict[asyncio.Future[Unread | Departure], AnyOf] = field(default_factory=dict)
    departures: Departures = field(default_factory=Departures)
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
        ended, or the value is of, or for, an earlier incarnation.
        """
        is_late = key.incarnation < self.incarnation_of(key.source)
        if self.ended or is_late or key.destination_incarnation < self.incarnation:
            raise SessionUnknown(session=self.name)
        found = self.digests.get(_slot(key.source, key.name, key.tag, key.incarnation))
        if found is not None and found != digest:
            raise DuplicateValue(name=key.name, tag=key.tag, site=str(self.site))
        return found is not None

    def accept(self, key: ValueKey, blob: Blob) -> None:
        """Hand `blob` to who waits for it, or keep it. The caller has asked `knows`."""
        slot = _slot(key.source, key.name, key.tag, key.incarnation)
        self.digests[slot] = blob.digest
        self.arrived += 1 + (len(key.name) + len(key.tag)) // NAMES_PER_VALUE
        self.trace.arrived(key, blob.size)
        if self.dropped and key.tag.startswith(tuple(self.dropped)):
            self.taken.add(slot)
            self.release(blob)
            return
        _, waiter = self.waiters.get(slot, (None, None))
        if waiter is not None and not waiter.done():
            waiter.set_result(blob)
            return
        value = _unread(key, blob)
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
        if incarnation := self.incarnation_of(key.source):
            key = replace(key, incarnation=incarnation)
        slot = _slot(key.source, key.name, key.tag, key.incarnation)
        if self.ended:
            raise SessionUnknown(session=self.name)
        if slot in self.taken:
            raise DuplicateValue(name=key.name, tag=key.tag, site=str(self.site))
        if slot in self.values:
            self.taken.add(slot)
            blob = self.values.pop(slot).blob
            self.trace.received(key.source, key.name, key.tag, size=blob.size, waited_s=0.0)
            return blob
        if key.source in self.ended_peers:
            raise PeerFailed(site=str(key.source), reason=self.ended_peers[key.source])
        self.taken.add(slot)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Blob] = loop.create_future()
        begun_s = loop.time()
        self.waiters[slot] = (key.source, waiter)
        self.trace.waits(key.source)
        got = False
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
            if not waiter.done():
                raise ValueTooLate(
                    seconds=timeout_s, name=key.name, tag=key.tag, site=str(key.source)
                )
            blob = waiter.result()
            got = True
            self.trace.received(
                key.source, key.name, key.tag, size=blob.size, waited_s=loop.time() - begun_s
            )
            return blob
        finally:
            del self.waiters[slot]
            self.trace.waits_no_more(key.source)
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
            self._note_received(found, waited_s=0.0)
            return found
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Unread | Departure] = loop.create_future()
        begun_s = loop.time()
        self.any_waiters[waiter] = which
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        except asyncio.CancelledError:
            self._give_back_any(which, waiter)
            raise
        finally:
            del self.any_waiters[waiter]
        found = waiter.result() if waiter.done() else None
        if found is not None:
            source = found.site if isinstance(found, Departure) else found.source
            self.trace.waited(source, loop.time() - begun_s)
            self._note_received(found, waited_s=loop.time() - begun_s)
        return found

    def _note_received(self, found: Unread | Departure | None, *, waited_s: float) -> None:
        if isinstance(found, Unread):
            size = found.blob.size
            self.trace.received(found.source, found.name, found.tag, size=size, waited_s=waited_s)

    def _first(self, which: AnyOf) -> Unread | Departure | None:
        pending = self._pending(which)
        for slot, value in self.values.items():
            if which.covers(value):
                if value.source in pending and value.source not in self.ended_peers:
                    return Departure(site=value.source, reason=pending.pop(value.source))
                self.taken.add(slot)
                return self.values.pop(slot)
        for site in which.sources:
            if site in pending:
                return Departure(site=site, reason=pending.pop(site))
        return None

    def _pending(self, which: AnyOf) -> dict[Site, str]:
        return self.departures.pending(which.name, which.tags, which.sources, self.ended_peers)

    def _give_back_any(self, which: AnyOf, waiter: asyncio.Future[Unread | Departure]) -> None:
        """Undo a `take_any` whose caller went away; what came at the last moment comes first."""
        if not waiter.done() or waiter.exception() is not None:
            return
        found = waiter.result()
        if isinstance(found, Departure):
            self._pending(which)[found.site] = found.reason
            return
        slot = _slot(found.source, found.name, found.tag, found.incarnation)
        self.taken.discard(slot)
        if self.ended or found.incarnation < self.incarnation_of(found.source):
            self.release(found.blob)
        else:
            self.values = {slot: found, **self.values}

    def incarnation_of(self, site: Site) -> int:
        """Return the latest incarnation of another site that is known here."""
        return self.incarnations.get(site, 0)

    def revive(self, site: Site, incarnation: int) -> None:
        """Let a site take part again that was launched again.

        Nothing of its earlier incarnation can be read any more. Raises: BadRequest: too often.
        """
        if incarnation <= self.incarnation_of(site):
            return
        self.revivals += 1
        if self.revivals > MAX_REVIVALS:
            raise BadRequest(reason=f"sites launched again more than {MAX_REVIVALS} times")
        if site not in self.ended_peers:
            self.peer_ended(site, AGAIN, failed=True)
        for slot in [slot for slot, value in self.values.items() if value.source == site]:
            self.release(self.values.pop(slot).blob)
        self.incarnations[site] = incarnation
        del self.ended_peers[site]
        self.failed_peers.discard(site)

    def peer_ended(self, site: Site, reason: str, *, failed: bool) -> None:
        """Fail everything that waits, now or later, for a value of `site` that is not here.

        Deliveries to `site` are stopped. Values of it that have arrived stay readable.
        """
        if site not in self.ended_peers:
            self.ended_peers[site] = reason
            self.departures.add(site, reason)
        if failed:
            self.failed_peers.add(site)
        for task, destination in self.deliveries.items():
            if destination == site:
                task.cancel()
        for source, waiter in self.waiters.values():
            if source == site and not waiter.done():
                waiter.set_exception(PeerFailed(site=str(site), reason=reason))
        for any_waiter, which in self.any_waiters.items():
            if site in which.sources and not any_waiter.done():
                found = self._first(which)
                if found is not None:
                    any_waiter.set_result(found)

    def drop(self, tags: str) -> None:
        """Drop the unread values whose tags begin so, and those that arrive later.

        Only the latest `MAX_DROPPED` of such beginnings are remembered.
        """
        for slot in [slot for slot, value in self.values.items() if value.tag.startswith(tags)]:
            self.taken.add(slot)
            self.release(self.values.pop(slot).blob)
        self.dropped.append(tags)

    def awaited_sites(self) -> set[Site]:
        """Return the sites whose values somebody waits for."""
        one = {source for source, _ in self.waiters.values()}
        return one.union(*(which.sources for which in self.any_waiters.values()))

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
            if self.ended or key.incarnation < self.incarnation_of(key.source):
                self.release(waiter.result())
            else:
                self.values[slot] = _unread(key, waiter.result())


def _unread(key: ValueKey, blob: Blob) -> Unread:
    return Unread(
        source=key.source,
        name=sys.intern(key.name),
        tag=key.tag,
        incarnation=key.incarnation,
        blob=blob,
    )
