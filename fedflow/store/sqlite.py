"""A SQLite file: write-ahead log, one connection per transaction, one writer at a time.

The connection that was used last is lent first: it has the pages and the prepared statements. So
there are as many as there were transactions at once, not as many as there are threads. One that
nobody has needed for a minute is closed: each has two descriptors and up to 1 MiB of pages.

Writers of this process queue at a lock, because SQLite's own waiting is a sleep; other processes
are waited for by `busy_timeout`. `BEGIN IMMEDIATE` takes SQLite's write lock at once, so that a
transaction never fails after its first read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import peewee

from fedflow.base.clock import SystemClock
from fedflow.base.disk import inode_of
from fedflow.base.errors.store import DatabaseFileLost, StoreUnavailable
from fedflow.store.failures import DRIVER_ERRORS, as_fedflow_error
from fedflow.store.schema import SqliteSchema
from fedflow.store.session import SQLITE, Found, Session, Value

BUSY_TIMEOUT_S: Final = 10.0  #: how long to wait for other writers
_CHECK_S: Final = 1.0  #: pause between two looks whether the file is still there
_CACHE_KIB: Final = 1024  #: page cache of one connection
_UNUSED_S: Final = 60.0  #: a connection that nobody needed for so long is closed
_CLOCK: Final = SystemClock()
_STATEMENTS: Final = 256  #: prepared statements kept by one connection
_LOG_BYTES: Final = 64 << 20  #: the write-ahead log shrinks to this after a checkpoint
_DUPLICATE: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE}
)


class _Connections(peewee.SqliteDatabase):
    """Opens connections, as peewee's pools do; who lends them keeps them."""

    def open(self) -> sqlite3.Connection:
        """Return a new connection; it begins a transaction only when it is told to."""
        connection: sqlite3.Connection = self._connect()  # type: ignore[attr-defined]
        return connection


class SqliteFile:
    """The connections to one file. `synchronous` is NORMAL or FULL (see SQLite's pragma)."""

    def __init__(self, path: Path, *, synchronous: str = "NORMAL") -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ValueError(f"synchronous must be NORMAL or FULL, not {synchronous!r}")
        self._path = path
        self._write_lock = threading.Lock()
        self._idle: deque[tuple[sqlite3.Connection, float]] = deque()  #: and since when, seconds
        self._idle_lock = threading.Lock()
        self._closed = False
        self._checked_s = 0.0
        self._connections = _Connections(
            str(path),
            timeout=BUSY_TIMEOUT_S,
            pragmas={
                "journal_mode": "wal",
                "synchronous": synchronous,
                "cache_size": -_CACHE_KIB,
                "journal_size_limit": _LOG_BYTES,
                "temp_store": "memory",
            },
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        self._make_private()
        self._inode = inode_of(path)
        self._is_lost = False

    @property
    def where(self) -> str:
        """Return what to call this store in messages."""
        return str(self._path)

    @contextmanager
    def session(self, *, write: bool) -> Iterator[Session]:
        """Run a transaction: commit at the end, undo everything at an exception."""
        if write and not self._write_lock.acquire(timeout=BUSY_TIMEOUT_S):
            raise StoreUnavailable(reason=f"{self.where}: another thread keeps a transaction open")
        try:
            if write:
                self._check_file()
            connection = self._borrow()
            try:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                session = Session(
                    connection.cursor(),
                    dialect=SQLITE,
                    writes=write,
                    is_duplicate=is_duplicate,
                )
                try:
                    yield session
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    session.end()
            finally:
                self._give_back(connection)
        except DRIVER_ERRORS as exc:
            raise as_fedflow_error(exc, where=self.where) from exc
        finally:
            if write:
                self._write_lock.release()

    @contextmanager
    def schema(self) -> Iterator[SqliteSchema]:
        """Return access to the schema."""
        try:
            connection = self._borrow()

            def run(sql: str, params: Sequence[Value]) -> Sequence[Found]:
                return connection.execute(sql, params).fetchall()

            try:
                yield SqliteSchema(run)
            finally:
                self._give_back(connection)
        except DRIVER_ERRORS as exc:
            raise as_fedflow_error(exc, where=self.where) from exc

    def close(self) -> None:
        """Close the connections; one that is in use is closed at the end of its transaction."""
        with self._idle_lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for connection, _ in idle:
            connection.close()

    def _borrow(self) -> sqlite3.Connection:
        """Return a connection that nobody uses. Raises: StoreUnavailable: the store is closed.

        They are opened one after the other: SQLite does not wait for the one that turns the log on.
        """
        with self._idle_lock:
            if self._closed:
                raise StoreUnavailable(reason=f"{self.where}: it is closed")
            if self._idle:
                return self._idle.pop()[0]
            self._check_file(now=True)  # a new connection would make a new, empty file
            return self._connections.open()

    def _check_file(self, *, now: bool = False) -> None:
        """See that the file is the one that was opened; the system is asked once in a second.

        What is stored in a file that was removed is gone with this process, so nothing is.
        Raises: DatabaseFileLost.
        """
        now_s = time.monotonic()
        if now or now_s - self._checked_s >= _CHECK_S:
            self._checked_s = now_s
            self._is_lost = inode_of(self._path) != self._inode
        if self._is_lost:
            raise DatabaseFileLost(
                reason=f"{self.where}: the database file was removed, or replaced, while this "
                "server had it open"
            )

    def _give_back(self, connection: sqlite3.Connection) -> None:
        """Keep a connection for the next transaction, or close it; close one that is not needed."""
        now_s, unused = _CLOCK.monotonic_s(), connection
        with self._idle_lock:
            fit = not self._closed and not connection.in_transaction
            if fit:
                self._idle.append((connection, now_s))
                if now_s - self._idle[0][1] <= _UNUSED_S:
                    return
                unused, _ = self._idle.popleft()
        unused.close()

    def _make_private(self) -> None:
        """Make a new file readable by its owner only: tokens are in it."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as exc:
            raise StoreUnavailable(reason=f"{self.where}: {exc.strerror}") from exc


def is_duplicate(exc: Exception) -> bool:
    """Tell whether a driver's exception means that a key exists already."""
    return isinstance(exc, sqlite3.IntegrityError) and exc.sqlite_errorcode in _DUPLICATE
