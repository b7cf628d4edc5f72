"""What a serving process remembers: loads and bindings, in one SQLite file.

Each change is one transaction that is on the disk when a method returns. A share lies beside the
SHA-256 of its bytes, which is compared at each start.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from fedflow.base.errors.serving_process import (
    BindingRefused,
    LoadNotFound,
    LoadRefused,
    ServiceNotBound,
    ServingStateNotUsable,
    VersionNotLoaded,
)
from fedflow.base.values import dataclass

PREPARED_MS: Final = 3_600_000  #: a prepared load is forgotten after this time
_ENDED_MS: Final = 86_400_000  #: ids of ended loads are remembered for so long, for repeats
_KEPT: Final = 100  #: versions per service that a rollback may go back to
_SCHEMA: Final = 1

_TABLES: Final = """
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
CREATE TABLE binding (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    service_id TEXT NOT NULL, model_id TEXT NOT NULL, model_version TEXT NOT NULL,
    weight INTEGER NOT NULL, bound_ms INTEGER NOT NULL,
    current INTEGER NOT NULL
) STRICT;
CREATE INDEX of_service ON binding (service_id, number);
CREATE UNIQUE INDEX current ON binding (service_id) WHERE current = 1;
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionKey:
    """A party's share of a model version."""

    role: str
    party_id: str
    model_id: str
    model_version: str

    @property
    def party_model_id(self) -> str:
        """Return the model id as FATE shows it to callers: `guest#9999#<model id>`."""
        return f"{self.role}#{self.party_id}#{self.model_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLoad:
    """A load that was prepared or committed."""

    load_id: str
    state: Literal["prepared", "loaded"]
    key: VersionKey
    digest: str
    share: bytes
    share_sha256: str
    changed_ms: int

    @property
    def is_damaged(self) -> bool:
        """Tell whether the share is not what was stored."""
        return sha256_of(self.share) != self.share_sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceBinding:
    """The version that answers for a service."""

    service_id: str
    model_id: str
    model_version: str
    weight: int  #: share of the service's requests, percent
    bound_ms: int


def sha256_of(share: bytes) -> str:
    """Return the SHA-256 of a share's bytes, hexadecimal."""
    return hashlib.sha256(share).hexdigest()


