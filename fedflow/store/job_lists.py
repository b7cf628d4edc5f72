"""What lists of jobs show: shares without their documents, their tags, and how many there are."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fedflow.domain.job_lines import JobLine, StatusCount
from fedflow.domain.records import SUBMIT_FAILED, JobFilter, JobKey
from fedflow.store.codec import JOB_STATUSES, from_json, reason_from_text, site_of
from fedflow.store.job_tags import tags_of
from fedflow.store.jobs import job_conditions, job_order
from fedflow.store.session import Found, Session, one_of

_COLUMNS: Final = (
    "SELECT f_job_id, f_role, f_party_id, f_initiator_role, f_initiator_party_id, f_status, "
    "f_epoch, f_roles, f_create_time, f_update_time, f_start_time, f_end_time, f_progress, "
    "f_reason, f_description, f_user_id, f_tag"
)


class SqlJobLists:
    """See `app.ports.JobLists`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def page(self, which: JobFilter) -> list[JobLine]:
        conditions, values = job_conditions(which)
        order = job_order(which.order)
        found = self._session.rows(  # the keys first, as in `SqlJobs.find`
            f"{_COLUMNS} FROM (SELECT f_job_id, f_role, f_party_id FROM t_job WHERE {conditions} "
            f"ORDER BY {order} LIMIT ? OFFSET ?) AS page "
            f"CROSS JOIN t_job USING (f_job_id, f_role, f_party_id) ORDER BY {order}",
            [*values, which.limit, which.offset],
        )
        tags = tags_of(self._session, {row[0] for row in found})
        return [_line(row, tags.get(row[0], ())) for row in found]

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


def _line(row: Found, tags: tuple[str, ...]) -> JobLine:
    job_id, role, party_id, initiator_role, initiator_party_id, *rest = row
    status, epoch, roles, created_ms, updated_ms, started_ms, ended_ms, progress, *texts = rest
    reason, description, user, tag = texts
    found_roles: Any = from_json(roles)
    return JobLine(
        key=JobKey(job_id=job_id, site=site_of(role, party_id)),
        initiator=site_of(initiator_role, initiator_party_id),
        status=JOB_STATUSES[status],
        epoch=epoch,
        roles=found_roles,
        created_ms=created_ms,
        updated_ms=updated_ms,
        started_ms=started_ms,
        ended_ms=ended_ms,
        progress=progress,
        reason=reason_from_text(reason),
        description=description,
        user=user,
        refused=tag == SUBMIT_FAILED,
        tags=tags,
    )
