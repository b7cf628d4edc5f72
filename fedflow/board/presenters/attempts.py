"""Every attempt of a job's tasks at every site, from what is stored and from the history.

A site stores its own attempts; of other sites' earlier attempts only the history tells. Times are
milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedflow.base.values import dataclass
from fedflow.board.presenters.blame import STOPPED, Share, followed
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobRecord, TaskRecord
from fedflow.domain.scheduling.history import Event, Subject
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, JobStatus, TaskStatus

_FINAL = frozenset(s.value for s in TASK_FINAL)
_JOB_FINAL = frozenset(s.value for s in JOB_FINAL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt of a component at one site."""

    component: str
    version: int
    site: Site
    status: str = TaskStatus.WAITING.value
    asked_ms: int | None = None  #: when its start was decided
    began_ms: int | None = None  #: when its process began
    ended_ms: int | None = None
    executor: str = ""  #: the server that ran it, if there are several
    reason: Reason | None = None
    because: str = ""  #: the site that failed, if this one only followed it
    inherited_from: str = ""

    @property
    def shown(self) -> str:
        """Return the status as people see it."""
        return STOPPED if self.because else self.status

    @property
    def is_over(self) -> bool:
        return self.status in _FINAL

    @property
    def at_ms(self) -> int | None:
        """Return the first thing that is known to have happened to it."""
        return min(
            (at for at in (self.asked_ms, self.began_ms, self.ended_ms) if at is not None),
            default=None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """What a job did for a while."""

    status: str
    start_ms: int
    end_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Epoch:
    """One run of a job: the first one, or a rerun."""

    number: int
    start_ms: int
    end_ms: int
    phases: tuple[Phase, ...]


_Key = tuple[str, int, Site]


def attempts(tasks: Iterable[TaskRecord], events: Iterable[Event]) -> list[Attempt]:
    """Return all attempts that are known, in no particular order."""
    found: dict[_Key, Attempt] = {}
    for task in tasks:
        key = task.key
        found[key.component, key.version, key.site] = _stored(task)
    asked: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], Event] = {}
    for event in events:
        if event.version is None or not event.component:
            continue
        if event.subject is Subject.TASK and event.new == TaskStatus.RUNNING.value:
            asked[event.component, event.version] = event.at_ms
        if event.subject is Subject.TASK and event.new in _FINAL:
            ends[event.component, event.version] = event
        if event.subject in (Subject.REPORT, Subject.PARTY_TASK) and event.site and event.new:
            of = (event.component, event.version, event.site)
            known = found.get(of)
            if known is None:
                known = Attempt(component=of[0], version=of[1], site=of[2])
            found[of] = _told(known, event)
    latest: dict[str, int] = {}
    for component, version, _ in found:
        latest[component] = max(version, latest.get(component, 0))
    for of, known in found.items():
        end = ends.get(of[:2])
        if of[1] < latest[of[0]] and not known.is_over and end is not None:
            found[of] = _told(known, end)  # a site whose own word did not come
    shares: dict[tuple[str, int], list[Share]] = {}
    for a in found.values():
        shares.setdefault((a.component, a.version), []).append((a.site, a.status, a.reason))
    causes = {of: followed(those) for of, those in shares.items()}
    return [
        replace(
            a,
            asked_ms=asked.get((a.component, a.version), a.asked_ms),
            because=causes[a.component, a.version].get(a.site, ""),
        )
        for a in found.values()
    ]


def _stored(task: TaskRecord) -> Attempt:
    return Attempt(
        component=task.key.component,
        version=task.key.version,
        site=task.key.site,
        status=task.party_status.value,
        asked_ms=task.requested_ms,
        began_ms=task.started_ms,
        ended_ms=task.ended_ms,
        executor=task.instance_id,
        reason=task.reason,
        inherited_from=task.inherited_from,
    )


def _told(known: Attempt, event: Event) -> Attempt:
    """Return an attempt with what an event adds; what is stored of the end stays."""
    if event.new == TaskStatus.RUNNING.value:
        status = known.status if known.is_over else event.new
        return replace(known, status=status, began_ms=event.at_ms)
    if event.new in _FINAL:
        reason = event.reason or known.reason
        return replace(known, status=event.new, ended_ms=event.at_ms, reason=reason)
    return known


def epochs(job: JobRecord, events: Sequence[Event], now_ms: int) -> list[Epoch]:
    """Return the runs of a job in order, each with its phases; the last one goes on until now."""
    subject = Subject.JOB
    if not any(e.subject is Subject.JOB and e.new for e in events):
        subject = Subject.SHARE
    moves = [e for e in events if e.subject is subject and e.new]
    runs: list[list[Event]] = []
    for event in moves:
        if event.old in ("", *_JOB_FINAL) or not runs:
            runs.append([])
        runs[-1].append(event)
    if not runs or (len(runs) == 1 and len(runs[0]) == 1 and job.started_ms is not None):
        return [_stored_epoch(job, now_ms)]  # its history was forgotten
    first = job.epoch - len(runs) + 1
    return [_epoch(run, max(0, first) + place, now_ms) for place, run in enumerate(runs)]


def _stored_epoch(job: JobRecord, now_ms: int) -> Epoch:
    """Return the run of a job from what is stored of it."""
    end = job.ended_ms or now_ms
    started = job.started_ms if job.started_ms is not None else end
    start = min(job.created_ms, started, end)
    phases = [Phase(status=JobStatus.WAITING.value, start_ms=start, end_ms=started)]
    if job.started_ms is not None:
        phases.append(Phase(status=JobStatus.RUNNING.value, start_ms=started, end_ms=job.ended_ms))
    if job.status in JOB_FINAL:
        phases.append(Phase(status=job.status.value, start_ms=end))
    return Epoch(number=job.epoch, start_ms=start, end_ms=end, phases=tuple(phases))


def _epoch(run: Sequence[Event], number: int, now_ms: int) -> Epoch:
    phases = [Phase(status=event.new, start_ms=event.at_ms) for event in run]
    phases = [
        replace(phase, end_ms=phases[i + 1].start_ms if i + 1 < len(phases) else None)
        for i, phase in enumerate(phases)
    ]
    last = run[-1]
    end_ms = last.at_ms if last.new in _JOB_FINAL else max(now_ms, last.at_ms)
    told = [e.epoch for e in run if e.epoch is not None]
    return Epoch(
        number=told[-1] if told else number,
        start_ms=run[0].at_ms,
        end_ms=end_ms,
        phases=tuple(phases),
    )
