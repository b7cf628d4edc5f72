"""The party half of tasks: this server's shares of task attempts."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Handle,
    JobKey,
    Moved,
    Order,
    Sort,
    Stale,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Site
from fedflow.domain.states import (
    TASK_FINAL,
    TASK_SUCCEEDED,
    TaskEvent,
    TaskStatus,
    next_task_status,
)
from fedflow.store import recording
from fedflow.store.codec import (
    OPEN_TASK,
    TASK_STATUSES,
    from_json,
    ledger_from_text,
    ledger_to_text,
    reason_to_text,
    site_of,
    to_json,
)
from fedflow.store.job_tables import TASK, TASK_COUNT
from fedflow.store.mapper import (
    JSON,
    REASON,
    SITE,
    TASK_KEY,
    Kind,
    Mapper,
    elapsed,
    single,
    word,
)
from fedflow.store.session import Session, Value, one_of

_Task = tuple[str, str, str, str]  #: job id, task id, role, party id

_HANDLE: Final = Kind(
    lambda pid, start_time, host: (
        None if pid is None else Handle(pid=pid, start_time=start_time, host=host)
    ),
    lambda handle: (handle.pid, handle.start_time, handle.host) if handle else (None,) * 3,
)
_TEXTS_OR_NONE: Final = single(
    lambda text: () if text is None else tuple(from_json(text)),
    lambda texts: to_json(texts) if texts else None,
)
TASKS: Final = Mapper(
    TASK,
    TaskRecord,
    {
        "key": TASK_KEY("f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id"),
        "module": "f_component_module",
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "status": word(TaskStatus)("f_status"),
        "party_status": word(TaskStatus)("f_party_status"),
        "parameters": JSON("f_component_parameters"),
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
        "reason": REASON("f_reason"),
        "launch_id": "f_worker_id",
        "token": "f_token",
        "requested_ms": "f_request_time",
        "handle": _HANDLE("f_run_pid", "f_run_pid_start", "f_run_ip"),
        "progress": "f_progress",
        "started_ms": "f_start_time",
        "ended_ms": "f_end_time",
        "traceback": "f_error_report",
        "auto_retries": "f_auto_retries",
        "auto_retry_delay_s": "f_auto_retry_delay",
        "inherited_from": "f_inherited_from",
        "instance_id": "f_instance_id",
        "launch": "f_launch",
        "absent": _TEXTS_OR_NONE("f_absent"),
    },
    also={
        "f_task_id": lambda task, _is_latest: task.key.task_id,
        "f_latest": lambda _task, is_latest: int(is_latest),
        "f_elapsed": lambda task, _is_latest: elapsed(task),
        "f_ledger": lambda _task, _is_latest: None,  # of attempts that end
    },
)
_ONE: Final = (
    "WHERE f_job_id = ? AND f_task_id = ? AND f_task_version = ? AND f_role = ? AND f_party_id = ?"
)
# ranges instead of IS NOT NULL, so that an index is used for each half
_LIVE: Final = f"f_run_pid > 0 OR (f_party_status IN {OPEN_TASK} AND f_request_time >= 0)"
_SORTED_BY: Final = {
    Sort.JOB_ID: "f_job_id",
    Sort.VERSION: "f_task_version",
    Sort.CREATED: "f_create_time",
    Sort.STARTED: "f_start_time",
    Sort.ENDED: "f_end_time",
    Sort.ELAPSED: "f_elapsed",
    Sort.ACTIVITY: "f_number",
}
_MAY_LACK: Final = frozenset({Sort.STARTED, Sort.ENDED, Sort.ELAPSED})


class SqlTasks:
    """See `app.ports.jobs.TaskStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, records: Sequence[TaskRecord]) -> None:
        """See the port; keeps count of the tasks, and of which attempts are the latest."""
        by_job: dict[str, set[str]] = {}
        for record in records:
            by_job.setdefault(record.key.job_id, set()).add(record.key.task_id)
        known: dict[_Task, int] = {}
        for job_id, task_ids in by_job.items():
            known |= self._latest_versions(job_id, task_ids)
        latest = dict(known)
        for record in records:
            task = _task(record.key)
            latest[task] = max(latest.get(task, 0), record.key.version)
        self._session.insert_many(
            TASK,
            [TASKS.row(r, r.key.version == latest[_task(r.key)]) for r in records],
        )
        self._session.tell(
            *recording.tasks_added(
                r for r in records if r.key.version > known.get(_task(r.key), -1)
            )
        )
        for task, version in known.items():
            if version < latest[task]:
                self._session.write(
                    "UPDATE t_task SET f_latest = 0 WHERE f_job_id = ? AND f_task_id = ? "
                    "AND f_role = ? AND f_party_id = ? AND f_task_version < ?",
                    (*task, latest[task]),
                )
        new = latest.keys() - known.keys()
        counts = Counter((job_id, role, party_id) for job_id, _, role, party_id in new)
        for share, number in sorted(counts.items()):
            self._count_up(share, number)

    def _latest_versions(self, job_id: str, task_ids: set[str]) -> dict[_Task, int]:
        """Return the newest stored version of each of these tasks at each site."""
        one = next(iter(task_ids)) if len(task_ids) == 1 else None
        found = self._session.rows(
            "SELECT f_task_id, f_role, f_party_id, f_task_version FROM t_task WHERE f_job_id = ?"
            + ("" if one is None else " AND f_task_id = ?"),
            (job_id,) if one is None else (job_id, one),
        )
        known: dict[_Task, int] = {}
        for task_id, role, party_id, version in found:
            if task_id in task_ids:
                task = (job_id, task_id, role, party_id)
                known[task] = max(known.get(task, 0), version)
        return known

    def _count_up(self, share: tuple[str, str, str], number: int) -> None:
        row = dict(zip(("f_job_id", "f_role", "f_party_id"), share, strict=True))
        if not self._session.insert(TASK_COUNT, {**row, "f_count": number}):
            self._session.write(
                "UPDATE t_task_count SET f_count = f_count + ? "
                "WHERE f_job_id = ? AND f_role = ? AND f_party_id = ?",
                (number, *share),
            )

    def get(self, key: TaskKey) -> TaskRecord | None:
        return TASKS.one(self._session.row(f"{TASKS.select} {_ONE}", _key(key)))

    def statuses(self, key: JobKey) -> dict[str, tuple[int, TaskStatus]]:
        found = self._session.rows(
            "SELECT f_component_name, f_task_version, f_status FROM t_task "
            "WHERE f_job_id = ? AND f_role = ? AND f_party_id = ? AND f_latest = 1",
            (key.job_id, key.site.role.value, key.site.party_id),
        )
        return {
            component: (int(version), TASK_STATUSES[status]) for component, version, status in found
        }

    def ledgers(self, job_id: str) -> dict[TaskKey, tuple[PeerLedger, ...]]:
        found = self._session.rows(
            "SELECT f_component_name, f_task_version, f_role, f_party_id, f_ledger FROM t_task "
            "WHERE f_job_id = ? AND f_ledger IS NOT NULL ORDER BY f_number",
            (job_id,),
        )
        return {
            TaskKey(
                job_id=job_id, component=component, version=int(version), site=site_of(role, party)
            ): ledger_from_text(text)
            for component, version, role, party, text in found
        }

    def find(self, which: TaskFilter) -> list[TaskRecord]:
        conditions, values = _conditions(which)
        if which.order is None:
            found = self._session.rows(
                f"{TASKS.select} WHERE {' AND '.join(conditions)} "
                "ORDER BY f_number LIMIT ? OFFSET ?",
                [*values, which.limit, which.offset],
            )
            return TASKS.all(found)
        if which.order.descending or which.order.by not in _MAY_LACK:
            return self._page(conditions, values, which)
        return self._page_lacking_last(conditions, values, which)

    def count(self, which: TaskFilter) -> int:
        if which.all_versions or which.component is not None or which.statuses is not None:
            return self._count(*_conditions(which))
        conditions, values = _site_conditions(which)
        found = self._session.row(
            f"SELECT COALESCE(SUM(f_count), 0) FROM t_task_count WHERE {' AND '.join(conditions)}",
            values,
        )
        return int(found[0]) if found else 0

    def _count(self, conditions: Sequence[str], values: Sequence[Value]) -> int:
        found = self._session.row(
            f"SELECT COUNT(*) FROM t_task WHERE {' AND '.join(conditions)}", values
        )
        return int(found[0]) if found else 0

    def _page(
        self, conditions: Sequence[str], values: Sequence[Value], which: TaskFilter
    ) -> list[TaskRecord]:
        """Return attempts in the order asked for; without the value they are the smallest.

        An index gives the numbers in their order; only the rows of the page are read.
        """
        order = which.order or Order()
        direction = "DESC" if order.descending else "ASC"
        by = f"{_SORTED_BY[order.by]} {direction}, f_number {direction}"
        found = self._session.rows(
            f"SELECT {TASKS.columns} FROM (SELECT f_number FROM t_task "
            f"WHERE {' AND '.join(conditions)} ORDER BY {by} LIMIT ? OFFSET ?) AS page "
            f"CROSS JOIN t_task USING (f_number) ORDER BY {by}",
            [*values, which.limit, which.offset],
        )
        return TASKS.all(found)

    def _page_lacking_last(
        self, conditions: Sequence[str], values: Sequence[Value], which: TaskFilter
    ) -> list[TaskRecord]:
        """Return attempts in an ascending order, those that lack the value last.

        In an index they come first. Two looks into it are cheaper than sorting all.
        """
        column = _SORTED_BY[(which.order or Order()).by]
        have = self._page([*conditions, f"{column} IS NOT NULL"], values, which)
        left = which.limit - len(have)
        if left <= 0:
            return have
        lack = [*conditions, f"{column} IS NULL"]
        skip = 0
        if which.offset and not have:
            skip = max(0, which.offset - (self.count(which) - self._count(lack, values)))
        return have + self._page(lack, values, replace(which, limit=left, offset=skip))

    def move_party(
        self, key: TaskKey, event: TaskEvent, *, seen: TaskStatus, now_ms: int,
        reason: Reason | None = None, traceback: str = "", ledger: tuple[PeerLedger, ...] = (),
    ) -> Moved | Stale:  # fmt: skip
        status = next_task_status(seen, event)
        started = now_ms if status is TaskStatus.RUNNING else None
        ended = now_ms if status in TASK_FINAL else None
        matched = self._session.write(
            "UPDATE t_task SET f_party_status = ?, f_progress = COALESCE(?, f_progress), "
            "f_reason = ?, f_error_report = ?, f_update_time = ?, "
            "f_ledger = COALESCE(?, f_ledger), "
            "f_start_time = COALESCE(f_start_time, ?), f_end_time = COALESCE(f_end_time, ?), "
            f"f_elapsed = COALESCE(f_elapsed, ? - f_start_time) {_ONE} AND f_party_status = ?",
            (
                status.value,
                1.0 if status in TASK_SUCCEEDED else None,
                reason_to_text(reason),
                traceback,
                now_ms,
                ledger_to_text(ledger),
                started,
                ended,
                ended,
                *_key(key),
                seen.value,
            ),
        )
        if not matched:
            return Stale()
        self._session.tell(
            recording.party_task_moved(key, seen, status, reason=reason, now_ms=now_ms)
        )
        return Moved(status)

    def set_status(self, key: TaskKey, status: TaskStatus, *, now_ms: int) -> None:
        self._session.write(
            f"UPDATE t_task SET f_status = ?, f_update_time = ? {_ONE}",
            (status.value, now_ms, *_key(key)),
        )

    def set_launch(
        self, key: TaskKey, launch_id: str, token: str, *, seen: str | None, now_ms: int,
        instance_id: str = "",
    ) -> bool:  # fmt: skip
        matched = self._session.write(
            "UPDATE t_task SET f_worker_id = ?, f_token = ?, f_request_time = ?, "
            "f_instance_id = ?, f_status = ?, f_update_time = ? "
            f"{_ONE} AND COALESCE(f_worker_id, '') = ? AND f_run_pid IS NULL",
            (
                launch_id,
                token,
                now_ms,
                instance_id,
                TaskStatus.RUNNING.value,
                now_ms,
                *_key(key),
                seen or "",
            ),
        )
        return matched > 0

    def relaunch(self, key: TaskKey, launch: int, *, seen: TaskStatus, now_ms: int) -> bool:
        new = next_task_status(seen, TaskEvent.RELAUNCHED)
        matched = self._session.write(
            "UPDATE t_task SET f_party_status = ?, f_launch = ?, f_request_time = NULL, "
            "f_progress = 0, f_reason = NULL, f_error_report = '', f_start_time = NULL, "
            "f_end_time = NULL, f_elapsed = NULL, f_update_time = ? "
            f"{_ONE} AND f_party_status = ? AND f_launch <= ? AND f_run_pid IS NULL",
            (new.value, launch, now_ms, *_key(key), seen.value, launch),
        )
        if matched:
            self._session.tell(
                recording.party_task_moved(key, seen, new, reason=None, now_ms=now_ms)
            )
        return matched > 0

    def set_absent(self, key: TaskKey, components: Sequence[str]) -> None:
        self._session.write(
            f"UPDATE t_task SET f_absent = ? {_ONE}", (to_json(list(components)), *_key(key))
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

    def placed(self) -> dict[tuple[str, Site], str]:
        found = self._session.rows(
            "SELECT f_task_id, f_task_version, f_role, f_party_id, f_instance_id FROM t_task "
            f"WHERE {_LIVE} ORDER BY f_task_id, f_task_version"
        )
        return {
            (f"{task_id}_{version}", site_of(role, party_id)): instance_id
            for task_id, version, role, party_id, instance_id in found
        }

    def etag(self, job_id: str) -> str:
        found = self._session.row(
            "SELECT COUNT(*), MAX(f_update_time), SUM(f_progress) FROM t_task WHERE f_job_id = ?",
            (job_id,),
        )
        return "-".join(str(value or 0) for value in found or ())

    def drop(self, job_id: str) -> int:
        self._session.write("DELETE FROM t_task_count WHERE f_job_id = ?", (job_id,))
        return self._session.write("DELETE FROM t_task WHERE f_job_id = ?", (job_id,))

    def live(self) -> list[TaskRecord]:
        found = self._session.rows(f"{TASKS.select} WHERE {_LIVE} ORDER BY +f_number")
        return TASKS.all(found)


def _key(key: TaskKey) -> tuple[str, str, int, str, str]:
    return key.job_id, key.task_id, key.version, key.site.role.value, key.site.party_id


def _task(key: TaskKey) -> _Task:
    return key.job_id, key.task_id, key.site.role.value, key.site.party_id


def _site_conditions(which: TaskFilter) -> tuple[list[str], list[Value]]:
    conditions = ["1 = 1"]
    values: list[Value] = []
    if which.job_id is not None:
        conditions.append("f_job_id = ?")
        values.append(which.job_id)
    if which.party_id is not None:
        conditions.append("f_party_id = ?")
        values.append(which.party_id)
    if which.roles is not None:
        conditions.append(one_of("f_role", len(which.roles)))
        values += [r.value for r in which.roles]
    return conditions, values


def _conditions(which: TaskFilter) -> tuple[list[str], list[Value]]:
    conditions, values = _site_conditions(which)
    if not which.all_versions:
        # `+` keeps databases from using an index on it, where the key of the job is the better one
        listed = which.order is not None and which.job_id is None
        conditions.append("f_latest = 1" if listed else "+f_latest = 1")
    if which.component is not None:
        conditions.append("f_component_name = ?")
        values.append(which.component)
    if which.statuses is not None:
        conditions.append(one_of("f_status", len(which.statuses)))
        values += [s.value for s in which.statuses]
    return conditions, values
