"""Lets a request wait until a job changed: a waiter is woken by its own job only, and the
predicate is the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fedflow.app.ports.store import Store
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import ScheduledJob
from fedflow.domain.states import JOB_FINAL, JobStatus

_LOOK_S = 0.5  #: a change without a notification is seen after this time
_DECIDING_S = 5.0  #: what the scheduler has to see that the time of the sites is over


class JobNotifier:
    """Tells waiting requests that their job changed; what changed, they look up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, list[threading.Event]] = {}

    def notify(self, job_id: str) -> None:
        """Wake everybody who waits for this job."""
        with self._lock:
            for changed in self._waiting.get(job_id, ()):
                changed.set()

    def wait_until(self, reached: Callable[[], bool], *, job_id: str, timeout_s: float) -> bool:
        """Return True as soon as `reached()` holds for a job, False after `timeout_s`.

        Raises: StoreUnavailable: `reached` still raises it at the end; before, it is asked again.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        changed = threading.Event()
        with self._lock:
            self._waiting.setdefault(job_id, []).append(changed)
        try:
            while True:
                left_s = deadline_s - self._clock.monotonic_s()
                try:
                    if reached():
                        return True
                except StoreUnavailable:  # a lost connection says nothing about the job
                    if left_s <= 0:
                        raise
                if left_s <= 0:
                    return False
                changed.wait(min(left_s, _LOOK_S))
                changed.clear()
        finally:
            with self._lock:
                self._waiting[job_id].remove(changed)
                if not self._waiting[job_id]:
                    del self._waiting[job_id]


def await_sites(job_id: str, *, store: Store, notifier: JobNotifier, timing: Timing) -> str | None:
    """Wait until all sites of a `ready` job accepted it; return why it did not begin, else None."""
    job: ScheduledJob | None = None

    def left_ready() -> bool:
        nonlocal job
        with store.read() as tx:
            if tx.schedules.status(job_id) is JobStatus.READY:
                return False
            job = tx.schedules.get(job_id)
        return True

    wait_s = timing.create_timeout_ms / 1000 + _DECIDING_S
    if not notifier.wait_until(left_ready, job_id=job_id, timeout_s=wait_s):
        return f"the sites did not answer within {wait_s:.0f} seconds"
    if job is None or job.status not in JOB_FINAL or job.started_ms is not None:
        return None
    if job.reason is None:
        return job.status.value
    where = f"{job.reason.site}: " if job.reason.site is not None else ""
    return where + job.reason.message.removesuffix(".")
