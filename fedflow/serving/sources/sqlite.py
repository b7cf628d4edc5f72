"""Features from a SQLite file, by a query whose parameters are the callers' ids.

    features:
      source: sqlite
      options: {path: /data/features.sqlite, query: "SELECT x0, x1 FROM f WHERE id = :device_id"}

The query names ids as `:name`; they are bound, never put into its text. The file is only read.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.codes import ServingCode
from fedflow.serving.sources.source import FeatureFault, Ids, not_found, options_as

_STEPS: Final = 1_000  #: of SQLite's machine, between two looks at the clock


class SqliteOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `sqlite`."""

    path: str
    query: str  #: gives one row per id, the names of its columns are those of the features


class SqliteFeatures:
    """The features that a query finds, one connection per thread."""

    def __init__(self, path: Path, query: str) -> None:
        """Try the query. Raises: sqlite3.Error: it is none, or the file cannot be read."""
        self._uri = f"{path.absolute().as_uri()}?mode=ro"
        self._query = query
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

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> list[Mapping[str, Any] | FeatureFault]:
        """Return what the query gives for each item."""
        link = self._link()
        late = self._clock.monotonic_s
        link.set_progress_handler(lambda: late() > deadline_s, _STEPS)
        return [self._find(link, one) for one in ids]

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for link in self._links:
                link.close()
            self._links.clear()

    def _find(self, link: sqlite3.Connection, ids: Ids) -> Mapping[str, Any] | FeatureFault:
        try:
            cursor = link.execute(self._query, dict(ids))
            rows = cursor.fetchmany(2)
        except (sqlite3.ProgrammingError, OverflowError) as exc:  # an id is missing, or too large
            return FeatureFault(retcode=ServingCode.FEATURES, reason=f"the ids do not fit: {exc}")
        except sqlite3.Error as exc:
            reason = "the query took too long" if "interrupted" in str(exc) else "the query failed"
            return FeatureFault(retcode=ServingCode.SOURCE, reason=reason)
        if not rows:
            return not_found()
        if len(rows) > 1:
            return FeatureFault(
                retcode=ServingCode.SOURCE, reason="the query gives several rows for the id"
            )
        names = [column[0] for column in cursor.description]
        return {n: value for n, value in zip(names, rows[0], strict=True) if value is not None}

    def _link(self) -> sqlite3.Connection:
        link: sqlite3.Connection | None = getattr(self._own, "link", None)
        if link is None:
            link = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
            self._own.link = link
            with self._lock:
                self._links.append(link)
        return link


def open_source(options: Mapping[str, Any]) -> SqliteFeatures:
    """Open the file. Raises: BadServingSetting."""
    given = options_as(options, SqliteOptions)
    try:
        return SqliteFeatures(Path(given.path), given.query)
    except sqlite3.Error as exc:
        raise BadServingSetting(path="features.options", reason=f"{given.path}: {exc}") from exc
