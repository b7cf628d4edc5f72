"""A job's history, what it waits for, and why it ended; `role-party_id` names a site."""

from __future__ import annotations

import msgspec


class HistoryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job, as the asked server knows it."""

    number: int  #: orders the events of one server
    at_ms: int
    at: str  #: the same, UTC in ISO 8601
    epoch: int | None = None  #: of the job: counts its reruns
    subject: str  #: job, site, task, report, share, cores or party_task
    site: str | None = None
    component: str | None = None
    version: int | None = None  #: of the task: counts its attempts
    old: str | None = None  #: status before
    new: str | None = None  #: status since then; None if nothing moved
    code: str | None = None  #: name of the error or reason
    message: str  #: why
    cause_site: str | None = None
    by: str  #: who made it happen
    text: str  #: all of it, for people

    def __str__(self) -> str:
        return f"{self.at} {self.text}"


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events in order; `next` is where the next page begins, if there are `more`."""

    job_id: str
    events: tuple[HistoryEvent, ...]
    next: int
    more: bool


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a job waits for, and what would unblock it."""

    code: str
    message: str
    remedy: str
    site: str | None = None
    component: str | None = None
    since_ms: int | None = None
    since: str | None = None  #: the same, UTC in ISO 8601; so are the other texts
    heard_ms: int | None = None  #: when that site was last heard, where it matters
    heard: str | None = None
    next_ms: int | None = None  #: when it is tried again
    next: str | None = None
    deadline_ms: int | None = None  #: when the wait ends by itself
    deadline: str | None = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job ended: the first component that failed, where, and what helps."""

    code: str
    message: str
    remedy: str
    site: str | None = None
    component: str | None = None
    version: int | None = None
    log: str | None = None  #: folder at the asked server


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A time, or rounds of a component, in which an elastic job went on without a site."""

    site: str
    reason: str  #: empty if it is not known
    since_ms: int | None = None
    since: str | None = None  #: the same, UTC in ISO 8601
    until_ms: int | None = None  #: when it was back; None: it was not, or these are rounds
    until: str | None = None
    component: str | None = None
    first_round: int | None = None  #: of those that it missed, counted from 0
    last_round: int | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a job waits for, or why it ended."""

    job_id: str
    status: str
    epoch: int
    initiator: str
    is_initiator: bool  #: the asked server is; another one knows of its own share only
    deadline_ms: int | None = None  #: when the job ends by itself
    waits: tuple[Wait, ...] = ()
    end: End | None = None
    absences: tuple[Absence, ...] = ()  #: of an elastic job, those that are over, too
