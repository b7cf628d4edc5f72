"""A store for tests: SQLite in memory, with a copied schema and a clock of the test's choice.

It runs the statements of the product. What a file, several connections and other processes add to
that is tested over real files (`tests/contract/store`).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from fedflow.base.clock import Clock, SystemClock
from fedflow.store.failures import DRIVER_ERRORS, as_fedflow_error
from fedflow.store.migrate import migrate
from fedflow.store.schema import SqliteSchema
from fedflow.store.session import SQLITE, Found, Session, Value
from fedflow.store.sql.store import SqlStore
from fedflow.store.sqlite import is_duplicate

_DIALECT = replace(SQLITE, now_ms="SELECT now_ms()")


class MemoryStore(SqlStore):
    """An empty store. One transaction at a time, reading ones too."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._memory = _Memory(clock or SystemClock())
        super().__init__(self._memory)

    @property
    def writes(self) -> int:
        """How many rows were written: as long as this stays, so does what is stored."""
        return self._memory.connection.total_changes


class _Memory:
    """The one connection to a database; every thread may use it, one at a time."""

    where = "memory"

    def __init__(self, clock: Clock) -> None:
        self.connection = _connect()
        _empty().backup(self.connection)
        self.connection.create_function("now_ms", 0, clock.now_ms)
        self._lock = threading.Lock()

    @contextmanager
    def session(self, *, write: bool) -> Iterator[Session]:
        connection = self.connection
        with self._lock:
            session = Session(
                connection.cursor(), dialect=_DIALECT, writes=write, is_duplicate=is_duplicate
            )
            try:
                connection.execute("BEGIN")
                yield session
                connection.execute("COMMIT")
            except BaseException as exc:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(exc, DRIVER_ERRORS):
                    raise as_fedflow_error(exc, where=self.where) from exc
                raise
            finally:
                session.end()

    @contextmanager
    def schema(self) -> Iterator[SqliteSchema]:
        yield _schema(self.connection)

    def close(self) -> None:
        """Keep what is stored: a test may look at it afterwards."""

    def __del__(self) -> None:
        self.connection.close()


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
    )


def _schema(connection: sqlite3.Connection) -> SqliteSchema:
    def run(sql: str, params: Sequence[Value]) -> list[Found]:
        return connection.execute(sql, params).fetchall()

    return SqliteSchema(run)


@cache
def _empty() -> sqlite3.Connection:
    """Return a database with all tables and no rows."""
    connection = _connect()
    migrate(_schema(connection), SystemClock())
    return connection
