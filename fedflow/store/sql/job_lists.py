"""What lists of jobs show: shares without their documents, their tags, and how many there are."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fedflow.domain.job_lines import JobLine, StatusCount
from fedflow.domain.records import SUBMIT_FAILED, JobFilter
from fedflow.domain.states import JobStatus
from fedflow.store.codec import JOB_STATUSES
from fedflow.store.mapper import JOB_KEY, JSON, REASON, SITE, Kind, Mapper, word
from fedflow.store.session import Session, one_of
from fedflow.store.sql.job_tags import tags_of
from fedflow.store.sql.jobs import job_conditions, job_order
from fedflow.store.tables import JOB

_REFUSED: Final = Kind(lambda tag: tag == SUBMIT_FAILED)
_LINES: Final = Mapper(
    JOB,
    JobLine,
    {
        "key": JOB_KEY("f_job_id", "f_role", "f_party_id"),
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "status": word(JobStatus)("f_status"),
        "epoch": "f_epoch",
        "roles": JSON("f_roles"),
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
        "started_ms": "f_start_time",
        "ended_ms": "f_end_time",
        "progress": "f_progress",
        "reason": REASON("f_reason"),
        "description": "f_description",
        "user": "f_user_id",
        "refused": _REFUSED("f_tag"),
    },
    joined=("tags",),
)


class SqlJobLists:
    """See `app.ports.jobs.JobListStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def page(self, which: JobFilter) -> list[JobLine]:
        conditions, values = job_conditions(which)
        order = job_order(which.order)
        found = self._session.rows(  # the keys first, as in `SqlJobs.find`
            f"SELECT {_LINES.columns} FROM (SELECT f_job_id, f_role, f_party_id FROM t_job "
            f"WHERE {conditions} ORDER BY {order} LIMIT ? OFFSET ?) AS page "
            f"CROSS JOIN t_job USING (f_job_id, f_role, f_party_id) ORDER BY {order}",
            [*values, which.limit, which.offset],
        )
        tags = tags_of(self._session, {row[0] for row in found})
        return [_LINES.read(row, tags.get(row[0], ())) for row in found]

    def progress(self, job_ids: Collection[str]) -> dict[str, int]:
        if not job_ids:
            return {}
        ids = sorted(job_ids)
        found = self._session.rows(
            "SELECT f_job_id, COUNT(*), SUM(CASE WHEN f_end_time IS NULL THEN 0 ELSE 1 END) "
            f"FROM t_schedule_task AS t WHERE {one_of('f_job_id', len(ids))} AND NOT EXISTS ("
            "SELECT 1 FROM t_schedule_task AS newer WHERE newer.f_job_id = t.f_job_id "
            "AND newer.f_component_name = t.f_component_name "
            "AND newer.f_task_version > t.f_task_version) GROUP BY f_job_id",
            ids,
        )
        return {job_id: 100 * int(ended) // count for job_id, count, ended in found}

    def counts(self, since_ms: int) -> list[StatusCount]:
        found = self._session.rows(
            "SELECT f_status, COUNT(DISTINCT f_job_id) FROM t_job "
            "WHERE f_create_time >= ? AND f_tag <> ? GROUP BY f_status ORDER BY f_status",
            (since_ms, SUBMIT_FAILED),
        )
        return [StatusCount(status=JOB_STATUSES[status], count=count) for status, count in found]
