"""What has arrived for the sites of this server, on the event loop: sessions, values, parts.

A value for a session that is not open yet is held for a while (bounded in number of bytes); one for
a session that has ended is refused. Nothing here waits in a thread or without a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from fedflow.base.errors.data_plane import PeerFailed, SessionUnknown, SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.shares import Shares
from fedflow.base.values import dataclass
from fedflow.domain.site import Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.session import (
    AGAIN,
    Ending,
    Opening,
    Session,
    SessionKey,
    SessionRegistry,
)
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import FILE_OVERHEAD, Blob, Ledger, Part, Spool

logger = logging.getLogger(__name__)

HELD_OVERHEAD = 6 * 1024  #: bytes that are counted for a value that waits, with its task
MAX_PARTS = 256  #: big values of one session that have begun to arrive

P = ParamSpec("P")
R = TypeVar("R")


class InThread(Protocol):
    """Runs what may take a millisecond beside the event loop."""

    def __call__(
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[R]:
        """Return a future of `function(*args, **kwargs)`."""


@dataclass(kw_only=True, slots=True, eq=False)
class _Arriving:
    """What is reserved for a part, and which stream may write it (the newest)."""

    session: SessionKey
    source: Site
    incarnation: int  #: of the source
    size: int
    reserved: int = FILE_OVERHEAD
    generation: int = 0
    finishing: bool = False

    @property
    def party(self) -> str:
        return self.source.party_id


@dataclass(frozen=True, kw_only=True, slots=True)
class PartStream:
    """One stream's right to write a part; it ends when a newer stream for the same value comes."""

    key: ValueKey
    part: Part
    generation: int


