"""The party half of tasks, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.lists import fits_task, task_page
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Handle,
    JobKey,
    Moved,
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
from fedflow.store.codec import plain
from fedflow.store.memory.journal import Journal


class MemoryTasks:
    """See `app.ports.jobs.TaskStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._jobs: dict[str, dict[TaskKey, TaskRecord]] = {}  #: by job; jobs are dropped whole
        self._ledgers: dict[TaskKey, tuple[PeerLedger, ...]] = {}
        self._numbers: dict[TaskKey, int] = {}  #: the order in which attempts were added
        self._last_number = 0  #: never used twice
        self._live: dict[TaskKey, None] = {}

    def add(self, records: Sequence[TaskRecord]) -> None:
        for record in records:
            if self.get(record.key) is None:
                self._last_number += 1  # an undo leaves a gap
                self._journal.put(self._numbers, record.key, self._last_number)
                self._put(replace(record, parameters=plain(record.parameters)))
                self._journal.tell(*recording.tasks_added([record]))

    def get(self, key: TaskKey) -> TaskRecord | None:
        return self._jobs.get(key.job_id, {}).get(key)

    def statuses(self, key: JobKey) -> dict[str, tuple[int, TaskStatus]]:
        which = TaskFilter(job_id=key.job_id, roles=(key.site.role,), party_id=key.site.party_id)
        return {t.key.component: (t.key.version, t.status) for t in self._matching(which)}

    def ledgers(self, job_id: str) -> dict[TaskKey, tuple[PeerLedger, ...]]:
        tasks = self._jobs.get(job_id, {})
        return {key: self._ledgers[key] for key in tasks if key in self._ledgers}

    def find(self, which: TaskFilter) -> list[TaskRecord]:
        found = self._matching(which)
        found.sort(key=lambda t: self._numbers[t.key])
        return task_page(found, which)

    def count(self, which: TaskFilter) -> int:
        return len(self._matching(which))

    def _matching(self, which: TaskFilter) -> list[TaskRecord]:
        jobs = self._jobs.values() if which.job_id is None else [self._jobs.get(which.job_id, {})]
        return [
            task
            for tasks in jobs
            for task in (tasks.values() if which.all_versions else _latest(tasks))
            if fits_task(which, task)
        ]

    def move_party(
        self, key: TaskKey, event: TaskEvent, *, seen: TaskStatus, now_ms: int,
        reason: Reason | None = None, traceback: str = "", ledger: tuple[PeerLedger, ...] = (),
    ) -> Moved | Stale:  # fmt: skip
        status = next_task_status(seen, event)
        task = self.get(key)
        if task is None or task.party_status is not seen:
            return Stale()
        started, ended = task.started_ms, task.ended_ms
        if status is TaskStatus.RUNNING and started is None:
            started = now_ms
        if status in TASK_FINAL and ended is None:
            ended = now_ms
        self._put(
            replace(
                task,
                party_status=status,
                progress=1.0 if status in TASK_SUCCEEDED else task.progress,
                reason=reason,
                traceback=traceback,
                updated_ms=now_ms,
                started_ms=started,
                ended_ms=ended,
            )
        )
        if ledger:
            self._journal.put(self._ledgers, key, ledger)
        self._journal.tell(
            recording.party_task_moved(key, seen, status, reason=reason, now_ms=now_ms)
        )
        return Moved(status)

    def set_status(self, key: TaskKey, status: TaskStatus, *, now_ms: int) -> None:
        task = self.get(key)
        if task is not None:
            self._put(replace(task, status=status, updated_ms=now_ms))

    def set_launch(
        self, key: TaskKey, launch_id: str, token: str, *, seen: str | None, now_ms: int,
        instance_id: str = "",
    ) -> bool:  # fmt: skip
        task = self.get(key)
        if task is None or task.launch_id != seen or task.handle is not None:
            return False
        self._put(
            replace(
                task,
                launch_id=launch_id,
                token=token,
                instance_id=instance_id,
                status=TaskStatus.RUNNING,
                requested_ms=now_ms,
                updated_ms=now_ms,
            )
        )
        return True

    def relaunch(self, key: TaskKey, launch: int, *, seen: TaskStatus, now_ms: int) -> bool:
        new = next_task_status(seen, TaskEvent.RELAUNCHED)
        task = self.get(key)
        if task is None or task.party_status is not seen or task.handle is not None:
            return False
        if task.launch > launch:
            return False
        self._put(
            replace(
                task,
                party_status=new,
                launch=launch,
                requested_ms=None,
                progress=0.0,
                reason=None,
                traceback="",
                started_ms=None,
                ended_ms=None,
                updated_ms=now_ms,
            )
        )
        self._journal.tell(recording.party_task_moved(key, seen, new, reason=None, now_ms=now_ms))
        return True

    def set_absent(self, key: TaskKey, components: Sequence[str]) -> None:
        task = self.get(key)
        if task is not None:
            self._put(replace(task, absent=tuple(components)))

    def set_handle(self, key: TaskKey, launch_id: str, handle: Handle) -> bool:
        return self._change_handle(key, launch_id, handle)

    def clear_handle(self, key: TaskKey, launch_id: str) -> bool:
        return self._change_handle(key, launch_id, None)

    def set_progress(self, key: TaskKey, progress: float, *, now_ms: int) -> None:
        task = self.get(key)
        if task is not None:
            self._put(replace(task, progress=progress, updated_ms=now_ms))

    def placed(self) -> dict[tuple[str, Site], str]:
        live = (self._jobs[key.job_id][key] for key in self._live)
        return {(task.key.session, task.key.site): task.instance_id for task in live}

    def drop(self, job_id: str) -> int:
        tasks = self._jobs.get(job_id, {})
        for key in tasks:
            self._journal.drop(self._numbers, key)
            self._journal.drop(self._live, key)
            self._journal.drop(self._ledgers, key)
        self._journal.drop(self._jobs, job_id)
        return len(tasks)

    def etag(self, job_id: str) -> str:
        tasks = self._jobs.get(job_id, {}).values()
        newest = max((task.updated_ms for task in tasks), default=0)
        return f"{len(tasks)}-{newest}-{sum(task.progress for task in tasks)}"

    def live(self) -> list[TaskRecord]:
        keys = sorted(self._live, key=self._numbers.__getitem__)
        return [self._jobs[key.job_id][key] for key in keys]

    def _change_handle(self, key: TaskKey, launch_id: str, handle: Handle | None) -> bool:
        task = self.get(key)
        if task is None or task.launch_id != launch_id:
            return False
        self._put(replace(task, handle=handle))
        return True

    def _put(self, task: TaskRecord) -> None:
        self._journal.put(self._jobs.setdefault(task.key.job_id, {}), task.key, task)
        asked = task.requested_ms is not None and task.party_status not in TASK_FINAL
        self._journal.keep(self._live, task.key, when=task.handle is not None or asked)


def _latest(tasks: dict[TaskKey, TaskRecord]) -> list[TaskRecord]:
    latest: dict[tuple[str, Site], TaskRecord] = {}
    for key, task in tasks.items():
        known = latest.get((key.component, key.site))
        if known is None or known.key.version < key.version:
            latest[key.component, key.site] = task
    return list(latest.values())
