"""Lists of jobs for people: a page of them, and how all stand at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.party_leases import PartyLeases
from fedflow.app.protocol.queue import JobQueue
from fedflow.base.clock import Clock
from fedflow.base.values import dataclass
from fedflow.domain.job.control import is_told_to_hold
from fedflow.domain.job_lines import JobLine, StatusCount, Strip
from fedflow.domain.lists import fits_status
from fedflow.domain.records import Between, JobFilter, JobKey, Order, Sort
from fedflow.domain.scheduling.explain import SILENT_MS
from fedflow.domain.states import JOB_FINAL, JobStatus

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
WAITING: Final = (JobStatus.WAITING, JobStatus.READY)
FAILED: Final = (JobStatus.FAILED, JobStatus.TIMEOUT)
_SEEN_MS: Final = 1_000
_COUNTED_MS: Final = 10_000
_SHOWN: Final = 8  #: jobs of a kind in the overview
_MOST_SHARES: Final = 4  #: of a job at one server, as a rule


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Party jobs, their components, and how many there are of each status."""

    lines: tuple[JobLine, ...]
    strips: Mapping[JobKey, Strip]
    counts: tuple[StatusCount, ...]  #: of those that fit but for their status
    count: int  #: that fit


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """How the jobs of this server stand. Of each job one party job is shown."""

    now_ms: int
    day: Mapping[JobStatus, int]  #: jobs created within it
    week: Mapping[JobStatus, int]
    running: tuple[JobLine, ...]
    waiting: tuple[JobLine, ...]  #: the oldest
    failed: tuple[JobLine, ...]  #: within a week, the newest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    """Jobs by status, as they were counted at a moment."""

    now_ms: int
    day: Mapping[JobStatus, int]
    week: Mapping[JobStatus, int]


