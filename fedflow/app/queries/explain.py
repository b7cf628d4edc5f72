"""What a job waits for, and why it ended, from what is stored at this server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import UseCase
from fedflow.app.protocol.snapshot import view_of
from fedflow.app.queries.history import moment
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.messages import Message
from fedflow.domain.job.participation import METRIC_TYPE, missed_rounds, rounds_of
from fedflow.domain.outside import is_kept_back
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Command,
    JobFilter,
    JobRecord,
    ScheduledJob,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.scheduling import explain
from fedflow.domain.scheduling.explain import JobEnd, QueueContext, QueuePosition, Wait
from fedflow.domain.scheduling.history import Event, EventFilter, Subject
from fedflow.domain.scheduling.views import JobView
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, JobStatus
from fedflow.wire.api.job_history import Absence, Explanation
from fedflow.wire.api.job_history import End as ShownEnd
from fedflow.wire.api.job_history import Wait as ShownWait

_AHEAD: Final = 3  #: jobs in the queue that are named
_QUEUE: Final = 10_000  #: jobs in the queue that are looked through
_EVENTS: Final = 200  #: events of a job's sites that are looked through


class Explanations(UseCase):
    """The use case of the explain route, and what status views show of it."""

    def explain(self, job_id: str, site: Site | None = None) -> Explanation:
        """Return what a job waits for: at which party, since when, until when, and what helps; of
        an ended job why it ended.

        At the initiator all of it, at another site what that one knows; with `site` what that site
        of this server knows. Raises: JobNotFound.
        """
        with self._store.read() as tx:
            scheduled = tx.schedules.get(job_id)
            own = tx.jobs.find(JobFilter(job_id=job_id))
            if site is not None:
                own = [job for job in own if job.key.site == site]
                if scheduled is not None and scheduled.initiator != site:
                    scheduled = None
            if scheduled is None and not own:
                raise JobNotFound(job_id=job_id)
            if scheduled is not None:
                return self._of_schedule(tx, scheduled, own)
            return self._of_share(tx, own)

    def waits(
        self, tx: Tx, job: ScheduledJob | None, own: Sequence[JobRecord]
    ) -> tuple[list[Wait], int | None]:
        """Return what a job waits for, and when it ends by itself as far as that is known here.

        Others in the queue and commands under way are not looked at.
        """
        if job is None:
            return self._share_waits(tx, own), None
        view = self._view(tx, job)
        waiting = job.status is JobStatus.WAITING
        around = QueueContext(place=self._place(tx, job, look=False) if waiting else None)
        return explain.waits_of(view, self._clock.now_ms(), around), explain.deadline_ms(view)

    def _view(self, tx: Tx, job: ScheduledJob) -> JobView:
        heard = {
            s.site.party_id: self._party_leases.party_ms(tx, s.site.party_id) for s in job.sites
        }
        spec = self._specs.get(job.job_id, job.dsl, job.conf)
        return view_of(
            job,
            spec,
            timing=self._timing,
            heard_ms=heard,
            lack_of=self._circuit_breakers.lack_of,
            may_request=False,
        )

    # --- at the initiator ---------------------------------------------------------------------

    def _of_schedule(self, tx: Tx, job: ScheduledJob, own: Sequence[JobRecord]) -> Explanation:
        view = self._view(tx, job)
        end = None
        if job.status in JOB_FINAL:
            by_name = {t.component: t for t in job.tasks}
            tasks = [by_name[c] for c in view.dag.order if c in by_name]
            end = explain.end_of(
                job.job_id,
                job.status,
                job.reason,
                [(t.component, t.version, t.status, t.reason) for t in tasks],
            )
        is_elastic = view.elastic is not None
        asks = job.status is JobStatus.WAITING or is_elastic
        moves = self._site_moves(tx, job) if asks else []
        waits = explain.waits_of(view, self._clock.now_ms(), self._around(tx, job, moves))
        waits += [w for share in own for w in explain.disagreements(share)]
        return self._shown(
            job.job_id,
            job.initiator,
            job.status,
            epoch=job.epoch,
            is_initiator=True,
            deadline_ms=explain.deadline_ms(view),
            waits=waits,
            end=end,
            absences=(*_times_away(job, moves), *self._rounds_missed(tx, own))
            if is_elastic
            else (),
        )

    def _site_moves(self, tx: Tx, job: ScheduledJob) -> list[Event]:
        return tx.events.find(
            EventFilter(job_id=job.job_id, subjects=(Subject.SITE,), newest=True, limit=_EVENTS)
        )

    def _around(self, tx: Tx, job: ScheduledJob, moves: Sequence[Event]) -> QueueContext:
        parties = {s.site.party_id for s in job.sites}
        asked = job.status is JobStatus.WAITING
        since = {
            phase: {e.site: e.at_ms for e in moves if e.new == phase.value and e.site is not None}
            for phase in (SitePhase.DENIED, SitePhase.APPLYING, SitePhase.ABSENT)
        }
        return QueueContext(
            place=self._place(tx, job, look=True) if asked else None,
            undelivered=self._stuck(tx, job.job_id, parties),
            denied_ms=since[SitePhase.DENIED],
            applied_ms=since[SitePhase.APPLYING],
            absent_ms=since[SitePhase.ABSENT],
        )

    def _place(self, tx: Tx, job: ScheduledJob, *, look: bool) -> QueuePosition | None:
        """Return why the job waits in the queue; with `look` its place there, too."""
        reason = self._queue.reason(tx, job.job_id)
        if reason is None:
            return None
        if not look:
            return QueuePosition(reason=reason)
        before_ms = self._clock.now_ms() - self._timing.starving_after_ms
        page = tx.queue.page(starving_before_ms=before_ms, limit=_QUEUE)
        ids = [waiting.job_id for waiting in page]
        if job.job_id not in ids:
            return QueuePosition(reason=reason)
        index = ids.index(job.job_id)
        return QueuePosition(
            reason=reason,
            position=index + 1,
            waiting=tx.queue.count(),
            ahead=tuple(ids[max(0, index - _AHEAD) : index]),
        )

    def _stuck(self, tx: Tx, job_id: str, parties: Iterable[str]) -> list[Command]:
        """Return the commands of a job that failed so far, or wait for an open circuit breaker."""
        return [
            self._with_circuit(command)
            for command in tx.outbox.of_job(job_id, sorted(parties))
            if command.attempts
            or not self._circuit_breakers.is_closed(command.destination.party_id)
        ]

    def _with_circuit(self, command: Command) -> Command:
        """Return a command with what is known of its party: while the circuit is open, no command
        is tried by itself.
        """
        if self._circuit_breakers.is_closed(command.destination.party_id):
            return command
        circuit = self._circuit_breakers.view(command.destination.party_id)
        return replace(
            command,
            attempts=command.attempts or circuit.failures,
            error=circuit.error or command.error,
            due_ms=circuit.next_try_ms or command.due_ms,
        )

    # --- at another site ------------------------------------------------------------------------

    def _of_share(self, tx: Tx, own: Sequence[JobRecord]) -> Explanation:
        job, waits = own[0], self._share_waits(tx, own)
        job_id = job.key.job_id
        end = None
        if job.status in JOB_FINAL:
            tasks = [
                (t.key.component, t.key.version, t.party_status, t.reason)
                for t in self._tasks(tx, job)
            ]
            end = explain.end_of(job_id, job.status, job.reason, tasks)
        return self._shown(
            job_id,
            job.initiator,
            job.status,
            epoch=job.epoch,
            is_initiator=False,
            deadline_ms=None,
            waits=waits,
            end=end,
            absences=tuple(self._rounds_missed(tx, own)),
        )

    def _rounds_missed(self, tx: Tx, own: Sequence[JobRecord]) -> Iterator[Absence]:
        """Yield which rounds of an elastic job sites missed, as the trainings here have recorded
        it: members at their end, an arbiter round by round.
        """
        share = own[0] if own else None
        if share is None or share.parameters.get("elastic") is None:
            return
        spec = self._specs.get(share.key.job_id, share.dsl, share.conf)
        tasks = {
            (t.key.component, job.key.site): t.key for job in own for t in self._tasks(tx, job)
        }
        found = tx.tracking.metrics_of(list(tasks.values()), [METRIC_TYPE])
        for component in spec.dag.order:
            known = [found[k] for (name, _), k in tasks.items() if name == component and k in found]
            points = [point for metric in known[0] for point in metric.points] if known else []
            members = [s for s in spec.sites_of(component) if s.role is not Role.ARBITER]
            for one in missed_rounds(rounds_of(points), [s.key for s in members]):
                yield Absence(
                    site=one.site, reason=one.reason, component=component,
                    first_round=one.first, last_round=one.last,
                )  # fmt: skip

    def _share_waits(self, tx: Tx, own: Sequence[JobRecord]) -> list[Wait]:
        job = own[0]
        stuck = self._stuck(tx, job.key.job_id, {job.initiator.party_id})
        waits: list[Wait] = []
        for share in own:
            waits += explain.waits_of_share(
                share,
                self._tasks(tx, share),
                heard_ms=self._heard_ms(tx, share),
                lease_ms=self._timing.lease_ms,
                undelivered=stuck if share is own[-1] else (),
            )
            waits += explain.disagreements(share)
        return waits

    def _heard_ms(self, tx: Tx, share: JobRecord) -> int:
        """Return when the initiator last said something that keeps a party job alive."""
        heard_ms = self._party_leases.initiator_ms(tx, share.key.job_id)
        if share.status is JobStatus.WAITING and not share.in_use:
            heard_ms = max(heard_ms, self._party_leases.initiators_ms(tx, share.initiator.party_id))
        return heard_ms

    def _tasks(self, tx: Tx, job: JobRecord) -> list[TaskRecord]:
        site = job.key.site
        which = TaskFilter(job_id=job.key.job_id, roles=(site.role,), party_id=site.party_id)
        return tx.tasks.find(which)

    # --- shown ----------------------------------------------------------------------------------

    def _shown(
        self, job_id: str, initiator: Site, status: JobStatus, *, epoch: int, is_initiator: bool,
        deadline_ms: int | None, waits: Sequence[Wait], end: JobEnd | None,
        absences: tuple[Absence, ...],
    ) -> Explanation:  # fmt: skip
        shown = JobStatus.WAITING if status is JobStatus.READY else status
        return Explanation(
            job_id=job_id,
            status=shown.value,
            epoch=epoch,
            initiator=initiator.key,
            is_initiator=is_initiator,
            deadline_ms=deadline_ms,
            waits=tuple(wait_view(w) for w in waits),
            end=None if end is None else self._end_view(job_id, end),
            absences=absences,
        )

    def _end_view(self, job_id: str, end: JobEnd) -> ShownEnd:
        remedy = end.remedy
        if end.site is not None and not self._parties.is_local(end.site.party_id):
            remedy = Message("At party {party_id}'s server: {remedy}", end.site.party_id, remedy)
            if is_kept_back(end.message):
                remedy = Message(
                    "Its people see more, and their board has a text that they can send. {remedy}",
                    remedy,
                )
        return ShownEnd(
            code=end.code,
            message=end.message,
            remedy=remedy,
            site=end.site.key if end.site else None,
            component=end.component or None,
            version=end.version,
            log=self._log(job_id, end),
        )

    def _log(self, job_id: str, end: JobEnd) -> str | None:
        """Return the folder with the log of what failed, if it failed at this server."""
        if not end.component or end.version is None:
            return str(self._folders.job_logs(job_id)) if end.code else None
        if end.site is None or not self._parties.is_local(end.site.party_id):
            return None
        key = TaskKey(job_id=job_id, component=end.component, version=end.version, site=end.site)
        return str(self._folders.logs(key))


def _times_away(job: ScheduledJob, moves: Iterable[Event]) -> Iterator[Absence]:
    """Yield from when to when sites were absent, in the order in which they left."""
    away: dict[Site, tuple[int, Reason | None]] = {}
    found: list[tuple[Site, int, Reason | None, int | None]] = []
    for move in moves:
        if move.site is None:
            continue
        if move.new == SitePhase.ABSENT.value:
            away[move.site] = (move.at_ms, move.reason)
        elif move.old == SitePhase.ABSENT.value:  # it may have been from the submit on
            away.setdefault(move.site, (job.created_ms, None))
        if move.new == SitePhase.GRANTED.value and move.site in away:
            found.append((move.site, *away.pop(move.site), move.at_ms))
    for one in job.sites:
        if one.phase is SitePhase.ABSENT:
            away.setdefault(one.site, (job.created_ms, one.reason))
    found += [(site, *since, None) for site, since in away.items()]
    for site, since_ms, reason, until_ms in sorted(found, key=lambda one: (one[1], one[0].order)):
        yield Absence(
            site=site.key,
            reason=reason.message.removesuffix(".") if reason else "",
            since_ms=since_ms,
            since=moment(since_ms),
            until_ms=until_ms,
            until=None if until_ms is None else moment(until_ms),
        )


def wait_view(wait: Wait) -> ShownWait:
    """Return a wait as it is shown; times in ms since the epoch, and as UTC in ISO 8601."""
    return ShownWait(
        code=wait.code,
        message=wait.message,
        remedy=wait.remedy,
        site=wait.site.key if wait.site else None,
        component=wait.component or None,
        since_ms=wait.since_ms,
        since=moment(wait.since_ms) if wait.since_ms is not None else None,
        heard_ms=wait.heard_ms,
        heard=moment(wait.heard_ms) if wait.heard_ms is not None else None,
        next_ms=wait.next_ms,
        next=moment(wait.next_ms) if wait.next_ms is not None else None,
        deadline_ms=wait.deadline_ms,
        deadline=moment(wait.deadline_ms) if wait.deadline_ms is not None else None,
    )
