"""A participant's answer to the heartbeats of initiators."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from fedflow.app.participant.party_jobs import has_process, was_given_up
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand, named_site
from fedflow.app.protocol.disagreements import note_disagreement
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.party_commands import reason_to_wire
from fedflow.app.protocol.piggyback import apply_statuses
from fedflow.app.protocol.status_pull import noted_stop
from fedflow.base.clock import is_older
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_token
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import JobKey, JobRecord, Reply
from fedflow.domain.scheduling.agreement import disagreement
from fedflow.domain.states import JOB_FINAL, JobEvent, JobStatus
from fedflow.wire.commands import (
    Heartbeat,
    HeartbeatAnswer,
    JobHeartbeat,
    SiteAnswer,
    counted,
    plain,
    read_command,
)

MAX_SITES: Final = 2_000  #: that one heartbeat may name; senders name 500 jobs
MAX_TOLD: Final = 20_000  #: tasks that one answer tells of; other jobs come without theirs
UNUSED_MS: Final = 600_000  #: so long a job may hold cores here that its initiator denies
MAX_PARTY_ID: Final = 64  #: characters
_RUN: Final = 12  #: characters of what names a run of the server
_ENDS: Final = frozenset(status.value for status in JOB_FINAL)
_WITHOUT_CORES: Final = frozenset({SitePhase.CREATED.value, SitePhase.DENIED.value})


class PartyHeartbeats(UseCase):
    """Keeps the party jobs of other initiators alive, and says how they stand."""

    def __init__(self, kernel: Kernel, *, tasks: PartyTasks) -> None:
        super().__init__(kernel)
        self._tasks = tasks
        self._run = new_token()[:_RUN]

    def answer(self, tx: Tx, incoming: TypedCommand[Heartbeat], effects: AfterCommit) -> Reply:
        """Renew the leases of the initiator's jobs, take its news, and tell how the tasks here
        stand.

        The answer is the PULL half of status collection: it repairs reports that were lost.
        """
        if incoming.body.jobs is None:
            raise BadRequest(reason="`jobs` must be an object")
        jobs = {i: read_command(one, JobHeartbeat) for i, one in incoming.body.jobs.items()}
        if max(len(jobs), sum(len(one.sites or ()) for one in jobs.values())) > MAX_SITES:
            raise BadRequest(reason=f"a heartbeat may name {MAX_SITES} sites")
        source = incoming.source_party
        party_id = source or incoming.body.initiator_party_id
        if party_id is not None and 0 < len(party_id) <= MAX_PARTY_ID:
            self._party_leases.heard_initiators(tx, party_id)
        answer, left = {}, MAX_TOLD
        for job_id, told in jobs.items():
            answer[job_id], left = self._answer_for(tx, job_id, told, source, left)
        if any(self._return_unused(tx, job_id, told, source) for job_id, told in jobs.items()):
            effects.add(self._wakeup.queue)
        return Reply(retcode=0, data=plain(HeartbeatAnswer(jobs=answer, run=self._run)))

    def _return_unused(
        self, tx: Tx, job_id: str, told: JobHeartbeat, source_party: str | None
    ) -> bool:
        """Return what a job holds here though its initiator, where it waits, has long not counted
        on it: the command to return it was lost. Tells whether there was any.
        """
        now_ms = self._clock.now_ms()
        returned = False
        for text, phase in (told.sites or {}).items():
            if phase not in _WITHOUT_CORES:
                continue
            job = _job_of(tx, JobKey(job_id=job_id, site=named_site(text)), source_party)
            if job is None or job.status in JOB_FINAL or not job.in_use:
                continue
            if told.epoch != job.epoch or not is_older(job.applied_ms or 0, UNUSED_MS, now_ms):
                continue
            if job.status is JobStatus.RUNNING:  # it is held, and nothing was running then
                if has_process(tx, job.key):
                    continue
                tx.jobs.move(job.key, JobEvent.HELD, seen=job.status, now_ms=now_ms)
            returned |= tx.jobs.return_cores(job.key, now_ms=now_ms)
        return returned

    def _answer_for(
        self, tx: Tx, job_id: str, told: JobHeartbeat, source_party: str | None, left: int
    ) -> tuple[dict[str, Any], int]:
        """Return how the job stands at its sites here, and of how many tasks more may be told."""
        answer: dict[str, Any] = {}
        for text in told.sites or ():
            key = JobKey(job_id=job_id, site=named_site(text))
            job = _job_of(tx, key, source_party)
            if job is None:
                answer[text] = SiteAnswer()
                continue
            if told.status is not None:
                answer[text] = self._compared(tx, job, told)
                continue
            if job.status not in JOB_FINAL:  # its end has dropped the lease
                self._party_leases.heard_initiator(tx, job_id)
            if told.epoch in (None, job.epoch) and left > 0:
                apply_statuses(tx, key, told, now_ms=self._clock.now_ms())
            tasks = self._tasks.told(tx, key) if left > 0 else None
            left -= len(tasks or ())
            pulled = self._status_pull.is_pulled(tx, key, job.initiator)
            answer[text] = SiteAnswer(
                status=job.status.value,
                epoch=job.epoch,
                reason=reason_to_wire(job.reason, key.site, to=job.initiator)
                if job.status in JOB_FINAL
                else None,
                tasks=tasks,
                stop=noted_stop(tx, job) if pulled and job.status not in JOB_FINAL else UNSET,
            )
        return answer, left

    def _compared(self, tx: Tx, job: JobRecord, told: JobHeartbeat) -> SiteAnswer:
        """Say how a job stands here that has ended at its initiator; keep it if both differ and no
        command of the initiator will change that.
        """
        answer = SiteAnswer(status=job.status.value, epoch=job.epoch)
        given = counted(told.epoch)
        epoch = job.epoch if given is None else given
        if told.status not in _ENDS or job.status not in JOB_FINAL or epoch > job.epoch:
            return answer  # the end is to come
        new = None
        if (told.status, epoch) != (job.status.value, job.epoch):
            if epoch == job.epoch and was_given_up(job):
                return answer  # the initiator's word counts, and comes
            status, run = job.status, job.epoch
            new = disagreement(job.initiator, told.status, epoch, status=status, epoch=run)
        note_disagreement(tx, job, job.initiator, new, now_ms=self._clock.now_ms())
        return answer


def _job_of(tx: Tx, key: JobKey, source_party: str | None) -> JobRecord | None:
    """Return the initiator's job here; another party may have taken its id first."""
    job = tx.jobs.get(key)
    return None if job is None or source_party not in (None, job.initiator.party_id) else job