class JobLists:
    """The use cases of job lists."""

    def __init__(
        self, *, store: Store, queue: JobQueue, party_leases: PartyLeases, clock: Clock
    ) -> None:
        self._store = store
        self._queue = queue
        self._party_leases = party_leases
        self._clock = clock
        self._counted: _Counted | None = None
        self._seen: Overview | None = None

    def page(self, which: JobFilter) -> JobPage:
        """Return a page of this server's party jobs, and how many there are in all."""
        with self._store.read() as tx:
            lines, strips = self._rows(tx, which)
            counts = tx.job_lists.counted(which)
        fitting = (c.count for c in counts if fits_status(which, c.status, is_refused=c.refused))
        return JobPage(lines=tuple(lines), strips=strips, counts=tuple(counts), count=sum(fitting))

    def rows(self, which: JobFilter) -> tuple[list[JobLine], Mapping[JobKey, Strip]]:
        """Return a page of this server's party jobs and their components; nothing is counted."""
        with self._store.read() as tx:
            return self._rows(tx, which)

    def lines(self, which: JobFilter) -> list[JobLine]:
        """Return a page of this server's party jobs; how many there are is not counted."""
        with self._store.read() as tx:
            return self._fresh(tx, tx.job_lists.page(which))

    def overview(self) -> Overview:
        """Return how many jobs there are of each status, what runs and waits, what failed.

        All who look within a second see the same; counts are up to ten seconds old.
        """
        now_ms = self._clock.now_ms()
        seen = self._seen
        if seen is not None and 0 <= now_ms - seen.now_ms < _SEEN_MS:
            return seen
        self._seen = seen = self._look(now_ms)
        return seen

    def _look(self, now_ms: int) -> Overview:
        with self._store.read() as tx:
            counted = self._counted
            if counted is None or not 0 <= now_ms - counted.now_ms < _COUNTED_MS:
                counted = self._counted = _count(tx, now_ms)
            running = self._fresh(tx, _jobs(tx, (JobStatus.RUNNING,), Order()))
            waiting = self._fresh(tx, _jobs(tx, WAITING, Order(descending=False)))
            recent = Between(by=Sort.ENDED, low=now_ms - WEEK_MS, high=now_ms + DAY_MS)
            failed = _jobs(tx, FAILED, Order(by=Sort.ENDED), recent)
            waiting = [self._with_reason(tx, line) for line in waiting]
        return Overview(
            now_ms=now_ms,
            day=counted.day,
            week=counted.week,
            running=tuple(running),
            waiting=tuple(waiting),
            failed=tuple(failed),
        )

    def _rows(self, tx: Tx, which: JobFilter) -> tuple[list[JobLine], Mapping[JobKey, Strip]]:
        lines = self._fresh(tx, tx.job_lists.page(which))
        return lines, tx.job_lists.strips({line.key.job_id for line in lines})

    def _fresh(self, tx: Tx, lines: Sequence[JobLine]) -> list[JobLine]:
        """Return lines with what the initiator knows where that is this server: the newest
        progress, and whether the job is paused; elsewhere its last word tells. What runs names
        who is silent.
        """
        own = {x.key.job_id for x in lines if x.is_initiator and x.status not in JOB_FINAL}
        progress, held = tx.job_lists.progress(own), tx.job_lists.on_hold(own)
        silent = self._silent(tx, lines)
        found = []
        for line in lines:
            job_id, newest, on_hold = line.key.job_id, 0, is_told_to_hold(line.status, line.reason)
            if line.is_initiator and job_id in own:
                newest, on_hold = progress.get(job_id, 0), job_id in held
            found.append(
                replace(
                    line,
                    progress=max(line.progress, newest),
                    on_hold=on_hold,
                    silent=silent.get(line.key, ()),
                )
            )
        return found

    def _silent(self, tx: Tx, lines: Sequence[JobLine]) -> dict[JobKey, tuple[str, ...]]:
        """Return the parties that do not answer of each job that runs: at its initiator of all its
        sites, elsewhere the initiator.
        """
        running = [line for line in lines if line.status is JobStatus.RUNNING]
        asked = {p for x in running if x.is_initiator for ids in x.roles.values() for p in ids}
        told = {x.initiator.party_id for x in running if not x.is_initiator}
        leases, limit_ms = self._party_leases, self._clock.now_ms() - SILENT_MS
        gone = {p for p in asked if leases.party_ms(tx, p) < limit_ms}
        lost: set[str] = {p for p in told if leases.initiators_ms(tx, p) < limit_ms}
        found: dict[JobKey, tuple[str, ...]] = {}
        for line in running:
            if line.is_initiator:
                parties = {p for ids in line.roles.values() for p in ids} & gone
            else:
                parties = lost & {line.initiator.party_id}
            if parties:
                found[line.key] = tuple(sorted(parties))
        return found

    def _with_reason(self, tx: Tx, line: JobLine) -> JobLine:
        if line.reason is not None or not line.is_initiator:
            return line
        return replace(line, reason=self._queue.reason(tx, line.key.job_id))


def _jobs(
    tx: Tx, statuses: tuple[JobStatus, ...], order: Order, *between: Between
) -> list[JobLine]:
    """Return one party job, that of the initiator if it is here, of each of the first jobs."""
    which = JobFilter(statuses=statuses, order=order, between=between, limit=_SHOWN * _MOST_SHARES)
    chosen: dict[str, JobLine] = {}
    for line in tx.job_lists.page(which):
        known = chosen.get(line.key.job_id)
        if known is None or line.is_initiator:
            chosen[line.key.job_id] = line
    return list(chosen.values())[:_SHOWN]


def _count(tx: Tx, now_ms: int) -> _Counted:
    return _Counted(
        now_ms=now_ms,
        day=_merged(tx.job_lists.counts(now_ms - DAY_MS)),
        week=_merged(tx.job_lists.counts(now_ms - WEEK_MS)),
    )


def _merged(found: Sequence[StatusCount]) -> dict[JobStatus, int]:
    """Return counts as people see them: a job that is ready waits."""
    counts = {one.status: one.count for one in found}
    merged: dict[JobStatus, int] = {
        status: count for status, count in counts.items() if status is not JobStatus.READY
    }
    if JobStatus.READY in counts:
        merged[JobStatus.WAITING] = merged.get(JobStatus.WAITING, 0) + counts[JobStatus.READY]
    return merged
