"""Retention: what the conf says of old jobs.

A server that leads, and whose conf has `retention.jobs_days`, deletes old jobs by itself: some at a
time, with pauses, so that running jobs do not wait for it.
"""

from __future__ import annotations

import logging
from typing import Final

from fedflow.app.queries.deleting import Deletions
from fedflow.base.clock import Clock
from fedflow.domain.job_lines import EndedJob, EndedJobs
from fedflow.domain.states import JobStatus

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 20  #: jobs that one pass looks at


class Retention:
    """Deletes jobs that ended longer ago than `age_ms`, as they became old enough."""

    def __init__(
        self, deletions: Deletions, *, clock: Clock, age_ms: int, statuses: frozenset[JobStatus]
    ) -> None:
        self._deletions = deletions
        self._clock = clock
        self._age_ms = age_ms
        self._statuses = statuses
        self._after: EndedJob | None = None
        self._began = False

    def look(self) -> bool:
        """Delete some old jobs; tell whether there may be more. The next round tries again what
        could not be deleted in this one.
        """
        if not self._began:
            self._began = True
            self._deletions.finish()
        which = EndedJobs(before_ms=self._clock.now_ms() - self._age_ms, statuses=self._statuses)
        done = self._deletions.delete_old(which, limit=_AT_ONCE, after=self._after, sized=False)
        self._after = done.last
        for one in done.refused:
            logger.info("Old job %s stays for now: %s", one.job_id, one.reason)
        return done.last is not None
