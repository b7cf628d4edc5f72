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
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pymysql
from pymysql.constants import ER

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.sources.mysql_session import (
    BROKEN,
    GRACE_S,
    TOGETHER,
    Found,
    MysqlOptions,
    MysqlSession,
    code_of,
    is_lost,
    unfit,
)
from fedflow.serving.sources.query import NamedQuery
from fedflow.serving.sources.source import (
    FeatureFault,
    FoundFeatures,
    Ids,
    failed_source,
    key_of,
    options_as,
)

logger = logging.getLogger(__name__)

_LONGEST_ID: Final = 1_024  #: characters
_LONGEST_S: Final = 60.0  #: waited for a free connection
_LATE: Final = frozenset({1317, 1969, 3024})  #: a query was interrupted
_OTHER_TEXT: Final = 1267  #: an id has characters that the column cannot have
_WRONG_SETTING: Final = frozenset(
    {ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, ER.PARSE_ERROR,
     ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.TABLEACCESS_DENIED_ERROR}
)  # fmt: skip


class MysqlFeatures:
    """The features that a query finds, over a few connections."""

    def __init__(self, options: MysqlOptions, query: NamedQuery) -> None:
        self._options = options
        self._query = query
        self.id_names = frozenset(query.names)
        self._timeout_s = options.timeout_ms / 1000
        self._clock = SystemClock()
        self._free = threading.Semaphore(options.connections)
        self._idle: list[MysqlSession] = []  # the last one that was used is used next
        self._lock = threading.Lock()
        self._closed = False

    def try_query(self) -> None:
        """Prepare the query. Raises: pymysql.err.MySQLError, or one of `BROKEN`."""
        self._give_back(self._opened(self._timeout_s + GRACE_S))

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return what the query gives for each item."""
        if not self._free.acquire(timeout=min(max(self._left_s(deadline_s), 0.0), _LONGEST_S)):
            return [failed_source("no connection became free in time")] * len(ids)
        try:
            with self._lent() as lent:
                found = self._all(lent, ids, deadline_s)
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

    def _all(self, lent: _Lent, ids: Sequence[Ids], deadline_s: float) -> list[Found]:
        values = [self._values(one) for one in ids]
        good = [(n, one) for n, one in enumerate(values) if not isinstance(one, FeatureFault)]
        answers: dict[int, Found] = {
            n: one for n, one in enumerate(values) if isinstance(one, FeatureFault)
        }
        for start in range(0, len(good), TOGETHER[-1]):
            part = good[start : start + TOGETHER[-1]]
            some = self._together(lent, [one for _, one in part], deadline_s)
            for place, (number, one) in enumerate(part):
                answers[number] = (
                    self._alone(lent, one, deadline_s) if some is None else some[place]
                )
        return [answers[number] for number in range(len(ids))]

    def _values(self, ids: Ids) -> tuple[str, ...] | FeatureFault:
        values = key_of(ids, self._query.names)
        if not isinstance(values, FeatureFault) and any(len(one) > _LONGEST_ID for one in values):
            return unfit(f"an id is longer than {_LONGEST_ID} characters")
        return values

    def _together(
        self, lent: _Lent, items: Sequence[Sequence[str]], deadline_s: float
    ) -> list[Found] | None:
        """Return what one query gives for items; None: each is to be asked alone."""
        limit_s = min(self._left_s(deadline_s) / 2, self._timeout_s)
        if len(items) == 1 or lent.session is None or limit_s <= 0:
            return None
        try:
            return lent.session.find_together(items, limit_s=limit_s)
        except (pymysql.err.MySQLError, *BROKEN):
            lent.drop(down=False)
            return None

    def _alone(self, lent: _Lent, values: Sequence[str], deadline_s: float) -> Found:
        """Return what the query gives for one item."""
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
                return lent.session.find(values, limit_s=limit_s)
            except pymysql.err.MySQLError as exc:
                fault = _fault(exc)
                if fault is not None:
                    return fault
            except BROKEN:
                pass
            lent.drop(down=new)

    def _opened(self, wait_s: float) -> MysqlSession:
        return MysqlSession(self._options, self._query, wait_s=wait_s)

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

    def _give_back(self, session: MysqlSession) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(session)
                return
        session.close()

    def _left_s(self, deadline_s: float) -> float:
        return deadline_s - self._clock.monotonic_s()


class _Lent:
    """The session of a request; one that broke, as after a restart, is opened again."""

    def __init__(self, session: MysqlSession | None) -> None:
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
    code = code_of(exc)
    if is_lost(exc):
        return None
    if code in _LATE:
        return failed_source("the query took too long")
    if code == _OTHER_TEXT:
        return unfit("an id has characters that the column cannot have")
    return failed_source(f"the query failed (error {code})")


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
    except (*BROKEN, pymysql.err.MySQLError) as exc:
        code = code_of(exc)
        if code in _WRONG_SETTING:
            reason = f"{given.host}: {exc.args[-1]}"
            raise BadServingSetting(path="features.options", reason=reason) from exc
        logger.warning(
            "MySQL at %s:%d cannot be reached now (%s %d)",
            given.host, given.port, type(exc).__name__, code, extra={"action": "feature_source"},
        )  # fmt: skip
    return source