class ServingState:
    """Loads and bindings. Thread-safe."""

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

    # --- loads ------------------------------------------------------------------------------------

    def loads(self) -> list[StoredLoad]:
        """Return prepared and committed loads, the oldest first."""
        with self._transaction() as link:
            rows = link.execute(
                "SELECT load_id, state, role, party_id, model_id, model_version, digest, share,"
                " share_sha256, changed_ms FROM load WHERE state IN ('prepared', 'loaded')"
                " ORDER BY changed_ms, load_id"
            ).fetchall()
        return [_load(row) for row in rows]

    def state_of(self, load_id: str) -> tuple[str, str] | None:
        """Return the state of a load and the SHA-256 of its share; None: it is not known."""
        with self._transaction() as link:
            row = link.execute(
                "SELECT state, share_sha256 FROM load WHERE load_id = ?", (load_id,)
            ).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def prepare(self, load: StoredLoad) -> None:
        """Store a prepared load. Raises: LoadRefused: the load id was used before."""
        key = load.key
        with self._transaction() as link:
            known = link.execute("SELECT 1 FROM load WHERE load_id = ?", (load.load_id,)).fetchone()
            if known is not None:
                raise LoadRefused(
                    model_version=key.model_version,
                    reason=f"the load id {load.load_id} was used before",
                )
            link.execute(
                "INSERT INTO load VALUES (?, 'prepared', ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    load.load_id,
                    key.role,
                    key.party_id,
                    key.model_id,
                    key.model_version,
                    load.digest,
                    load.share,
                    load.share_sha256,
                    load.changed_ms,
                ),
            )

    def commit(self, load_id: str, now_ms: int) -> bool:
        """Make a prepared load the loaded one of its version; tell whether it was not before.

        Raises: LoadNotFound: it is not prepared, or not any more.
        """
        with self._transaction() as link:
            row = link.execute(
                "SELECT state, role, party_id, model_id, model_version FROM load WHERE load_id = ?",
                (load_id,),
            ).fetchone()
            if row is not None and row[0] == "loaded":
                return False
            if row is None or row[0] != "prepared":
                raise LoadNotFound(load_id=load_id)
            link.execute(
                "UPDATE load SET state = 'replaced', share = x'', changed_ms = ? WHERE state ="
                " 'loaded' AND role = ? AND party_id = ? AND model_id = ? AND model_version = ?",
                (now_ms, *row[1:]),
            )
            link.execute(
                "UPDATE load SET state = 'loaded', changed_ms = ? WHERE load_id = ?",
                (now_ms, load_id),
            )
        return True

    def abort(self, load_id: str, now_ms: int) -> None:
        """Forget a prepared load; one that comes later under the same id is refused.

        Raises: LoadRefused: it was committed.
        """
        with self._transaction() as link:
            row = link.execute(
                "SELECT state, model_version FROM load WHERE load_id = ?", (load_id,)
            ).fetchone()
            if row is not None and row[0] == "loaded":
                raise LoadRefused(model_version=row[1], reason=f"load {load_id} is committed")
            if row is None:
                link.execute(
                    "INSERT INTO load VALUES (?, 'aborted', '', '', '', '', '', x'', '', ?)",
                    (load_id, now_ms),
                )
            elif row[0] == "prepared":
                link.execute(
                    "UPDATE load SET state = 'aborted', share = x'', changed_ms = ?"
                    " WHERE load_id = ?",
                    (now_ms, load_id),
                )

    def unload(self, model_id: str, model_version: str, now_ms: int) -> list[str]:
        """Forget a loaded version, and unbind it; return the services that were bound to it.

        Raises: VersionNotLoaded.
        """
        version = (model_id, model_version)
        with self._transaction() as link:
            changed = link.execute(
                "UPDATE load SET state = 'unloaded', share = x'', changed_ms = ?"
                " WHERE state = 'loaded' AND model_id = ? AND model_version = ?",
                (now_ms, *version),
            ).rowcount
            if not changed:
                raise VersionNotLoaded(model_id=model_id, model_version=model_version)
            services = link.execute(
                "UPDATE binding SET current = 0 WHERE current = 1 AND model_id = ?"
                " AND model_version = ? RETURNING service_id",
                version,
            ).fetchall()
        return sorted(row[0] for row in services)

    def forget_old(self, now_ms: int) -> list[str]:
        """Forget prepared loads that are too old; return their ids."""
        with self._transaction() as link:
            old = link.execute(
                "UPDATE load SET state = 'aborted', share = x'', changed_ms = ?"
                " WHERE state = 'prepared' AND changed_ms < ? RETURNING load_id",
                (now_ms, now_ms - PREPARED_MS),
            ).fetchall()
            link.execute(
                "DELETE FROM load WHERE state NOT IN ('prepared', 'loaded') AND changed_ms < ?",
                (now_ms - _ENDED_MS,),
            )
        return [row[0] for row in old]

    # --- bindings ---------------------------------------------------------------------------------

    def bindings(self) -> list[ServiceBinding]:
        """Return the binding of each service, in the order of their ids."""
        with self._transaction() as link:
            rows = link.execute(
                "SELECT service_id, model_id, model_version, weight, bound_ms FROM binding"
                " WHERE current = 1 ORDER BY service_id"
            ).fetchall()
        return [_binding(row) for row in rows]

    def history(self, service_id: str) -> list[ServiceBinding]:
        """Return what a service was bound to, the newest first."""
        with self._transaction() as link:
            rows = link.execute(
                "SELECT service_id, model_id, model_version, weight, bound_ms FROM binding"
                " WHERE service_id = ? ORDER BY number DESC",
                (service_id,),
            ).fetchall()
        return [_binding(row) for row in rows]

    def bind(self, binding: ServiceBinding) -> ServiceBinding | None:
        """Let a loaded version answer for a service; return what answered before.

        Raises: VersionNotLoaded.
        """
        values = (
            binding.service_id,
            binding.model_id,
            binding.model_version,
            binding.weight,
            binding.bound_ms,
        )
        with self._transaction() as link:
            _check_loaded(link, binding.model_id, binding.model_version)
            before = _current(link, binding.service_id)
            if before is not None and before[2:5] == values[1:4]:
                return _binding(before[1:])
            link.execute(
                "UPDATE binding SET current = 0 WHERE service_id = ?", (binding.service_id,)
            )
            link.execute(
                "INSERT INTO binding (service_id, model_id, model_version, weight, bound_ms,"
                " current) VALUES (?, ?, ?, ?, ?, 1)",
                values,
            )
            link.execute(
                "DELETE FROM binding WHERE service_id = ? AND number NOT IN (SELECT number FROM"
                " binding WHERE service_id = ? ORDER BY number DESC LIMIT ?)",
                (binding.service_id, binding.service_id, _KEPT),
            )
        return None if before is None else _binding(before[1:])

    def unbind(self, service_id: str) -> ServiceBinding:
        """Let nothing answer for a service; return what did. Raises: ServiceNotBound."""
        with self._transaction() as link:
            before = _current(link, service_id)
            if before is None:
                raise ServiceNotBound(service_id=service_id)
            link.execute("UPDATE binding SET current = 0 WHERE service_id = ?", (service_id,))
        return _binding(before[1:])

    def roll_back(self, service_id: str) -> tuple[ServiceBinding, ServiceBinding]:
        """Let the version answer again that did before this one; return this one and that one.

        A second call goes back further. Raises: ServiceNotBound. BindingRefused: there is no
        version before, or it is not loaded any more.
        """
        with self._transaction() as link:
            now = _current(link, service_id)
            if now is None:
                raise ServiceNotBound(service_id=service_id)
            before = link.execute(
                "SELECT number, service_id, model_id, model_version, weight, bound_ms FROM binding"
                " WHERE service_id = ? AND number < ? AND (model_id, model_version) != (?, ?)"
                " ORDER BY number DESC LIMIT 1",
                (service_id, now[0], now[2], now[3]),
            ).fetchone()
            if before is None:
                raise BindingRefused(service_id=service_id, reason="no version was bound before")
            try:
                _check_loaded(link, before[2], before[3])
            except VersionNotLoaded as exc:
                reason = f"version {before[3]}, bound before, is not loaded any more"
                raise BindingRefused(service_id=service_id, reason=reason) from exc
            link.execute("UPDATE binding SET current = 0 WHERE service_id = ?", (service_id,))
            link.execute("UPDATE binding SET current = 1 WHERE number = ?", (before[0],))
        return _binding(now[1:]), _binding(before[1:])

    # --- the file ---------------------------------------------------------------------------------

    def _create(self) -> None:
        link = self._opened()
        (version,) = link.execute("PRAGMA user_version").fetchone()
        if version == 0:
            link.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_SCHEMA}; COMMIT;")
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

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
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


