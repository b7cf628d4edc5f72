"""The schedule half: jobs that this server initiated, with their sites and tasks."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final

from fedflow.base.errors.jobs import IllegalMove
from fedflow.domain.job.control import Control
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    Json,
    Moved,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
    Stale,
)
from fedflow.domain.scheduling.history import job_note
from fedflow.domain.site import Site
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_FINAL,
    JobEvent,
    JobStatus,
    TaskEvent,
    TaskStatus,
    next_job_status,
    next_task_status,
)
from fedflow.store import recording
from fedflow.store.codec import (
    JOB_STATUSES,
    OPEN_JOB,
    OPEN_TASK,
    TASK_STATUSES,
    control_from_text,
    control_to_text,
    reason_to_text,
    stop_from_text,
    stop_to_text,
    to_json,
)
from fedflow.store.job_tables import (
    SCHEDULED_JOB,
    SCHEDULED_PARTY_TASK,
    SCHEDULED_SITE,
    SCHEDULED_TASK,
)
from fedflow.store.mapper import (
    DOCUMENT,
    REASON,
    SITE,
    Mapper,
    elapsed,
    single,
    word,
)
from fedflow.store.recording import PARAMETERS_CHANGED
from fedflow.store.rules import advances, moves
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.sql.jobs import job_times

_TIMES: Final = {"started_ms": "f_start_time", "ended_ms": "f_end_time"}
_PLACE: Final[Mapping[str, Callable[..., Value] | Value]] = {
    "f_job_id": lambda _value, job_id, _position: job_id,
    "f_position": lambda _value, _job_id, position: position,
}
_JOBS: Final = Mapper(
    SCHEDULED_JOB,
    ScheduledJob,
    {
        "job_id": "f_job_id",
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "status": word(JobStatus)("f_status"),
        "epoch": "f_epoch",
        "dsl": DOCUMENT("f_dsl"),
        "conf": DOCUMENT("f_runtime_conf"),
        "priority": "f_priority",
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
        "stop": single(stop_from_text, stop_to_text)("f_stop"),
        "reason": REASON("f_reason"),
        **_TIMES,
        "rerun_ms": "f_rerun_time",
        "control": single(control_from_text, control_to_text)("f_control"),
    },
    also={
        **dict.fromkeys(("f_need_cores", "f_need_memory", "f_need_spark", "f_ask_time"), 0),
        **dict.fromkeys(("f_look_time", "f_deadline_time"), 0),
        "f_queue_time": attrgetter("began_ms"),
        "f_held_time": attrgetter("control.held_ms"),
        "f_elapsed": elapsed,
    },
    joined=("sites", "tasks"),
)
_SITES: Final = Mapper(
    SCHEDULED_SITE,
    ScheduledSite,
    {
        "site": SITE("f_role", "f_party_id"),
        "phase": word(SitePhase)("f_phase"),
        "retry_ms": "f_retry_time",
        "denials": "f_denials",
        "reason": REASON("f_reason"),
    },
    also={**_PLACE, "f_open": 1},
)
_TASKS: Final = Mapper(
    SCHEDULED_TASK,
    ScheduledTask,
    {
        "component": "f_component_name",
        "version": "f_task_version",
        "status": word(TaskStatus)("f_status"),
        "reason": REASON("f_reason"),
        **_TIMES,
        "epoch": "f_epoch",
        "retries": "f_retries",
        "infrastructure_retries": "f_infrastructure_retries",
        "cache_key": "f_cache_key",
        "inherited_from": "f_inherited_from",
    },
    also=_PLACE,
    joined=("parties",),
)
_PARTY_TASKS: Final = Mapper(
    SCHEDULED_PARTY_TASK,
    ScheduledPartyTask,
    {
        "site": SITE("f_role", "f_party_id"),
        "status": word(TaskStatus)("f_party_status"),
        "reason": REASON("f_reason"),
        "since_ms": "f_since_time",
        "progress": "f_progress",
        "launch": "f_launch",
    },
    also={
        "f_job_id": lambda _part, job_id, _task, _position: job_id,
        "f_component_name": lambda _part, _job_id, task, _position: task.component,
        "f_task_version": lambda _part, _job_id, task, _position: task.version,
        "f_position": lambda _part, _job_id, _task, position: position,
    },
)
_PART_TABLES: Final = ("t_schedule_party_task", "t_schedule_task", "t_schedule_site")
_ONE_TASK: Final = "WHERE f_job_id = ? AND f_component_name = ? AND f_task_version = ?"
_ONE_SHARE: Final = f"{_ONE_TASK} AND f_role = ? AND f_party_id = ?"


class SqlSchedules:
    """See `app.ports.scheduling.ScheduleStore`. What `get` gave is remembered until this
    transaction writes.
    """

    __slots__ = ("_known", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, ScheduledJob] = {}

    def add(self, job: ScheduledJob) -> None:
        self._known.clear()
        if not self._session.insert(SCHEDULED_JOB, _JOBS.row(job)):
            return
        self._session.tell(*recording.schedule_added(job))
        self._session.insert_many(
            SCHEDULED_SITE,
            [_SITES.row(site, job.job_id, position) for position, site in enumerate(job.sites)],
        )
        self._session.insert_many(
            SCHEDULED_TASK,
            [_TASKS.row(task, job.job_id, position) for position, task in enumerate(job.tasks)],
        )
        self._session.insert_many(
            SCHEDULED_PARTY_TASK,
            [
                _PARTY_TASKS.row(share, job.job_id, task, position)
                for task in job.tasks
                for position, share in enumerate(task.parties)
            ],
        )

    def get(self, job_id: str) -> ScheduledJob | None:
        known = self._known.get(job_id)
        if known is not None:
            return known
        found = self._session.row(f"{_JOBS.select} WHERE f_job_id = ?", (job_id,))
        if found is None:
            return None
        job = _JOBS.read(found, self._sites(job_id), self._tasks(job_id))
        self._known[job_id] = job
        return job

    def epoch(self, job_id: str) -> int | None:
        known = self._known.get(job_id)
        if known is not None:
            return known.epoch
        found = self._session.row(
            "SELECT f_epoch FROM t_schedule_job WHERE f_job_id = ?", (job_id,)
        )
        return None if found is None else int(found[0])

    def status(self, job_id: str) -> JobStatus | None:
        found = self._session.row(
            "SELECT f_status FROM t_schedule_job WHERE f_job_id = ?", (job_id,)
        )
        return None if found is None else JOB_STATUSES[found[0]]

    def etag(self, job_id: str) -> str:
        found = self._session.row(
            "SELECT f_update_time, f_status, f_reason, f_control, "
            "(SELECT SUM(f_progress) FROM t_schedule_party_task AS s WHERE s.f_job_id = j.f_job_id)"
            " FROM t_schedule_job AS j WHERE f_job_id = ?",
            (job_id,),
        )
        return "-".join(str(value or 0) for value in found or ())

    def active(self) -> list[str]:
        found = self._session.rows(
            f"SELECT f_job_id FROM t_schedule_job WHERE f_status IN {OPEN_JOB} "
            "ORDER BY f_create_time, f_job_id"
        )
        return [job_id for (job_id,) in found]

    def move(
        self,
        job_id: str,
        event: JobEvent,
        *,
        seen: JobStatus,
        now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale:
        status = next_job_status(seen, event)
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_job SET f_status = ?, f_reason = ?, f_update_time = ?, "
            "f_start_time = COALESCE(f_start_time, ?), f_end_time = COALESCE(f_end_time, ?), "
            "f_elapsed = COALESCE(f_elapsed, ? - f_start_time) WHERE f_job_id = ? AND f_status = ?",
            (
                status.value,
                reason_to_text(reason),
                now_ms,
                *job_times(status, now_ms),
                job_id,
                seen.value,
            ),
        )
        if not matched:
            return Stale()
        if status in JOB_FINAL:
            self._open_sites(job_id, is_open=0)
        self._session.tell(
            recording.schedule_moved(job_id, seen, status, reason=reason, now_ms=now_ms)
        )
        return Moved(status)

    def _open_sites(self, job_id: str, *, is_open: int) -> None:
        self._session.write(
            "UPDATE t_schedule_site SET f_open = ? WHERE f_job_id = ?", (is_open, job_id)
        )

    def set_reason(self, job_id: str, reason: Reason | None, *, now_ms: int) -> None:
        self._known.clear()
        self._session.write(
            "UPDATE t_schedule_job SET f_reason = ?, f_update_time = ? "
            f"WHERE f_job_id = ? AND f_status IN {OPEN_JOB}",  # an ended job keeps why it ended
            (reason_to_text(reason), now_ms, job_id),
        )

    def rerun(self, job_id: str, *, seen: JobStatus, epoch: int, now_ms: int) -> Moved | Stale:
        status = next_job_status(seen, JobEvent.RERUN)
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_job SET f_status = ?, f_epoch = ?, f_stop = NULL, f_reason = NULL, "
            "f_control = NULL, f_held_time = NULL, "
            "f_start_time = NULL, f_end_time = NULL, f_elapsed = NULL, f_rerun_time = ?, "
            "f_need_cores = 0, f_need_memory = 0, f_need_spark = 0, "
            "f_queue_time = ?, f_ask_time = 0, "
            "f_look_time = 0, f_deadline_time = 0, "
            "f_update_time = ? WHERE f_job_id = ? AND f_status = ? AND f_epoch < ?",
            (status.value, epoch, now_ms, now_ms, now_ms, job_id, seen.value, epoch),
        )
        if not matched:
            return Stale()
        self._open_sites(job_id, is_open=1)
        self._session.tell(
            recording.schedule_moved(job_id, seen, status, reason=None, now_ms=now_ms, epoch=epoch)
        )
        return Moved(status)

    def set_conf(self, job_id: str, conf: Json, *, now_ms: int) -> None:
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_job SET f_runtime_conf = ?, f_update_time = ? WHERE f_job_id = ?",
            (to_json(conf), now_ms, job_id),
        )
        if matched:
            told = job_note(job_id, PARAMETERS_CHANGED, at_ms=now_ms)
            self._session.tell(told)

    def add_attempt(self, job_id: str, task: ScheduledTask, *, now_ms: int) -> bool:
        self._known.clear()
        found = self._session.row(
            "SELECT f_position FROM t_schedule_task WHERE f_job_id = ? AND f_component_name = ? "
            "LIMIT 1",
            (job_id, task.component),
        )
        if found is None:
            return False
        if not self._session.insert(SCHEDULED_TASK, _TASKS.row(task, job_id, found[0])):
            return False
        self._session.insert_many(
            SCHEDULED_PARTY_TASK,
            [
                _PARTY_TASKS.row(share, job_id, task, position)
                for position, share in enumerate(task.parties)
            ],
        )
        self._session.tell(recording.attempt_added(job_id, task, now_ms=now_ms))
        return True

    def set_site(self, job_id: str, site: ScheduledSite, *, seen: SitePhase, now_ms: int) -> bool:
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_site SET f_phase = ?, f_retry_time = ?, f_denials = ?, f_reason = ? "
            "WHERE f_job_id = ? AND f_role = ? AND f_party_id = ? AND f_phase = ?",
            (
                site.phase.value,
                site.retry_ms,
                site.denials,
                reason_to_text(site.reason),
                job_id,
                site.site.role.value,
                site.site.party_id,
                seen.value,
            ),
        )
        if matched:
            self._session.tell(recording.site_moved(job_id, site, seen=seen, now_ms=now_ms))
        return matched > 0

    def request_stop(self, job_id: str, stop: StopRequest, *, now_ms: int) -> bool:
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_job SET f_stop = ?, f_look_time = 0, f_update_time = ? "
            f"WHERE f_job_id = ? AND f_stop IS NULL AND f_status IN {OPEN_JOB}",
            (stop_to_text(stop), now_ms, job_id),
        )
        if matched:
            self._session.tell(recording.stop_asked(job_id, stop, now_ms=now_ms))
        return matched > 0

    def set_control(
        self, job_id: str, control: Control, *, seen: Control, now_ms: int,
        told: Reason | None = None,
    ) -> bool:  # fmt: skip
        found = self._session.row(
            f"SELECT f_control FROM t_schedule_job WHERE f_job_id = ? AND f_status IN {OPEN_JOB}",
            (job_id,),
        )
        if found is None or control_from_text(found[0]) != seen:
            return False
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_job SET f_control = ?, f_held_time = ?, f_look_time = 0, "
            "f_update_time = ? WHERE f_job_id = ? AND COALESCE(f_control, '') = ?",
            (control_to_text(control), control.held_ms, now_ms, job_id, found[0] or ""),
        )
        if matched and told is not None:
            self._session.tell(job_note(job_id, told, at_ms=now_ms))
        return matched > 0

    def start_task(self, job_id: str, component: str, version: int, *, now_ms: int) -> bool:
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_task SET f_status = ?, f_start_time = ? "
            f"{_ONE_TASK} AND f_status = ?",
            (
                TaskStatus.RUNNING.value,
                now_ms,
                job_id,
                component,
                version,
                TaskStatus.WAITING.value,
            ),
        )
        if matched:
            self._session.tell(
                recording.task_moved(
                    job_id, component, version, TaskStatus.WAITING, TaskStatus.RUNNING,
                    now_ms=now_ms,
                )
            )  # fmt: skip
        return matched > 0

    def end_task(
        self, job_id: str, component: str, version: int, status: TaskStatus, *,
        reason: Reason | None, now_ms: int,
    ) -> bool:  # fmt: skip
        if status not in TASK_FINAL:
            raise IllegalMove(machine="A task", status="any", event=f"end as {status.value}")
        self._known.clear()
        for seen in (TaskStatus.RUNNING, TaskStatus.WAITING):
            matched = self._session.write(
                "UPDATE t_schedule_task SET f_status = ?, f_reason = ?, f_end_time = ? "
                f"{_ONE_TASK} AND f_status = ?",
                (
                    status.value, reason_to_text(reason), now_ms, job_id, component, version,
                    seen.value,
                ),
            )  # fmt: skip
            if matched:
                self._session.tell(
                    recording.task_moved(
                        job_id, component, version, seen, status, reason=reason, now_ms=now_ms
                    )
                )
                return True
        return False

    def report(
        self, job_id: str, component: str, version: int, site: Site, status: TaskStatus, *,
        reason: Reason | None, progress: float | None, now_ms: int, launch: int = 0,
    ) -> Moved | Stale:  # fmt: skip
        share = (job_id, component, version, site.role.value, site.party_id)
        found = self._session.row(
            "SELECT f_party_status, f_progress, f_launch, "
            "EXISTS (SELECT 1 FROM t_schedule_task AS newer "
            "WHERE newer.f_job_id = s.f_job_id AND newer.f_component_name = s.f_component_name "
            "AND newer.f_task_version > s.f_task_version) "
            f"FROM t_schedule_party_task AS s {_ONE_SHARE}",
            share,
        )
        if found is None or found[3] or launch != found[2]:  # there is a newer attempt, or launch
            return Stale()
        current, stored = TASK_STATUSES[found[0]], found[1]
        if moves(current, status):
            sets = "f_party_status = ?, f_reason = ?, f_since_time = ?, f_progress = ?"
            values: tuple[Value, ...] = (
                status.value,
                reason_to_text(reason),
                now_ms,
                stored if progress is None else progress,
            )
        elif advances(current, status, stored=stored, progress=progress):
            sets, values = "f_progress = ?", (progress,)
        else:
            return Stale()
        self._known.clear()
        matched = self._session.write(
            f"UPDATE t_schedule_party_task SET {sets} {_ONE_SHARE} AND f_party_status = ?",
            (*values, *share, current.value),
        )
        if not matched:
            return Stale()
        if status is not current:
            self._session.tell(
                recording.share_reported(
                    job_id, component, version, site, current, status, reason=reason,
                    now_ms=now_ms,
                )
            )  # fmt: skip
        return Moved(status)

    def move_party(
        self, job_id: str, component: str, version: int, site: Site, event: TaskEvent, *,
        seen: TaskStatus, reason: Reason | None, now_ms: int,
    ) -> bool:  # fmt: skip
        new = next_task_status(seen, event)
        self._known.clear()
        matched = self._session.write(
            "UPDATE t_schedule_party_task SET f_party_status = ?, f_reason = ?, f_since_time = ?, "
            f"f_progress = 0, f_launch = f_launch + ? {_ONE_SHARE} AND f_party_status = ?",
            (
                new.value, reason_to_text(reason), now_ms, int(event is TaskEvent.RELAUNCHED),
                job_id, component, version, site.role.value, site.party_id, seen.value,
            ),
        )  # fmt: skip
        if matched:
            self._session.tell(
                recording.share_reported(
                    job_id, component, version, site, seen, new, reason=reason, now_ms=now_ms
                )
            )
        return matched > 0

    def is_open(self, job_id: str, component: str, version: int) -> bool:
        found = self._session.row(
            f"SELECT 1 FROM t_schedule_party_task {_ONE_TASK} AND f_party_status IN {OPEN_TASK} "
            "LIMIT 1",
            (job_id, component, version),
        )
        return found is not None

    def _tasks(self, job_id: str) -> tuple[ScheduledTask, ...]:
        tasks = self._session.rows(
            f"{_TASKS.select} WHERE f_job_id = ? ORDER BY f_position, f_task_version", (job_id,)
        )
        latest = {component: version for component, version, *_ in tasks}
        shares = self._shares(job_id)
        return tuple(
            _task(row, tuple(shares.get(row[:2], ()))) for row in tasks if latest[row[0]] == row[1]
        )

    def reusable(self, cache_keys: Collection[str], *, limit: int) -> list[tuple[str, str, str]]:
        keys = list(cache_keys)
        found = self._session.rows(
            "SELECT f_job_id, f_component_name, f_cache_key FROM t_schedule_task AS t "
            f"WHERE {one_of('f_cache_key', len(keys))} AND f_status = ? AND NOT EXISTS ("
            "SELECT 1 FROM t_schedule_task AS newer WHERE newer.f_job_id = t.f_job_id "
            "AND newer.f_component_name = t.f_component_name "
            "AND newer.f_task_version > t.f_task_version) "
            "ORDER BY f_job_id DESC, f_component_name LIMIT ?",
            (*keys, TaskStatus.SUCCESS.value, limit),
        )
        return [(job_id, component, key) for job_id, component, key in found]

    def drop(self, job_id: str) -> bool:
        self._known.clear()
        for table in _PART_TABLES:
            self._session.write(f"DELETE FROM {table} WHERE f_job_id = ?", (job_id,))
        gone = self._session.write("DELETE FROM t_schedule_job WHERE f_job_id = ?", (job_id,))
        return gone > 0

    def _sites(self, job_id: str) -> tuple[ScheduledSite, ...]:
        found = self._session.rows(
            f"{_SITES.select} WHERE f_job_id = ? ORDER BY f_position", (job_id,)
        )
        return tuple(_SITES.all(found))

    def _shares(self, job_id: str) -> dict[Found, list[Found]]:
        """Return the rows of what each site does, by component and version."""
        shares: dict[Found, list[Found]] = {}
        for row in self._session.rows(
            f"SELECT f_component_name, f_task_version, {_PARTY_TASKS.columns} "
            "FROM t_schedule_party_task WHERE f_job_id = ? ORDER BY f_position",
            (job_id,),
        ):
            shares.setdefault(row[:2], []).append(row[2:])
        return shares


@lru_cache(maxsize=1536)
def _task(row: Found, shares: tuple[Found, ...]) -> ScheduledTask:
    """Return a task; from one look at a job to the next, most of them stay as they are.

    There is room for a job of 1,000 tasks, and for those that run beside it.
    """
    return _TASKS.read(row, tuple(_party_task(share) for share in shares))


@lru_cache(maxsize=1024)
def _party_task(row: Found) -> ScheduledPartyTask:
    """Return what one site does of a task; all that still wait are the same."""
    return _PARTY_TASKS.read(row)
