"""Heartbeats: what keeps the initiator's jobs alive at other parties, and repairs lost reports.

Each heartbeat names every job that does more than wait, and a part of those that wait, in
turn: a message stays small however many wait. That the message came at all is what keeps the
waiting ones alive.

An answer that says "not now" is no heartbeat: the party has renewed nothing. Nor does this server
send any while its own store takes no change: its jobs could not go on, and the others must know.

A job that has ended is named once more, so that both know if its end differs (`agreement.py`).

A party without jobs that could not be reached, or that somebody looks at, is called too: nothing
else would tell that it is back, or away.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from fedflow.app.initiator.agreement import EndComparison, told_of
from fedflow.app.initiator.initiator import Initiator
from fedflow.app.initiator.preflight import reach
from fedflow.app.initiator.silent_parties import SilentParties
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.party_leases import prove_store
from fedflow.app.protocol.piggyback import news_of
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.ids import new_request_id
from fedflow.domain.records import ScheduledJob
from fedflow.domain.scheduling.agreement import EndedSite
from fedflow.wire import paths
from fedflow.wire.commands import Heartbeat, HeartbeatAnswer, JobHeartbeat, plain, read_command
from fedflow.wire.envelope import NOT_NOW

logger = logging.getLogger(__name__)

_WAITING: Final = 32  #: waiting jobs that one heartbeat names
_JOBS: Final = 500  #: jobs that one message names


class Heartbeats(UseCase):
    """The heartbeats to all parties with whom this server, as initiator, has jobs."""

    def __init__(self, kernel: Kernel, *, initiator: Initiator, agreement: EndComparison) -> None:
        super().__init__(kernel)
        self._agreement = agreement
        self._leading = kernel.servers.guarded(kernel.store)
        self._initiator = initiator
        self._silent = SilentParties(kernel)
        self._after: dict[str, str] = {}  #: by party: the waiting job that was named last
        self._is_stuck = False  #: the last change was not stored

    def remote_parties(self) -> list[str]:
        """Return the other parties with whom this server, as initiator, has jobs under way, or
        whose word about ended ones it awaits.
        """
        with self._store.read() as tx:
            wanted = self._agreement.unsettled(tx, tx.queue.parties())
        return sorted(p for p in wanted if not self._parties.is_local(p))

    def unsure_parties(self) -> list[str]:
        """Return the other parties that are to be called even without a job."""
        known = (p for p in self._circuit_breakers.unsure() if self._parties.knows(p))
        return [p for p in known if not self._parties.is_local(p)]

    def collects(self, party_id: str) -> bool:
        """Tell whether a job under way wants its status collected from a party (PULL)."""
        with self._store.read() as tx:
            moving = tx.queue.moving_with(party_id, self._clock.now_ms())
            return any(self._status_pull.collects_from(tx, job_id, party_id) for job_id in moving)

    def send(self, party_id: str) -> bool:
        """Send a heartbeat to a party and take its answer; tell whether it answered.

        Raises: StoreUnavailable: none was sent if the one before met that too.
        """
        if self._is_stuck:
            with self._leading.transaction() as tx:
                prove_store(tx, self._clock.now_ms())
            self._is_stuck = False
        with self._store.read() as tx:
            shared = self._shared(tx, party_id)
            ended = self._agreement.open_with(tx, party_id)
        if not shared and not ended:
            self._agreement.settled(party_id)
            return party_id not in self._circuit_breakers.unsure() or self._reaches(party_id)
        parts = [shared[i : i + _JOBS] for i in range(0, len(shared), _JOBS)] or [[]]
        answered = [self._send(party_id, parts[0], ended)]
        answered += [self._send(party_id, part, ()) for part in parts[1:]]
        note = self._silent.answered if any(answered) else self._silent.unanswered
        note(party_id, shared)
        if not shared and not all(answered):
            self._agreement.settled(party_id)
        return all(answered)

    def _reaches(self, party_id: str) -> bool:
        """Tell whether a party answers; its circuit notes it."""
        try:
            reach(self._parties, party_id, timeout_s=self._timing.call_timeout_s)
        except FedflowError as exc:
            logger.debug("Party %s: %s", party_id, exc.message)
            return False
        return True

    def _shared(self, tx: Tx, party_id: str) -> list[ScheduledJob]:
        """Return the jobs that the next heartbeat names."""
        named = tx.queue.moving_with(party_id, self._clock.now_ms())
        waiting = tx.queue.waiting_with(
            party_id, after=self._after.get(party_id, ""), limit=_WAITING
        )
        self._after[party_id] = waiting[-1] if len(waiting) == _WAITING else ""
        jobs = (tx.schedules.get(job_id) for job_id in dict.fromkeys([*named, *waiting]))
        return [job for job in jobs if job is not None]

    def _send(
        self, party_id: str, shared: Sequence[ScheduledJob], ended: Sequence[EndedSite]
    ) -> bool:
        initiator = shared[0].initiator if shared else ended[0].initiator
        told = told_of(ended) | {job.job_id: _told(job, party_id) for job in shared}
        try:
            reply = self._parties.call(
                initiator,
                party_id,
                paths.PARTY_COMMANDS["heartbeat"],
                plain(Heartbeat(jobs=told, initiator_party_id=initiator.party_id)),
                request_id=new_request_id(),
                job_id=next(iter(told)),
                deadline_s=self._timing.call_timeout_s,
            )
        except PartyUnreachable as exc:
            known = not self._circuit_breakers.is_closed(party_id)  # it has been logged
            level = logging.DEBUG if known else logging.INFO
            logger.log(level, "Heartbeat to party %s: %s", party_id, exc.message)
            return False
        except FedflowError as exc:
            logger.warning("Heartbeat to party %s was not taken: %s", party_id, exc.message)
            return False
        if reply.retcode in NOT_NOW:
            logger.info("Heartbeat to party %s was not taken: %s", party_id, reply.retmsg)
            return False
        answer = read_command(reply.data, HeartbeatAnswer)
        try:
            changed = self._take(party_id, shared, ended, answer)
        except StoreUnavailable:
            self._is_stuck = True
            raise
        for job_id in changed:
            self._wakeup.schedule(job_id)
        return True

    def _take(
        self,
        party_id: str,
        shared: Sequence[ScheduledJob],
        ended: Sequence[EndedSite],
        answer: HeartbeatAnswer,
    ) -> list[str]:
        """Store that a party answered, and what; return the jobs that changed."""
        answers = answer.jobs or {}
        changed: list[str] = []
        with self._leading.transaction() as tx:
            self._party_leases.heard(tx, party_id)
            for job in shared:
                sites = answers.get(job.job_id)
                for site in (s.site for s in job.sites if s.site.party_id == party_id):
                    one = sites.get(site.key) if isinstance(sites, dict) else None
                    if self._initiator.take_answer(tx, job, site, one):
                        changed.append(job.job_id)
            ends_again = self._agreement.take(tx, party_id, ended, answer)
        if ends_again:
            self._wakeup.outbox([party_id])
        return changed


def _told(job: ScheduledJob, party_id: str) -> JobHeartbeat:
    """Return what a party gets about one job."""
    return JobHeartbeat(
        epoch=job.epoch,
        sites={s.site.key: s.phase.value for s in job.sites if s.site.party_id == party_id},
        **news_of({t.component: (t.version, t.status) for t in job.tasks}),
    )
