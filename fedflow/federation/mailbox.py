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

from fedflow.base.errors.data_plane import SessionUnknown, SpoolFull
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.values import dataclass
from fedflow.federation.keys import ValueKey
from fedflow.federation.session import Ending, Opening, Session, SessionKey, SessionRegistry
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import VALUE_OVERHEAD, Blob, Ledger, Part, Spool

logger = logging.getLogger(__name__)

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
    size: int
    generation: int = 0
    finishing: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
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
        self.held = 0  #: bytes in memory of values whose session is not open yet
        self._sessions: dict[SessionKey, Session] = {}
        self._openings: dict[SessionKey, list[asyncio.Future[None]]] = {}
        self._arriving: dict[Path, _Arriving] = {}

    # --- sessions

    def session(self, key: SessionKey) -> Session | None:
        """Return an open session, or None. Raises: SessionUnknown: it has ended."""
        found = self._sessions.get(key)
        if found is not None:
            return found
        known = self._book.activate(key)
        if isinstance(known, Ending):
            raise SessionUnknown(session=key[0])
        if known is None:
            return None
        return self._start(key, known)

    async def opened(self, key: SessionKey) -> Session:
        """Return a session, waiting for it to be opened.

        Raises: SessionUnknown: it has ended. TimeoutError: it was not opened for `hold_timeout_s`.
        """
        while (session := self.session(key)) is None:
            if not self._book.expect(key):
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

    def end(self, key: SessionKey, error: FedflowError) -> None:
        """Drop a session: waiters fail with `error`, unread values and parts are removed."""
        self.was_opened(key)
        session = self._sessions.pop(key, None)
        if session is None:
            return
        for blob in session.end(error):
            self.release(blob)
        for path in [p for p, a in self._arriving.items() if a.session == key and not a.finishing]:
            self.ledger.spool -= self._arriving.pop(path).size
            self._in_thread(path.unlink, missing_ok=True)

    def sessions(self) -> list[Session]:
        """Return the sessions in which something has happened."""
        return list(self._sessions.values())

    def named(self, name: str) -> list[Session]:
        """Return the sessions of that name, one per site of this server, that are active."""
        return [s for s in self._sessions.values() if s.name == name]

    def _start(self, key: SessionKey, opening: Opening) -> Session:
        session = Session(
            key=key, sites=frozenset(opening.sites), limit=self._settings.values_per_session
        )
        self._sessions[key] = session
        self._on_start(session)
        return session

    # --- small values

    def put_now(self, key: ValueKey, data: bytes, *, digest: str) -> bool:
        """Take in a small value if that needs no waiting; False: use `put`.

        Raises: SessionUnknown. DuplicateValue. NotAuthenticated: the source is not of the session.
        """
        session = self.session((key.session, key.destination))
        if session is None or not self.ledger.fits_memory(len(data)):
            return False
        if not self._knows(session, key, digest):
            self.ledger.memory += len(data) + VALUE_OVERHEAD
            session.accept(key, Blob(size=len(data), digest=digest, data=data))
        return True

    async def put(self, key: ValueKey, data: bytes, *, digest: str) -> None:
        """Take in a small value, waiting for its session, in a file if memory is used up.

        Raises: as `put_now`. SpoolFull, TimeoutError: try again later.
        """
        with self.holding(len(data)):
            await self.opened((key.session, key.destination))
            await self.put_open(key, data, digest=digest)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count the bytes of a small value for as long as it waits. Raises: SpoolFull."""
        amount = size + VALUE_OVERHEAD
        if self.held + amount > self._settings.held_bytes:
            raise SpoolFull(used=self.held, limit=self._settings.held_bytes)
        self.held += amount
        try:
            yield
        finally:
            self.held -= amount

    async def put_open(self, key: ValueKey, data: bytes, *, digest: str) -> None:
        """Take in a small value whose session is open. Raises: as `put`."""
        if self.put_now(key, data, digest=digest):
            return
        session = await self.opened((key.session, key.destination))
        await asyncio.shield(self._spill(session, key, data, digest))

    async def _spill(self, session: Session, key: ValueKey, data: bytes, digest: str) -> None:
        self.ledger.reserve_spool(len(data))
        try:
            blob = await self._in_thread(self._spool.write_value, data, digest=digest)
        except OSError as exc:
            self.ledger.spool -= len(data)
            raise self._disk_full(exc) from exc
        self._accept(session, key, blob)

    # --- big values

    async def put_file(self, key: ValueKey, blob: Blob) -> None:
        """Take in a big value of another site of this server; `blob` stays the caller's.

        Raises: as `put`.
        """
        session = await self.opened((key.session, key.destination))
        if self._knows(session, key, blob.digest):
            return
        self.ledger.reserve_spool(blob.size)
        copy = Blob(size=blob.size, digest=blob.digest, fd=blob.open_file())
        self._accept(session, key, copy)

    async def begin(self, key: ValueKey, *, size: int, digest: str) -> Arrival | None:
        """Return the right to write a value that arrives in chunks; None: it is here already.

        Raises: as `put`.
        """
        session = await self.opened((key.session, key.destination))
        if self._knows(session, key, digest):
            return None
        path = self._spool.part_path(key.id, digest)
        arriving = self._arriving.get(path)
        if arriving is None:
            self.ledger.reserve_spool(size)
            arriving = self._arriving[path] = _Arriving(session=session.key, size=size)
        if arriving.finishing or arriving.size != size:
            raise SpoolFull(used=self.ledger.spool, limit=self.ledger.spool_limit)
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
            opening.add_done_callback(lambda done: done.result().close())
            raise
        return Arrival(key=key, part=part, generation=generation)

    async def write(self, arrival: Arrival, data: memoryview, crc32: int) -> None:
        """Append a chunk to the part.

        Raises: BadRequest: bad checksum, or a newer stream has taken over.
        """
        self._still_owner(arrival)
        try:
            await self._in_thread(arrival.part.write, data, crc32)
        except OSError as exc:
            raise self._disk_full(exc) from exc

    async def finish(self, arrival: Arrival) -> None:
        """Make the complete part readable. Raises: as `write`."""
        arriving = self._still_owner(arrival)
        arriving.finishing = True
        await asyncio.shield(self._finish(arrival, arriving))

    async def _finish(self, arrival: Arrival, arriving: _Arriving) -> None:
        try:
            blob = await self._in_thread(arrival.part.finish)
        except OSError as exc:
            arriving.finishing = False
            raise self._disk_full(exc) from exc
        self._arriving.pop(arrival.part.path, None)
        session = self._sessions.get(arriving.session)
        if session is None:
            self.release(blob)
            raise SessionUnknown(session=arriving.session[0])
        self._accept(session, arrival.key, blob)

    def _still_owner(self, arrival: Arrival) -> _Arriving:
        arriving = self._arriving.get(arrival.part.path)
        if arriving is None:
            raise SessionUnknown(session=arrival.key.session)
        if arriving.generation != arrival.generation:
            raise BadRequest(reason="a newer stream carries this value")
        return arriving

    # --- common

    def release(self, blob: Blob) -> None:
        """Forget a value that was handed over or dropped; its file goes in a thread."""
        if blob.data is not None:
            self.ledger.memory -= blob.size + VALUE_OVERHEAD
            blob.discard()
        else:
            self.ledger.spool -= blob.size
            self._in_thread(blob.discard)

    def _disk_full(self, error: OSError) -> SpoolFull:
        logger.warning("The spool cannot be written: %s", error)
        return SpoolFull(used=self.ledger.spool, limit=self.ledger.spool_limit)

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

    def _knows(self, session: Session, key: ValueKey, digest: str) -> bool:
        if key.source not in session.sites:
            raise NotAuthenticated(reason=f"{key.source} is not a site of session {session.name}")
        if len(session.digests) >= session.limit:
            raise BadRequest(reason=f"more than {session.limit} values in session {session.name}")
        return session.knows(key, digest)
