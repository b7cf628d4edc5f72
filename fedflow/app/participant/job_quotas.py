"""What a server takes of other parties' jobs: their number, their bytes, and the room on its disk.

The party's own jobs count for nothing: who submits them can fill the disk in other ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.job_limits import MIB
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.clock import is_older
from fedflow.base.disk import free_bytes
from fedflow.base.errors.jobs import DiskTooFull, QuotaReached
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import known_part
from fedflow.domain.job.document import size_of
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.records import JobRecord, TaskRecord
from fedflow.domain.site import Site

TASK_BYTES: Final = 2048  #: of an attempt's row beside its parameters, with its history
_COUNTED_MS: Final = 60_000  #: so long a count is added to before it is made anew
_RECOUNT_MS: Final = 1_000  #: the same for a party at its limit, whose jobs may have ended


@dataclass(frozen=True, kw_only=True, slots=True)
class _Use:
    """What is stored of a party's jobs."""

    open_jobs: int
    stored_bytes: int
    counted_ms: int

    def with_more(self, jobs: int, size: int) -> _Use:
        return replace(self, open_jobs=self.open_jobs + jobs, stored_bytes=self.stored_bytes + size)


class JobQuotas(UseCase):
    """Counts by the initiator's party. A count is one statement, at most one per party and minute
    as long as the party is below its limits.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._uses: dict[str, _Use] = {}

    def kept_conf(self, conf: object, initiator: Site) -> object:
        """Return a conf as it is stored: of another party's what has an effect."""
        return conf if self._parties.is_local(initiator.party_id) else known_part(conf)

    def stored_bytes(self, spec: JobSpec, *, tasks: int, dsl: bool = True) -> int:
        """Return about how much a job of another party takes, with so many of its tasks; 0: own.

        Parameters are stored once more with the job and its tasks. Without `dsl`, a new conf of it.
        """
        if self._parties.is_local(spec.initiator.party_id):
            return 0
        documents = (spec.dsl, spec.conf, spec.conf) if dsl else (spec.conf, spec.conf)
        return size_of(*documents) + TASK_BYTES * tasks

    def admit_attempts(self, tx: Tx, job: JobRecord, attempts: Sequence[TaskRecord]) -> None:
        """Count further attempts of a job's tasks, which store their parameters once more.

        Raises: QuotaReached.
        """
        if not self._parties.is_local(job.initiator.party_id):
            size = size_of(*(t.parameters for t in attempts)) + TASK_BYTES * len(attempts)
            self.admit(tx, job.initiator, at=job.key.site, size=size, opens=0)
            tx.jobs.grow(job.key, size)

    def check(self, dsl: object, conf: object, *, at: Site) -> None:
        """Check, before a job is looked at, that it is not too large and that there is room.

        Raises: JobTooLarge, DiskTooFull.
        """
        self._limits.check_size(dsl, conf, party_id=at.party_id)
        least = self._limits.free_bytes
        if least and not _has_room(self._folders.home, least):
            raise DiskTooFull(party_id=at.party_id, mib=least // MIB)

    def admit(self, tx: Tx, initiator: Site, *, at: Site, size: int, opens: int = 1) -> None:
        """Count what a job, or a change of one, adds at this site. Raises: QuotaReached."""
        party = initiator.party_id
        if self._parties.is_local(party):
            return
        reason = None
        for pause_ms in (_COUNTED_MS, _RECOUNT_MS):
            use = self._counted(tx, party, pause_ms).with_more(opens, size)
            reason = self._objection(use)
            if reason is None:
                self._uses[party] = use
                return
        raise QuotaReached(party_id=at.party_id, initiator=party, reason=reason)

    def _counted(self, tx: Tx, party: PartyId, pause_ms: int) -> _Use:
        """Return what is stored of a party's jobs; a count that is older is made anew."""
        now_ms, use = self._clock.now_ms(), self._uses.get(party)
        if use is None or is_older(use.counted_ms, pause_ms, now_ms):
            open_jobs, stored_bytes = tx.jobs.taken_by(party)
            use = _Use(open_jobs=open_jobs, stored_bytes=stored_bytes, counted_ms=now_ms)
            self._uses[party] = use
        return use

    def _objection(self, use: _Use) -> Message | None:
        limits = self._limits
        if use.open_jobs > limits.open_jobs:
            return Message("{limit} of its jobs have not ended", limits.open_jobs)
        if use.stored_bytes > limits.stored_bytes:
            return Message("its jobs take {mib} MiB of the disk", limits.stored_bytes // MIB)
        return None


def _has_room(folder: Path, least: int) -> bool:
    """Tell whether so many bytes can still be written to a folder's disk; True if nobody knows."""
    try:
        return free_bytes(folder) >= least
    except OSError:
        return True
