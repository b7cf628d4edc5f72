"""A participant's handlers for job commands: create, cores, start, end."""

from __future__ import annotations

import logging
from dataclasses import replace

from fedflow.app.inheritance import Inheritance
from fedflow.app.models.models import ModelRepository
from fedflow.app.models.predict import Predictions
from fedflow.app.participant.admission import Admission
from fedflow.app.participant.early_ends import EarlyEnds
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.ports.executors import Execution
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Incoming, TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.parsed_jobs import need_at
from fedflow.app.protocol.party_commands import reason_from_wire
from fedflow.app.protocol.piggyback import apply_statuses
from fedflow.app.protocol.status_pull import pulls
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import (
    InitiatorLost,
    JobEnded,
    JobNotFound,
    PartyAbsent,
    StaleCommand,
    StillEnding,
    SubmitRefused,
    WrongSite,
)
from fedflow.base.errors.parties import NoRoute
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message
from fedflow.domain.job.engines import SPARK
from fedflow.domain.job.names import job_name
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning, merged
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    SUBMIT_FAILED,
    Command,
    JobFilter,
    JobKey,
    JobRecord,
    Reply,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Role, Site
from fedflow.domain.states import (
    JOB_END_EVENT,
    JOB_FINAL,
    OVERRULE_EVENT,
    JobEvent,
    JobStatus,
    TaskStatus,
)
from fedflow.wire.commands import (
    CreateJob,
    EndJob,
    OfEpoch,
    ReturnCores,
)

logger = logging.getLogger(__name__)


