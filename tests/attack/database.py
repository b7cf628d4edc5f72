"""What is stored in a party's database: SQLite in its home, or MySQL if its settings name one."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import pymysql

from tests.e2e.servers import Party

VOLATILE: Final = frozenset(
    {
        "t_engine_registry",  # free cores
        "t_lease",
        "t_outbox",
        "t_received_request",  # answers that are kept for who repeats a call
        "t_server_instance",
        "sqlite_sequence",
        "t_account_session",
    }
)
"""Tables that change by themselves, and hold nothing of a job's contents."""

Rows = dict[tuple[str, ...], tuple[str, str]]  #: table and key -> (digest, the row as text)
Select = Callable[..., list[tuple[Any, ...]]]  #: a SELECT with `?`, and its values


def stored(party: Party, statement: str, *values: str) -> list[tuple[Any, ...]]:
    """Return what a SELECT finds in the database of a party."""
    with _opened(party) as select:
        return select(statement, *values)


def count_rows(party: Party, table: str) -> int:
    """Return how many rows a table of a party's database has."""
    return int(stored(party, f"SELECT COUNT(*) FROM {table}")[0][0])


def all_rows(party: Party) -> Rows:
    """Return all rows of a database that an attack may not touch."""
    found: Rows = {}
    with _opened(party) as select:
        for table, columns in _tables(select, is_sqlite=not _database_name(party)).items():
            keys = [number for number, is_key in enumerate(columns) if is_key]
            for row in select(f"SELECT * FROM {table}"):
                text = repr(row)
                key = (table, *(str(row[number]) for number in keys))
                found[key] = (hashlib.sha256(text.encode()).hexdigest(), text)
    return found


def _tables(select: Select, *, is_sqlite: bool) -> dict[str, list[bool]]:
    """Return the tables that do not change by themselves -> for each column: is it of the key?"""
    if is_sqlite:
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        columns = "SELECT pk FROM pragma_table_info(?) ORDER BY cid"
    else:
        own = "FROM information_schema.{} WHERE table_schema = DATABASE()"
        names = "SELECT table_name " + own.format("tables")
        columns = (
            "SELECT column_key = 'PRI' " + own.format("columns")
            + " AND table_name = ? ORDER BY ordinal_position"
        )  # fmt: skip
    return {
        name: [bool(is_key) for (is_key,) in select(columns, name)]
        for (name,) in select(names)
        if name not in VOLATILE
    }


def _database_name(party: Party) -> str | None:
    return party.place.settings.get("FEDFLOW__DATABASE__NAME")


@contextmanager
def _opened(party: Party) -> Iterator[Select]:
    """Give a way to select from the database of a party; it only reads."""
    settings, name = party.place.settings, _database_name(party)
    if name is None:
        where = f"file:{party.home / 'fedflow.sqlite'}?mode=ro"
        with closing(sqlite3.connect(where, uri=True, timeout=20)) as database:
            yield lambda statement, *values: database.execute(statement, values).fetchall()
        return
    login: dict[str, Any] = {
        "host": settings["FEDFLOW__DATABASE__HOST"],
        "port": int(settings["FEDFLOW__DATABASE__PORT"]),
        "user": settings["FEDFLOW__DATABASE__USER"],
        "password": settings["FEDFLOW__DATABASE__PASSWD"].strip('"'),
    }
    with pymysql.connect(**login, database=name) as connection, connection.cursor() as cursor:

        def select(statement: str, *values: str) -> list[tuple[Any, ...]]:
            cursor.execute(statement.replace("?", "%s"), values or None)
            return list(cursor.fetchall())

        yield select