_Row = tuple[int, str, str, str, int, int]


def _current(link: sqlite3.Connection, service_id: str) -> _Row | None:
    row: _Row | None = link.execute(
        "SELECT number, service_id, model_id, model_version, weight, bound_ms FROM binding"
        " WHERE service_id = ? AND current = 1",
        (service_id,),
    ).fetchone()
    return row


def _check_loaded(link: sqlite3.Connection, model_id: str, model_version: str) -> None:
    found = link.execute(
        "SELECT 1 FROM load WHERE state = 'loaded' AND model_id = ? AND model_version = ?",
        (model_id, model_version),
    ).fetchone()
    if found is None:
        raise VersionNotLoaded(model_id=model_id, model_version=model_version)


def _binding(row: tuple[str, str, str, int, int]) -> ServiceBinding:
    service_id, model_id, model_version, weight, bound_ms = row
    return ServiceBinding(
        service_id=service_id,
        model_id=model_id,
        model_version=model_version,
        weight=weight,
        bound_ms=bound_ms,
    )


def _load(
    row: tuple[str, Literal["prepared", "loaded"], str, str, str, str, str, bytes, str, int],
) -> StoredLoad:
    load_id, state, role, party_id, model_id, model_version, digest, share, sha256, changed = row
    key = VersionKey(role=role, party_id=party_id, model_id=model_id, model_version=model_version)
    return StoredLoad(
        load_id=load_id,
        state=state,
        key=key,
        digest=digest,
        share=share,
        share_sha256=sha256,
        changed_ms=changed,
    )
