"""Features from MySQL or MariaDB, by a query whose parameters are the callers' ids.

    features:
      source: mysql
      options: {host: h, user: u, database: d, query: "SELECT x FROM f WHERE id = :id"}

The server prepares the query as it stands in the settings. Ids reach it as values of variables,
written as hexadecimal digits, so none is ever part of the query's text. All are texts, as text that
is compared with a column of numbers is read as a number, and one that is none is refused: a number
compared with a column of texts would equal several of them.

The server is not trusted: it gets no file of this machine, no password in clear, and every wait for
it is bounded. Sessions only read.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import pymysql
from pymysql.constants import ER

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.codes import ServingCode
from fedflow.serving.sources.query import NamedQuery
from fedflow.serving.sources.source import (
    FeatureFault,
    FoundFeatures,
    Ids,
    Validity,
    as_features,
    failed_source,
    key_of,
    not_found,
    options_as,
)

logger = logging.getLogger(__name__)

_LONGEST_ID: Final = 1_024  #: characters
_LONGEST_S: Final = 60.0  #: waited for a free connection
_GRACE_S: Final = 0.25  #: for the server's word that a query took too long
_LATE: Final = frozenset({1317, 1969, 3024})  #: a query was interrupted
_CHANGED: Final = 1292  #: warning: a value was changed to be compared
_OTHER_TEXT: Final = 1267  #: an id has characters that the column cannot have
_WRONG_SETTING: Final = frozenset(
    {ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, ER.PARSE_ERROR,
     ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.TABLEACCESS_DENIED_ERROR}
)  # fmt: skip
_BROKEN: Final = (
    OSError, RuntimeError, ValueError, IndexError, AssertionError, struct.error,
    pymysql.err.InterfaceError,
)  # fmt: skip
"""What the driver raises when the connection, or what comes over it, is of no use."""


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


class _Session:
    """A connection in which the query is prepared. Used by one thread at a time."""

    def __init__(self, options: MysqlOptions, query: NamedQuery, *, wait_s: float) -> None:
        """Raises: pymysql.err.MySQLError, or one of `_BROKEN`."""
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
        try:
            self._run("SET SESSION TRANSACTION READ ONLY")
            self._run("SET SESSION sql_select_limit = 2")
            self._limit = self._limit_variable()
            self._run(f"PREPARE fedflow FROM {_text(query.marked)}")
        except BaseException:
            self.close()
            raise

    def find(
        self, values: Sequence[str], *, limit_s: float
    ) -> Mapping[str, Any] | FeatureFault | None:
        """Return what the query gives for ids; None: no row.

        Raises: pymysql.err.MySQLError, or one of `_BROKEN`.
        """
        self._wait(limit_s + _GRACE_S)
        given = [f"{n} = {_text(v)}" for n, v in zip(self._names, values, strict=True)]
        self._run("SET " + ", ".join([self._limit.format(max(limit_s, 0.001)), *given]))
        using = f" USING {', '.join(self._names)}" if self._names else ""
        with self._link.cursor() as cursor:
            cursor.execute(f"EXECUTE fedflow{using}")
            rows = cursor.fetchmany(2)
            columns = [column[0] for column in cursor.description or ()]
            warnings = cursor.warning_count
        if warnings and any(code == _CHANGED for _, code, _ in self._link.show_warnings()):
            return _unfit("an id is no number")
        if not rows:
            return None
        if len(rows) > 1:
            return failed_source("the query gives several rows for the id")
        return as_features(columns, [_value(value) for value in rows[0]])

    def close(self) -> None:
        """Close the connection, without words of parting that could take time."""
        with suppress(*_BROKEN, pymysql.err.MySQLError):
            self._link._force_close()

    def _wait(self, seconds: float) -> None:
        """Let no read of an answer take longer."""
        self._link._read_timeout = self._link._write_timeout = seconds

    def _limit_variable(self) -> str:
        """Return how the session limits queries, with a place for seconds."""
        if "MariaDB" in self._link.get_server_info():
            return "max_statement_time = {0:.3f}"
        return "max_execution_time = CEILING({0:.3f} * 1000)"

    def _run(self, statement: str) -> None:
        with self._link.cursor() as cursor:
            cursor.execute(statement)


class MysqlFeatures:
    """The features that a query finds, over a few connections."""

    def __init__(self, options: MysqlOptions, query: NamedQuery) -> None:
        self._options = options
        self._query = query
        self.id_names = frozenset(query.names)
        self._timeout_s = options.timeout_ms / 1000
        self._clock = SystemClock()
        self._free = threading.Semaphore(options.connections)
        self._idle: list[_Session] = []  # the last one that was used is used next
        self._lock = threading.Lock()
        self._closed = False

    def try_query(self) -> None:
        """Prepare the query. Raises: pymysql.err.MySQLError, or one of `_BROKEN`."""
        self._give_back(self._opened(self._timeout_s + _GRACE_S))

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return what the query gives for each item."""
        if not self._free.acquire(timeout=min(max(self._left_s(deadline_s), 0.0), _LONGEST_S)):
            return [failed_source("no connection became free in time")] * len(ids)
        try:
            with self._lent() as lent:
                found = [self._find(lent, one, deadline_s) for one in ids]
            return FoundFeatures(found, valid_s=self._options.valid_s)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the connections; those in use are closed after it."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _find(self, lent: _Lent, ids: Ids, deadline_s: float) -> Mapping[str, Any] | FeatureFault:
        values = key_of(ids, self._query.names)
        if isinstance(values, FeatureFault):
            return values
        if any(len(value) > _LONGEST_ID for value in values):
            return _unfit(f"an id is longer than {_LONGEST_ID} characters")
        while True:
            limit_s = min(self._left_s(deadline_s), self._timeout_s)
            if limit_s <= 0:
                return failed_source("no time was left to ask the database")
            if lent.down:
                return failed_source("the database does not answer")
            new = lent.session is None
            try:
                if lent.session is None:
                    lent.session = self._opened(limit_s)
                found = lent.session.find(values, limit_s=limit_s)
                return not_found() if found is None else found
            except pymysql.err.MySQLError as exc:
                fault = _fault(exc)
                if fault is not None:
                    return fault
            except _BROKEN:
                pass
            lent.drop(down=new)

    def _opened(self, wait_s: float) -> _Session:
        return _Session(self._options, self._query, wait_s=wait_s)

    @contextmanager
    def _lent(self) -> Iterator[_Lent]:
        with self._lock:
            lent = _Lent(self._idle.pop() if self._idle else None)
        try:
            yield lent
        except BaseException:
            lent.drop(down=True)
            raise
        if lent.session is not None:
            self._give_back(lent.session)

    def _give_back(self, session: _Session) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(session)
                return
        session.close()

    def _left_s(self, deadline_s: float) -> float:
        return deadline_s - self._clock.monotonic_s()


