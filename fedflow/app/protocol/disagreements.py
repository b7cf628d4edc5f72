"""The warning of a party job that another site has another end of it."""

from __future__ import annotations

from fedflow.app.ports.store import Tx
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import JobRecord
from fedflow.domain.scheduling.agreement import CODE
from fedflow.domain.site import Site


def note_disagreement(
    tx: Tx, job: JobRecord, other: Site, new: JobWarning | None, *, now_ms: int
) -> bool:
    """Store what another site has of an ended job, None: the same as here. Tells if that is new."""
    kept = tuple(w for w in job.warnings if (w.code, w.path) != (CODE, other.key))
    warnings = kept if new is None else (*kept, new)
    if warnings == job.warnings:
        return False
    tx.jobs.set_warnings(job.key, warnings, now_ms=now_ms)
    return True
