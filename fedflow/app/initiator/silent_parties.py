"""Which parties of running jobs do not answer: the history of each job has when that begins and
ends, once each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.messages import Message
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import ScheduledJob
from fedflow.domain.scheduling.circuit import without
from fedflow.domain.scheduling.explain import SILENT, SILENT_MS
from fedflow.domain.scheduling.history import HEARD_AGAIN, EventFilter, Subject, site_note
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus

_LOOKED: Final = 50  #: events of a site in which its last note is searched
_Noted = tuple[str, Site]  # job id and site
_SILENT: Final = Message("it does not answer")
_AGAIN: Final = Message("it answers again")


class SilentParties(UseCase):
    """Notes with running jobs that a party fell silent, or is back. Used by one thread per party.

    What was noted is kept in memory; a server that has just begun looks it up.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._leading = kernel.servers.guarded(kernel.store)
        self._noted: dict[str, set[_Noted]] = {}  #: by party that was called since the start

    def unanswered(self, party_id: str, jobs: Sequence[ScheduledJob]) -> None:
        """Note a party that did not answer a heartbeat, once that is so for `SILENT_MS`.

        Raises: StoreUnavailable.
        """
        found = set(_running(jobs, party_id))
        if found <= self._noted.get(party_id, set()):
            return
        with self._store.read() as tx:
            silent_ms = self._clock.now_ms() - self._party_leases.party_ms(tx, party_id)
            known = self._known(tx, party_id, found)
        if silent_ms <= SILENT_MS:
            return
        lack = self._circuit_breakers.lack_of(party_id)
        self._note(
            found - known,
            lambda site: _reason(
                SILENT, site, without(lack, site, silent_ms // 1000) if lack else _SILENT
            ),
        )
        self._noted[party_id] = found

    def answered(self, party_id: str, jobs: Sequence[ScheduledJob]) -> None:
        """Note a party that answered a heartbeat, if its silence was noted.

        Raises: StoreUnavailable.
        """
        if self._noted.get(party_id) == set():
            return
        with self._store.read() as tx:
            back = self._known(tx, party_id, _running(jobs, party_id))
        self._note(back, lambda site: _reason(HEARD_AGAIN, site, _AGAIN))
        self._noted[party_id] = set()

    def _known(self, tx: Tx, party_id: str, found: Iterable[_Noted]) -> set[_Noted]:
        """Return of which jobs and sites the silence is noted."""
        noted = self._noted.get(party_id)
        if noted is not None:
            return noted.intersection(found)
        return {one for one in found if _last_note(tx, *one) == SILENT}

    def _note(self, found: Collection[_Noted], reason: Callable[[Site], Reason]) -> None:
        if not found:
            return
        now_ms = self._clock.now_ms()
        with self._leading.transaction() as tx:
            for job_id, site in sorted(found, key=lambda one: (one[0], one[1].order)):
                tx.events.add(site_note(job_id, reason(site), at_ms=now_ms))


def _reason(code: str, site: Site, message: Message) -> Reason:
    return Reason(code=code, message=message, site=site)


def _running(jobs: Iterable[ScheduledJob], party_id: str) -> Iterator[_Noted]:
    for job in jobs:
        if job.status is JobStatus.RUNNING:
            for one in job.sites:
                if one.site.party_id == party_id and one.phase is SitePhase.GRANTED:
                    yield job.job_id, one.site


def _last_note(tx: Tx, job_id: str, site: Site) -> str:
    """Return the code of a site's last note, empty if it has none."""
    which = EventFilter(
        job_id=job_id, subjects=(Subject.SITE,), site=site, newest=True, limit=_LOOKED
    )
    notes = [e.reason.code for e in tx.events.find(which) if not e.new and e.reason is not None]
    return notes[-1] if notes else ""
