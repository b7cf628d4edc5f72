"""Who tells how a site's tasks stand: the site (PUSH), or the initiator collects it (PULL).

With `federated_status_collect_type` PULL a site sends nothing to the initiator, for it may not be
able to: the answers to heartbeats, which come twice a second then, say what ended there, and that a
user asked for the job's end. Sites at the initiator's own server always tell.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from fedflow.app.ports.parties import PartyClient
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.app.protocol.party_commands import reason_from_wire, reason_to_wire
from fedflow.base.messages import Message
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import JobKey, JobRecord, Reply
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus

PULL: Final = "PULL"
_ENDS: Final = frozenset({JobStatus.CANCELED, JobStatus.FAILED, JobStatus.TIMEOUT})


class StatusPull:
    """Says which sites are asked for statuses, as they send none."""

    def __init__(self, *, specs: ParsedJobs, parties: PartyClient) -> None:
        self._specs = specs
        self._parties = parties

    def is_pulled(self, tx: Tx, key: JobKey, initiator: Site) -> bool:
        """Tell whether a site of this server leaves it to the initiator to collect its status."""
        if self._parties.is_local(initiator.party_id):
            return False
        spec = self._specs.kept(key.job_id)
        if spec is None:
            job = tx.jobs.get(key)
            if job is None:
                return False
            spec = self._specs.get(key.job_id, job.dsl, job.conf)
        return pulls(spec, key.site)

    def collects_from(self, tx: Tx, job_id: str, party_id: str) -> bool:
        """Tell whether a job of this server needs quick heartbeats to another party."""
        spec = self._specs.kept(job_id)
        if spec is None:
            job = tx.schedules.get(job_id)
            if job is None:
                return False
            spec = self._specs.get(job_id, job.dsl, job.conf)
        return any(s.party_id == party_id and pulls(spec, s) for s in spec.sites)


def pulls(spec: JobSpec, site: Site) -> bool:
    """Tell whether a job wants the status of a site to be collected there."""
    return spec.job_parameters_at(site).federated_status_collect_type == PULL


# --- a user's wish to end a job, until the initiator collects it ----------------------------------


def note_stop(tx: Tx, job: JobRecord, status: JobStatus, reason: Reason, *, now_ms: int) -> None:
    """Keep for the initiator's next heartbeat that a job shall end; the first wish counts."""
    name = _stop_name(job)
    if tx.reply_cache.get(name) is None:
        told = reason_to_wire(reason, job.key.site, to=job.initiator)
        reply = Reply(retcode=0, retmsg=status.value, data=told)
        tx.reply_cache.put(name, reply, now_ms=now_ms)


def noted_stop(tx: Tx, job: JobRecord) -> dict[str, Any] | None:
    """Return what a heartbeat's answer says of a wish to end the job, None if there is none."""
    noted = tx.reply_cache.get(_stop_name(job))
    return None if noted is None else {"status": noted.retmsg, "reason": noted.data}


def told_stop(told: Any, site: Site) -> StopRequest | None:
    """Return the wish to end a job in a heartbeat's answer, None if there is none."""
    status = told.get("status") if isinstance(told, dict) else None
    if not isinstance(status, str) or status not in {s.value for s in _ENDS}:
        return None
    reason = reason_from_wire(told.get("reason"))
    stopped = Reason(code="Stopped", message=Message("stopped by {site}", site), site=site)
    return StopRequest(status=JobStatus(status), reason=reason or stopped)


def _stop_name(job: JobRecord) -> str:
    """Return under which name the wish is kept: of this epoch only. No name of a
    reply has its form.
    """
    whose = f"{job.key.job_id}/{job.key.site.key}/{job.epoch}"
    return f"/stop/{hashlib.sha256(whose.encode()).hexdigest()}"
