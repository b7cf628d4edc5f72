"""What lists of jobs show: shares without their documents, their tags, and how many there are."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fedflow.domain.job_lines import (
    EndedJob,
    EndedJobs,
    JobLine,
    StatusCount,
    Strip,
    strip_status,
)
from fedflow.domain.lists import whatever_status
from fedflow.domain.records import SUBMIT_FAILED, JobFilter, JobKey, percent
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.store.codec import JOB_STATUSES, TASK_STATUSES, control_from_text, site_of
from fedflow.store.job_tables import JOB
from fedflow.store.mapper import FIGURES, JOB_KEY, JSON, REASON, SITE, Kind, Mapper, word
from fedflow.store.session import Session, one_of
from fedflow.store.sql.job_tags import tags_of
from fedflow.store.sql.jobs import job_conditions, job_order

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
        "name": "f_name",
        "figures": FIGURES("f_figures"),
        "description": "f_description",
        "user": "f_user_id",
        "refused": _REFUSED("f_tag"),
    },
    joined=("tags",),
)
_ENDED: Final = (
    "SELECT DISTINCT f_create_time, f_job_id FROM {table} WHERE f_status = ? "
    "AND f_create_time >= ? AND f_create_time < ? AND (f_create_time > ? OR f_job_id > ?) "
    "AND COALESCE(f_end_time, f_create_time) < ? {further}"
    "ORDER BY f_create_time, f_job_id LIMIT ?"
)
_ENDED_SHARES: Final = _ENDED.format(table="t_job", further="")
_ENDED_ALONE: Final = _ENDED.format(
    table="t_schedule_job",
    further="AND NOT EXISTS (SELECT 1 FROM t_job WHERE t_job.f_job_id = t_schedule_job.f_job_id) ",
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

    def counted(self, which: JobFilter) -> list[StatusCount]:
        conditions, values = job_conditions(whatever_status(which))
        found = self._session.rows(
            "SELECT f_status, CASE WHEN f_tag = ? THEN 1 ELSE 0 END AS refused, COUNT(*) "
            f"FROM t_job WHERE {conditions} GROUP BY f_status, refused",
            [SUBMIT_FAILED, *values],
        )
        return [
            StatusCount(status=JOB_STATUSES[status], count=count, refused=bool(refused))
            for status, refused, count in found
        ]

    def strips(self, job_ids: Collection[str]) -> dict[JobKey, Strip]:
        if not job_ids:
            return {}
        found = self._session.rows(
            "SELECT f_job_id, f_role, f_party_id, f_component_name, f_status, f_party_status "
            f"FROM t_task WHERE {one_of('f_job_id', len(job_ids))} ORDER BY f_number",
            sorted(job_ids),
        )
        strips: dict[JobKey, dict[str, TaskStatus]] = {}
        for job_id, role, party_id, component, task, here in found:
            strip = strips.setdefault(JobKey(job_id=job_id, site=site_of(role, party_id)), {})
            strip[component] = strip_status(TASK_STATUSES[task], TASK_STATUSES[here])
        return strips

    def of(self, job_ids: Collection[str]) -> list[JobLine]:
        ids = sorted(job_ids)
        if not ids:
            return []
        found = self._session.rows(
            f"SELECT {_LINES.columns} FROM t_job WHERE {one_of('f_job_id', len(ids))}", ids
        )
        tags = tags_of(self._session, ids)
        return [_LINES.read(row, tags.get(row[0], ())) for row in found]

    def progress(self, job_ids: Collection[str]) -> dict[str, int]:
        if not job_ids:
            return {}
        ids = sorted(job_ids)
        found = self._session.rows(
            "SELECT f_job_id, CASE WHEN f_end_time IS NOT NULL THEN 1.0 ELSE COALESCE("
            "(SELECT AVG(f_progress) FROM t_schedule_party_task AS p WHERE p.f_job_id = t.f_job_id "
            "AND p.f_component_name = t.f_component_name AND p.f_task_version = t.f_task_version"
            "), 0.0) END "
            f"FROM t_schedule_task AS t WHERE {one_of('f_job_id', len(ids))} AND NOT EXISTS ("
            "SELECT 1 FROM t_schedule_task AS newer WHERE newer.f_job_id = t.f_job_id "
            "AND newer.f_component_name = t.f_component_name "
            "AND newer.f_task_version > t.f_task_version)",
            ids,
        )
        done: dict[str, list[float]] = {}
        for job_id, share in found:
            done.setdefault(job_id, []).append(float(share))
        return {job_id: percent(shares) for job_id, shares in done.items()}

    def on_hold(self, job_ids: Collection[str]) -> set[str]:
        if not job_ids:
            return set()
        found = self._session.rows(
            "SELECT f_job_id, f_control FROM t_schedule_job "
            f"WHERE {one_of('f_job_id', len(job_ids))} AND f_control IS NOT NULL",
            sorted(job_ids),
        )
        return {job_id for job_id, control in found if control_from_text(control).on_hold}

    def counts(self, since_ms: int) -> list[StatusCount]:
        found = self._session.rows(
            "SELECT f_status, COUNT(DISTINCT f_job_id) FROM t_job "
            "WHERE f_create_time >= ? AND f_tag <> ? GROUP BY f_status ORDER BY f_status",
            (since_ms, SUBMIT_FAILED),
        )
        return [StatusCount(status=JOB_STATUSES[status], count=count) for status, count in found]

    def ended(
        self, which: EndedJobs, *, after: EndedJob | None = None, limit: int
    ) -> list[EndedJob]:
        # one status at a time, so that an index has the order; no job ended before it began
        since_ms, last_id = (after.created_ms, after.job_id) if after else (0, "")
        found: set[tuple[int, str]] = set()
        for status in which.statuses:
            for ended in (_ENDED_SHARES, _ENDED_ALONE):
                values = (
                    status.value, since_ms, which.before_ms, since_ms, last_id, which.before_ms,
                    limit,
                )  # fmt: skip
                found.update((row[0], row[1]) for row in self._session.rows(ended, values))
        return [EndedJob(created_ms=ms, job_id=job_id) for ms, job_id in sorted(found)[:limit]]
