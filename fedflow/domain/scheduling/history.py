"""The history of a job: events, and the sentences that explain them. All `_ms` are milliseconds
since the epoch.

The store writes an event with every change of a status, in the transaction of that change, and
other modules add what is no such change. An event holds the cause only if it was given one; the
sentence of an ordinary move follows from what moved and is made when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.reason import Reason
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Site

KEEP: Final = 10_000  #: events of one job that are kept, the newest ones
HEARD_AGAIN: Final = "HeardAgain"  #: code of the note about a party that was silent


class Subject(StrEnum):
    """What an event is about."""

    JOB = "job"  #: the job, which its initiator decides about
    SITE = "site"  #: how far the job has come at one site, as its initiator knows it
    TASK = "task"  #: a task over all its sites, which the initiator decides about
    REPORT = "report"  #: one site's share of a task, as it told the initiator
    SHARE = "share"  #: this server's share of the job
    CORES = "cores"  #: what that share holds of this server's engine
    PARTY_TASK = "party_task"  #: this server's share of a task


OWN_HALF: Final = (Subject.SHARE, Subject.CORES, Subject.PARTY_TASK)
"""What a server tells of its own sites; the rest is what the initiator knows and decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened. `old` and `new` are statuses: both empty if nothing moved, `old`
    empty if something was made. `number` orders the events of one store.
    """

    job_id: str
    subject: Subject
    at_ms: int
    old: str = ""
    new: str = ""
    site: Site | None = None
    component: str = ""
    version: int | None = None  #: of the task: counts its attempts
    epoch: int | None = None  #: of the job; stored only where an epoch begins
    reason: Reason | None = None
    number: int = 0  #: given by the store


@dataclass(frozen=True, kw_only=True, slots=True)
class EventFilter:
    """Which events of a job to list: the oldest ones after the number `since`, or the `newest`.

    Whatever the order in which they were chosen, they are given in the order of their numbers.
    """

    job_id: str
    component: str | None = None
    subjects: tuple[Subject, ...] | None = None
    unreported: frozenset[Site] = frozenset()  #: sites whose reports to the initiator are left out
    own: Site | None = None  #: of `OWN_HALF` only what is about this site
    site: Site | None = None  #: only what is about this site
    since: int = 0
    newest: bool = False
    limit: int = 1000


def job_note(job_id: str, reason: Reason, *, at_ms: int) -> Event:
    """Return an event about a job that moved nothing."""
    return Event(job_id=job_id, subject=Subject.JOB, at_ms=at_ms, reason=reason)


def site_note(job_id: str, reason: Reason, *, at_ms: int) -> Event:
    """Return an event about how its initiator sees a site of a job, which moved nothing."""
    return Event(
        job_id=job_id, subject=Subject.SITE, site=reason.site, at_ms=at_ms, reason=reason
    )  # fmt: skip


def process_note(key: TaskKey, code: str, message: Message, *, at_ms: int) -> Event:
    """Return an event about the process of a share of a task, whose status did not move."""
    return Event(
        job_id=key.job_id, subject=Subject.PARTY_TASK, component=key.component,
        version=key.version, site=key.site, at_ms=at_ms, reason=Reason(code=code, message=message),
    )  # fmt: skip


_SENTENCES: Final[Mapping[tuple[Subject, str, str], str]] = {
    (Subject.JOB, "", "ready"): "it was submitted, and its sites are asked to take part",
    (Subject.JOB, "ready", "waiting"): "all its sites have accepted it",
    (Subject.JOB, "waiting", "running"): "all its sites have granted their cores",
    (Subject.JOB, "running", "waiting"): "it is held: its cores were given back",
    (Subject.JOB, "*", "success"): "everything that was to run has run",
    (Subject.JOB, "*", "ready"): "it is run again, and its sites are asked to open it",
    (Subject.SITE, "*", "creating"): "was asked to open the job again",
    (Subject.SITE, "creating", "created"): "accepted the job",
    (Subject.SITE, "granted", "created"): "was told to give the job's cores back for now",
    (Subject.SITE, "created", "applying"): "was asked for the job's cores",
    (Subject.SITE, "*", "applying"): "was asked again for the job's cores",
    (Subject.SITE, "*", "granted"): "granted the job's cores",
    (Subject.SITE, "*", "denied"): "has too few free cores",
    (Subject.SITE, "*", "refused"): "refused the job",
    (Subject.SITE, "*", "absent"): "is absent, and the job goes on without it",
    (Subject.SITE, "absent", "creating"): "was heard from again, and is asked to come back",
    (Subject.SITE, "*", "gone"): "does not take part any more",
    (Subject.TASK, "", "waiting"): "a further attempt was made",
    (Subject.TASK, "", "success"): "its result was taken over from an earlier job",
    (Subject.TASK, "", "pass"): "its result was taken over from an earlier job",
    (Subject.TASK, "waiting", "running"): "what it waited for has ended, and it is started",
    (Subject.TASK, "*", "success"): "it succeeded at all its sites",
    (Subject.TASK, "*", "pass"): "it had nothing to do",
    (Subject.REPORT, "*", "running"): "its process runs",
    (Subject.REPORT, "*", "success"): "it succeeded",
    (Subject.REPORT, "*", "waiting"): "it is started once more in the same attempt",
    (Subject.REPORT, "*", "pass"): "it had nothing to do",
    (Subject.SHARE, "", "waiting"): "the job was created here",
    (Subject.SHARE, "waiting", "running"): "the job was started",
    (Subject.SHARE, "running", "waiting"): "the job is held",
    (Subject.SHARE, "*", "waiting"): "the job was opened again",
    (Subject.SHARE, "*", "success"): "the job succeeded",
    (Subject.CORES, "free", "held"): "the job took its cores here",
    (Subject.CORES, "held", "free"): "the job gave its cores back here",
    (Subject.PARTY_TASK, "", "waiting"): "a further attempt was made",
    (Subject.PARTY_TASK, "", "success"): "its result was taken over from an earlier job",
    (Subject.PARTY_TASK, "", "pass"): "its result was taken over from an earlier job",
    (Subject.PARTY_TASK, "*", "waiting"): "it is started once more in the same attempt",
    (Subject.PARTY_TASK, "*", "running"): "its process began",
    (Subject.PARTY_TASK, "*", "success"): "it succeeded",
    (Subject.PARTY_TASK, "*", "pass"): "it had nothing to do",
}
"""Why an ordinary move took place, by what moved, from and to; `*` is any status before."""


def sentence(event: Event) -> str:
    """Return why it happened: what the cause says, or what such a move means."""
    if event.reason is not None:
        return event.reason.message
    for old in (event.old, "*"):
        known = _SENTENCES.get((event.subject, old, event.new))
        if known is not None:
            return known
    return Message("it is {status}", event.new) if event.new else "it was changed"


_ABSENT: Final = "PartyAbsent"
_OF_USERS: Final = frozenset({"Stopped", "Paused", "Continued", "ParametersChanged"})
_OF_SERVERS: Final = frozenset(
    {
        "InitiatorLost", "LaunchRepeated", "ProcessAdopted", "ServerLost", "ExecutorDied",
        "ExecutorNotStarted",
    }
)  # fmt: skip
"""Causes that a site's server finds by itself."""


