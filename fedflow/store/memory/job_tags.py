"""Tags of jobs, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fedflow.store.memory.journal import Journal


class MemoryJobTags:
    """See `app.ports.jobs.JobTagStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tags: dict[str, dict[str, int]] = {}  #: by job, when each was given

    def add(self, job_id: str, name: str, *, now_ms: int) -> bool:
        tags = self._tags.get(job_id, {})
        if name in tags:
            return False
        self._journal.put(self._tags, job_id, {**tags, name: now_ms})
        return True

    def remove(self, job_id: str, name: str) -> bool:
        tags = self._tags.get(job_id, {})
        if name not in tags:
            return False
        self._journal.put(self._tags, job_id, {n: at for n, at in tags.items() if n != name})
        return True

    def of(self, job_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        found = {job_id: self.names(job_id) for job_id in sorted(set(job_ids))}
        return {job_id: names for job_id, names in found.items() if names}

    def names(self, job_id: str) -> tuple[str, ...]:
        """Return the tags of one job, in the order of their names."""
        return tuple(sorted(self._tags.get(job_id, ())))

    def all(self, *, limit: int) -> list[tuple[str, int]]:
        counts = Counter(name for tags in self._tags.values() for name in tags)
        return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:limit]

    def drop(self, job_id: str) -> int:
        count = len(self._tags.get(job_id, {}))
        self._journal.drop(self._tags, job_id)
        return count
