"""Submits that were made before under the same idempotency key."""

from __future__ import annotations

from fedflow.app.ports.store import Tx
from fedflow.base.errors.jobs import IdempotencyKeyReused
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import ScheduledJob
from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.domain.states import JOB_FINAL

_NOT_ACCEPTED = frozenset({SitePhase.CREATING, SitePhase.REFUSED})


def find_repeated(tx: Tx, key: str, digest: str) -> SubmitKey | None:
    """Return what an earlier submit with this key made, None if the key is free.

    Raises: IdempotencyKeyReused: it stands for a job with other contents.
    """
    used = tx.submits.get(key)
    if used is None or _is_free(tx, used):
        return None
    if used.digest != digest:
        raise IdempotencyKeyReused(key=key, earlier_job=used.job_id)
    return used


def claim(tx: Tx, used: SubmitKey) -> bool:
    """Let a key stand for a new job, in the transaction that stores it; False if it is taken."""
    known = tx.submits.get(used.key)
    free = known is not None and _is_free(tx, known)
    return tx.submits.put(used, instead_of=known.job_id if known is not None and free else None)


def was_refused(job: ScheduledJob) -> bool:
    """Tell whether a job ended before all its sites had accepted it."""
    never_began = job.status in JOB_FINAL and job.epoch == 0
    return never_began and any(s.phase in _NOT_ACCEPTED for s in job.sites)


def _is_free(tx: Tx, used: SubmitKey) -> bool:
    """Tell whether a key stands for nothing: a job that was refused does not use it up."""
    job = tx.schedules.get(used.job_id)
    return job is None or was_refused(job)
