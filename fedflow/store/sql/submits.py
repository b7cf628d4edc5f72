"""Idempotency keys of submits (`t_submit_key`)."""

from __future__ import annotations

from typing import Final

from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.store.job_tables import SUBMIT_KEY
from fedflow.store.mapper import WARNINGS, Mapper
from fedflow.store.session import Session

_KEYS: Final = Mapper(
    SUBMIT_KEY,
    SubmitKey,
    {
        "key": "f_key",
        "digest": "f_digest",
        "job_id": "f_job_id",
        "warnings": WARNINGS("f_warnings"),
        "created_ms": "f_create_time",
    },
)
_NEAR_MS: Final = 60_000


class SqlSubmits:
    """See `app.ports.jobs.SubmitKeyStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, key: str) -> SubmitKey | None:
        return _KEYS.one(self._session.row(f"{_KEYS.select} WHERE f_key = ?", (key,)))

    def put(self, used: SubmitKey, *, instead_of: str | None = None) -> bool:
        if instead_of is not None:
            self._session.write(
                "DELETE FROM t_submit_key WHERE f_key = ? AND f_job_id = ?", (used.key, instead_of)
            )
        return self._session.insert(SUBMIT_KEY, _KEYS.row(used))

    def drop(self, job_id: str, *, created_ms: int) -> None:
        self._session.write(  # by the index of times: a key is stored together with its job
            "DELETE FROM t_submit_key WHERE f_create_time BETWEEN ? AND ? AND f_job_id = ?",
            (created_ms - _NEAR_MS, created_ms + _NEAR_MS, job_id),
        )

    def prune(self, older_than_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_submit_key WHERE f_create_time < ?", (older_than_ms,)
        )