class _Lent:
    """The session of a request; one that broke, as after a restart, is opened again."""

    def __init__(self, session: _Session | None) -> None:
        self.session = session
        self.down = False  #: a new one broke, too: there is no use in a further one

    def drop(self, *, down: bool) -> None:
        """Close the session."""
        self.down = down
        if self.session is not None:
            self.session.close()
            self.session = None


def _fault(exc: pymysql.err.MySQLError) -> FeatureFault | None:
    """Return what the server says of an item, without its words; None: the session is lost."""
    code = exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0
    if isinstance(exc, pymysql.err.InterfaceError) or code == 0 or 2000 <= code < 3000:
        return None
    if code in _LATE:
        return failed_source("the query took too long")
    if code == _OTHER_TEXT:
        return _unfit("an id has characters that the column cannot have")
    return failed_source(f"the query failed (error {code})")


def _unfit(reason: str) -> FeatureFault:
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


def open_source(options: Mapping[str, Any]) -> MysqlFeatures:
    """Try the query, unless the database cannot be reached now. Raises: BadServingSetting."""
    given = options_as(options, MysqlOptions)
    if given.ca is not None and not Path(given.ca).is_file():
        raise BadServingSetting(path="features.options.ca", reason=f"{given.ca} is no file")
    try:
        source = MysqlFeatures(given, NamedQuery.of(given.query))
    except ValueError as exc:
        raise BadServingSetting(path="features.options.query", reason=str(exc)) from exc
    try:
        source.try_query()
    except (*_BROKEN, pymysql.err.MySQLError) as exc:
        code = exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0
        if code in _WRONG_SETTING:
            reason = f"{given.host}: {exc.args[-1]}"
            raise BadServingSetting(path="features.options", reason=reason) from exc
        logger.warning(
            "MySQL at %s:%d cannot be reached now (%s %d)",
            given.host, given.port, type(exc).__name__, code, extra={"action": "feature_source"},
        )  # fmt: skip
    return source
