"""Idempotency keys of submits (`t_submit_key`)."""

from __future__ import annotations

from fedflow.domain.submits import SubmitKey
from fedflow.store.codec import from_json, to_json
from fedflow.store.session import Session, Value
from fedflow.store.tables import SUBMIT_KEY


class SqlSubmits:
    """See `app.ports.Submits`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, key: str) -> SubmitKey | None:
        found = self._session.row(
            "SELECT f_digest, f_job_id, f_warnings, f_create_time FROM t_submit_key "
            "WHERE f_key = ?",
            (key,),
        )
        if found is None:
            return None
        digest, job_id, warnings, created_ms = found
        return SubmitKey(
            key=key,
            digest=digest,
            job_id=job_id,
            warnings=tuple(from_json(warnings)),
            created_ms=created_ms,
        )

    def put(self, used: SubmitKey, *, instead_of: str | None = None) -> bool:
        row: dict[str, Value] = {
            "f_key": used.key,
            "f_digest": used.digest,
            "f_job_id": used.job_id,
            "f_warnings": to_json(list(used.warnings)),
            "f_create_time": used.created_ms,
        }
        if instead_of is not None:
            self._session.write(
                "DELETE FROM t_submit_key WHERE f_key = ? AND f_job_id = ?", (used.key, instead_of)
            )
        return self._session.insert(SUBMIT_KEY, row)

    def prune(self, older_than_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_submit_key WHERE f_create_time < ?", (older_than_ms,)
        )
