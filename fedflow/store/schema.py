"""What a migration step may do to a database, the same for SQLite and MySQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.session import Found, Value
from fedflow.store.table import Table

Run = Callable[[str, Sequence[Value]], Sequence[Found]]  #: runs one statement, gives all rows


class Schema(ABC):
    """A database whose tables are being made or changed. Every step may be done twice."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @abstractmethod
    def exclusively(self) -> AbstractContextManager[None]:
        """Return a context in which no other process changes the schema."""

    @abstractmethod
    def table(self, table: Table) -> None:
        """Make a table unless it exists."""

    @abstractmethod
    def columns(self, table: str) -> list[str]:
        """Return the columns of a table, none if it does not exist."""

    @abstractmethod
    def key(self, table: str) -> list[str]:
        """Return the columns that identify a row."""

    def add_column(self, table: str, column: str, kind: str) -> None:
        """Add a column unless it exists; a NOT NULL one needs a DEFAULT in `kind`."""
        if column not in self.columns(table):
            self.run(f"ALTER TABLE {table} ADD COLUMN {column} {kind}", ())

    @abstractmethod
    def add_index(self, table: str, columns: str) -> None:
        """Add an index unless it exists; `columns` stand between commas, as in SQL."""

    @abstractmethod
    def drop_index(self, table: str, columns: str) -> None:
        """Remove the index on these columns if it exists."""

    @abstractmethod
    def at_once(self) -> AbstractContextManager[None]:
        """Return a context whose changes of rows, of many of them, take effect together."""


class SqliteSchema(Schema):
    """DDL takes part in transactions: a broken step leaves nothing behind."""

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        self.run("BEGIN EXCLUSIVE", ())
        try:
            yield
        except BaseException:
            self.run("ROLLBACK", ())
            raise
        self.run("COMMIT", ())

    def table(self, table: Table) -> None:
        name, key, numbered = table.name, table.key, table.numbered
        parts = [f"{column} {kind}" for column, kind in table.columns.items()]
        if numbered is not None:
            parts.insert(0, f"{numbered} INTEGER PRIMARY KEY AUTOINCREMENT")
            if list(key) != [numbered]:
                parts.append(f"UNIQUE ({', '.join(key)})")
        else:
            parts.append(f"PRIMARY KEY ({', '.join(key)})")
        options = " WITHOUT ROWID" if table.clustered else ""
        self.run(f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)}){options}", ())
        for index in table.indexes:
            self.add_index(name, index)

    def add_index(self, table: str, columns: str) -> None:
        name = _index_name(table, columns)
        self.run(f"CREATE INDEX IF NOT EXISTS {name} ON {table} ({columns})", ())

    def drop_index(self, table: str, columns: str) -> None:
        self.run(f"DROP INDEX IF EXISTS {_index_name(table, columns)}", ())

    def at_once(self) -> AbstractContextManager[None]:
        return nullcontext()  # as all that a step does

    def columns(self, table: str) -> list[str]:
        return [str(r[0]) for r in self.run("SELECT name FROM pragma_table_info(?)", (table,))]

    def key(self, table: str) -> list[str]:
        indexes = self.run(
            "SELECT name FROM pragma_index_list(?) WHERE origin IN ('pk', 'u') ORDER BY seq",
            (table,),
        )
        if indexes:
            query = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"
            return [str(r[0]) for r in self.run(query, (indexes[0][0],))]
        query = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
        return [str(r[0]) for r in self.run(query, (table,))]


class MySqlSchema(Schema):
    """DDL commits at once, so a step that broke off is simply done again.

    `collation` must compare exactly, trailing blanks included, as SQLite does.
    """

    def __init__(self, run: Run, *, database: str, collation: str, lock_timeout_s: int) -> None:
        super().__init__(run)
        self._database = database
        self._collation = collation
        self._lock_timeout_s = lock_timeout_s

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        name = f"fedflow {self._database}"[:64]
        if self.run("SELECT GET_LOCK(?, ?)", (name, self._lock_timeout_s))[0][0] != 1:
            raise StoreUnavailable(
                reason=f"another server has been changing the schema for {self._lock_timeout_s} s"
            )
        try:
            yield
        finally:
            self.run("SELECT RELEASE_LOCK(?)", (name,))

    def table(self, table: Table) -> None:
        name, key, numbered = table.name, table.key, table.numbered
        parts = [f"{column} {kind}" for column, kind in table.columns.items()]
        if numbered is not None:
            parts.insert(0, f"{numbered} BIGINT NOT NULL AUTO_INCREMENT")
            if list(key) != [numbered]:
                parts.append(f"UNIQUE KEY {name}_{numbered} ({numbered})")
        parts.append(f"PRIMARY KEY ({', '.join(key)})")
        parts += [f"KEY {_index_name(name, index)} ({index})" for index in table.indexes]
        self.run(
            f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)}) "
            f"ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE {self._collation}",
            (),
        )

    def columns(self, table: str) -> list[str]:
        query = (
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position"
        )
        return [str(r[0]) for r in self.run(query, (self._database, table))]

    def add_index(self, table: str, columns: str) -> None:
        called = _index_name(table, columns)
        if not self._has_index(table, called):
            self.run(f"CREATE INDEX {called} ON {table} ({columns})", ())

    def drop_index(self, table: str, columns: str) -> None:
        called = _index_name(table, columns)
        if self._has_index(table, called):
            self.run(f"DROP INDEX {called} ON {table}", ())

    @contextmanager
    def at_once(self) -> Iterator[None]:
        self.run("START TRANSACTION", ())
        try:
            yield
        except BaseException:
            self.run("ROLLBACK", ())
            raise
        self.run("COMMIT", ())

    def _has_index(self, table: str, called: str) -> bool:
        query = (
            "SELECT 1 FROM information_schema.statistics WHERE table_schema = ? "
            "AND table_name = ? AND index_name = ?"
        )
        return bool(self.run(query, (self._database, table, called)))

    def key(self, table: str) -> list[str]:
        query = (
            "SELECT column_name FROM information_schema.statistics WHERE table_schema = ? "
            "AND table_name = ? AND index_name = 'PRIMARY' ORDER BY seq_in_index"
        )
        return [str(r[0]) for r in self.run(query, (self._database, table))]


def _index_name(table: str, columns: str) -> str:
    """Return a name that is unique in the database and at most 64 characters long."""
    names = [c.split()[0] for c in columns.split(",")]
    short = [n.removeprefix("f_").replace("_", "")[:9] for n in names]
    return f"{table}_by_{'_'.join(short)}"[:64]
