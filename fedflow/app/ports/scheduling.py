"""Parts of the store for scheduling: schedules, queue, outbox, leases; and waking the scheduler."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from fedflow.domain.administration.servers import Instance
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.control import Control
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import (
    Command,
    JobKey,
    JobRecord,
    Json,
    Lease,
    Moved,
    Reply,
    ScheduledJob,
    ScheduledSite,
    ScheduledTask,
    Stale,
    WaitingJob,
)
from fedflow.domain.scheduling.agreement import EndedSite
from fedflow.domain.site import Site
from fedflow.domain.states import JobEvent, JobStatus, TaskEvent, TaskStatus


class ScheduleStore(Protocol):
    """The schedule half: jobs that this server initiated."""

    def add(self, job: ScheduledJob) -> None: ...

    def get(self, job_id: str) -> ScheduledJob | None: ...

    def epoch(self, job_id: str) -> int | None:
        """Return the current epoch of a job; cheaper than `get`."""

    def status(self, job_id: str) -> JobStatus | None:
        """Return how a job stands; cheaper than `get`."""

    def etag(self, job_id: str) -> str:
        """Return a text that is another one once a job, its reason or a task's progress changed;
        cheaper than `get`. Moves of tasks and sites show in `EventStore.last_number`.
        """

    def active(self) -> list[str]:
        """Return the ids of jobs that have not ended, oldest first."""

    def move(
        self,
        job_id: str,
        event: JobEvent,
        *,
        seen: JobStatus,
        now_ms: int,
        reason: Reason | None = None,
    ) -> Moved | Stale: ...

    def set_reason(self, job_id: str, reason: Reason | None, *, now_ms: int) -> None:
        """Store why the job is not moving."""

    def rerun(self, job_id: str, *, seen: JobStatus, epoch: int, now_ms: int) -> Moved | Stale:
        """Begin a new epoch of an ended job: stop request, reason and times are forgotten."""

    def set_conf(self, job_id: str, conf: Json, *, now_ms: int) -> None:
        """Store a changed runtime conf."""

    def add_attempt(self, job_id: str, task: ScheduledTask, *, now_ms: int) -> bool:
        """Store a further attempt in its task's place; False if it exists."""

    def set_site(self, job_id: str, site: ScheduledSite, *, seen: SitePhase, now_ms: int) -> bool:
        """Replace one site's state if its phase is still `seen`."""

    def request_stop(self, job_id: str, stop: StopRequest, *, now_ms: int) -> bool:
        """Store that the job shall end; False if it has ended or was asked before."""

    def set_control(
        self,
        job_id: str,
        control: Control,
        *,
        seen: Control,
        now_ms: int,
        told: Reason | None = None,
    ) -> bool:
        """Replace how far a job may go, if it is still `seen` and the job has not ended.

        A job whose control has `held_ms` is none of the queue's. `told` goes into the history.
        """

    def start_task(self, job_id: str, component: str, version: int, *, now_ms: int) -> bool:
        """Move a waiting task to running; False if it is not waiting."""

    def end_task(
        self,
        job_id: str,
        component: str,
        version: int,
        status: TaskStatus,
        *,
        reason: Reason | None,
        now_ms: int,
    ) -> bool:
        """Move a task to a final status; False if it has one."""

    def report(
        self,
        job_id: str,
        component: str,
        version: int,
        site: Site,
        status: TaskStatus,
        *,
        reason: Reason | None,
        progress: float | None,
        now_ms: int,
        launch: int = 0,
    ) -> Moved | Stale:
        """Store what a site reports about its party task. A late or repeated report is Stale, and
        one of another launch.
        """

    def move_party(
        self,
        job_id: str,
        component: str,
        version: int,
        site: Site,
        event: TaskEvent,
        *,
        seen: TaskStatus,
        reason: Reason | None,
        now_ms: int,
    ) -> bool:
        """Move a site's share of a task by the initiator's will; False if it is not `seen` now.

        A relaunch counts the launches. Raises: IllegalMove.
        """

    def is_open(self, job_id: str, component: str, version: int) -> bool:
        """Tell whether a site's share of an attempt has not ended, as far as was reported."""

    def reusable(self, cache_keys: Collection[str], *, limit: int) -> list[tuple[str, str, str]]:
        """Return job, component and cache key of tasks that succeeded with one of some keys.

        Newest jobs first, at most `limit`; attempts that were replaced do not count.
        """

    def drop(self, job_id: str) -> bool:
        """Forget a job with its sites and tasks; False if there is none. It must have ended."""


