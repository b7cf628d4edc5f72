"""Connects the executor's callbacks, which know launch ids, with the party tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fedflow.app.participant.task_reports import Workers
from fedflow.app.ports.executors import Executor
from fedflow.base.errors.error import FedflowError
from fedflow.domain.records import Handle, TaskKey

logger = logging.getLogger(__name__)


class Processes:
    """The `ExecutorEvents` of the server. `connect` completes it: the two sides need each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskKey] = {}
        self._workers: Workers | None = None
        self._executor: Executor | None = None

    def connect(self, *, workers: Workers, executor: Executor) -> None:
        """Name who is notified, and who stops processes that are not wanted."""
        self._workers = workers
        self._executor = executor

    def expect(self, launch_id: str, task: TaskKey) -> None:
        """Note which task a launch is for; call it before the launch."""
        with self._lock:
            self._tasks[launch_id] = task

    def started(self, launch_id: str, handle: Handle) -> None:
        """A process exists; one whose launch was replaced meanwhile is stopped."""
        task = self._task(launch_id)
        if task is None or self._workers is None:
            return
        if not self._workers.started(task, launch_id, handle) and self._executor is not None:
            logger.info("Process %s of %s is not wanted any more", handle.pid, task)
            self._executor.stop(handle, grace_s=0.0)

    def not_started(self, launch_id: str, reason: str) -> None:
        """A process could not be started."""
        self._end(launch_id, lambda task, workers: workers.not_started(task, launch_id, reason))

    def refused(self, launch_id: str, error: FedflowError) -> None:
        """A launch was not tried, since its task cannot run."""
        self._end(launch_id, lambda task, workers: workers.refused(task, launch_id, error))

    def exited(self, launch_id: str, exit_code: int | None, signal: int | None) -> None:
        """A process is gone."""
        self._end(
            launch_id, lambda task, workers: workers.exited(task, launch_id, exit_code, signal)
        )

    def _end(self, launch_id: str, tell: Callable[[TaskKey, Workers], None]) -> None:
        task = self._task(launch_id)
        if task is not None and self._workers is not None:
            tell(task, self._workers)
        with self._lock:
            self._tasks.pop(launch_id, None)

    def _task(self, launch_id: str) -> TaskKey | None:
        with self._lock:
            return self._tasks.get(launch_id)
