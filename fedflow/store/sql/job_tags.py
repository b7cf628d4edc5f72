"""Tags of jobs (`t_job_tag`)."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection

from fedflow.store.job_tables import JOB_TAG
from fedflow.store.session import Session, one_of


class SqlJobTags:
    """See `app.ports.jobs.JobTagStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, job_id: str, name: str, *, now_ms: int) -> bool:
        return self._session.insert(
            JOB_TAG, {"f_job_id": job_id, "f_name": name, "f_create_time": now_ms}
        )

    def remove(self, job_id: str, name: str) -> bool:
        gone = self._session.write(
            "DELETE FROM t_job_tag WHERE f_job_id = ? AND f_name = ?", (job_id, name)
        )
        return gone > 0

    def of(self, job_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        return tags_of(self._session, job_ids)

    def all(self, *, limit: int) -> list[tuple[str, int]]:
        found = self._session.rows(
            "SELECT f_name, COUNT(*) AS jobs FROM t_job_tag GROUP BY f_name "
            "ORDER BY jobs DESC, f_name LIMIT ?",
            (limit,),
        )
        return [(name, count) for name, count in found]

    def drop(self, job_id: str) -> int:
        return self._session.write("DELETE FROM t_job_tag WHERE f_job_id = ?", (job_id,))


def tags_of(session: Session, job_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of those of some jobs that have any, in the order of their names."""
    ids = sorted(job_ids)
    if not ids:
        return {}
    found: dict[str, list[str]] = {}
    for job_id, name in session.rows(
        f"SELECT f_job_id, f_name FROM t_job_tag WHERE {one_of('f_job_id', len(ids))} "
        "ORDER BY f_job_id, f_name",
        ids,
    ):
        found.setdefault(job_id, []).append(name)
    return {job_id: tuple(names) for job_id, names in found.items()}
