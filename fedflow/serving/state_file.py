"""The SQLite file of a serving process's state: loads and services.

Each change is one transaction that is on the disk when a method returns.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fedflow.base.errors.serving_process import ServingStateNotUsable

_SCHEMA: Final = 2

_LOADS: Final = """
CREATE TABLE load (
    load_id TEXT PRIMARY KEY,
    state TEXT NOT NULL,          -- prepared, loaded; ended: aborted, replaced or unloaded
    role TEXT NOT NULL, party_id TEXT NOT NULL, model_id TEXT NOT NULL, model_version TEXT NOT NULL,
    digest TEXT NOT NULL,         -- of the version, common to all its parties
    share BLOB NOT NULL,          -- JSON; empty when it has ended
    share_sha256 TEXT NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX loaded ON load (role, party_id, model_id, model_version) WHERE state = 'loaded';
"""
_SERVICES: Final = """
CREATE TABLE release (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    service_id TEXT NOT NULL,
    release TEXT NOT NULL,        -- JSON: versions, weights, rules
    bound_ms INTEGER NOT NULL,
    current INTEGER NOT NULL      -- 1: answers now, 0: did before, -1: was rolled back
) STRICT;
CREATE INDEX release_of ON release (service_id, number);
CREATE UNIQUE INDEX current_release ON release (service_id) WHERE current = 1;
CREATE TABLE service (
    service_id TEXT PRIMARY KEY,
    options TEXT NOT NULL,        -- JSON
    salt TEXT NOT NULL            -- keys the hash that gives users their versions
) STRICT;
"""

#: a service that is new has no options, and a salt of its own
ADD_SERVICE: Final = (
    "INSERT INTO service VALUES (?, '{}', lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING"
)


class StateFile:
    """The file and its transactions. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises: ServingStateNotUsable."""
        self._path = path
        self._lock = threading.Lock()
        self._link: sqlite3.Connection | None = None
        with self._guarded():
            self._link = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._link.execute("PRAGMA journal_mode = WAL")
            self._link.execute("PRAGMA synchronous = FULL")
            self._create()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._link is not None:
                self._link.close()
                self._link = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a transaction. Raises: ServingStateNotUsable."""
        with self._lock, self._guarded():
            link = self._opened()
            link.execute("BEGIN IMMEDIATE")
            try:
                yield link
                link.execute("COMMIT")
            except BaseException:
                if link.in_transaction:
                    link.execute("ROLLBACK")
                raise

    def _create(self) -> None:
        link = self._opened()
        (version,) = link.execute("PRAGMA user_version").fetchone()
        if version == 0:
            link.executescript(
                f"BEGIN; {_LOADS} {_SERVICES} PRAGMA user_version = {_SCHEMA}; COMMIT;"
            )
        elif version == 1:
            _from_version_1(link)
        elif version != _SCHEMA:
            raise sqlite3.DatabaseError(f"it has version {version}, this program {_SCHEMA}")

    def _opened(self) -> sqlite3.Connection:
        if self._link is None:
            raise sqlite3.ProgrammingError("it is closed")
        return self._link

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as exc:
            raise ServingStateNotUsable(path=str(self._path), reason=str(exc)) from exc


def _from_version_1(link: sqlite3.Connection) -> None:
    """Turn bindings, each of one version, into releases."""
    rows = link.execute(
        "SELECT service_id, model_id, model_version, bound_ms, current FROM binding ORDER BY number"
    ).fetchall()
    link.executescript(f"BEGIN; {_SERVICES} DROP TABLE binding;")
    for service_id, model_id, model_version, bound_ms, current in rows:
        version = {"model_id": model_id, "model_version": model_version, "weight": 100.0}
        link.execute(
            "INSERT INTO release (service_id, release, bound_ms, current) VALUES (?, ?, ?, ?)",
            (service_id, json.dumps({"versions": [version]}), bound_ms, current),
        )
        link.execute(ADD_SERVICE, (service_id,))
    link.execute(f"PRAGMA user_version = {_SCHEMA}")
    link.execute("COMMIT")
