"""The scheduler's pass: look at a job, decide, apply, until nothing is left to do.

The thread that calls `tick` lives in `server/threads.py`; tests and simulations call it themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedflow.app.initiator.apply import Applier
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.snapshot import view_of
from fedflow.base.clock import is_older
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.records import ScheduledJob
from fedflow.domain.scheduling.actions import Action, ApplyAt, SettleTask, StartTask
from fedflow.domain.scheduling.decide import decide, next_look_ms
from fedflow.domain.scheduling.views import JobView
from fedflow.domain.states import TASK_SUCCEEDED, JobStatus

logger = logging.getLogger(__name__)

_ROUNDS = 16  #: decisions about one job in one pass; what is left comes with the next
_BATCH = 16  #: waiting jobs that one pass looks at for one cause: others wait for it to end
_SOON_MS = 60_000  #: what is due later is found by a tick


class Scheduler(UseCase):
    """Moves the jobs that this server initiated."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._retries: dict[str, int] = {}  #: when to look at a job again

    def next_retry_ms(self) -> int | None:
        """Return when to look at the queue again: cores were denied, or a task is tried again."""
        return min(self._retries.values(), default=None)

    def tick(self) -> None:
        """Look at every job that does more than wait, at those of lost parties, and at the queue:
        the repair pass.
        """
        with self._store.read() as tx:
            moving = tx.queue.moving()
            lost = [party for party in tx.queue.parties() if self._is_lost(tx, party)]
            stranded = [j for party in lost for j in tx.queue.of_lost(party, limit=_BATCH)]
        self.look_at(dict.fromkeys([*moving, *stranded]))
        self.look_at_queue()

    def _is_lost(self, tx: Tx, party_id: str) -> bool:
        heard_ms = self._party_leases.party_ms(tx, party_id)
        return is_older(heard_ms, self._timing.lease_ms, self._clock.now_ms())

    def look_at(self, job_ids: Iterable[str]) -> None:
        """Look at some jobs; a job that cannot be handled is logged and stops no other."""
        for job_id in job_ids:
            self._guarded(job_id)

    def _guarded(self, job_id: str, *, may_request: bool = False, is_due: bool = False) -> None:
        try:
            self._advance(job_id, may_request=may_request, is_due=is_due)
        except NotLeading:  # no other job can be scheduled here, either
            raise
        except Exception as exc:  # one bad job must not stop the others
            if isinstance(exc, StoreUnavailable):
                logger.warning("Job %s could not be scheduled: %s", job_id, exc.message)
            else:
                logger.exception("Job %s could not be scheduled", job_id, extra={"job_id": job_id})
            if is_due:  # let others have their turn
                with self._store.transaction() as tx:
                    tx.queue.postpone_check(job_id, self._clock.now_ms() + _SOON_MS)

    def look_at_queue(self) -> None:
        """Let waiting jobs ask for cores: in order, every one that fits into what is free here.

        Before that, look at jobs whose time has come, for example for a retry.
        """
        now_ms = self._clock.now_ms()
        again = [job_id for job_id, at_ms in self._retries.items() if at_ms <= now_ms]
        for job_id in again:
            del self._retries[job_id]
        with self._store.read() as tx:
            due = tx.queue.due(now_ms, limit=_BATCH)
        self.look_at(again)
        for job_id in due:
            self._guarded(job_id, is_due=True)
        with self._store.read() as tx:
            turn = self._queue.turn(tx)
        for job_id in turn.go:
            self._guarded(job_id, may_request=True)
        if len(due) == _BATCH:
            self._wakeup.queue()  # the rest of them, after what else has happened

    def _advance(self, job_id: str, *, may_request: bool, is_due: bool) -> None:
        for number in range(_ROUNDS):
            now_ms = self._clock.now_ms()
            with self._store.read() as tx:
                job = tx.schedules.get(job_id)
                if job is None:
                    return
                spec = self._specs.get(job.job_id, job.dsl, job.conf)
                heard = {
                    s.site.party_id: self._party_leases.party_ms(tx, s.site.party_id)
                    for s in job.sites
                }
            view = view_of(
                job,
                spec,
                timing=self._timing,
                heard_ms=heard,
                lack_of=self._circuit_breakers.lack_of,
                may_request=may_request,
            )
            actions = decide(view, now_ms)
            if not actions:
                if view.status is JobStatus.WAITING and (number or is_due):
                    self._rest(view, spec, now_ms)
                self._note_look(view, now_ms)
                return
            with self._store.transaction() as tx:
                applier = Applier(tx, job, spec, party_commands=self._party_commands, now_ms=now_ms)
                applier.apply_all(actions)
            self._tell(job, applier)
            if applier.ended:
                self._retries.pop(job_id, None)
                return
            asks = not is_due and applier.commands and _asks(view, actions)
            if asks or all(_is_routine(view, action) for action in actions):
                self._note_look(view, now_ms)
                return

    def _rest(self, view: JobView, spec: JobSpec, now_ms: int) -> None:
        """Store what the queue must know of a job that waits from now on."""
        look_ms = next_look_ms(replace(view, sites=()), now_ms)  # denials are looked at anyway
        deadline_ms = view.created_ms + view.rested_ms + view.timeout_ms
        named_ms = view.created_ms + view.timeout_ms  # a site does not count rests: it must hear
        with self._store.transaction() as tx:
            tx.queue.enter(
                view.job_id,
                self._queue.need_here(spec),
                queued_ms=view.queued_ms,
                deadline_ms=named_ms,
                look_ms=deadline_ms if look_ms is None else look_ms,
            )

    def _note_look(self, view: JobView, now_ms: int) -> None:
        """Remember when to look again soon though nothing has happened; the tick does the rest."""
        self._retries.pop(view.job_id, None)
        due_ms = next_look_ms(view, now_ms)
        if due_ms is not None and due_ms - now_ms < _SOON_MS:
            self._retries[view.job_id] = due_ms

    def _tell(self, job: ScheduledJob, applier: Applier) -> None:
        if applier.commands:
            self._wakeup.outbox(sorted({c.destination.party_id for c in applier.commands}))
        if applier.changed:
            self._wakeup.job_changed(job.job_id)
            if job.status is JobStatus.READY:
                self._wakeup.queue()


def _asks(view: JobView, actions: Sequence[Action]) -> bool:
    """Tell whether all that a waiting job does is to ask a site, whose answer is to be awaited."""
    return view.status is JobStatus.WAITING and all(isinstance(a, ApplyAt) for a in actions)


def _is_routine(view: JobView, action: Action) -> bool:
    """Tell whether a step leaves nothing to decide before something happens: tasks that succeeded,
    and those that start behind them.
    """
    if view.status is not JobStatus.RUNNING:
        return False
    if isinstance(action, SettleTask):
        return action.status in TASK_SUCCEEDED
    return isinstance(action, StartTask) and view.tasks[action.component].rule.timeout_ms is None