class Mailbox:
    """Unread values of all sessions of this server. Belongs to one event loop."""

    def __init__(
        self,
        settings: FederationSettings,
        *,
        book: SessionRegistry,
        spool: Spool,
        in_thread: InThread,
        on_start: Callable[[Session], None],
    ) -> None:
        self._settings = settings
        self._book = book
        self._spool = spool
        self._in_thread = in_thread
        self._on_start = on_start
        self.ledger = Ledger(memory_limit=settings.memory_bytes, spool_limit=settings.spool_bytes)
        self._held = Shares(settings.held_bytes)
        self._sessions: dict[SessionKey, Session] = {}
        self._openings: dict[SessionKey, list[asyncio.Future[None]]] = {}
        self._arriving: dict[Path, _Arriving] = {}

    @property
    def held(self) -> int:
        """Return the bytes in memory of values whose session is not open yet."""
        return self._held.total

    # --- sessions

    def session(self, key: SessionKey, incarnation: int = 0) -> Session | None:
        """Return an open session, of that incarnation of its site or a later one; or None.

        Raises: SessionUnknown: it has ended.
        """
        found = self._sessions.get(key)
        if found is not None and found.incarnation >= incarnation:
            return found
        known = self._book.activate(key, incarnation)
        if isinstance(known, Ending):
            raise SessionUnknown(session=key[0])
        if known is None:
            return None
        if known.incarnation < incarnation:
            return found or self._start(key, known)
        self.replace(key, known.incarnation)
        return self._start(key, known)

    def replace(self, key: SessionKey, incarnation: int) -> None:
        """End a session of an incarnation before this one; its executor was launched again."""
        found = self._sessions.get(key)
        if found is not None and found.incarnation < incarnation:
            error = PeerFailed(site=str(key[1]), reason=AGAIN)
            self.end(key, error, incarnation=found.incarnation)

    def active(self, key: SessionKey) -> Session | None:
        """Return a session in which something has happened, None if there is none; any thread."""
        return self._sessions.get(key)

    async def opened(self, key: SessionKey, incarnation: int = 0) -> Session:
        """Return a session, waiting for it to be opened.

        Raises: SessionUnknown: it has ended. TimeoutError: it was not opened for `hold_timeout_s`.
        """
        while (session := self.session(key, incarnation)) is None:
            if not self._book.expect(key, incarnation):
                continue
            opening = asyncio.get_running_loop().create_future()
            waiting = self._openings.setdefault(key, [])
            waiting.append(opening)
            try:
                async with asyncio.timeout(self._settings.hold_timeout_s):
                    await opening
            finally:
                waiting.remove(opening)
                if not waiting:
                    self._openings.pop(key, None)
                    self._book.expected(key)
        return session

    def was_opened(self, key: SessionKey) -> None:
        """Wake what waits for the opening (or the end) of a session."""
        for opening in self._openings.get(key, ()):
            if not opening.done():
                opening.set_result(None)

    def end(self, key: SessionKey, error: FedflowError, *, incarnation: int) -> None:
        """Drop a session, if it is of that incarnation or an earlier one.

        Waiters fail with `error`, unread values and parts are removed.
        """
        self.was_opened(key)
        session = self._sessions.get(key)
        if session is None or session.incarnation > incarnation:
            return
        del self._sessions[key]
        session.end(error)
        for path in [p for p, a in self._arriving.items() if a.session == key and not a.finishing]:
            self._drop_part(path)

    def revive(self, session: Session, site: Site, incarnation: int) -> None:
        """Let another site take part again that was launched again. Raises: BadRequest."""
        session.revive(site, incarnation)
        for path, arriving in tuple(self._arriving.items()):
            is_late = arriving.source == site and arriving.incarnation < incarnation
            if arriving.session == session.key and is_late and not arriving.finishing:
                self._drop_part(path)

    def sessions(self) -> list[Session]:
        """Return the sessions in which something has happened."""
        return list(self._sessions.values())

    def named(self, name: str) -> list[Session]:
        """Return the sessions of that name, one per site of this server, that are active."""
        return [s for s in self._sessions.values() if s.name == name]

    def _start(self, key: SessionKey, opening: Opening) -> Session:
        session = Session(
            key=key,
            sites=frozenset(opening.sites),
            limit=self._settings.values_per_session,
            release=self.release,
            incarnation=opening.incarnation,
        )
        self._sessions[key] = session
        self._on_start(session)
        return session

    # --- small values

    def put_now(self, key: ValueKey, data: bytes, *, digest: str) -> bool:
        """Take in a small value if that needs no waiting; False: use `put`.

        Raises: SessionUnknown. DuplicateValue. NotAuthenticated: the source is not of the session.
        """
        session = self.session((key.session, key.destination), key.destination_incarnation)
        if session is None or session.incarnation < key.destination_incarnation:
            return False
        if not self._knows(session, key, digest):
            party = key.source.party_id
            if not self.ledger.take_memory(party, len(data)):
                return False
            session.accept(key, Blob(size=len(data), digest=digest, party=party, data=data))
        return True

    async def put(self, key: ValueKey, data: bytes, *, digest: str) -> None:
        """Take in a small value, waiting for its session, in a file if memory is used up.

        Raises: as `put_now`. SpoolFull, TimeoutError: try again later.
        """
        with self.holding(key.source.party_id, len(data)):
            await self._opened(key)
            await self.put_open(key, data, digest=digest)

    @contextmanager
    def holding(self, party: str, size: int) -> Iterator[None]:
        """Count the bytes of a party's small value for as long as it waits. Raises: SpoolFull."""
        amount = size + HELD_OVERHEAD
        if not self._held.take(party, amount):
            raise SpoolFull(used=self.held, limit=self._settings.held_bytes)
        try:
            yield
        finally:
            self._held.give_back(party, amount)

    async def put_open(self, key: ValueKey, data: bytes, *, digest: str) -> None:
        """Take in a small value whose session is open. Raises: as `put`."""
        if self.put_now(key, data, digest=digest):
            return
        session = await self._opened(key)
        await asyncio.shield(self._spill(session, key, data, digest))

    async def _spill(self, session: Session, key: ValueKey, data: bytes, digest: str) -> None:
        party = key.source.party_id
        self.ledger.take_file(party, len(data))
        try:
            blob = await self._in_thread(self._spool.write_value, data, digest=digest)
        except OSError as exc:
            self.ledger.give_back(party, len(data) + FILE_OVERHEAD)
            raise self._disk_full(exc) from exc
        blob.party = party
        self._accept(session, key, blob)

    # --- big values

    async def put_file(self, key: ValueKey, blob: Blob) -> None:
        """Take in a big value of another site of this server; `blob` stays the caller's.

        Raises: as `put`.
        """
        session = await self._opened(key)
        if self._knows(session, key, blob.digest):
            return
        party = key.source.party_id
        self.ledger.take_file(party, blob.size)
        try:
            fd = blob.open_file()
        except OSError as exc:
            self.ledger.give_back(party, blob.size + FILE_OVERHEAD)
            raise self._disk_full(exc) from exc
        copy = Blob(size=blob.size, digest=blob.digest, party=party, fd=fd)
        self._accept(session, key, copy)

    async def begin(self, key: ValueKey, *, size: int, digest: str) -> PartStream | None:
        """Return the right to write a value that arrives in chunks; None: it is here already.

        Raises: as `put`.
        """
        session = await self._opened(key)
        if self._knows(session, key, digest):
            return None
        path = self._spool.part_path(key.id, digest)
        arriving = self._arriving.get(path)
        if arriving is None:
            arriving = self._new_part(path, session=session.key, key=key, size=size)
        if arriving.finishing or arriving.size != size:
            raise SpoolFull(used=self.ledger.spool, limit=self._settings.spool_bytes)
        arriving.generation += 1
        generation = arriving.generation
        opening = self._in_thread(
            self._spool.open_part,
            path,
            size=size,
            digest=digest,
            chunk_bytes=self._settings.chunk_bytes,
        )
        try:
            part = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_part)
            raise
        except OSError as exc:
            raise self._disk_full(exc) from exc
        return PartStream(key=key, part=part, generation=generation)

    def _new_part(self, path: Path, *, session: SessionKey, key: ValueKey, size: int) -> _Arriving:
        """Note a value that begins to arrive. Raises: SpoolFull."""
        if sum(known.session == session for known in self._arriving.values()) >= MAX_PARTS:
            raise SpoolFull(used=self.ledger.spool, limit=self._settings.spool_bytes)
        self.ledger.take_file(key.source.party_id, 0)
        made = self._arriving[path] = _Arriving(
            session=session, source=key.source, incarnation=key.incarnation, size=size
        )
        return made

    async def grow(self, arrival: PartStream, limit: int) -> None:
        """Reserve space for a part up to offset `limit`, as what is announced may never come.

        When it is short, only the part that began first keeps what it has: all others must not
        wait for each other. Raises: SpoolFull. BadRequest: a newer stream has taken over.
        """
        arriving = self._still_owner(arrival)
        missing = min(limit, arriving.size) + FILE_OVERHEAD - arriving.reserved
        if missing <= 0:
            return
        try:
            self.ledger.grow(arriving.party, missing)
        except SpoolFull:
            path = arrival.part.path
            if path != next(iter(self._arriving)):
                await asyncio.shield(self._drop_part(path))
            raise
        arriving.reserved += missing

    def _drop_part(self, path: Path) -> asyncio.Future[None]:
        dropped = self._arriving.pop(path)
        self.ledger.give_back(dropped.party, dropped.reserved)
        return self._in_thread(path.unlink, missing_ok=True)

    async def write(self, arrival: PartStream, data: memoryview, crc32: int) -> None:
        """Append a chunk to the part.

        Raises: BadRequest: bad checksum, beyond what `grow` reserved, or a newer stream has taken
        over.
        """
        arriving = self._still_owner(arrival)
        if arrival.part.written + len(data) + FILE_OVERHEAD > arriving.reserved:
            raise BadRequest(reason="a chunk beyond the window")
        try:
            await self._in_thread(arrival.part.write, data, crc32)
        except OSError as exc:
            raise self._disk_full(exc) from exc

    async def finish(self, arrival: PartStream) -> None:
        """Make the complete part readable. Raises: as `write`."""
        arriving = self._still_owner(arrival)
        arriving.finishing = True
        await asyncio.shield(self._finish(arrival, arriving))

    async def _finish(self, arrival: PartStream, arriving: _Arriving) -> None:
        try:
            blob = await self._in_thread(arrival.part.finish)
        except OSError as exc:
            arriving.finishing = False
            if arriving.session not in self._sessions:  # it ended meanwhile, and left this part
                self._drop_part(arrival.part.path)
            raise self._disk_full(exc) from exc
        blob.party = arriving.party
        self._arriving.pop(arrival.part.path, None)
        session = self._sessions.get(arriving.session)
        if session is None:
            self.release(blob)
            raise SessionUnknown(session=arriving.session[0])
        self._accept(session, arrival.key, blob)

    def _still_owner(self, arrival: PartStream) -> _Arriving:
        arriving = self._arriving.get(arrival.part.path)
        if arriving is None:
            raise SessionUnknown(session=arrival.key.session)
        if arriving.generation != arrival.generation:
            raise BadRequest(reason="a newer stream carries this value")
        return arriving

    # --- common

    def release(self, blob: Blob) -> None:
        """Forget a value that was handed over or dropped; its file goes in a thread."""
        self.ledger.release(blob)
        if blob.data is not None:
            blob.discard()
        else:
            self._in_thread(blob.discard)

    def _disk_full(self, error: OSError) -> SpoolFull:
        logger.warning("The spool cannot be written: %s", error)
        return SpoolFull(used=self.ledger.spool, limit=self._settings.spool_bytes)

    def forget_parts(self, left: list[Path]) -> None:
        """Remove those parts of an earlier run that nobody has resumed."""
        for path in left:
            if path not in self._arriving:
                self._in_thread(path.unlink, missing_ok=True)

    def _accept(self, session: Session, key: ValueKey, blob: Blob) -> None:
        """Accept a blob whose space is reserved; it is dropped if it came twice meanwhile."""
        try:
            known = session.knows(key, blob.digest)
        except FedflowError:
            self.release(blob)
            raise
        if known:
            self.release(blob)
        else:
            session.accept(key, blob)

    async def _opened(self, key: ValueKey) -> Session:
        """Return the session that a value is for. Raises: as `put`."""
        place = (key.session, key.destination)
        session = await self.opened(place, key.destination_incarnation)
        if session.incarnation < key.destination_incarnation:
            raise TimeoutError
        return session

    def _knows(self, session: Session, key: ValueKey, digest: str) -> bool:
        if key.source not in session.sites:
            raise NotAuthenticated(reason=f"{key.source} is not a site of session {session.name}")
        if key.incarnation > session.incarnation_of(key.source):
            self.revive(session, key.source, key.incarnation)
        if session.arrived >= session.limit:
            raise BadRequest(reason=f"more than {session.limit} values in session {session.name}")
        return session.knows(key, digest)


def _close_part(opened: asyncio.Future[Part]) -> None:
    if opened.exception() is None:
        opened.result().close()
