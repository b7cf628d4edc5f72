"""The party half of tasks: this server's shares of task attempts."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.domain.records import Handle, Moved, Stale, TaskFilter, TaskKey, TaskRecord
from fedflow.domain.schedule import Reason
from fedflow.domain.states import TASK_FINAL, TaskEvent, TaskStatus, next_task_status
from fedflow.store.codec import (
    OPEN_TASK,
    TASK_STATUSES,
    from_json,
    reason_from_text,
    reason_to_text,
    site_of,
    to_json,
)
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.tables import TaskRow

_SELECT: Final = (
    "SELECT f_job_id, f_component_name, f_task_version, f_role, f_party_id, f_component_module, "
    "f_initiator_role, f_initiator_party_id, f_status, f_party_status, f_component_parameters, "
    "f_create_time, f_update_time, f_reason, f_worker_id, f_token, f_request_time, f_run_pid, "
    "f_run_pid_start, f_run_ip, f_progress, f_start_time, f_end_time, f_error_report "
    "FROM t_task AS t"
)
_ONE: Final = (
    "WHERE f_job_id = ? AND f_task_id = ? AND f_task_version = ? AND f_role = ? AND f_party_id = ?"
)
_LATEST: Final = (
    "NOT EXISTS (SELECT 1 FROM t_task AS newer WHERE newer.f_job_id = t.f_job_id "
    "AND newer.f_task_id = t.f_task_id AND newer.f_role = t.f_role "
    "AND newer.f_party_id = t.f_party_id AND newer.f_task_version > t.f_task_version)"
)


class SqlTasks:
    """See `app.ports.Tasks`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, records: Sequence[TaskRecord]) -> None:
        self._session.insert_many(TaskRow, map(_row, records))

    def get(self, key: TaskKey) -> TaskRecord | None:
        found = self._session.row(f"{_SELECT} {_ONE}", _key(key))
        return None if found is None else _record(found)

    def find(self, which: TaskFilter) -> list[TaskRecord]:
        conditions, values = _conditions(which)
        found = self._session.rows(
            f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY f_number LIMIT ?",
            [*values, which.limit],
        )
        return [_record(r) for r in found]

    def move_party(
        self, key: TaskKey, event: TaskEvent, *, seen: TaskStatus, now_ms: int,
        reason: Reason | None = None, traceback: str = "",
    ) -> Moved | Stale:  # fmt: skip
        status = next_task_status(seen, event)
        started = now_ms if status is TaskStatus.RUNNING else None
        ended = now_ms if status in TASK_FINAL else None
        matched = self._session.write(
            "UPDATE t_task SET f_party_status = ?, f_reason = ?, f_error_report = ?, "
            "f_update_time = ?, f_start_time = COALESCE(f_start_time, ?), "
            "f_end_time = COALESCE(f_end_time, ?), "
            f"f_elapsed = COALESCE(f_elapsed, ? - f_start_time) {_ONE} AND f_party_status = ?",
            (
                status.value,
                reason_to_text(reason),
                traceback,
                now_ms,
                started,
                ended,
                ended,
                *_key(key),
                seen.value,
            ),
        )
        return Moved(status) if matched else Stale()

    def set_status(self, key: TaskKey, status: TaskStatus, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_task SET f_status = ?, f_update_time = ? {_ONE}",
            (status.value, now_ms, *_key(key)),
        )

    def set_launch(self, key: TaskKey, launch_id: str, token: str, *, now_ms: int) -> None:
        self._session.write(
            "UPDATE t_task SET f_worker_id = ?, f_token = ?, f_request_time = ?, f_run_pid = NULL, "
            f"f_run_pid_start = NULL, f_run_ip = NULL, f_update_time = ? {_ONE}",
            (launch_id, token, now_ms, now_ms, *_key(key)),
        )

    def set_handle(self, key: TaskKey, launch_id: str, handle: Handle) -> bool:
        matched = self._session.write(
            "UPDATE t_task SET f_run_pid = ?, f_run_pid_start = ?, f_run_ip = ? "
            f"{_ONE} AND f_worker_id = ?",
            (handle.pid, handle.start_time, handle.host, *_key(key), launch_id),
        )
        return matched > 0

    def clear_handle(self, key: TaskKey, launch_id: str) -> bool:
        matched = self._session.write(
            "UPDATE t_task SET f_run_pid = NULL, f_run_pid_start = NULL, f_run_ip = NULL "
            f"{_ONE} AND f_worker_id = ?",
            (*_key(key), launch_id),
        )
        return matched > 0

    def set_progress(self, key: TaskKey, progress: float, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_task SET f_progress = ?, f_update_time = ? {_ONE}",
            (progress, now_ms, *_key(key)),
        )

    def live(self) -> list[TaskRecord]:
        # ranges instead of IS NOT NULL, and `+`, so that an index is used for each half
        found = self._session.rows(
            f"{_SELECT} WHERE f_run_pid > 0 "
            f"OR (f_party_status IN {OPEN_TASK} AND f_request_time >= 0) ORDER BY +f_number"
        )
        return [_record(r) for r in found]


