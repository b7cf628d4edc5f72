"""The client's calls about what a job's values cost."""

from __future__ import annotations

from typing import Any

from fedflow.client.connection import Connection
from fedflow.wire.api.traces import JobTrace


class JobTraceCalls:
    """Counts and records of the values between executors, at one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, job_id: str, component: str | None = None) -> JobTrace:
        """Return what a job's values cost. Raises: JobNotFound."""
        sent: dict[str, Any] = {"job_id": job_id}
        if component is not None:
            sent["component_name"] = component
        found: JobTrace = self._connection.look_up("job/trace/query", sent, JobTrace)
        return found

    def record(self, job_id: str, *, is_on: bool) -> JobTrace:
        """Record each value of a job from now on, or no more. Raises: JobNotFound."""
        sent = {"job_id": job_id, "is_on": is_on}
        found: JobTrace = self._connection.do("job/trace/record", sent, JobTrace)
        return found
