"""The client's calls about tags of jobs."""

from __future__ import annotations

from fedflow.client.connection import Connection
from fedflow.wire.api.jobs import JobTag, JobTags, TagsOfJob


class JobTagCalls:
    """Words that people of one server give to jobs; other parties do not see them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> list[JobTag]:
        """Return the tags of this server's jobs; those that most jobs have first."""
        row = self._connection.look_up("job/tag/list", {}, JobTags)
        return list(row.tags)

    def of(self, job_id: str) -> list[str]:
        """Return the tags of a job. Raises: JobNotFound."""
        row = self._connection.look_up("job/tag/query", {"job_id": job_id}, TagsOfJob)
        return list(row.tags)

    def add(self, job_id: str, name: str) -> list[str]:
        """Give a job a tag, and return all that it has. Raises: JobNotFound, BadRequest."""
        return self._change("add", job_id, name)

    def remove(self, job_id: str, name: str) -> list[str]:
        """Take a tag from a job, and return those that stay. Raises: JobNotFound."""
        return self._change("remove", job_id, name)

    def _change(self, what: str, job_id: str, name: str) -> list[str]:
        sent = {"job_id": job_id, "tag_name": name}
        row = self._connection.do(f"job/tag/{what}", sent, TagsOfJob)
        return list(row.tags)
