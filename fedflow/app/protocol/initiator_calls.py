"""How another site of a job asks its initiator for something: both ends."""

from __future__ import annotations

from typing import Final

from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.commands import Incoming
from fedflow.base.errors.jobs import JobNotFound, WrongSite
from fedflow.domain.records import JobRecord, Reply, ScheduledJob
from fedflow.wire import paths
from fedflow.wire.commands import CommandBody, plain

ASKED_CALLS: Final = 3
"""So many times the deadline of a call may what the initiator is asked to do take: it calls the
other sites meanwhile."""


def ask_initiator(
    parties: PartyClient,
    own: JobRecord,
    command: str,
    body: CommandBody,
    *,
    request_id: str,
    deadline_s: float,
) -> Reply:
    """Return what the initiator of a job answers to a site's `command`, a name of `wire.paths`."""
    return parties.call(
        own.key.site,
        own.initiator.party_id,
        paths.job_path(command, own.key),
        plain(body),
        request_id=request_id,
        job_id=own.key.job_id,
        deadline_s=deadline_s,
    )


def asked_job(tx: Tx, incoming: Incoming) -> ScheduledJob:
    """Return the job that another of its sites asks to change. Raises: JobNotFound, WrongSite."""
    key = incoming.job
    job = tx.schedules.get(key.job_id)
    if job is None:
        raise JobNotFound(job_id=key.job_id)
    known = any(s.site == key.site for s in job.sites)
    if not known or incoming.source_party not in (None, key.site.party_id):
        raise WrongSite(site=str(key.site), job_id=key.job_id)
    return job