class PartyJobs(UseCase):
    """What the initiator may do with this site's party job."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        execution: Execution,
        tasks: PartyTasks,
        acceptance: Admission,
        predictions: Predictions,
        models: ModelRepository,
        inheritance: Inheritance,
    ) -> None:
        super().__init__(kernel)
        self._tasks = tasks
        self._acceptance = acceptance
        self._predictions = predictions
        self._models = models
        self._inheritance = inheritance
        self._applications = execution.applications
        self._early_ends = EarlyEnds()

    # --- create -----------------------------------------------------------------------------------

    def prepare_create(self, incoming: TypedCommand[CreateJob]) -> None:
        """Parse and check a new job before anything is written.

        Raises: InvalidJobSpec, BadParameter, SubmitRefused, NoRoute, TableNotFound.
        """
        initiator = _initiator(incoming.body)
        if incoming.source_party is not None and incoming.source_party != initiator.party_id:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)
        site = incoming.job.site
        if site.role is Role.LOCAL and site != initiator:
            raise SubmitRefused(reason=f"{site} takes part in its own server's jobs only")
        if not self._parties.is_local(site.party_id):
            raise SubmitRefused(reason=f"this server does not host party {site.party_id}")
        self._check_new(incoming, initiator)
        dsl, conf = incoming.body.dsl, self._conf(incoming)
        self._acceptance.quotas.check(dsl, conf, at=site)
        spec = self._specs.replace(incoming.job_id, dsl, conf)
        try:
            answers_only = site in spec.sites and pulls(spec, site)
            if not self._parties.knows(initiator.party_id) and not answers_only:
                raise NoRoute(party_id=initiator.party_id)
            if site not in spec.sites or spec.initiator != initiator:
                raise WrongSite(site=str(site), job_id=incoming.job_id)
            self._acceptance.check_spec(spec, site)
            if spec.mode == "predict":
                self._predictions.check_here(spec, site, digest=incoming.body.model_digest)
        except FedflowError:
            self._specs.forget(incoming.job_id)
            raise

    def check(self, tx: Tx, incoming: TypedCommand[CreateJob], effects: AfterCommit) -> Reply:
        """Refuse a job as `create` would; nothing is stored."""
        try:
            spec = self._specs.get(incoming.job_id, incoming.body.dsl, self._conf(incoming))
            self._check_room(tx, incoming, spec)
        finally:
            self._specs.forget(incoming.job_id)
        return Reply(retcode=0)

    def _check_room(self, tx: Tx, incoming: TypedCommand[CreateJob], spec: JobSpec) -> int:
        """Return about how many bytes a new job takes here.

        Raises: as `Admission.check_content`. QuotaReached.
        """
        site, quotas = incoming.job.site, self._acceptance.quotas
        self._acceptance.check_content(tx, spec, site, digests=incoming.body.loaded_models)
        tasks = sum(spec.runs_at(c.name, site) for c in spec.components)
        size = quotas.stored_bytes(spec, tasks=tasks)
        quotas.admit(tx, spec.initiator, at=site, size=size)
        return size

    def _conf(self, incoming: TypedCommand[CreateJob]) -> object:
        """Return the conf of a new job as it is stored here."""
        given = incoming.body.runtime_conf
        return self._acceptance.quotas.kept_conf(given, _initiator(incoming.body))

    def _check_new(self, incoming: TypedCommand[CreateJob], initiator: Site) -> None:
        """Refuse a job under the id of another initiator's job."""
        with self._store.read() as tx:
            known = tx.jobs.find(JobFilter(job_id=incoming.job_id, limit=1))
            own = tx.schedules.get(incoming.job_id)
        others = [*(j.initiator for j in known), *([own.initiator] if own else [])]
        if any(other != initiator for other in others):
            raise SubmitRefused(reason=f"another job has the id {incoming.job_id} here")

    def create(self, tx: Tx, incoming: TypedCommand[CreateJob], effects: AfterCommit) -> Reply:
        """Store the job and its tasks; answers which components run here."""
        now_ms = self._clock.now_ms()
        site = incoming.job.site
        self._early_ends.check(tx, incoming)
        spec = self._specs.get(incoming.job_id, incoming.body.dsl, self._conf(incoming))
        self._check_same(tx, incoming, spec)
        if incoming.body.rejoins and (known := tx.jobs.get(incoming.job)) is not None:
            return self._rejoin(tx, incoming, known, effects)
        size = self._check_room(tx, incoming, spec)
        parameters = spec.job_parameters_at(site)
        engine = self._engines.at(site, parameters)
        need = need_at(spec, site, engine)
        components = [c for c in spec.components if spec.runs_at(c.name, site)]
        record = JobRecord(
            key=incoming.job,
            initiator=spec.initiator,
            status=JobStatus.WAITING,
            epoch=incoming.body.epoch,
            dsl=spec.dsl,
            conf=spec.conf,
            train_conf=self._predictions.train_conf(tx, spec, site),
            roles={role.value: list(ids) for role, ids in spec.roles.items()},
            cores=need.cores,
            memory=need.memory,
            engine=engine,
            created_ms=now_ms,
            queued_ms=now_ms,
            updated_ms=now_ms,
            warnings=_warnings(incoming, spec),
            parameters=parameters.as_json(),
            user=parameters.user,
            name=job_name(spec, site),
            size_bytes=size,
        )
        tx.jobs.add(record)
        taken = self._inheritance.take_over(tx, record, spec, incoming.body.inherited)
        rules = spec.rules.components
        tx.tasks.add(
            [
                taken.get(c.name)
                or TaskRecord(
                    key=TaskKey(job_id=incoming.job_id, component=c.name, version=0, site=site),
                    module=c.module,
                    initiator=spec.initiator,
                    status=TaskStatus.WAITING,
                    party_status=TaskStatus.WAITING,
                    parameters=spec.component_parameters(c.name, site),
                    created_ms=now_ms,
                    updated_ms=now_ms,
                    auto_retries=rules[c.name].retries,
                    auto_retry_delay_s=rules[c.name].retry_delay_ms // 1000,
                )
                for c in components
            ]
        )
        self._party_leases.begin(tx, incoming.job_id)
        effects.add(lambda: self._wakeup.job_changed(incoming.job_id))
        logger.info(
            "Job %s was created at %s",
            incoming.job_id,
            site,
            extra={"action": "create_job", "job_id": incoming.job_id},
        )
        return Reply(
            retcode=0, data={"components": {c.name: {"need_run": True} for c in components}}
        )

    def _rejoin(
        self, tx: Tx, incoming: TypedCommand[CreateJob], job: JobRecord, effects: AfterCommit
    ) -> Reply:
        """Take part once more in an elastic job that goes on without this site.

        Raises: StaleCommand. JobEnded: its initiator had ended it. StillEnding: processes are left.
        """
        epoch, key = incoming.body.epoch, job.key
        if epoch < job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if job.status in JOB_FINAL:
            if epoch == job.epoch and not was_given_up(job):
                raise JobEnded(job_id=incoming.job_id, status=job.status.value)
            if job.in_use or has_process(tx, key):
                raise StillEnding(job_id=incoming.job_id, site=key.site)
            self._party_leases.begin(tx, incoming.job_id)  # before the job, as heartbeats do
            self._catch_up(tx, job, epoch)
        elif epoch > job.epoch:
            raise StillEnding(job_id=incoming.job_id, site=key.site)
        else:
            self._party_leases.heard_initiator(tx, incoming.job_id)
        error = PartyAbsent(site=key.site, reason=Message("it is started again"))
        reason = Reason(code=error.name, message=error.message.removesuffix("."), site=key.site)
        self._tasks.rejoin(tx, key, effects, reason=reason)
        effects.add(lambda: self._wakeup.job_changed(incoming.job_id))
        logger.info(
            "%s takes part in job %s again",
            key.site,
            incoming.job_id,
            extra={"action": "rejoin_job", "job_id": incoming.job_id},
        )
        return Reply(retcode=0)

    def _check_same(self, tx: Tx, incoming: TypedCommand[CreateJob], spec: JobSpec) -> None:
        """Refuse other contents under the id of a job or a model that is here already."""
        given = (spec.initiator, incoming.body.dsl, self._conf(incoming))
        known = tx.jobs.find(JobFilter(job_id=incoming.job_id))
        if any((job.initiator, job.dsl, job.conf) != given for job in known):
            self._specs.forget(incoming.job_id)
            raise SubmitRefused(reason=f"another job has the id {incoming.job_id} here")
        if not known and tx.models.has_version(incoming.job_id):
            self._specs.forget(incoming.job_id)
            raise SubmitRefused(reason=f"a model has the version {incoming.job_id} here")

    # --- cores and start ------------------------------------------------------------------------

    def apply_cores(self, tx: Tx, incoming: TypedCommand[OfEpoch], effects: AfterCommit) -> Reply:
        """Take the job's cores and memory, or say what is missing, or for whom it is kept."""
        job, now_ms = self._current(tx, incoming), self._clock.now_ms()
        why = None if job.in_use else self._queue.objection(tx, job)
        if why is None and tx.jobs.take_cores(job.key, now_ms=now_ms):
            return Reply(retcode=0)
        why = why or self._queue.missing(tx, job)
        tx.queue.deny(job.key, now_ms=now_ms)
        return Reply(retcode=103, retmsg=why.message, error=why.code)

    def return_cores(
        self, tx: Tx, incoming: TypedCommand[ReturnCores], effects: AfterCommit
    ) -> Reply:
        """Give the job's cores back; a job that runs is held then.

        Raises: StillEnding: processes of tasks that were stopped are left.
        """
        job = self._current(tx, incoming)
        if has_process(tx, job.key):
            raise StillEnding(job_id=incoming.job_id, site=job.key.site)
        if job.status is JobStatus.RUNNING:
            reason = reason_from_wire(incoming.body.reason)
            tx.jobs.move(
                job.key, JobEvent.HELD, seen=job.status, now_ms=self._clock.now_ms(), reason=reason
            )
            effects.add(lambda: self._wakeup.job_changed(incoming.job_id))
        if tx.jobs.return_cores(job.key, now_ms=self._clock.now_ms()):
            effects.add(self._wakeup.queue)
        self._end_application(job, effects)
        return Reply(retcode=0)

    def start(self, tx: Tx, incoming: TypedCommand[OfEpoch], effects: AfterCommit) -> Reply:
        """The job runs from now on."""
        job, now_ms = self._current(tx, incoming), self._clock.now_ms()
        if not job.in_use and not tx.jobs.take_cores(job.key, now_ms=now_ms):
            why = self._queue.missing(tx, job)  # they were returned as `_return_unused` says
            return Reply(retcode=103, retmsg=why.message, error=why.code)
        if job.status is JobStatus.WAITING:
            tx.jobs.move(job.key, JobEvent.STARTED, seen=job.status, now_ms=now_ms)
            effects.add(lambda: self._wakeup.job_changed(incoming.job_id))
        return Reply(retcode=0)

    # --- end ------------------------------------------------------------------------------------

    def end(self, tx: Tx, incoming: TypedCommand[EndJob], effects: AfterCommit) -> Reply:
        """The initiator says how the job ended; a job that is not known here needs nothing."""
        job = tx.jobs.get(incoming.job)
        if job is None:
            return self._early_ends.note(tx, incoming, now_ms=self._clock.now_ms())
        self.check_source(job, incoming)
        status = _job_status(incoming.status)
        epoch = incoming.body.epoch
        if epoch < job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if epoch > job.epoch and job.status in JOB_FINAL:
            job = self._catch_up(tx, job, epoch)
        self._party_leases.hold(tx, incoming.job_id)  # before the job, as heartbeats do
        if incoming.body.tag == SUBMIT_FAILED:
            tx.jobs.set_tag(job.key, SUBMIT_FAILED, now_ms=self._clock.now_ms())
        missed = apply_statuses(tx, incoming.job, incoming.body, now_ms=self._clock.now_ms())
        if missed:  # before the end, which cancels them
            self._tasks.add_missed(tx, job, missed)
            apply_statuses(tx, incoming.job, incoming.body, now_ms=self._clock.now_ms())
        reason = self._tasks.known_here(tx, job.key, reason_from_wire(incoming.body.reason))
        self._end_held(tx, job, status, reason, effects)
        return Reply(retcode=0)

    def _catch_up(self, tx: Tx, job: JobRecord, epoch: int) -> JobRecord:
        """Enter the epoch of a rerun that never arrived here, so that its end counts here too.

        Raises: StillEnding: processes of the former epoch are left.
        """
        tx.jobs.reopen(
            job.key,
            seen=job.status,
            epoch=epoch,
            conf=job.conf,
            parameters=job.parameters,
            cores=job.cores,
            memory=job.memory,
            now_ms=self._clock.now_ms(),
        )
        reopened = tx.jobs.get(job.key)
        if reopened is None or reopened.epoch != epoch:
            raise StillEnding(job_id=job.key.job_id, site=job.key.site)
        return reopened

    def end_here(
        self, tx: Tx, job: JobRecord, status: JobStatus, reason: Reason | None, effects: AfterCommit
    ) -> None:
        """End this site's party job: stop what runs, move the job, return the cores when all is
        still.
        """
        self._party_leases.hold(tx, job.key.job_id)
        self._end_held(tx, job, status, reason, effects)

    def _end_held(
        self, tx: Tx, job: JobRecord, status: JobStatus, reason: Reason | None, effects: AfterCommit
    ) -> None:
        """Do what `end_here` does while the job's lease is held."""
        now_ms = self._clock.now_ms()
        if status is JobStatus.SUCCESS and _may_be_absent(job):
            error = PartyAbsent(site=job.key.site, reason=Message("the others have ended the job"))
            why = Reason(code=error.name, message=error.message.removesuffix("."))
            self._tasks.excuse_all(tx, job.key, effects, reason=replace(why, site=job.key.site))
        self._tasks.stop_all(tx, job.key, status, reason, effects)
        self._end_application(job, effects)
        if job.status not in JOB_FINAL:
            tx.jobs.move(
                job.key, JOB_END_EVENT[status], seen=job.status, now_ms=now_ms, reason=reason
            )
        elif was_given_up(job) and status in OVERRULE_EVENT:
            tx.jobs.move(
                job.key, OVERRULE_EVENT[status], seen=job.status, now_ms=now_ms, reason=reason
            )
        if status is JobStatus.SUCCESS:
            tx.jobs.set_progress(job.key, 100, now_ms=now_ms)
        if job.started_ms is not None:
            self._models.keep_version(tx, job)
        self.return_if_still(tx, job.key, effects)
        shares = tx.jobs.find(JobFilter(job_id=job.key.job_id))
        if all(j.status in JOB_FINAL for j in shares):  # the lease is that of all shares here
            self._party_leases.forget(tx, job.key.job_id)
        effects.add(lambda: self._wakeup.job_changed(job.key.job_id))
        logger.info(
            "Job %s ended at %s: %s",
            job.key.job_id,
            job.key.site,
            status.value,
            extra={"action": "end_job", "job_id": job.key.job_id},
        )

    def give_up(self, tx: Tx, command: Command, effects: AfterCommit) -> None:
        """End a job whose initiator answered a site's command that it knows no such job: its
        database was put back to before the job.
        """
        for job in tx.jobs.find(JobFilter(job_id=command.job_id)):
            if job.initiator == command.destination and job.status not in JOB_FINAL:
                message = Message("{site} has lost the job", site=job.initiator)
                lost = Reason(code=InitiatorLost.__name__, message=message, site=job.initiator)
                self.end_here(tx, job, JobStatus.FAILED, lost, effects)

    def _end_application(self, job: JobRecord, effects: AfterCommit) -> None:
        """End the party job's Spark application; the detector does so again if that is lost."""
        applications = self._applications
        if applications is not None and job.engine == SPARK:
            effects.add(lambda: applications.end(job.key))

    def return_if_still(self, tx: Tx, key: JobKey, effects: AfterCommit) -> None:
        """Return the cores of an ended job once none of its processes is left here."""
        if tx.jobs.status(key) not in JOB_FINAL or has_process(tx, key):
            return
        if tx.jobs.return_cores(key, now_ms=self._clock.now_ms()):
            effects.add(self._wakeup.queue)

    # --- checks ---------------------------------------------------------------------------------

    def _current(
        self, tx: Tx, incoming: TypedCommand[OfEpoch] | TypedCommand[ReturnCores]
    ) -> JobRecord:
        """Return the job that a command is for. Raises: JobNotFound, JobEnded, StaleCommand,
        WrongSite.
        """
        job = tx.jobs.get(incoming.job)
        if job is None:
            raise JobNotFound(job_id=incoming.job_id)
        self.check_source(job, incoming)
        epoch = incoming.body.epoch
        if epoch != job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if job.status in JOB_FINAL:
            raise JobEnded(job_id=incoming.job_id, status=job.status.value)
        self._party_leases.heard_initiator(tx, incoming.job_id)
        return job

    def check_source(self, job: JobRecord, incoming: Incoming) -> None:
        """Raises: WrongSite: the command is not from the party that initiated the job."""
        if incoming.source_party is not None and incoming.source_party != job.initiator.party_id:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)