def _key(key: TaskKey) -> tuple[str, str, int, str, str]:
    return key.job_id, key.task_id, key.version, key.site.role.value, key.site.party_id


def _conditions(which: TaskFilter) -> tuple[list[str], list[Value]]:
    conditions = ["1 = 1" if which.all_versions else _LATEST]
    values: list[Value] = []
    if which.job_id is not None:
        conditions.append("f_job_id = ?")
        values.append(which.job_id)
    if which.component is not None:
        conditions.append("f_component_name = ?")
        values.append(which.component)
    if which.party_id is not None:
        conditions.append("f_party_id = ?")
        values.append(which.party_id)
    if which.roles is not None:
        conditions.append(one_of("f_role", len(which.roles)))
        values += [r.value for r in which.roles]
    if which.statuses is not None:
        conditions.append(one_of("f_status", len(which.statuses)))
        values += [s.value for s in which.statuses]
    return conditions, values


def _row(record: TaskRecord) -> dict[str, Value]:
    handle, started, ended = record.handle, record.started_ms, record.ended_ms
    return {
        "f_job_id": record.key.job_id,
        "f_task_id": record.key.task_id,
        "f_task_version": record.key.version,
        "f_role": record.key.site.role.value,
        "f_party_id": record.key.site.party_id,
        "f_component_name": record.key.component,
        "f_component_module": record.module,
        "f_initiator_role": record.initiator.role.value,
        "f_initiator_party_id": record.initiator.party_id,
        "f_status": record.status.value,
        "f_party_status": record.party_status.value,
        "f_component_parameters": to_json(record.parameters),
        "f_reason": reason_to_text(record.reason),
        "f_worker_id": record.launch_id,
        "f_token": record.token,
        "f_request_time": record.requested_ms,
        "f_run_pid": handle.pid if handle else None,
        "f_run_pid_start": handle.start_time if handle else None,
        "f_run_ip": handle.host if handle else None,
        "f_progress": record.progress,
        "f_error_report": record.traceback,
        "f_start_time": started,
        "f_end_time": ended,
        "f_elapsed": None if started is None or ended is None else ended - started,
        "f_create_time": record.created_ms,
        "f_update_time": record.updated_ms,
    }


def _record(found: Found) -> TaskRecord:
    (
        job_id, component, version, role, party_id, module, initiator_role, initiator_party_id,
        status, party_status, parameters, created_ms, updated_ms, reason, launch_id, token,
        requested_ms, pid, start_time, host, progress, started_ms, ended_ms, traceback,
    ) = found  # fmt: skip
    site = site_of(role, party_id)
    return TaskRecord(
        key=TaskKey(job_id=job_id, component=component, version=version, site=site),
        module=module,
        initiator=site_of(initiator_role, initiator_party_id),
        status=TASK_STATUSES[status],
        party_status=TASK_STATUSES[party_status],
        parameters=from_json(parameters),
        created_ms=created_ms,
        updated_ms=updated_ms,
        reason=reason_from_text(reason),
        launch_id=launch_id,
        token=token,
        requested_ms=requested_ms,
        handle=None if pid is None else Handle(pid=pid, start_time=start_time, host=host),
        progress=progress,
        started_ms=started_ms,
        ended_ms=ended_ms,
        traceback=traceback,
    )
