"""One open transaction, on which statements are run.

They are written once, with `?` for parameters. What differs between SQLite and MySQL in statements
stands in the two `Dialect` values, nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Protocol

from fedflow.base.values import dataclass
from fedflow.domain.scheduling.history import Event
from fedflow.store.table import Table

Value = str | int | float | None
Found = tuple[Any, ...]  #: one row as the driver gives it
Row = tuple[Value, ...] | Mapping[str, Value]
"""A row to write: a value for every column of its table, in their order or by their names."""


class Cursor(Protocol):
    """What both drivers' cursors can do."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, sql: str, params: Sequence[Value], /) -> object: ...

    def executemany(self, sql: str, rows: Sequence[Sequence[Value]], /) -> object: ...

    def fetchone(self) -> Found | None: ...

    def fetchall(self) -> Sequence[Found]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How one database's statements differ."""

    param: str  #: what stands for a parameter
    for_update: str  #: ends a SELECT that locks its row until the commit
    for_share: str  #: ends a SELECT that keeps others from changing its row until the commit
    now_ms: str  #: SELECT of the database's time
    keep_existing: str  #: ends an INSERT that leaves a row with the same key as it is; {column}


SQLITE: Final = Dialect(
    param="?",
    for_update="",
    for_share="",
    now_ms="SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    keep_existing="ON CONFLICT DO NOTHING",
)
MYSQL: Final = Dialect(
    param="%s",
    for_update=" FOR UPDATE",
    for_share=" LOCK IN SHARE MODE",
    now_ms="SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
    keep_existing="ON DUPLICATE KEY UPDATE {column} = {column}",
)


class Session:
    """Runs statements in one transaction; of no use after its end.

    `is_duplicate` tells whether a driver's exception means that a key exists already.
    """

    __slots__ = ("_cursor", "_dialect", "_is_duplicate", "_writes", "events")

    def __init__(
        self,
        cursor: Cursor,
        *,
        dialect: Dialect,
        writes: bool,
        is_duplicate: Callable[[Exception], bool],
    ) -> None:
        self._cursor: Cursor | None = cursor
        self._dialect = dialect
        self._writes = writes
        self._is_duplicate = is_duplicate
        self.events: list[Event] = []  #: what happened, to be written with it

    def end(self) -> None:
        """Refuse everything from now on."""
        self._cursor = None

    def row(
        self, sql: str, params: Sequence[Value] = (), *, lock: bool = False, share: bool = False
    ) -> Found | None:
        """Return the first row or None.

        `lock` keeps others from it until the end, `share` from changing it.
        """
        cursor = self._open()
        if lock:
            sql += self._dialect.for_update
        elif share:
            sql += self._dialect.for_share
        cursor.execute(_in_dialect(sql, self._dialect.param), params)
        return cursor.fetchone()

    def rows(
        self, sql: str, params: Sequence[Value] = (), *, lock: bool = False
    ) -> Sequence[Found]:
        """Return all rows; `lock` keeps others from them until the end."""
        cursor = self._open()
        if lock:
            sql += self._dialect.for_update
        cursor.execute(_in_dialect(sql, self._dialect.param), params)
        return cursor.fetchall()

    def now_ms(self) -> int:
        """Return the database's time."""
        found = self.row(self._dialect.now_ms)
        return int(found[0]) if found else 0

    def tell(self, *events: Event) -> None:
        """Note what happened; it is written when the transaction ends."""
        self._open(write=True)
        self.events += events

    def write(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run an UPDATE or DELETE; return how many rows matched."""
        cursor = self._open(write=True)
        cursor.execute(_in_dialect(sql, self._dialect.param), params)
        return cursor.rowcount

    def insert(self, table: Table, row: Row) -> bool:
        """Add a row; False if its key exists already."""
        columns, sql = _insert(table, "INSERT", self._dialect.param)
        cursor = self._open(write=True)
        try:
            cursor.execute(sql, _values(columns, row))
        except Exception as exc:  # each driver has its own class for this
            if self._is_duplicate(exc):
                return False
            raise
        return True

    def insert_many(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows; those whose key exists are left as they are."""
        columns, sql = _insert(table, "INSERT", self._dialect.param)
        sql = f"{sql} {self._dialect.keep_existing.format(column=columns[0])}"
        values = [_values(columns, row) for row in rows]
        if values:
            self._open(write=True).executemany(sql, values)

    def replace(self, table: Table, row: Row) -> None:
        """Add a row; it replaces the one with its key."""
        columns, sql = _insert(table, "REPLACE", self._dialect.param)
        self._open(write=True).execute(sql, _values(columns, row))

    def _open(self, *, write: bool = False) -> Cursor:
        if self._cursor is None:
            raise RuntimeError("this transaction has ended")
        if write and not self._writes:
            raise RuntimeError("this transaction only reads: use store.transaction()")
        return self._cursor


def one_of(column: str, number: int) -> str:
    """Return the condition that a column has one of `number` values."""
    return f"{column} IN ({', '.join('?' * number)})" if number else "1 = 0"


def _values(columns: Sequence[str], row: Row) -> Sequence[Value]:
    return row if isinstance(row, tuple) else [row[column] for column in columns]


@lru_cache(maxsize=512)  # statements; lists of values make many
def _in_dialect(sql: str, param: str) -> str:
    return sql if param == "?" else sql.replace("?", param)


@cache
def _insert(table: Table, verb: str, param: str) -> tuple[tuple[str, ...], str]:
    columns = tuple(table.columns)
    marks = ", ".join([param] * len(columns))
    return columns, f"{verb} INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"
