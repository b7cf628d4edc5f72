"""What a job's values cost at this server, and whether each is recorded."""

from __future__ import annotations

from fedflow.app.ports.executors import Sessions
from fedflow.app.ports.store import Store
from fedflow.app.queries.history import check_component
from fedflow.base.errors.jobs import JobNotFound
from fedflow.domain.records import JobFilter, JobRecord
from fedflow.wire.api.traces import JobTrace


class JobTraces:
    """The use cases of the trace routes. Other parties do not see the traces."""

    def __init__(self, *, store: Store, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    def of(self, job_id: str, component: str | None = None) -> JobTrace:
        """Return the traces of a job, or of one of its components.

        Raises: JobNotFound. BadRequest: the job has no such component.
        """
        job = self._job(job_id)
        found = self._sessions.trace_of(job_id)
        if component is None:
            return found
        check_component(component, job.dsl)
        own = tuple(s for s in found.sessions if s.component == component)
        return JobTrace(sessions=own, is_on=found.is_on)

    def record(self, job_id: str, *, is_on: bool) -> None:
        """Record each value of a job from now on, or no more. Raises: JobNotFound."""
        self._job(job_id)
        self._sessions.trace_job(job_id, is_on=is_on)

    def _job(self, job_id: str) -> JobRecord:
        with self._store.read() as tx:
            found = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if not found:
            raise JobNotFound(job_id=job_id)
        return found[0]
