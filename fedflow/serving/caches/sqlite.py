"""A shared cache in a SQLite file: it survives restarts, and processes of one machine share it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import CacheNotPurged, ServingStateNotUsable
from fedflow.serving.caches.entries import Aged, NewEntry, Sealing
from fedflow.serving.caches.keys import CacheKey, CacheKeys, CacheSelection
from fedflow.serving.caches.outage import Outage
from fedflow.serving.metrics import ServingMetrics

_SCHEMA: Final = 1
_APPLICATION: Final = 0x46464341  #: FFCA: a file of this module
_PURGE_S: Final = 10.0  #: that a purge waits for other processes
_MOST_EXPIRED: Final = 100  #: that one write removes
_MOST_KEYS: Final = 500  #: of one statement

_TABLES: Final = """
CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- a replaced entry gets a new one
    key BLOB NOT NULL UNIQUE, service BLOB NOT NULL, version BLOB NOT NULL, ids BLOB NOT NULL,
    expires_ms INTEGER NOT NULL,  -- wall clock; only to make room, as `sealed` has the times
    sealed BLOB NOT NULL
) STRICT;
CREATE INDEX of_service ON entry (service);
CREATE INDEX of_version ON entry (version);
CREATE INDEX of_ids ON entry (ids);
CREATE INDEX expiring ON entry (expires_ms);
"""


class SqliteCache:
    """A cache in a file. Thread-safe."""

    def __init__(
        self,
        path: Path,
        keys: CacheKeys,
        *,
        entries: int,
        timeout_s: float,
        clock: Clock,
        metrics: ServingMetrics,
    ) -> None:
        """Open or create the file; the oldest of more than `entries` go.

        Raises: ServingStateNotUsable: it is no file of a cache.
        """
        self._path = path
        self._entries = entries
        self._timeout_s = timeout_s
        self._clock = clock
        errors = metrics.cache_errors
        self._reads = Outage("the cache", clock=clock, count=lambda: errors.add("sqlite", "read"))
        self._writes = Outage(
            "writing to the cache", clock=clock, count=lambda: errors.add("sqlite", "write")
        )
        self._sealing = Sealing(keys, clock=clock, bad_entry=lambda: errors.add("sqlite", "entry"))
        self._lock = threading.Lock()
        try:
            self._link = self._connected(timeout_s)
            try:
                self._create()
            except BaseException:
                self._link.close()
                raise
        except sqlite3.Error as exc:
            raise ServingStateNotUsable(path=str(path), reason=str(exc)) from exc

    def get_many(self, keys: Sequence[CacheKey]) -> list[Aged[bytes] | None]:
        """Return what is stored under keys, in their order."""
        if not self._reads.may_try() or not self._lock.acquire(timeout=self._timeout_s):
            return [None] * len(keys)
        try:
            rows = self._rows([key.whole for key in keys])
        except sqlite3.Error as exc:
            self._reads.failed(exc)
            return [None] * len(keys)
        finally:
            self._lock.release()
        self._reads.worked()
        return [self._sealing.unsealed(key, rows.get(key.whole)) for key in keys]

    def put_many(self, entries: Sequence[NewEntry[bytes]]) -> None:
        """Store values, as far as that is possible."""
        now_ms = self._clock.now_ms()
        rows = [
            (
                one.key.whole,
                *one.key[:3],
                now_ms + int((one.life_s - one.age_s) * 1000),
                self._sealing.sealed(one),
            )
            for one in entries
        ]
        self._write(
            (
                "INSERT OR REPLACE INTO entry (key, service, version, ids, expires_ms, sealed)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            ),
            (
                "DELETE FROM entry WHERE number IN (SELECT number FROM entry WHERE expires_ms < ?"
                " ORDER BY expires_ms LIMIT ?)",
                [(now_ms, _MOST_EXPIRED)],
            ),
            (
                "DELETE FROM entry WHERE number <= (SELECT max(number) FROM entry) - ?",
                [(self._entries,)],
            ),
        )

    def remove_many(self, keys: Sequence[CacheKey]) -> None:
        """Forget values, as far as that is possible."""
        self._write(("DELETE FROM entry WHERE key = ?", [(key.whole,) for key in keys]))

    def purge(self, selection: CacheSelection) -> int:
        """Forget all selected values; return how many. Raises: CacheNotPurged."""
        parts = {"service": selection.service, "version": selection.version, "ids": selection.ids}
        wanted = {name: part for name, part in parts.items() if part is not None}
        where = " AND ".join(f"{name} = :{name}" for name in wanted) or "1 = 1"
        try:
            with closing(self._connected(_PURGE_S)) as link:
                return link.execute(f"DELETE FROM entry WHERE {where}", wanted).rowcount  # noqa: S608
        except sqlite3.Error as exc:
            raise CacheNotPurged(reason=str(exc)) from exc

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._link.close()

    def _rows(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = {}
        for start in range(0, len(names), _MOST_KEYS):
            some = names[start : start + _MOST_KEYS]
            marks = ",".join("?" * len(some))
            statement = f"SELECT key, sealed FROM entry WHERE key IN ({marks})"  # noqa: S608
            rows.update(self._link.execute(statement, some).fetchall())
        return rows

    def _write(self, *statements: tuple[str, Sequence[tuple[object, ...]]]) -> None:
        if not self._writes.may_try() or not self._lock.acquire(timeout=self._timeout_s):
            return
        try:
            self._link.execute("BEGIN IMMEDIATE")
            for statement, rows in statements:
                self._link.executemany(statement, rows)
            self._link.execute("COMMIT")
        except sqlite3.Error as exc:
            self._writes.failed(exc)
            self._roll_back()
            return
        finally:
            self._lock.release()
        self._writes.worked()

    def _roll_back(self) -> None:
        try:
            if self._link.in_transaction:
                self._link.execute("ROLLBACK")
        except sqlite3.Error as exc:
            self._writes.failed(exc)

    def _connected(self, timeout_s: float) -> sqlite3.Connection:
        link = sqlite3.connect(
            self._path, timeout=timeout_s, isolation_level=None, check_same_thread=False
        )
        link.execute("PRAGMA synchronous = NORMAL")
        return link

    def _create(self) -> None:
        """Make the tables. Raises: sqlite3.Error: the file is another program's."""
        link = self._link
        link.execute(f"PRAGMA busy_timeout = {int(_PURGE_S * 1000)}")
        link.execute("BEGIN IMMEDIATE")
        (application,) = link.execute("PRAGMA application_id").fetchone()
        (version,) = link.execute("PRAGMA user_version").fetchone()
        if (application, version) == (0, 0) and not _has_tables(link):
            link.execute(f"PRAGMA application_id = {_APPLICATION}")
            link.execute(f"PRAGMA user_version = {_SCHEMA}")
            for statement in _TABLES.split(";\n"):
                link.execute(statement)
        elif (application, version) != (_APPLICATION, _SCHEMA):
            raise sqlite3.DatabaseError("it is a file of another program, or of another version")
        link.execute("COMMIT")
        link.execute("PRAGMA journal_mode = WAL")
        link.execute(f"PRAGMA busy_timeout = {int(self._timeout_s * 1000)}")


def _has_tables(link: sqlite3.Connection) -> bool:
    return link.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None
