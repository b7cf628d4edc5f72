"""Tags of jobs: words that people of this server give them, to find them again."""

from __future__ import annotations

from typing import Final

from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.domain.job_lines import MAX_TAGS, tag_problem
from fedflow.domain.records import JobFilter

_SHOWN: Final = 1_000  #: tags that are listed


class JobTagging:
    """The use cases of the tag routes. Other parties do not see the tags."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def add(self, job_id: str, name: str) -> tuple[str, ...]:
        """Give a job a tag, and return all that it has. Raises: JobNotFound, BadRequest."""
        problem = tag_problem(name)
        if problem is not None:
            raise BadRequest(reason=problem)
        with self._store.transaction() as tx:
            _check_job(tx, job_id)
            known = _tags(tx, job_id)
            if name not in known and len(known) >= MAX_TAGS:
                raise BadRequest(reason=Message("a job has at most {limit} tags", MAX_TAGS))
            tx.job_tags.add(job_id, name, now_ms=self._clock.now_ms())
            return _tags(tx, job_id)

    def remove(self, job_id: str, name: str) -> tuple[str, ...]:
        """Take a tag from a job, and return those that stay. Raises: JobNotFound."""
        with self._store.transaction() as tx:
            _check_job(tx, job_id)
            tx.job_tags.remove(job_id, name)
            return _tags(tx, job_id)

    def of(self, job_id: str) -> tuple[str, ...]:
        """Return the tags of a job. Raises: JobNotFound."""
        with self._store.read() as tx:
            _check_job(tx, job_id)
            return _tags(tx, job_id)

    def all(self, *, limit: int = _SHOWN) -> list[tuple[str, int]]:
        """Return the tags and how many jobs have each; those that most have first."""
        with self._store.read() as tx:
            return tx.job_tags.all(limit=limit)


def _tags(tx: Tx, job_id: str) -> tuple[str, ...]:
    return tx.job_tags.of([job_id]).get(job_id, ())


def _check_job(tx: Tx, job_id: str) -> None:
    """Raises: JobNotFound."""
    if not tx.jobs.count(JobFilter(job_id=job_id)) and tx.schedules.status(job_id) is None:
        raise JobNotFound(job_id=job_id[:100])
