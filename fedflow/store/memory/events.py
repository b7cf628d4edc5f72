"""The history of jobs, in memory."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.scheduling.history import KEEP, OWN_HALF, Event, EventFilter, Subject
from fedflow.store.memory.journal import Journal
from fedflow.store.recording import Recent


class MemoryEvents:
    """See `app.ports.jobs.EventStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last_number = 0  #: never used twice, not even after an undo
        self._jobs: dict[str, dict[int, Event]] = {}
        self._epochs: dict[str, int] = {}  #: the newest epoch that events tell of

    def add(self, *events: Event) -> None:
        self._journal.tell(*events)

    def write(self, recent: Recent) -> list[Event]:
        """Write the transaction's events, and return them."""
        events = recent.news(self._journal.events)
        for event in events:
            self._last_number += 1
            epoch = self._epoch(event)
            stored = replace(event, number=self._last_number, epoch=epoch)
            if event.job_id not in self._jobs:
                self._journal.put(self._jobs, event.job_id, {})
            self._journal.put(self._jobs[event.job_id], stored.number, stored)
        for job_id in recent.long(events):
            for number in list(self._jobs[job_id])[:-KEEP]:
                self._journal.drop(self._jobs[job_id], number)
        return events

    def find(self, which: EventFilter) -> list[Event]:
        found = [e for e in self._jobs.get(which.job_id, {}).values() if _fits(which, e)]
        found.sort(key=lambda e: e.number)
        return found[-which.limit :] if which.newest else found[: which.limit]

    def last_number(self, job_id: str) -> int:
        return max(self._jobs.get(job_id, {}), default=0)

    def drop(self, job_id: str) -> int:
        count = len(self._jobs.get(job_id, {}))
        self._journal.drop(self._jobs, job_id)
        self._journal.drop(self._epochs, job_id)
        return count

    def _epoch(self, event: Event) -> int | None:
        known = self._epochs.get(event.job_id)
        told = [epoch for epoch in (known, event.epoch) if epoch is not None]
        newest = max(told, default=None)
        if newest is not None and newest != known:
            self._journal.put(self._epochs, event.job_id, newest)
        return newest


def _fits(which: EventFilter, event: Event) -> bool:
    if event.number <= which.since:
        return False
    if which.component is not None and event.component != which.component:
        return False
    if which.subjects is not None and event.subject not in which.subjects:
        return False
    if which.own is not None and event.subject in OWN_HALF and event.site != which.own:
        return False
    if which.site is not None and event.site != which.site:
        return False
    return not (event.subject is Subject.REPORT and event.site in which.unreported)
