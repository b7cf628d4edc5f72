"""How large a job may be, and how much of a server the jobs of one other party may take."""

from __future__ import annotations

from typing import Final

from fedflow.base.errors.jobs import JobTooLarge
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.job.document import size_of

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLimits:
    """The bounds of a server."""

    job_bytes: int = MIB  #: DSL and conf of one job
    open_jobs: int = 10_000  #: party jobs of one other party that have not ended
    stored_bytes: int = 4096 * MIB  #: what all stored jobs of one other party take
    free_bytes: int = 0  #: with less left on the disk no job is taken

    def check_size(self, dsl: object, conf: object, *, party_id: PartyId) -> int:
        """Return the bytes of a job's documents. Raises: JobTooLarge: for this server's party."""
        size = size_of(dsl, conf)
        if size > self.job_bytes:
            raise JobTooLarge(kib=-(-size // KIB), max_kib=self.job_bytes // KIB, party_id=party_id)
        return size
