"""What a serving process remembers of loads.

A share lies beside the SHA-256 of its bytes, which is compared at each start.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

from fedflow.base.errors.serving_process import (
    LoadNotFound,
    LoadRefused,
    VersionNotLoaded,
)
from fedflow.base.values import dataclass
from fedflow.serving.services.service_state import drop_version
from fedflow.serving.state_file import StateFile

PREPARED_MS: Final = 3_600_000  #: a prepared load is forgotten after this time
_TIME: Final = re.compile(r"[0-9]{13}-")
_ENDED_MS: Final = 86_400_000  #: ids of ended loads are remembered for so long, for repeats


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


def sha256_of(share: bytes) -> str:
    """Return the SHA-256 of a share's bytes, hexadecimal."""
    return hashlib.sha256(share).hexdigest()


class LoadState:
    """Loads. Thread-safe."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def loads(self) -> list[StoredLoad]:
        """Return prepared and committed loads, the oldest first."""
        with self._file.transaction() as link:
            rows = link.execute(
                "SELECT load_id, state, role, party_id, model_id, model_version, digest, share,"
                " share_sha256, changed_ms FROM load WHERE state IN ('prepared', 'loaded')"
                " ORDER BY changed_ms, load_id"
            ).fetchall()
        return [_load(row) for row in rows]

    def state_of(self, load_id: str) -> tuple[str, str] | None:
        """Return the state of a load and the SHA-256 of its share; None: it is not known."""
        with self._file.transaction() as link:
            row = link.execute(
                "SELECT state, share_sha256 FROM load WHERE load_id = ?", (load_id,)
            ).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def prepare(self, load: StoredLoad) -> None:
        """Store a prepared load. Raises: LoadRefused: the load id was used before."""
        key = load.key
        with self._file.transaction() as link:
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
        with self._file.transaction() as link:
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
        with self._file.transaction() as link:
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

    def unload(
        self, model_id: str, model_version: str, now_ms: int, *, load_id: str = ""
    ) -> list[str]:
        """Forget a loaded version, and unbind it; return the services that were bound to it.

        Its prepared loads are forgotten, too: no commit that comes late loads it again.

        `load_id` is that of the unload. Raises: VersionNotLoaded: there is neither. LoadRefused:
            a load is newer, so the unload comes late.
        """
        version = (model_id, model_version)
        with self._file.transaction() as link:
            known = link.execute(
                "SELECT load_id FROM load WHERE state IN ('loaded', 'prepared')"
                " AND model_id = ? AND model_version = ?",
                version,
            ).fetchall()
            if any(_is_later(one, load_id) for (one,) in known):
                reason = "it was loaded again after this unload was asked for"
                raise LoadRefused(model_version=model_version, reason=reason)
            changed = link.execute(
                "UPDATE load SET state = 'unloaded', share = x'', changed_ms = ?"
                " WHERE state IN ('loaded', 'prepared') AND model_id = ? AND model_version = ?",
                (now_ms, *version),
            ).rowcount
            if not changed:
                raise VersionNotLoaded(model_id=model_id, model_version=model_version)
            return drop_version(link, version, now_ms)

    def forget_old(self, now_ms: int) -> list[str]:
        """Forget prepared loads that are too old; return their ids."""
        with self._file.transaction() as link:
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


def _is_later(load_id: str, other: str) -> bool:
    """Tell whether a load was asked for after another one; ids of Flow servers begin with that."""
    times = _TIME.match(load_id), _TIME.match(other)
    return all(times) and load_id[:13] > other[:13]


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
