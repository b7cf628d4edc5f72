"""The federated task statuses and the job's progress, which travel along with other commands."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from fedflow.app.ports.store import Tx
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.states import TASK_FINAL, TaskStatus
from fedflow.wire.commands import Statuses

_MOST_MISSED: Final = 100  #: attempts of a task that a site may be behind


def news_of(statuses: dict[str, tuple[int, TaskStatus]]) -> dict[str, Any]:
    """Return the members of `Statuses`: of the tasks that ended, and the progress."""
    ended = {c: [v, s.value] for c, (v, s) in statuses.items() if s in TASK_FINAL}
    progress = 100 * len(ended) // max(1, len(statuses))
    return structs.asdict(Statuses(tasks=ended, progress=progress))


def apply_statuses(tx: Tx, key: JobKey, body: Statuses, *, now_ms: int) -> dict[str, range]:
    """Store the federated task statuses and the progress that travelled with a command.

    Returns: by component, versions of newer attempts that it tells of and that never arrived here.
    """
    missed: dict[str, range] = {}
    if (tasks := body.tasks) is not None:
        for component, (version, known) in tx.tasks.statuses(key).items():
            told = tasks.get(component)
            if not isinstance(told, list) or len(told) != 2 or type(told[0]) is not int:
                continue
            if version < told[0] <= version + _MOST_MISSED:
                missed[component] = range(version + 1, told[0] + 1)
            elif told[0] == version:
                status = _task_status(told[1])
                if status is not known:
                    task = TaskKey(
                        job_id=key.job_id, component=component, version=version, site=key.site
                    )
                    tx.tasks.set_status(task, status, now_ms=now_ms)
    if body.progress is not None:
        tx.jobs.set_progress(key, min(100, max(0, body.progress)), now_ms=now_ms)
    return missed


def _task_status(text: Any) -> TaskStatus:
    try:
        return TaskStatus(text)
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a task status") from exc