class QueueStore(Protocol):
    """Who waits for cores and memory, at the initiator and at a site; and what to look at.

    It reads what `ScheduleStore` and `JobStore` write. Everything it returns is bounded by `limit`,
    or by how much runs, never by how many jobs wait.
    """

    def enter(
        self, job_id: str, need: ComputeResources, *, queued_ms: int, deadline_ms: int, look_ms: int
    ) -> None:
        """Store what a waiting job needs of this server's own engines, and when to look at it."""

    def postpone_check(self, job_id: str, look_ms: int) -> None:
        """Look at a waiting job again at `look_ms`, as nothing could be done with it now."""

    def postpone_request(self, job_id: str, ask_ms: int) -> None:
        """A waiting job was denied: it may ask again from `ask_ms` on."""

    def get(self, job_id: str) -> WaitingJob | None:
        """Return a job that waits, None if it does not."""

    def moving(self) -> list[str]:
        """Return the jobs that do more than wait: they are ready or run, or ask a site for cores,
        hold some, or were denied.
        """

    def due(self, now_ms: int, *, limit: int) -> list[str]:
        """Return waiting jobs whose look time has come, the longest ago first."""

    def of_lost(self, party_id: str, *, limit: int) -> list[str]:
        """Return jobs that have not ended and need a party."""

    def oldest(self, *, limit: int) -> list[WaitingJob]:
        """Return the jobs that wait longest, that one first."""

    def first(
        self, free: ComputeResources, now_ms: int, *, limit: int, offset: int = 0
    ) -> list[WaitingJob]:
        """Return jobs that may ask now and fit into what is free: by priority, then age."""

    def needing(self, job_ids: Collection[str], parties: Collection[str]) -> set[str]:
        """Return those of some jobs that need any of some parties."""

    def under_way(self) -> list[WaitingJob]:
        """Return waiting jobs that ask a site, or hold a grant; `need` is what they still need of
        this server's own engines.
        """

    def denied(self) -> dict[str, int]:
        """Return how many waiting jobs were denied at each party."""

    def page(self, *, starving_before_ms: int, limit: int, offset: int = 0) -> list[WaitingJob]:
        """Return waiting jobs in the order in which they go (see `domain/scheduling/queue.py`)."""

    def unstopped(self, *, limit: int) -> list[WaitingJob]:
        """Return waiting jobs that nobody has stopped yet."""

    def count(self) -> int:
        """Return how many jobs of this initiator wait."""

    def parties(self) -> list[str]:
        """Return the parties of jobs that have not ended, each once."""

    def ended_parties(self) -> list[str]:
        """Return the parties of jobs that have ended, each once."""

    def ended_with(self, party_id: str, *, since_ms: int, limit: int) -> list[EndedSite]:
        """Return the sites of a party in jobs that ended since then, newest job ids first.

        Only `limit` sites with the newest job ids are looked at, however many jobs there are.
        """

    def moving_with(self, party_id: str, now_ms: int) -> list[str]:
        """Return the jobs that a party must hear of each time: all that do more than wait, and
        those that wait beyond their deadline, as held ones do.
        """

    def waiting_with(self, party_id: str, *, after: str, limit: int) -> list[str]:
        """Return ids of waiting jobs that need a party, in the order of their ids, after one."""

    def deny(self, key: JobKey, *, now_ms: int) -> None:
        """Note that a party job was denied cores."""

    def claims(self, *, asked_since_ms: int, queued_before_ms: int) -> list[WaitingJob]:
        """Return the jobs that were denied here since a moment and wait since before another.

        `need` is what they need here in all, `initiator` whose they are.
        """

    def moving_shares(self) -> list[JobRecord]:
        """Return the party jobs at this server that do more than wait: run, hold cores, or have
        ended and still hold some.
        """

    def waiting_shares(self, *, after: str, limit: int) -> list[JobRecord]:
        """Return waiting party jobs that hold nothing, in the order of job ids, after one."""

    def began_ms(self) -> int | None:
        """Return when the oldest job that has not ended here was created, None if all have."""