def _may_be_absent(job: JobRecord) -> bool:
    """Tell whether a party job is one of an elastic job that may go on without its site."""
    return job.key.site.role is not Role.GUEST and job.parameters.get("elastic") is not None


def was_given_up(job: JobRecord) -> bool:
    """Tell whether a job ended here as its initiator was silent: its word then counts."""
    return job.reason is not None and job.reason.code == InitiatorLost.__name__


def has_process(tx: Tx, key: JobKey) -> bool:
    """Tell whether any attempt of a job, old ones included, still has a process at this site."""
    tasks = tx.tasks.find(
        TaskFilter(
            job_id=key.job_id,
            roles=(key.site.role,),
            party_id=key.site.party_id,
            all_versions=True,
        )
    )
    return any(t.handle is not None for t in tasks)


def _warnings(incoming: TypedCommand[CreateJob], spec: JobSpec) -> tuple[JobWarning, ...]:
    """Return what is doubtful in a job: at the initiator's own site all that its submit found."""
    own = incoming.body.warnings if incoming.job.site == spec.initiator else ()
    return merged(own or spec.warnings, ())


def _initiator(body: CreateJob) -> Site:
    try:
        return Site(Role(body.initiator_role), PartyId(str(body.initiator_party_id)))
    except ValueError as exc:
        raise BadRequest(reason="initiator_role and initiator_party_id must name a site") from exc


def _job_status(text: str | None) -> JobStatus:
    try:
        status = JobStatus(text or "")
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a job status") from exc
    if status not in JOB_FINAL:
        raise BadRequest(reason=f"{text!r} does not end a job")
    return status
