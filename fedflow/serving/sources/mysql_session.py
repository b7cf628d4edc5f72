"""One connection of the feature source `mysql`, in which its query is prepared.

A query for one id costs the driver the description of every column. So a query for several ids is
the union of the same query several times, each numbered. If anything is wrong with it, the ids are
asked one by one, so that each has its own error and time limit.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
import pymysql
from pymysql.constants import ER

from fedflow.domain.data.select_query import without_end
from fedflow.serving.codes import ServingCode
from fedflow.serving.sources.query import NamedQuery
from fedflow.serving.sources.source import (
    FeatureFault,
    Validity,
    as_features,
    failed_source,
    not_found,
)

TOGETHER: Final = (8, 32)  #: ids in one query for several
GRACE_S: Final = 0.25  #: for the server's word that a query took too long
_CHANGED: Final = 1292  #: warning: a value was changed to be compared
BROKEN: Final = (
    OSError, RuntimeError, ValueError, IndexError, AssertionError, struct.error,
    pymysql.err.InterfaceError,
)  # fmt: skip
"""What the driver raises when the connection, or what comes over it, is of no use."""

Found = Mapping[str, Any] | FeatureFault


class MysqlOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `mysql`."""

    host: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 3306
    user: str
    password: str = ""
    database: str
    query: str  #: gives one row per id, the names of its columns are those of the features
    ca: str | None = None  #: PEM file of the server's authority; None: without TLS
    connections: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4  #: at once
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 1_000  #: of the query for one id
    valid_s: Validity = None


class _NoPlugin:
    """Refuses a way of logging in that would show the password to the server."""

    def __init__(self, connection: Any) -> None:
        pass

    def authenticate(self, packet: Any) -> Any:
        raise pymysql.err.OperationalError(
            ER.ACCESS_DENIED_ERROR, "the server asks for the password in clear"
        )


_NO_PLUGINS: Final[Any] = dict.fromkeys(
    (b"mysql_clear_password", b"dialog", b"mysql_old_password"), _NoPlugin
)