class Outbox(Protocol):
    """Commands that must arrive, in order per (job, destination party)."""

    def put(self, commands: Sequence[Command]) -> None:
        """Store commands in order; each gets a number."""

    def heads(
        self, destination: str, *, now_ms: int, skip: frozenset[str], limit: int
    ) -> list[Command]:
        """Return, for one party, the oldest command of each job, of those that are due.

        A job in `skip` (one of its commands is on its way) is left out. A command that waits for
        its retry holds back the later ones of its job, so that order is kept.
        """

    def destinations(self) -> list[str]:
        """Return the party ids that commands wait for."""

    def next_due_ms(self, destination: str, *, skip: frozenset[str] = frozenset()) -> int | None:
        """Return when the next command for a party is due, or None if there is none.

        Jobs in `skip` are left out, as in `heads`.
        """

    def of_job(self, job_id: str, parties: Collection[str]) -> list[Command]:
        """Return what waits of one job for some parties, oldest first."""

    def remove(self, number: int) -> None: ...

    def retry(self, number: int, *, due_ms: int, error: str) -> None:
        """Count a failed attempt and try again at `due_ms`."""

    def release(self, destination: str | None, *, now_ms: int) -> None:
        """Let all commands for a party, or for all of them, be due now if they are due later."""

    def overdue(
        self, destination: str, *, now_ms: int, create_within_ms: int, skip: frozenset[str],
        limit: int,
    ) -> list[Command]:  # fmt: skip
        """Return, as `heads` does but due or not, those whose deadline has passed.

        A command to create a job is overdue `create_within_ms` after it was made, at the latest.
        """

    def next_deadline_ms(
        self, destination: str, *, create_within_ms: int, skip: frozenset[str] = frozenset()
    ) -> int | None:  # fmt: skip
        """Return when the next command for a party will be `overdue`, None if there is none."""

    def size(self) -> int: ...

    def sizes(self) -> dict[str, int]:
        """Return how many commands wait, by party."""


class ReplyCache(Protocol):
    """Replies to requests that were carried out, so that a repeat has no second effect."""

    def get(self, request_id: str) -> Reply | None: ...

    def put(self, request_id: str, reply: Reply, *, now_ms: int) -> None: ...

    def prune(self, older_than_ms: int) -> int:
        """Forget replies stored before a moment; return how many."""

    def forget(self, request_ids: Sequence[str]) -> None:
        """Forget these replies, if there are any."""

    def drop(self, job_id: str) -> None:
        """Forget the replies to requests about a job, whose ids begin with the job's and a `/`."""


class LeaseStore(Protocol):
    """Claims with an end."""

    def renew(self, name: str, owner: str, *, expires_ms: int, now_ms: int) -> Lease | None:
        """Take or extend a claim; None if another owner holds it and it has not expired."""

    def extend(self, name: str, owner: str, *, expires_ms: int) -> bool:
        """Extend a claim if its owner holds it; a claim that is gone does not come back."""

    def get(self, name: str, *, lock: bool = False) -> Lease | None:
        """Return a claim; with `lock` nobody else changes it before this transaction has ended."""

    def holds(self, name: str, token: int) -> bool:
        """Tell whether a claim is still that of `token`; if so, nobody takes it over before this
        transaction has ended.
        """

    def release(self, name: str, owner: str) -> None: ...


class InstanceStore(Protocol):
    """The servers of this party (`t_server_instance`)."""

    def now_ms(self) -> int:
        """Return the time of the database, which is the same for all servers that use it."""

    def renew(self, instance: Instance) -> int:
        """Store a server with the database's time as its beat, and return that time.

        `started_ms` 0 means now.
        """

    def all(self) -> list[Instance]:
        """Return all servers, the one that started first is the first."""

    def prune(self, older_than_ms: int) -> int:
        """Forget the servers that did not beat since a moment; return how many."""


class Wakeup(Protocol):
    """Tells the threads that something changed; they look into the store for what."""

    def schedule(self, job_id: str) -> None:
        """A job should be looked at."""

    def queue(self) -> None:
        """Cores became free: waiting jobs should be looked at."""

    def outbox(self, destinations: Sequence[str]) -> None:
        """Commands wait for these parties."""

    def job_changed(self, job_id: str) -> None:
        """A job's status changed: those who wait for it may look."""
