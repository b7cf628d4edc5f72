"""The party half of jobs, and the engines whose cores they hold."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from typing import Final

from fedflow.domain.records import Engine, JobFilter, JobKey, JobRecord, Moved, Stale
from fedflow.domain.schedule import Reason
from fedflow.domain.states import JOB_FINAL, JobEvent, JobStatus, next_job_status
from fedflow.store.codec import (
    JOB_STATUSES,
    OPEN_JOB,
    from_json,
    reason_from_text,
    reason_to_text,
    site_of,
    to_json,
)
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.tables import EngineRow, JobRow

_ENGINE_TYPE: Final = "computing"
_SELECT: Final = (
    "SELECT f_job_id, f_role, f_party_id, f_initiator_role, f_initiator_party_id, f_status, "
    "f_epoch, f_dsl, f_runtime_conf, f_roles, f_cores, f_create_time, f_update_time, f_reason, "
    "f_progress, f_resource_in_use, f_apply_resource_time, f_return_resource_time, f_start_time, "
    "f_end_time, f_description, f_user_id, f_tag, f_warnings FROM t_job"
)
_ONE: Final = "WHERE f_job_id = ? AND f_role = ? AND f_party_id = ?"


class SqlJobs:
    """See `app.ports.Jobs`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, record: JobRecord) -> None:
        self._session.insert(JobRow, _row(record))

    def get(self, key: JobKey) -> JobRecord | None:
        found = self._session.row(f"{_SELECT} {_ONE}", _key(key))
        return None if found is None else _record(found)

    def find(self, which: JobFilter) -> list[JobRecord]:
        conditions, values = _conditions(which)
        found = self._session.rows(
            f"{_SELECT} WHERE {conditions} "
            "ORDER BY f_create_time DESC, f_job_id DESC, f_role, f_party_id LIMIT ? OFFSET ?",
            [*values, which.limit, which.offset],
        )
        return [_record(r) for r in found]

    def count(self, which: JobFilter) -> int:
        conditions, values = _conditions(which)
        found = self._session.row(f"SELECT COUNT(*) FROM t_job WHERE {conditions}", values)
        return int(found[0]) if found else 0

    def move(
        self,
        key: JobKey,
        event: JobEvent,
        *,
        seen: JobStatus,
        now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale:
        status = next_job_status(seen, event)
        matched = self._session.write(
            "UPDATE t_job SET f_status = ?, f_reason = ?, f_update_time = ?, "
            "f_start_time = COALESCE(f_start_time, ?), f_end_time = COALESCE(f_end_time, ?), "
            f"f_elapsed = COALESCE(f_elapsed, ? - f_start_time) {_ONE} AND f_status = ?",
            (
                status.value,
                reason_to_text(reason),
                now_ms,
                *job_times(status, now_ms),
                *_key(key),
                seen.value,
            ),
        )
        return Moved(status) if matched else Stale()

    def set_progress(self, key: JobKey, progress: int, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_progress = ?, f_update_time = ? {_ONE} AND f_progress < ?",
            (progress, now_ms, *_key(key), progress),
        )

    def set_description(self, key: JobKey, text: str, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_job SET f_description = ?, f_update_time = ? {_ONE}",
            (text, now_ms, *_key(key)),
        )

    def take_cores(self, key: JobKey, engine: str, *, now_ms: int) -> bool:
        # always the job's row before the engine's: so no two transactions wait for each other
        found = self._session.row(
            f"SELECT f_cores, f_resource_in_use FROM t_job {_ONE}", _key(key), lock=True
        )
        if found is None:
            return False
        cores, in_use = found
        if in_use:
            return True
        enough = cores == 0 or self._session.write(
            "UPDATE t_engine_registry SET f_remaining_cores = f_remaining_cores - ?, "
            "f_update_time = ? "
            "WHERE f_engine_name = ? AND f_engine_type = ? AND f_remaining_cores >= ?",
            (cores, now_ms, engine, _ENGINE_TYPE, cores),
        )
        if not enough:
            return False
        self._session.write(
            "UPDATE t_job SET f_resource_in_use = 1, f_engine_name = ?, f_apply_resource_time = ?, "
            f"f_return_resource_time = NULL, f_update_time = ? {_ONE}",
            (engine, now_ms, now_ms, *_key(key)),
        )
        return True

    def return_cores(self, key: JobKey, engine: str, *, now_ms: int) -> bool:
        found = self._session.row(
            f"SELECT f_cores, f_resource_in_use, f_engine_name FROM t_job {_ONE}",
            _key(key),
            lock=True,
        )
        if found is None or not found[1]:
            return False
        cores, _, taken_from = found
        self._session.write(
            "UPDATE t_job SET f_resource_in_use = 0, f_return_resource_time = ?, f_update_time = ? "
            f"{_ONE}",
            (now_ms, now_ms, *_key(key)),
        )
        self._session.write(
            "UPDATE t_engine_registry SET f_remaining_cores = f_remaining_cores + ?, "
            "f_update_time = ? WHERE f_engine_name = ? AND f_engine_type = ?",
            (cores, now_ms, taken_from or engine, _ENGINE_TYPE),
        )
        return True

    def unfinished(self) -> list[JobRecord]:
        found = self._session.rows(
            f"{_SELECT} WHERE f_status IN {OPEN_JOB} OR f_resource_in_use = 1 "
            "ORDER BY f_create_time, f_job_id, f_role, f_party_id"
        )
        return [_record(r) for r in found]


class SqlEngines:
    """See `app.ports.Engines`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, name: str, cores: int, *, now_ms: int) -> None:
        # MySQL assigns from left to right: the difference must be taken before the new total is set
        known = self._session.write(
            "UPDATE t_engine_registry SET f_remaining_cores = f_remaining_cores + (? - f_cores), "
            "f_cores = ?, f_update_time = ? WHERE f_engine_name = ? AND f_engine_type = ?",
            (cores, cores, now_ms, name, _ENGINE_TYPE),
        )
        if not known:
            self._session.insert(
                EngineRow,
                {
                    "f_engine_name": name,
                    "f_engine_type": _ENGINE_TYPE,
                    "f_cores": cores,
                    "f_remaining_cores": cores,
                    "f_create_time": now_ms,
                    "f_update_time": now_ms,
                },
            )

    def get(self, name: str) -> Engine | None:
        found = self._session.row(
            "SELECT f_cores, f_remaining_cores FROM t_engine_registry "
            "WHERE f_engine_name = ? AND f_engine_type = ?",
            (name, _ENGINE_TYPE),
        )
        return (
            None if found is None else Engine(name=name, cores=found[0], remaining_cores=found[1])
        )


def job_times(status: JobStatus, now_ms: int) -> tuple[int | None, int | None, int | None]:
    """Return what a move to `status` may set: started, ended, and ended once more for the span."""
    started = now_ms if status is JobStatus.RUNNING else None
    ended = now_ms if status in JOB_FINAL else None
    return started, ended, ended


def _key(key: JobKey) -> tuple[str, str, str]:
    return key.job_id, key.site.role.value, key.site.party_id


def _conditions(which: JobFilter) -> tuple[str, list[Value]]:
    conditions = ["1 = 1"]
    values: list[Value] = []
    if which.job_id is not None:
        conditions.append("f_job_id = ?")
        values.append(which.job_id)
    if which.roles is not None:
        conditions.append(one_of("f_role", len(which.roles)))
        values += [r.value for r in which.roles]
    if which.party_id is not None:
        conditions.append("f_party_id = ?")
        values.append(which.party_id)
    if which.statuses is not None:
        conditions.append(one_of("f_status", len(which.statuses)))
        values += [s.value for s in which.statuses]
    return " AND ".join(conditions), values


def _row(record: JobRecord) -> dict[str, Value]:
    started, ended = record.started_ms, record.ended_ms
    return {
        "f_job_id": record.key.job_id,
        "f_role": record.key.site.role.value,
        "f_party_id": record.key.site.party_id,
        "f_initiator_role": record.initiator.role.value,
        "f_initiator_party_id": record.initiator.party_id,
        "f_is_initiator": int(record.is_initiator),
        "f_status": record.status.value,
        "f_epoch": record.epoch,
        "f_dsl": to_json(record.dsl),
        "f_runtime_conf": to_json(record.conf),
        "f_roles": to_json(record.roles),
        "f_cores": record.cores,
        "f_resource_in_use": int(record.in_use),
        "f_engine_name": None,
        "f_apply_resource_time": record.applied_ms,
        "f_return_resource_time": record.returned_ms,
        "f_reason": reason_to_text(record.reason),
        "f_progress": record.progress,
        "f_description": record.description,
        "f_user_id": record.user,
        "f_tag": record.tag,
        "f_warnings": to_json(record.warnings),
        "f_start_time": started,
        "f_end_time": ended,
        "f_elapsed": None if started is None or ended is None else ended - started,
        "f_create_time": record.created_ms,
        "f_update_time": record.updated_ms,
    }


def _record(found: Found) -> JobRecord:
    (
        job_id, role, party_id, initiator_role, initiator_party_id, status, epoch, dsl, conf,
        roles, cores, created_ms, updated_ms, reason, progress, in_use, applied_ms, returned_ms,
        started_ms, ended_ms, description, user, tag, warnings,
    ) = found  # fmt: skip
    return JobRecord(
        key=JobKey(job_id=job_id, site=site_of(role, party_id)),
        initiator=site_of(initiator_role, initiator_party_id),
        status=JOB_STATUSES[status],
        epoch=epoch,
        dsl=from_json(dsl),
        conf=from_json(conf),
        roles=from_json(roles),
        cores=cores,
        created_ms=created_ms,
        updated_ms=updated_ms,
        reason=reason_from_text(reason),
        progress=progress,
        in_use=bool(in_use),
        applied_ms=applied_ms,
        returned_ms=returned_ms,
        started_ms=started_ms,
        ended_ms=ended_ms,
        description=description,
        user=user,
        tag=tag,
        warnings=tuple(from_json(warnings)),
    )