class MysqlSession:
    """A connection in which the query is prepared. Used by one thread at a time."""

    def __init__(self, options: MysqlOptions, query: NamedQuery, *, wait_s: float) -> None:
        """Raises: pymysql.err.MySQLError, or one of `BROKEN`."""
        self._names = [f"@fedflow_{number}" for number in range(len(query.names))]
        self._link: Any = pymysql.connect(
            host=options.host,
            port=options.port,
            user=options.user,
            password=options.password.encode(),  # a text would be Latin-1
            database=options.database,
            charset="utf8mb4",
            connect_timeout=max(wait_s, 0.001),
            read_timeout=max(wait_s, 0.001),
            write_timeout=max(wait_s, 0.001),
            local_infile=False,
            autocommit=True,
            auth_plugin_map=_NO_PLUGINS,
            ssl={"ca": options.ca} if options.ca is not None else None,
            ssl_disabled=options.ca is None,
        )
        self._query = query
        self._prepared: set[int] = set()  #: sizes of queries for several ids
        self._refused: set[int] = set()  #: those that the server does not prepare
        try:
            self._run("SET SESSION TRANSACTION READ ONLY")
            self._limit = self._limit_variable()
            self._run(f"PREPARE fedflow FROM {_text(query.marked)}")
        except BaseException:
            self.close()
            raise

    def find(self, values: Sequence[str], *, limit_s: float) -> Found:
        """Return what the query gives for ids.

        Raises: pymysql.err.MySQLError, or one of `BROKEN`.
        """
        self._set(self._names, values, limit_s, rows="2")
        columns, rows, warned = self._executed("fedflow", self._names)
        if warned:
            return unfit("an id is no number")
        return _found(columns, rows)

    def find_together(
        self, items: Sequence[Sequence[str]], *, limit_s: float
    ) -> list[Found] | None:
        """Return what the query gives for up to 32 items; None: each is to be asked alone.

        Raises: as `find`, if the connection is lost.
        """
        size = next(size for size in TOGETHER if size >= len(items))
        if size in self._refused:
            return None
        names = [f"{name}_{number}" for number in range(size) for name in self._names]
        given = [value for item in items for value in item]
        try:
            self._prepare(size, limit_s)
            missing = [None] * (len(names) - len(given))
            self._set(names, [*given, *missing], limit_s, rows="DEFAULT")
            columns, rows, warned = self._executed(f"fedflow_{size}", names)
        except pymysql.err.MySQLError as exc:
            if is_lost(exc):
                raise
            if size not in self._prepared:
                self._refused.add(size)
            return None
        if warned:
            return None
        by_item: list[list[Sequence[Any]]] = [[] for _ in range(size)]
        for number, *row in rows:
            by_item[number].append(row)
        return [_found(columns[1:], by_item[number]) for number in range(len(items))]

    def close(self) -> None:
        """Close the connection, without words of parting that could take time."""
        with suppress(*BROKEN, pymysql.err.MySQLError):
            self._link._force_close()

    def _wait(self, seconds: float) -> None:
        """Let no read of an answer take longer."""
        self._link._read_timeout = self._link._write_timeout = seconds

    def _prepare(self, size: int, limit_s: float) -> None:
        if size not in self._prepared:
            self._wait(limit_s + GRACE_S)
            self._run(f"PREPARE fedflow_{size} FROM {_text(_union(self._query, size))}")
            self._prepared.add(size)

    def _set(
        self, names: Sequence[str], values: Sequence[str | None], limit_s: float, *, rows: str
    ) -> None:
        """Give values to variables, and limits to the next query."""
        self._wait(limit_s + GRACE_S)
        limits = [self._limit.format(max(limit_s, 0.001)), f"sql_select_limit = {rows}"]
        given = [
            f"{name} = {'NULL' if value is None else _text(value)}"
            for name, value in zip(names, values, strict=True)
        ]
        self._run("SET " + ", ".join([*limits, *given]))

    def _executed(
        self, statement: str, names: Sequence[str]
    ) -> tuple[list[str], Sequence[Sequence[Any]], bool]:
        """Return columns, rows, and whether the server changed a value to compare it."""
        using = f" USING {', '.join(names)}" if names else ""
        with self._link.cursor() as cursor:
            cursor.execute(f"EXECUTE {statement}{using}")
            rows = cursor.fetchall()
            columns = [column[0] for column in cursor.description or ()]
            warnings = cursor.warning_count
        warned = warnings > 0 and any(code == _CHANGED for _, code, _ in self._link.show_warnings())
        return columns, rows, warned

    def _limit_variable(self) -> str:
        """Return how the session limits queries, with a place for seconds."""
        if "MariaDB" in self._link.get_server_info():
            return "max_statement_time = {0:.3f}"
        return "max_execution_time = CEILING({0:.3f} * 1000)"

    def _run(self, statement: str) -> None:
        with self._link.cursor() as cursor:
            cursor.execute(statement)


def _union(query: NamedQuery, size: int) -> str:
    """Return a query for several items, each row with the number of its item."""
    inner = without_end(query.marked)
    return " UNION ALL ".join(
        f"(SELECT {number} AS fedflow_item, q.* FROM ({inner}\n) AS q LIMIT 2)"  # noqa: S608
        for number in range(size)
    )


def _found(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Found:
    if not rows:
        return not_found()
    if len(rows) > 1:
        return failed_source("the query gives several rows for the id")
    return as_features(columns, [_value(value) for value in rows[0]])


def is_lost(exc: pymysql.err.MySQLError) -> bool:
    """Tell whether the connection is of no use after an error."""
    code = code_of(exc)
    return isinstance(exc, pymysql.err.InterfaceError) or code == 0 or 2000 <= code < 3000


def code_of(exc: BaseException) -> int:
    """Return the number of the server's or the driver's error; 0: it has none."""
    return exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0


def unfit(reason: str) -> FeatureFault:
    """Return the fault of an item whose ids cannot be used."""
    return FeatureFault(retcode=ServingCode.FEATURES, reason=reason)


def _text(value: str) -> str:
    """Return a text as SQL: nothing but hexadecimal digits, whatever is in it."""
    return f"_utf8mb4 X'{value.encode().hex()}'"


def _value(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | time | timedelta):
        return str(value)
    return value
