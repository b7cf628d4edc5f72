"""The federated task statuses and the job's progress, which travel along with other commands."""

from __future__ import annotations

from typing import Any

from fedflow.app.ports.store import Tx
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.states import TASK_FINAL, TaskStatus


def news_of(statuses: dict[str, tuple[int, TaskStatus]]) -> dict[str, Any]:
    """Return the federated statuses of tasks that ended, and the progress in percent, as plain
    JSON.
    """
    ended = {c: [v, s.value] for c, (v, s) in statuses.items() if s in TASK_FINAL}
    return {"tasks": ended, "progress": 100 * len(ended) // max(1, len(statuses))}


def take_news(tx: Tx, key: JobKey, body: Any, *, now_ms: int) -> None:
    """Store the federated task statuses and the progress that travelled with a command."""
    if not isinstance(body, dict):
        return
    tasks = body.get("tasks")
    if isinstance(tasks, dict):
        for component, (version, known) in tx.tasks.statuses(key).items():
            told = tasks.get(component)
            if isinstance(told, list) and len(told) == 2 and told[0] == version:
                status = _task_status(told[1])
                if status is not known:
                    task = TaskKey(
                        job_id=key.job_id, component=component, version=version, site=key.site
                    )
                    tx.tasks.set_status(task, status, now_ms=now_ms)
    if isinstance(body.get("progress"), int):
        tx.jobs.set_progress(key, min(100, max(0, body["progress"])), now_ms=now_ms)


def _task_status(text: Any) -> TaskStatus:
    try:
        return TaskStatus(text)
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a task status") from exc