def actor(event: Event) -> str:
    """Return who made it happen: a user, a site, the scheduler, the detector or a process."""
    reason = event.reason
    if event.subject is Subject.REPORT:
        is_ordered = event.new == "waiting" or (reason is not None and reason.code == _ABSENT)
        return "the scheduler" if is_ordered else Message("reported by {site}", event.site)
    if reason is not None and reason.code in _OF_USERS:
        return Message("a user at {site}", reason.site) if reason.site else "a user"
    match event.subject:
        case Subject.JOB:
            by_user = event.new and event.old not in _UNDER_WAY
            return "a user" if by_user else "the scheduler"
        case Subject.TASK:
            return "the scheduler"
        case Subject.SITE if not event.new:
            return "the scheduler"
        case Subject.SITE:
            asked = (
                event.new in ("creating", "applying", "created", "absent")
                and event.old != "creating"
            )
            return "the scheduler" if asked else str(event.site)
    if reason is not None and _found_here(event, reason):
        return "the detector"
    is_own = event.subject is Subject.PARTY_TASK and _is_own(event)
    return "its process" if is_own else "the initiator"


_UNDER_WAY: Final = frozenset({"ready", "waiting", "running"})


def _found_here(event: Event, reason: Reason) -> bool:
    """Tell whether the site's server found the cause itself: others learn it by a command."""
    if reason.code == "InitiatorLost":
        return True
    is_own = event.subject is Subject.PARTY_TASK and reason.site in (None, event.site)
    return is_own and reason.code in _OF_SERVERS and event.new != "canceled"


def _is_own(event: Event) -> bool:
    """Tell whether a share moved because of its own process, not by a command.

    No process cancels itself, and that its party cannot be reached is what others say of it.
    """
    if event.reason is None:
        return event.old != ""
    if event.new == "canceled" or event.reason.code in ("PartyUnreachable", _ABSENT):
        return False
    return event.reason.site == event.site


def subject_text(event: Event) -> str:
    """Return what the event is about, for people: `reader_0 at host 10000`."""
    where = f" at {event.site}" if event.site else ""
    attempt = f" (attempt {event.version})" if event.version else ""
    match event.subject:
        case Subject.JOB:
            return "job"
        case Subject.SITE:
            return str(event.site)
        case Subject.SHARE:
            return f"job{where}"
        case Subject.CORES:
            return f"cores{where}"
    return f"{event.component}{attempt}{where}"
