"""Rows of a table of MySQL or MariaDB, or of one SELECT, as text in batches.

The rows come in the text protocol and stream: neither side holds them all. They are read in one
read-only transaction with a consistent snapshot, so a table of InnoDB is seen as it was at its
begin, whatever others write. A table is read in the order of its primary key where it has one.

Cells look as a CSV export of the same rows would: NULL is empty, a number the shortest text that
reads back as the same number, dates and times as the server prints them, BIT a whole number. In a
query FLOAT (4 bytes) comes with the six digits that the server prints, unless the query casts it.
Bytes (BLOB, BINARY, GEOMETRY) have no text: such a column is refused.

A server is not trusted: it gets no file of this machine (LOAD DATA LOCAL is off), no password in
clear, and every wait for it is bounded.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import SSCursor

from fedflow.base.errors.data import BadData, StorageMissing, StorageRefused, StorageUnreachable
from fedflow.base.errors.error import FedflowError
from fedflow.base.values import dataclass
from fedflow.domain.data.select_query import without_end
from fedflow.domain.data.storages import Connection, Limits, MysqlRows, Secrets
from fedflow.tables.arrow_import import as_text
from fedflow.tables.csv_header import LINE_BYTES, CsvOptions, check_names, raw_schema
from fedflow.tables.row_source import RowSource

BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 16 << 20  #: of text in them
FETCH_ROWS: Final = 128  #: between two checks of the size of what came
COLUMN_LIMIT: Final = 10_000  #: a query may have more than a table, but a row is one packet
LOCK_S: Final = 30  #: longest wait for a table that somebody locked

_BINARY: Final = 63  #: character set of bytes
_REFUSED_CODES: Final = {1044, 1045, 1142, 1143, 1227, 1370, 1698, 1396, 1251, 1275, 4151}
_MISSING_CODES: Final = {1049: "there is no such database", 1146: "there is no such table"}
_QUERY_CODES: Final = {1054, 1055, 1056, 1060, 1064, 1222, 1241, 1242, 1248, 1305, 1327, 1582}
_QUERY_REASONS: Final = {
    1054: "its query names a column that is not there",
    1060: "two columns of its query have one name (give one another name by AS)",
    1064: "the server cannot read the SQL of its query",
    1222: "the parts of its UNION differ in columns",
    1248: "an inner SELECT of its query needs a name (AS)",
    1305: "its query calls a function that is not there",
}
_LATE_CODES: Final = {1969, 3024}
_LOCK_CODES: Final = {1205, 1213}
_BYTES: Final = {
    FIELD_TYPE.BLOB, FIELD_TYPE.TINY_BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.STRING, FIELD_TYPE.VAR_STRING, FIELD_TYPE.VARCHAR,
}  # fmt: skip

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class MysqlColumn:
    """A column of a result."""

    name: str
    kind: int  #: `pymysql.constants.FIELD_TYPE`
    charset: int

    @property
    def is_bytes(self) -> bool:
        """Tell whether its cells are bytes without a text."""
        if self.kind == FIELD_TYPE.GEOMETRY:
            return True
        return self.kind in _BYTES and self.charset == _BINARY


class MysqlSource(RowSource):
    """An open read of a MySQL or MariaDB server."""

    def __init__(self, connection: Connection, options: CsvOptions, *, where: str) -> None:
        """Connect and learn the columns; no row is read yet.

        Raises: StorageUnreachable, StorageRefused, StorageMissing. BadData: the query is none, or a
        column cannot be used or is not there.
        """
        super().__init__(where, options)
        self._address = _rows_of(connection)
        self._limits = connection.limits
        self._estimate: int | None = None
        self._server = connect(self._address, connection.secrets, self._limits, where=where)
        try:
            with said(where):
                self._begin()
                columns = self._columns()
            self.names = tuple(column.name for column in columns)
            check_names(self.names, where=where, place="in the result")
            self.schema = raw_schema(self.names, options, where=where)
            known = {column.name: column for column in columns}
            self._kept = [known[name] for name in self._file_names]
            if strange := [c.name for c in self._kept if c.is_bytes]:
                raise self._bad(f"column {strange[0]!r} holds bytes, which have no text")
        except BaseException:
            self._close()
            raise

    @property
    def done(self) -> float | None:
        """Return how much was read as far as the server's statistics tell; None for a query."""
        return min(0.99, self._rows / self._estimate) if self._estimate else None

    def _close(self) -> None:
        disconnect(self._server)

    def _begin(self) -> None:
        seconds = self._limits.statement_s
        for limit in (
            f"SET SESSION max_statement_time = {seconds:.0f}",  # MariaDB
            f"SET SESSION max_execution_time = {1000 * seconds:.0f}",  # MySQL
        ):
            with suppress(pymysql.err.OperationalError, pymysql.err.InternalError):
                self._run(limit)
        self._run(f"SET SESSION lock_wait_timeout = {LOCK_S}, SESSION net_write_timeout = 600")
        self._run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def _columns(self) -> list[MysqlColumn]:
        """Return the columns of the table or query, by asking for none of its rows."""
        query = self._address.query
        # In brackets a query can be nothing but a SELECT that returns rows. It runs without them,
        # since a server may drop the order of rows of a query in brackets.
        of = self._table if query is None else f"({without_end(query)}\n) AS q"
        with self._server.cursor(SSCursor) as cursor:
            cursor.execute(f"SELECT * FROM {of} LIMIT 0")  # noqa: S608  checked, or quoted
            columns = _columns_of(cursor)
            cursor.fetchall()
        if not 1 <= len(columns) <= COLUMN_LIMIT:
            raise self._bad(f"it has {len(columns)} columns, not 1 to {COLUMN_LIMIT}")
        return columns

    @property
    def _table(self) -> str:
        return f"{quoted(self._address.db)}.{quoted(self._address.name or '')}"

    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        with said(self._where, lambda: self._rows):
            cursor = self._server.cursor(SSCursor)
            cursor.execute(self._statement())
            found = {column.name: place for place, column in enumerate(_columns_of(cursor))}
            places = [found[column.name] for column in self._kept]
            for rows in self._chunks(cursor):
                yield self._batch(rows, places)
            with suppress(pymysql.err.MySQLError):  # all rows are here
                self._server.rollback()

    def _statement(self) -> str:
        """Return what is asked: the query as it stands, or the chosen columns of the table."""
        if self._address.query is not None:
            return without_end(self._address.query)
        key, self._estimate = self._facts()
        cells = ", ".join(
            # FLOAT would be printed with six digits
            f"{quoted(c.name)} + 0e0 AS {quoted(c.name)}"
            if c.kind == FIELD_TYPE.FLOAT
            else quoted(c.name)
            for c in self._kept
        )
        order = f" ORDER BY {', '.join(map(quoted, key))}" if key else ""
        return f"SELECT {cells} FROM {self._table}{order}"  # noqa: S608  quoted

    def _facts(self) -> tuple[list[str], int | None]:
        """Return the primary key of the table, and about how many rows it has."""
        named = (self._address.db, self._address.name)
        key = self._run(
            "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s AND"
            " table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index",
            named,
        )
        size = self._run(
            "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND"
            " table_name = %s",
            named,
        )
        rows = size[0][0] if size else None
        return [str(row[0]) for row in key], int(rows) if rows else None

    def _run(self, sql: str, values: Sequence[str | None] = ()) -> Sequence[Sequence[Any]]:
        with self._server.cursor() as cursor:
            cursor.execute(sql, values)
            found: Sequence[Sequence[Any]] = cursor.fetchall()
            return found

    def _chunks(self, cursor: SSCursor) -> Iterator[list[Sequence[Any]]]:
        """Yield rows by the batch; how many depends on their size."""
        rows: list[Sequence[Any]] = []
        size = 0
        while more := cursor.fetchmany(FETCH_ROWS):
            came = sum(map(len, filter(None, chain.from_iterable(more))))
            if came > LINE_BYTES:
                self._check_sizes(more, len(rows))
            rows += more
            size += came
            if size >= BATCH_BYTES or len(rows) >= BATCH_ROWS:
                yield rows
                rows, size = [], 0
        if rows:
            yield rows

    def _check_sizes(self, rows: Sequence[Sequence[Any]], before: int) -> None:
        for number, row in enumerate(rows, start=self._rows + before + 1):
            if sum(len(cell) for cell in row if cell is not None) > LINE_BYTES:
                raise self._bad(f"row {number} is longer than {LINE_BYTES} bytes")

    def _batch(self, rows: list[Sequence[Any]], places: list[int]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        cells = [
            _cells(columns[place], column) for place, column in zip(places, self._kept, strict=True)
        ]
        return pa.RecordBatch.from_arrays(cells, names=[column.name for column in self._kept])


def _cells(values: Sequence[Any], column: MysqlColumn) -> pa.Array:
    """Return cells as text without nulls."""
    if column.kind == FIELD_TYPE.BIT:
        numbers = [None if cell is None else str(int.from_bytes(cell)) for cell in values]
        return pc.fill_null(pa.array(numbers, pa.string()), "")
    cells = pa.array(values, pa.string())
    if column.kind in (FIELD_TYPE.DOUBLE, FIELD_TYPE.FLOAT):
        numbers = pc.cast(cells, pa.float64())
        if column.kind == FIELD_TYPE.FLOAT:
            numbers = pc.cast(numbers, pa.float32(), safe=False)
        return as_text(numbers)
    return pc.fill_null(cells, "") if cells.null_count else cells


def _columns_of(cursor: SSCursor) -> list[MysqlColumn]:
    """Return the columns of a result with their character sets, which `description` lacks."""
    fields: Any = cursor._result.fields  # type: ignore[attr-defined]
    return [MysqlColumn(name=f.name, kind=f.type_code, charset=f.charsetnr) for f in fields]


def quoted(name: str) -> str:
    """Return a name as it stands in SQL."""
    return "`" + name.replace("`", "``") + "`"


# --- the connection -------------------------------------------------------------------------------


#: ways of logging in that a server may ask for: in clear (`dialog` is PAM's), or with a broken hash
_REFUSED_PLUGINS: Final = (b"mysql_clear_password", b"dialog", b"mysql_old_password")


class _NoPlugin:
    """Refuses a way of logging in that would show the password to the server."""

    def __init__(self, connection: Any) -> None:
        pass

    def authenticate(self, packet: Any) -> Any:
        raise pymysql.err.OperationalError(1045, "the server asks for the password in clear")


def connect(address: MysqlRows, secrets: Secrets, limits: Limits, *, where: str) -> Any:
    """Return a new connection. Raises: StorageUnreachable, StorageRefused, StorageMissing."""
    encoders: Any = {
        k: v for k, v in pymysql.converters.conversions.items() if not isinstance(k, int)
    }
    plugins: Any = dict.fromkeys(_REFUSED_PLUGINS, _NoPlugin)
    with said(where):
        return pymysql.connect(
            host=address.host,
            port=address.port,
            user=secrets.user or "",
            password=(secrets.password or "").encode(),  # the driver takes a text for Latin-1
            database=address.db,
            charset="utf8mb4",
            conv=encoders,  # no decoders: cells come as the server prints them
            connect_timeout=max(1, round(limits.connect_s)),
            read_timeout=limits.read_s,
            write_timeout=limits.read_s,
            local_infile=False,
            autocommit=True,
            auth_plugin_map=plugins,
        )


def disconnect(server: Any) -> None:
    """Close a connection at once; what is left of a running read is not waited for."""
    if (result := server._result) is not None:
        result.unbuffered_active = False  # else its end reads all rows that are left
    with suppress(pymysql.err.MySQLError, OSError):
        server.close()


@contextmanager
def said(
    where: str, rows: Callable[[], int] | None = None, *, alone: bool = True
) -> Iterator[None]:
    """Turn what the driver says into our errors; `rows` tells how many were read. Not `alone`,
    other code than the driver's runs too, whose errors stay as they are.

    No message repeats the server's own words, which may quote cells.
    """
    try:
        yield
    except FedflowError:
        raise
    except pymysql.err.MySQLError as exc:
        raise _as_error(exc, where, rows) from exc
    except (OSError, RuntimeError, ValueError, IndexError, AssertionError, struct.error) as exc:
        if not alone:
            raise
        reason = "what it answers is not MySQL's protocol"
        raise StorageUnreachable(where=where, reason=reason) from exc


def _as_error(
    exc: pymysql.err.MySQLError, where: str, rows: Callable[[], int] | None
) -> FedflowError:
    code = exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0
    logger.warning("%s: MySQL error %s", where, code)
    if code in _REFUSED_CODES:
        reason = "wrong user or password, or the user lacks a right"
        return StorageRefused(where=where, reason=f"{reason} (error {code})")
    if code in _MISSING_CODES:
        return StorageMissing(where=where, reason=_MISSING_CODES[code])
    if code in _QUERY_CODES:
        why = _QUERY_REASONS.get(code, "the server cannot run its query")
        reason = f"{why} (error {code})"
        return BadData(where=where, reason=reason, missing=["?"] if code == 1054 else [])
    after = f" after row {rows()}" if rows is not None else ""
    if code in _LATE_CODES:
        return StorageUnreachable(where=where, reason=f"it took too long{after}")
    if code in _LOCK_CODES:
        reason = f"somebody has locked it for more than {LOCK_S} s"
        return StorageUnreachable(where=where, reason=reason)
    if code in (2003, 2002, 2005):
        return StorageUnreachable(where=where, reason="no server answers at its address")
    if code in (0, 1053, 1927, 2006, 2013, 1152, 1159, 1160, 1161, 1317):
        return StorageUnreachable(where=where, reason=f"the connection broke{after}")
    return BadData(where=where, reason=f"its server answers error {code}{after}")


def _rows_of(connection: Connection) -> MysqlRows:
    if not isinstance(connection.address, MysqlRows):
        raise TypeError(f"{connection.address.engine} is not MYSQL")
    return connection.address
