"""A MySQL or MariaDB database: pooled connections, exact comparison of text.

Write transactions run at READ COMMITTED: every statement sees what others committed, a
compare-and-set fails by finding no row, and there are no gap locks to wait for each other on. Read
transactions run at REPEATABLE READ, so that the rows of one job fit together. A transaction that
the server undid (deadlock, lock wait) raises StoreUnavailable: whoever runs it may run it again,
since every write is compare-and-set.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import peewee
import pymysql
from playhouse.pool import PooledMySQLDatabase
from pymysql.constants import CLIENT

from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.mysql_failures import DRIVER_ERRORS, as_fedflow_error, mysql_code
from fedflow.store.schema import MySqlSchema
from fedflow.store.session import MYSQL, Found, Session, Value

CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_S: Final = 60
LOCK_TIMEOUT_S: Final = 10  #: how long a statement waits for a row that another transaction holds
SCHEMA_TIMEOUT_S: Final = 30  #: how long a start waits for another server's migration
IDLE_S: Final = 8  #: a transaction whose server stands still for longer is undone by the database
POOL_TIMEOUT_S: Final = 10  #: how long a thread waits for a free connection

peewee.mysql = pymysql  # type: ignore[attr-defined]  # see `fedflow.store`

_DUPLICATE: Final = 1062
_NO_DATABASE: Final = 1049
_NAME: Final = re.compile(r"[0-9A-Za-z_$-]{1,64}")
_EXACT_COLLATIONS: Final = ("utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_bin")
"""Byte by byte, the best first; the last, which all servers have, takes `a` and `a ` for equal."""


class MySqlServer:
    """The connections to one database, which is made if it does not exist and the user may."""

    def __init__(
        self, *, host: str, port: int, user: str, password: str, database: str,
        max_connections: int = 32, stale_timeout_s: int = 30,
    ) -> None:  # fmt: skip
        if not _NAME.fullmatch(database):
            raise StoreUnavailable(reason=f"{database!r} is not a name for a database")
        self.where = f"MySQL {host}:{port}/{database}"
        self._database = database
        self._connect: dict[str, Any] = {
            "host": host,
            "port": port,
            "user": user,
            "password": password,
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": STATEMENT_TIMEOUT_S,
            "write_timeout": STATEMENT_TIMEOUT_S,
        }
        self._levels: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._pool: Any = PooledMySQLDatabase(
            database,
            max_connections=max_connections,
            stale_timeout=stale_timeout_s,
            timeout=POOL_TIMEOUT_S,
            client_flag=CLIENT.FOUND_ROWS,  # an UPDATE counts rows that matched, as SQLite does
            init_command=(
                "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
                f"SESSION innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}"
                # MariaDB runs the first comment; MySQL, which can limit connections only, the other
                f"/*M!100300 , SESSION idle_transaction_timeout = {IDLE_S} */"
                f"/*!50700 , SESSION wait_timeout = {IDLE_S} */"
            ),
            **self._connect,
        )

    @contextmanager
    def session(self, *, write: bool) -> Iterator[Session]:
        """Run a transaction: commit at the end, undo everything at an exception."""
        try:
            with self._checked_out() as connection:
                cursor = connection.cursor()
                self._set_level(connection, "READ COMMITTED" if write else "REPEATABLE READ")
                cursor.execute("START TRANSACTION" if write else "START TRANSACTION READ ONLY")
                session = Session(
                    cursor,
                    dialect=MYSQL,
                    writes=write,
                    is_duplicate=_is_duplicate,
                )
                try:
                    yield session
                    connection.commit()
                except Exception:
                    with suppress(pymysql.err.MySQLError):  # a lost connection undoes by itself
                        connection.rollback()
                    raise
                finally:
                    session.end()
        except DRIVER_ERRORS as exc:
            raise as_fedflow_error(exc, where=self.where) from exc

    @contextmanager
    def schema(self) -> Iterator[MySqlSchema]:
        """Return access to the schema. Makes the database if need be."""
        try:
            self._make_database()
            with self._checked_out() as connection:

                def run(sql: str, params: Sequence[Value]) -> Sequence[Found]:
                    with connection.cursor() as cursor:
                        cursor.execute(sql.replace("?", "%s"), params)
                        found: Sequence[Found] = cursor.fetchall()
                        return found

                yield MySqlSchema(
                    run,
                    database=self._database,
                    collation=_best_collation(run),
                    lock_timeout_s=SCHEMA_TIMEOUT_S,
                )
        except DRIVER_ERRORS as exc:
            raise as_fedflow_error(exc, where=self.where) from exc

    def close(self) -> None:
        """Close all connections."""
        self._pool.close_all()

    @contextmanager
    def _checked_out(self) -> Iterator[Any]:
        """Lend this thread a connection that answered a ping; a broken one does not go back."""
        self._pool.connect()
        broken = True
        try:
            connection = self._pool.connection()
            yield connection
            broken = False
        except Exception:
            broken = not connection.open
            raise
        finally:
            if broken:
                self._pool.manual_close()
            else:
                self._pool.close()

    def _set_level(self, connection: Any, level: str) -> None:
        if self._levels.get(connection) != level:
            with connection.cursor() as cursor:
                cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            self._levels[connection] = level

    def _make_database(self) -> None:
        try:
            pymysql.connect(database=self._database, **self._connect).close()
            return
        except pymysql.err.OperationalError as exc:
            if mysql_code(exc) != _NO_DATABASE:
                raise
        with pymysql.connect(**self._connect) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"CREATE DATABASE IF NOT EXISTS `{self._database}` CHARACTER SET utf8mb4"
            )


def _best_collation(run: Any) -> str:
    marks = ", ".join("?" * len(_EXACT_COLLATIONS))
    query = (
        "SELECT collation_name FROM information_schema.collations "  # noqa: S608  # constants
        f"WHERE collation_name IN ({marks})"
    )
    known = {row[0] for row in run(query, _EXACT_COLLATIONS)}
    return next(c for c in _EXACT_COLLATIONS if c in known)


def _is_duplicate(exc: Exception) -> bool:
    return isinstance(exc, pymysql.err.IntegrityError) and mysql_code(exc) == _DUPLICATE
