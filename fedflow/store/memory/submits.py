"""Idempotency keys of submits, in memory."""

from __future__ import annotations

from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.store.memory.journal import Journal


class MemorySubmits:
    """See `app.ports.jobs.SubmitKeyStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._keys: dict[str, SubmitKey] = {}

    def get(self, key: str) -> SubmitKey | None:
        return self._keys.get(key)

    def put(self, used: SubmitKey, *, instead_of: str | None = None) -> bool:
        known = self._keys.get(used.key)
        if known is not None and known.job_id != instead_of:
            return False
        self._journal.put(self._keys, used.key, used)
        return True

    def drop(self, job_id: str, *, created_ms: int) -> None:
        for key in [key for key, used in self._keys.items() if used.job_id == job_id]:
            self._journal.drop(self._keys, key)

    def prune(self, older_than_ms: int) -> int:
        old = [key for key, used in self._keys.items() if used.created_ms < older_than_ms]
        for key in old:
            self._journal.drop(self._keys, key)
        return len(old)
