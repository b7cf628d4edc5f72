"""Lists of jobs and tasks: what fits a filter, and in which order it is shown.

Every list has an order of its own (jobs: newest first; attempts: as they were added). Asked for
another one, records with the same value follow that order in the direction asked for, and records
without a value come last, whatever the direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from fedflow.domain.records import (
    SUBMIT_FAILED,
    Between,
    JobFilter,
    JobRecord,
    Order,
    Sort,
    TaskFilter,
    TaskRecord,
)
from fedflow.domain.site import Role
from fedflow.domain.states import JobStatus

R = TypeVar("R", JobRecord, TaskRecord)
_OPEN_MS: Final = 2**53  #: later than any end


def fits_job(which: JobFilter, job: JobRecord, tags: Collection[str] = ()) -> bool:
    """Tell whether a party job is one of those asked for, whatever the page.

    `tags` are those that people gave the job.
    """
    site = job.key.site
    return (
        (which.job_id is None or job.key.job_id == which.job_id)
        and (which.roles is None or site.role in which.roles)
        and (which.party_id is None or site.party_id == which.party_id)
        and fits_status(which, job.status, is_refused=job.tag == SUBMIT_FAILED)
        and _has(which.job_id_part, job.key.job_id)
        and _has(which.party_id_part, site.party_id)
        and _has(which.description_part, job.description)
        and (which.partner_part is None or any(which.partner_part in p for p in job.partners))
        and (which.tag is None or which.tag in tags)
        and (which.any_part is None or _has_anywhere(which.any_part, job, tags))
        and all(_is_between(job, one) for one in which.between)
    )


def fits_status(which: JobFilter, status: JobStatus, *, is_refused: bool) -> bool:
    """Tell whether party jobs with this status are asked for."""
    if is_refused and (which.or_refused or not which.refused):
        return which.or_refused
    return which.statuses is None or status in which.statuses


def whatever_status(which: JobFilter) -> JobFilter:
    """Return the same filter for jobs of all statuses."""
    return replace(which, statuses=None, refused=True, or_refused=False)


def fits_task(which: TaskFilter, task: TaskRecord) -> bool:
    """Tell whether an attempt is one of those asked for; whether it is the latest is not asked."""
    key = task.key
    return (
        (which.job_id is None or key.job_id == which.job_id)
        and (which.component is None or key.component == which.component)
        and (which.roles is None or key.site.role in which.roles)
        and (which.party_id is None or key.site.party_id == which.party_id)
        and (which.statuses is None or task.status in which.statuses)
    )


def main_share(shares: Sequence[JobRecord]) -> JobRecord:
    """Return the party job that is meant if nobody names one: the initiator's, else one of a
    role that has data, else any. `shares` are those of one job at one server, at least one.
    """
    roles = (Role.GUEST, Role.HOST, Role.LOCAL, Role.ARBITER)
    return min(shares, key=lambda s: (not s.is_initiator, roles.index(s.key.site.role)))


def job_page(jobs: Iterable[JobRecord], which: JobFilter) -> list[JobRecord]:
    """Return the part of `jobs`, in whatever order they are, that the filter's page shows."""
    ordered = sorted(jobs, key=lambda j: (j.key.site.role.value, j.key.site.party_id), reverse=True)
    ordered.sort(key=lambda j: (j.created_ms, j.key.job_id))
    ordered = _sorted(ordered, which.order)
    return ordered[which.offset : which.offset + which.limit]


def task_page(tasks: Sequence[TaskRecord], which: TaskFilter) -> list[TaskRecord]:
    """Return the part of `tasks`, in the order of their adding, that the filter's page shows."""
    ordered = list(tasks) if which.order is None else _sorted(tasks, which.order)
    return ordered[which.offset : which.offset + which.limit]


def _sorted(records: Sequence[R], order: Order) -> list[R]:
    """Return records, of which those that go first if nothing else counts stand first."""
    have, lack = [], []
    for place, record in enumerate(records):
        value = _value(record, order.by)
        if value is None:
            lack.append(place)
        else:
            have.append((value, place))
    have.sort(reverse=order.descending)
    lack.sort(reverse=order.descending)
    return [records[place] for _, place in have] + [records[place] for place in lack]


def _value(record: JobRecord | TaskRecord, by: Sort) -> int | str | None:
    match by:
        case Sort.JOB_ID:
            return record.key.job_id
        case Sort.VERSION:
            return record.key.version if isinstance(record, TaskRecord) else None
        case Sort.CREATED:
            return record.created_ms
        case Sort.STARTED:
            return record.started_ms
        case Sort.ENDED:
            return record.ended_ms
        case Sort.ELAPSED:
            started, ended = record.started_ms, record.ended_ms
            return None if started is None or ended is None else ended - started
        case Sort.ACTIVITY:
            if isinstance(record, TaskRecord):
                return None
            return record.created_ms + _OPEN_MS if record.ended_ms is None else record.ended_ms


def _is_between(job: JobRecord, one: Between) -> bool:
    value = _value(job, one.by)
    return isinstance(value, int) and one.low <= value <= one.high


def _has(part: str | None, text: str) -> bool:
    return part is None or part in text


def _has_anywhere(part: str, job: JobRecord, tags: Collection[str]) -> bool:
    texts = (job.key.job_id, job.name, job.description, job.key.site.party_id)
    return any(part in text for text in (*texts, *job.partners, *tags))
