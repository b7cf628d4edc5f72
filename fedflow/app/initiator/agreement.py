"""Whether other parties have the same ends of this initiator's jobs.

A heartbeat names each job once more after its end, and the party says how it stands there. What the
party confirmed is asked again only when its server has been started anew, and once an hour: a
database may have been put back to an earlier time. So it costs one line per job, and nothing while
nothing ends. A party that is behind gets the end again; else both sides store a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.disagreements import note_disagreement
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.piggyback import news_of
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobKey
from fedflow.domain.scheduling.agreement import EndedSite, EndMatch, compare, disagreement
from fedflow.domain.states import JobStatus
from fedflow.wire.commands import (
    HeartbeatAnswer,
    JobHeartbeat,
    SiteAnswer,
    counted,
    read_command,
)

logger = logging.getLogger(__name__)

_RECENT_MS: Final = 86_400_000  #: jobs that ended earlier are not compared
_MOST: Final = 500  #: sites of jobs that are compared with one party
_AGAIN_S: Final = 3_600.0  #: what was confirmed is asked again after this time
_RUN_S: Final = 10.0  #: a party's server counts as started anew once in this time
_STATUSES: Final = frozenset(status.value for status in JobStatus)


@dataclass(slots=True)
class _PartyWord:
    """What is known of one party since this server leads."""

    run: str | None = None  #: of the party's server, as it says
    asked_s: float = 0.0  #: since when `confirmed` is collected
    run_s: float = -_RUN_S  #: when `run` was noted
    confirmed: set[EndedSite] = field(default_factory=set)
    sent_again: set[EndedSite] = field(default_factory=set)


class EndComparison(UseCase):
    """What the heartbeats to each party name of ended jobs, and what follows from the answers."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._known: dict[str, _PartyWord] = {}
        self._unsettled: set[str] | None = None

    def unsettled(self, tx: Tx, under_way: Sequence[str]) -> set[str]:
        """Return the parties that are to be asked; those of jobs `under_way` will be."""
        if self._unsettled is None:
            ended = tx.queue.ended_parties()
            self._unsettled = {p for p in ended if self._parties.knows(p)}
        self._unsettled.update(under_way)
        return set(self._unsettled)  # threads of other parties take themselves out

    def settled(self, party_id: str) -> None:
        """Ask a party no more until there are jobs with it: it has confirmed all, or is away."""
        if self._unsettled is not None:
            self._unsettled.discard(party_id)

    def open_with(self, tx: Tx, party_id: str) -> list[EndedSite]:
        """Return what a party is to confirm."""
        party, now_s = self._known.setdefault(party_id, _PartyWord()), self._clock.monotonic_s()
        since_ms = self._clock.now_ms() - _RECENT_MS
        ended = tx.queue.ended_with(party_id, since_ms=since_ms, limit=_MOST)
        if now_s - party.asked_s > _AGAIN_S:
            party.asked_s = now_s
            party.confirmed.clear()
        party.confirmed.intersection_update(ended)
        party.sent_again.intersection_update(ended)
        return [share for share in ended if share not in party.confirmed]

    def take(
        self, tx: Tx, party_id: str, named: Sequence[EndedSite], answer: HeartbeatAnswer
    ) -> bool:
        """Take a party's word about ended jobs; tell whether ends are on their way again."""
        party = self._known.setdefault(party_id, _PartyWord())
        now_s = self._clock.monotonic_s()
        if answer.run != party.run and now_s - party.run_s >= _RUN_S:
            party.run, party.run_s = answer.run, now_s
            party.confirmed.clear()
            party.sent_again.clear()
        again = [share for share in named if self._take(tx, party, share, (answer.jobs or {}))]
        return bool(again)

    def _take(self, tx: Tx, party: _PartyWord, share: EndedSite, jobs: Mapping[str, Any]) -> bool:
        """Compare one site; tell whether the end was sent again."""
        sites = jobs.get(share.job_id)
        told = sites.get(share.site.key) if isinstance(sites, dict) else None
        if not isinstance(told, dict):
            party.confirmed.add(share)  # a release that says nothing of it, now and later
            return False
        if tx.schedules.epoch(share.job_id) != share.epoch:
            return False  # the job runs again
        site = read_command(told, SiteAnswer)
        status = None if site.status is None else str(site.status)
        epoch = counted(site.epoch)
        if status is not None and status not in _STATUSES:
            party.confirmed.add(share)
            return False
        verdict = compare(share, status=status, epoch=epoch)
        if verdict is EndMatch.BEHIND:
            if tx.outbox.of_job(share.job_id, [share.site.party_id]):
                return False  # the end is on its way
            if share not in party.sent_again:
                party.sent_again.add(share)
                return self._send_again(tx, share)
        party.confirmed.add(share)
        new = None
        if verdict is not EndMatch.AGREES:
            new = disagreement(share.site, status, epoch, status=share.status, epoch=share.epoch)
        self._note(tx, share, new)
        return False

    def _note(self, tx: Tx, share: EndedSite, new: JobWarning | None) -> None:
        job = tx.jobs.get(JobKey(job_id=share.job_id, site=share.initiator))
        now_ms = self._clock.now_ms()
        if job is None or not note_disagreement(tx, job, share.site, new, now_ms=now_ms):
            return
        if new is not None:
            about = {"action": "disagree", "job_id": share.job_id}
            logger.warning("Job %s: %s", share.job_id, new.message, extra=about)

    def _send_again(self, tx: Tx, share: EndedSite) -> bool:
        job = tx.schedules.get(share.job_id)
        if job is None:
            return False
        logger.info(
            "Job %s has not ended at %s as here: its end is sent again",
            share.job_id,
            share.site,
            extra={"action": "end_again", "job_id": share.job_id},
        )
        statuses = news_of({t.component: (t.version, t.status) for t in job.tasks})
        tx.outbox.put(
            [
                self._party_commands.end_job(
                    job, share.site, job.status, reason=job.reason, statuses=statuses
                )
            ]
        )
        return True


def told_of(ended: Sequence[EndedSite]) -> dict[str, JobHeartbeat]:
    """Return what a heartbeat says of ended jobs."""
    sites: dict[str, dict[str, str]] = {}
    for share in ended:
        sites.setdefault(share.job_id, {})[share.site.key] = SitePhase.GONE.value
    return {
        share.job_id: JobHeartbeat(
            epoch=share.epoch, status=share.status.value, sites=sites[share.job_id]
        )
        for share in ended
    }
