"""The ledger of a job: what its tasks here sent to each party, received and waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from fedflow.app.ports.executors import Sessions
from fedflow.app.ports.store import Store
from fedflow.app.queries.history import check_component, moment
from fedflow.base.clock import Clock
from fedflow.base.errors.jobs import JobNotFound
from fedflow.domain.job.ledger import PeerLedger, both_launches
from fedflow.domain.records import JobFilter, TaskFilter, TaskRecord
from fedflow.domain.states import TASK_FINAL
from fedflow.wire.api.ledgers import JobLedger, MessageCount, PeerCounts, TaskLedger
from fedflow.wire.csv_text import csv_text

_HEAD: Final = (
    "ledger of job", "component", "attempt", "site", "peer", "direction", "message", "content",
    "calls", "bytes", "first", "last",
)  # fmt: skip


class JobLedgers:
    """The use cases of the ledger routes. Other parties do not see the ledger."""

    def __init__(
        self, *, store: Store, sessions: Sessions, clock: Clock,
        contents: Callable[[str], Mapping[str, str]],
    ) -> None:  # fmt: skip
        """`contents` says what the messages of a module show who gets them, by their names."""
        self._store = store
        self._sessions = sessions
        self._clock = clock
        self._contents = contents

    def of(self, job_id: str, component: str | None = None) -> JobLedger:
        """Return the ledger of a job, or of one of its components, with what is counted now.

        Raises: JobNotFound. BadRequest: the job has no such component.
        """
        which = TaskFilter(job_id=job_id, component=component, all_versions=True)
        with self._store.read() as tx:
            jobs = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
            if not jobs:
                raise JobNotFound(job_id=job_id)
            if component is not None:
                check_component(component, jobs[0].dsl)
            tasks, kept = tx.tasks.find(which), tx.tasks.ledgers(job_id)
        found = ((task, self._now(task, kept.get(task.key, ()))) for task in tasks)
        return JobLedger(
            job_id=job_id,
            tasks=tuple(self._shown(task, ledger) for task, ledger in found if ledger),
        )

    def _now(self, task: TaskRecord, kept: tuple[PeerLedger, ...]) -> tuple[PeerLedger, ...]:
        """Return what is kept of an attempt, with what its launch that runs has counted."""
        key = task.key
        if task.party_status in TASK_FINAL or task.requested_ms is None:
            return kept
        counted = self._sessions.ledger_of(key.session, key.site, incarnation=task.launch)
        return both_launches(kept, counted)

    def _shown(self, task: TaskRecord, ledger: tuple[PeerLedger, ...]) -> TaskLedger:
        until_ms = task.ended_ms or self._clock.now_ms()
        seconds = max(0, until_ms - task.started_ms) / 1000 if task.started_ms else 0.0
        contents = self._contents(task.module)
        longest_s = max((one.receive_s for one in ledger), default=0.0)
        return TaskLedger(
            component=task.key.component,
            version=task.key.version,
            site=task.key.site.key,
            status=task.party_status.value,
            seconds=seconds,
            computing_s=max(0.0, seconds - longest_s),
            peers=tuple(
                _peer(one, contents) for one in sorted(ledger, key=lambda one: one.peer.order)
            ),
        )


def ledger_csv(ledger: JobLedger) -> str:
    """Return a ledger as CSV, a line for each message name and direction; times in UTC."""
    return csv_text([_HEAD, *_lines(ledger)])


def _lines(ledger: JobLedger) -> Iterator[tuple[object, ...]]:
    for task, peer, one in ledger.lines():
        yield (
            ledger.job_id, task.component, task.version, task.site, peer.site,
            "sent" if one.is_sent else "arrived", one.name, one.content, one.calls,
            one.size_bytes, moment(one.first_ms), moment(one.last_ms),
        )  # fmt: skip


def _peer(one: PeerLedger, contents: Mapping[str, str]) -> PeerCounts:
    return PeerCounts(
        site=one.peer.key,
        sent=one.calls(sent=True),
        sent_bytes=one.size_bytes(sent=True),
        arrived=one.calls(sent=False),
        arrived_bytes=one.size_bytes(sent=False),
        receives=one.receives,
        receive_s=one.receive_s,
        send_s=one.send_s,
        messages=tuple(_counts(one, contents)),
    )


def _counts(one: PeerLedger, contents: Mapping[str, str]) -> Iterable[MessageCount]:
    for m in sorted(one.messages, key=lambda m: (not m.is_sent, m.first_ms, m.name)):
        yield MessageCount(
            name=m.name, is_sent=m.is_sent, calls=m.calls, size_bytes=m.size_bytes,
            first_ms=m.first_ms, last_ms=m.last_ms, content=contents.get(m.name, ""),
        )  # fmt: skip
