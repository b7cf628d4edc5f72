"""Who waits, and what to look at: reads that stay small however many jobs wait."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from fedflow.domain.job.amounts import NOTHING, ComputeResources
from fedflow.domain.job.engines import SPARK
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobKey, JobRecord, WaitingJob
from fedflow.domain.scheduling.agreement import EndedSite
from fedflow.domain.states import JobStatus
from fedflow.store.codec import reason_from_text, site_of
from fedflow.store.rules import may_lack_job
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.sql.jobs import JOBS

_WAITING: Final = JobStatus.WAITING.value
_MOVING: Final = (JobStatus.READY.value, JobStatus.RUNNING.value)
_ASKS: Final = (SitePhase.APPLYING.value, SitePhase.GRANTED.value)
_LOUD: Final = tuple(p.value for p in SitePhase if p is not SitePhase.CREATED)

_COLUMNS: Final = (
    "SELECT j.f_job_id, j.f_priority, j.f_create_time, j.f_initiator_role, "
    "j.f_initiator_party_id, j.f_reason, j.f_queue_time, j.f_ask_time, j.f_need_cores, "
    "j.f_need_memory, j.f_need_spark"
)
#: of shares `t`, as `_amount` reads them; those of no engine are older than engines are
_NEED: Final = (
    f"SUM(CASE WHEN t.f_engine_name = '{SPARK}' THEN 0 ELSE t.f_cores END)",
    f"SUM(CASE WHEN t.f_engine_name = '{SPARK}' THEN 0 ELSE t.f_memory END)",
    f"SUM(CASE WHEN t.f_engine_name = '{SPARK}' THEN t.f_cores ELSE 0 END)",
)
_HELD: Final = "FROM t_job AS t WHERE t.f_job_id = j.f_job_id AND t.f_resource_in_use = 1"
_PARTIES: Final = {
    is_open: "WITH RECURSIVE p (f_party_id) AS ("
    f"SELECT MIN(f_party_id) FROM t_schedule_site WHERE f_open = {is_open} UNION ALL "
    f"SELECT (SELECT MIN(s.f_party_id) FROM t_schedule_site AS s WHERE s.f_open = {is_open} "
    "AND s.f_party_id > p.f_party_id) FROM p WHERE p.f_party_id IS NOT NULL) "
    "SELECT f_party_id FROM p WHERE f_party_id IS NOT NULL"
    for is_open in (0, 1)
}


class SqlQueue:
    """See `app.ports.scheduling.QueueStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    # --- jobs of this initiator -------------------------------------------------------------------

    def enter(
        self, job_id: str, need: ComputeResources, *, queued_ms: int, deadline_ms: int, look_ms: int
    ) -> None:
        self._session.write(
            "UPDATE t_schedule_job SET f_need_cores = ?, f_need_memory = ?, f_need_spark = ?, "
            "f_queue_time = ?, f_deadline_time = ?, f_look_time = ? WHERE f_job_id = ?",
            (need.cores, need.memory, need.spark, queued_ms, deadline_ms, look_ms, job_id),
        )

    def postpone_check(self, job_id: str, look_ms: int) -> None:
        self._session.write(
            "UPDATE t_schedule_job SET f_look_time = ? WHERE f_job_id = ?", (look_ms, job_id)
        )

    def postpone_request(self, job_id: str, ask_ms: int) -> None:
        self._session.write(
            "UPDATE t_schedule_job SET f_ask_time = ? WHERE f_job_id = ?", (ask_ms, job_id)
        )

    def get(self, job_id: str) -> WaitingJob | None:
        found = self._session.row(
            f"{_COLUMNS} FROM t_schedule_job AS j WHERE j.f_job_id = ? AND j.f_status = ?",
            (job_id, _WAITING),
        )
        return None if found is None else _job(found)

    def moving(self) -> list[str]:
        moving = self._session.rows(
            f"SELECT f_job_id FROM t_schedule_job WHERE {one_of('f_status', len(_MOVING))}", _MOVING
        )
        asking = self._session.rows(
            "SELECT f_job_id FROM t_schedule_site "
            f"WHERE f_open = 1 AND {one_of('f_phase', len(_LOUD))}",
            _LOUD,
        )
        return sorted({job_id for (job_id,) in (*moving, *asking)})

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        found = self._session.rows(
            "SELECT f_job_id FROM t_schedule_job WHERE f_status = ? AND f_look_time <= ? "
            "ORDER BY f_look_time, f_job_id LIMIT ?",
            (_WAITING, now_ms, limit),
        )
        return [job_id for (job_id,) in found]

    def of_lost(self, party_id: str, *, limit: int) -> list[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_job_id FROM t_schedule_site WHERE f_open = 1 AND f_party_id = ? "
            "ORDER BY f_job_id LIMIT ?",
            (party_id, limit),
        )
        return [job_id for (job_id,) in found]

    def oldest(self, *, limit: int) -> list[WaitingJob]:
        return _jobs(
            self._session.rows(
                f"{_COLUMNS} FROM t_schedule_job AS j WHERE j.f_status = ? "
                "AND j.f_held_time IS NULL ORDER BY j.f_queue_time, j.f_job_id LIMIT ?",
                (_WAITING, limit),
            )
        )

    def first(
        self, free: ComputeResources, now_ms: int, *, limit: int, offset: int = 0
    ) -> list[WaitingJob]:
        return _jobs(
            self._session.rows(
                f"{_COLUMNS} FROM t_schedule_job AS j WHERE j.f_status = ? AND j.f_ask_time <= ? "
                "AND j.f_held_time IS NULL "
                "AND j.f_need_cores <= ? AND j.f_need_memory <= ? AND j.f_need_spark <= ? "
                "ORDER BY j.f_priority DESC, j.f_queue_time, j.f_job_id LIMIT ? OFFSET ?",
                (_WAITING, now_ms, *_at_least_0(free), limit, offset),
            )
        )

    def needing(self, job_ids: Collection[str], parties: Collection[str]) -> set[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_job_id FROM t_schedule_site "
            f"WHERE {one_of('f_job_id', len(job_ids))} AND {one_of('f_party_id', len(parties))}",
            (*job_ids, *parties),
        )
        return {job_id for (job_id,) in found}

    def under_way(self) -> list[WaitingJob]:
        found = self._session.rows(
            f"{_COLUMNS}, {', '.join(f'(SELECT {part} {_HELD})' for part in _NEED)} "
            "FROM t_schedule_job AS j WHERE j.f_status = ? AND j.f_job_id IN ("
            "SELECT s.f_job_id FROM t_schedule_site AS s "
            f"WHERE s.f_open = 1 AND {one_of('s.f_phase', len(_ASKS))}) "
            "ORDER BY j.f_queue_time, j.f_job_id",
            (_WAITING, *_ASKS),
        )
        return [_job(row[:-3], held=_amount(row[-3:])) for row in found]

    def denied(self) -> dict[str, int]:
        found = self._session.rows(
            "SELECT f_party_id, COUNT(*) FROM t_schedule_site "
            "WHERE f_open = 1 AND f_phase = ? GROUP BY f_party_id",
            (SitePhase.DENIED.value,),
        )
        return {party_id: int(number) for party_id, number in found}

    def page(self, *, starving_before_ms: int, limit: int, offset: int = 0) -> list[WaitingJob]:
        return _jobs(
            self._session.rows(
                f"{_COLUMNS} FROM t_schedule_job AS j WHERE j.f_status = ? ORDER BY "
                "CASE WHEN j.f_queue_time < ? THEN 1 ELSE 0 END DESC, "
                "CASE WHEN j.f_queue_time < ? THEN 0 ELSE j.f_priority END DESC, "
                "j.f_queue_time, j.f_job_id LIMIT ? OFFSET ?",
                (_WAITING, starving_before_ms, starving_before_ms, limit, offset),
            )
        )

    def unstopped(self, *, limit: int) -> list[WaitingJob]:
        return _jobs(
            self._session.rows(
                f"{_COLUMNS} FROM t_schedule_job AS j WHERE j.f_status = ? "
                "AND j.f_stop IS NULL ORDER BY j.f_look_time, j.f_job_id LIMIT ?",
                (_WAITING, limit),
            )
        )

    def count(self) -> int:
        found = self._session.row(
            "SELECT COUNT(*) FROM t_schedule_job WHERE f_status = ?", (_WAITING,)
        )
        return int(found[0]) if found else 0

    def parties(self) -> list[str]:
        return [party_id for (party_id,) in self._session.rows(_PARTIES[1])]

    def ended_parties(self) -> list[str]:
        return [party_id for (party_id,) in self._session.rows(_PARTIES[0])]

    def ended_with(self, party_id: str, *, since_ms: int, limit: int) -> list[EndedSite]:
        found = self._session.rows(
            "SELECT s.f_job_id, j.f_initiator_role, j.f_initiator_party_id, s.f_role, j.f_status, "
            "j.f_epoch, s.f_phase FROM (SELECT f_job_id, f_role, f_phase FROM t_schedule_site "
            "WHERE f_open = 0 AND f_party_id = ? ORDER BY f_job_id DESC, f_role LIMIT ?) AS s "
            "JOIN t_schedule_job AS j ON j.f_job_id = s.f_job_id WHERE j.f_end_time >= ? "
            "ORDER BY s.f_job_id DESC, s.f_role",
            (party_id, limit, since_ms),
        )
        return [
            EndedSite(
                job_id=job_id,
                initiator=site_of(initiator_role, initiator),
                site=site_of(role, party_id),
                status=JobStatus(status),
                epoch=int(epoch),
                may_lack=may_lack_job(int(epoch), SitePhase(phase)),
            )
            for job_id, initiator_role, initiator, role, status, epoch, phase in found
        ]

    def moving_with(self, party_id: str, now_ms: int) -> list[str]:
        found = self._session.rows(
            "SELECT j.f_job_id FROM t_schedule_job AS j WHERE "
            f"{one_of('j.f_status', len(_MOVING))} AND EXISTS (SELECT 1 FROM t_schedule_site AS s "
            "WHERE s.f_job_id = j.f_job_id AND s.f_party_id = ?) UNION "
            "SELECT j.f_job_id FROM t_schedule_job AS j WHERE j.f_status = ? "
            "AND j.f_deadline_time <= ? AND EXISTS (SELECT 1 FROM t_schedule_site AS s "
            "WHERE s.f_job_id = j.f_job_id AND s.f_party_id = ?) UNION "
            "SELECT s.f_job_id FROM t_schedule_site AS s WHERE s.f_open = 1 "
            f"AND {one_of('s.f_phase', len(_LOUD))} AND s.f_party_id = ?",
            (*_MOVING, party_id, _WAITING, now_ms, party_id, *_LOUD, party_id),
        )
        return sorted(job_id for (job_id,) in found)

    def waiting_with(self, party_id: str, *, after: str, limit: int) -> list[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_job_id FROM t_schedule_site WHERE f_open = 1 AND f_party_id = ? "
            "AND f_job_id > ? ORDER BY f_job_id LIMIT ?",
            (party_id, after, limit),
        )
        return [job_id for (job_id,) in found]

    # --- shares at this site ----------------------------------------------------------------------

    def deny(self, key: JobKey, *, now_ms: int) -> None:
        self._session.write(
            "UPDATE t_job SET f_denied_time = ? WHERE f_job_id = ? AND f_role = ? "
            "AND f_party_id = ?",
            (now_ms, key.job_id, key.site.role.value, key.site.party_id),
        )

    def claims(self, *, asked_since_ms: int, queued_before_ms: int) -> list[WaitingJob]:
        found = self._session.rows(
            "SELECT t.f_job_id, t.f_initiator_role, t.f_initiator_party_id, MIN(t.f_queue_time), "
            f"{', '.join(_NEED)} FROM t_job AS t WHERE t.f_job_id IN ("
            "SELECT asked.f_job_id FROM t_job AS asked WHERE asked.f_resource_in_use = 0 "
            "AND asked.f_denied_time >= ? AND asked.f_queue_time < ? AND asked.f_status = ?) "
            "AND t.f_resource_in_use = 0 AND t.f_status = ? "
            "GROUP BY t.f_job_id, t.f_initiator_role, t.f_initiator_party_id "
            "ORDER BY MIN(t.f_queue_time), t.f_job_id",
            (asked_since_ms, queued_before_ms, _WAITING, _WAITING),
        )
        return [
            WaitingJob(
                job_id=job_id,
                priority=0,
                created_ms=queued_ms,
                initiator=site_of(role, party_id),
                reason=None,
                queued_ms=queued_ms,
                need=_amount(need),
            )
            for job_id, role, party_id, queued_ms, *need in found
        ]

    def moving_shares(self) -> list[JobRecord]:
        found = self._session.rows(
            f"{JOBS.select} WHERE {one_of('f_status', len(_MOVING))} OR f_resource_in_use = 1 "
            "ORDER BY f_create_time, f_job_id, f_role, f_party_id",
            _MOVING,
        )
        return JOBS.all(found)

    def waiting_shares(self, *, after: str, limit: int) -> list[JobRecord]:
        found = self._session.rows(
            f"{JOBS.select} WHERE f_status = ? AND f_resource_in_use = 0 AND f_job_id > ? "
            "ORDER BY f_job_id, f_role, f_party_id LIMIT ?",
            (_WAITING, after, limit),
        )
        return JOBS.all(found)

    def began_ms(self) -> int | None:
        found = [
            self._session.row("SELECT MIN(f_create_time) FROM t_job WHERE f_status = ?", (status,))
            for status in (_WAITING, *_MOVING)
        ]
        holding = self._session.row(
            "SELECT MIN(f_create_time) FROM t_job WHERE f_resource_in_use = 1"
        )
        times = [int(row[0]) for row in (*found, holding) if row and row[0] is not None]
        return min(times, default=None)


def _jobs(found: Iterable[Found]) -> list[WaitingJob]:
    return [_job(row) for row in found]


def _job(found: Found, *, held: ComputeResources = NOTHING) -> WaitingJob:
    (
        job_id, priority, created_ms, role, party_id, reason, queued_ms, ask_ms, *need,
    ) = found  # fmt: skip
    return WaitingJob(
        job_id=job_id,
        priority=priority,
        created_ms=created_ms,
        initiator=site_of(role, party_id),
        reason=reason_from_text(reason),
        queued_ms=queued_ms,
        ask_ms=ask_ms,
        need=_amount(need).minus(held),
    )


def _amount(found: Sequence[Value]) -> ComputeResources:
    cores, memory, spark = (int(part or 0) for part in found)
    return ComputeResources(cores=cores, memory=memory, spark=spark)


def _at_least_0(free: ComputeResources) -> tuple[int, int, int]:
    return max(0, free.cores), max(0, free.memory), max(0, free.spark)
