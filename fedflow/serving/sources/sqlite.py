"""Features from a SQLite file, by a query whose parameters are the callers' ids.

    features:
      source: sqlite
      options: {path: /data/features.sqlite, query: "SELECT x0, x1 FROM f WHERE id = :device_id"}

The query names ids as `:name`; they are bound, never put into its text. The file is only read. An
id whose query takes longer than `timeout_ms` has an error, and the others are looked up. `valid_s`
says for how many seconds guests may use again what was found; 0: never.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.codes import ServingCode
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.sources.query import NamedQuery
from fedflow.serving.sources.source import (
    FeatureFault,
    FoundFeatures,
    Ids,
    Validity,
    as_features,
    failed_source,
    not_found,
    options_as,
)

_STEPS: Final = 1_000  #: of SQLite's machine, between two looks at the clock


class SqliteOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `sqlite`."""

    path: str
    query: str  #: gives one row per id, the names of its columns are those of the features
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 1_000  #: of the query for one id
    valid_s: Validity = None


class SqliteFeatures:
    """The features that a query finds, one connection per thread."""

    def __init__(
        self, path: Path, query: str, *, timeout_ms: int = 1_000, valid_s: float | None = None
    ) -> None:
        """Try the query. Raises: sqlite3.Error: it is none, or the file cannot be read."""
        self.id_names = frozenset(NamedQuery.of(query).names)
        self._timeout_s = timeout_ms / 1000
        self._uri = f"{path.absolute().as_uri()}?mode=ro"
        self._query = query
        self._valid_s = valid_s
        self._clock = SystemClock()
        self._own = threading.local()
        self._links: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        with (
            closing(sqlite3.connect(self._uri, uri=True)) as link,
            suppress(
                sqlite3.ProgrammingError  # its parameters are not given
            ),
        ):
            link.execute(f"EXPLAIN {query}")

    def find(self, ids: Sequence[Ids], *, deadline_s: float) -> FoundFeatures:
        """Return what the query gives for each item."""
        link = self._link()
        found = (self._find(link, one, deadline_s) for one in ids)
        return FoundFeatures(found, valid_s=self._valid_s)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for link in self._links:
                link.close()
            self._links.clear()

    def _find(
        self, link: sqlite3.Connection, ids: Ids, deadline_s: float
    ) -> Mapping[str, Any] | FeatureFault:
        now_s = self._clock.monotonic_s
        end_s = min(deadline_s, now_s() + self._timeout_s)
        link.set_progress_handler(lambda: now_s() > end_s, _STEPS)
        try:
            cursor = link.execute(self._query, {name: _bound(name, v) for name, v in ids.items()})
            rows = cursor.fetchmany(2)
        except (sqlite3.ProgrammingError, OverflowError, ValueError) as exc:
            # an id is missing, too large, or of no type of an id
            return FeatureFault(retcode=ServingCode.FEATURES, reason=f"the ids do not fit: {exc}")
        except sqlite3.Error as exc:
            late = "interrupted" in str(exc)
            return failed_source("the query took too long" if late else "the query failed")
        if not rows:
            return not_found()
        if len(rows) > 1:
            return failed_source("the query gives several rows for the id")
        return as_features([column[0] for column in cursor.description], rows[0])

    def _link(self) -> sqlite3.Connection:
        link: sqlite3.Connection | None = getattr(self._own, "link", None)
        if link is None:
            link = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
            self._own.link = link
            with self._lock:
                self._links.append(link)
        return link


def _bound(name: str, value: IdValue) -> IdValue:
    """Return what stands for an id. Raises: ValueError: it is neither text nor a whole number."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"the id {name} is neither text nor a whole number")
    return int(value) if isinstance(value, float) else value


def open_source(options: Mapping[str, Any]) -> SqliteFeatures:
    """Open the file. Raises: BadServingSetting."""
    given = options_as(options, SqliteOptions)
    try:
        return SqliteFeatures(
            Path(given.path), given.query, timeout_ms=given.timeout_ms, valid_s=given.valid_s
        )
    except sqlite3.Error as exc:
        raise BadServingSetting(path="features.options", reason=f"{given.path}: {exc}") from exc
