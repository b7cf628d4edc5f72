"""A participant's handlers for job commands: create, cores, start, end, heartbeat."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Final

from fedflow.app.acceptance import Acceptance
from fedflow.app.commands import Incoming
from fedflow.app.effects import Effects
from fedflow.app.hearing import Hearing
from fedflow.app.inheritance import Inheritance
from fedflow.app.models import ModelRepository
from fedflow.app.news import take_news
from fedflow.app.outgoing import reason_from_wire
from fedflow.app.party_tasks import PartyTasks
from fedflow.app.ports import PartyClient, Store, Tx, Wakeup
from fedflow.app.predict import Predictions
from fedflow.app.specs import Specs, cores_at
from fedflow.base.clock import Clock
from fedflow.base.errors import (
    BadRequest,
    FedflowError,
    JobEnded,
    JobNotFound,
    NoRoute,
    StaleCommand,
    StillEnding,
    SubmitRefused,
    WrongSite,
)
from fedflow.base.ids import PartyId
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import (
    SUBMIT_FAILED,
    JobFilter,
    JobKey,
    JobRecord,
    Reply,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.schedule import Reason
from fedflow.domain.site import Role, Site
from fedflow.domain.states import (
    JOB_END_EVENT,
    JOB_FINAL,
    OVERRULE_EVENT,
    JobEvent,
    JobStatus,
    TaskStatus,
)

logger = logging.getLogger(__name__)

MAX_COUNT: Final = 10**9  #: of epochs and attempts, as far as the store counts
MAX_SITES: Final = 20_000  #: that one heartbeat may name


class PartyJobs:
    """What the initiator may do with this site's share of a job."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        hearing: Hearing,
        tasks: PartyTasks,
        parties: PartyClient,
        wakeup: Wakeup,
        clock: Clock,
        engine: str,
        acceptance: Acceptance,
        predictions: Predictions,
        models: ModelRepository,
        inheritance: Inheritance,
    ) -> None:
        self._store = store
        self._specs = specs
        self._hearing = hearing
        self._tasks = tasks
        self._parties = parties
        self._wakeup = wakeup
        self._clock = clock
        self._engine = engine
        self._acceptance = acceptance
        self._predictions = predictions
        self._models = models
        self._inheritance = inheritance

    # --- create -----------------------------------------------------------------------------------

    def prepare_create(self, incoming: Incoming) -> None:
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
        if not self._parties.knows(initiator.party_id):
            raise NoRoute(party_id=initiator.party_id)
        self._check_new(incoming, initiator)
        spec = self._specs.replace(
            incoming.job_id, incoming.member("dsl"), incoming.member("runtime_conf")
        )
        try:
            if site not in spec.sites or spec.initiator != initiator:
                raise WrongSite(site=str(site), job_id=incoming.job_id)
            self._acceptance.check_spec(spec, site)
            if spec.mode == "predict":
                self._predictions.check_here(spec, site, digest=incoming.member("model_digest"))
        except FedflowError:
            self._specs.forget(incoming.job_id)
            raise

    def _check_new(self, incoming: Incoming, initiator: Site) -> None:
        """Refuse a job under the id of another initiator's job."""
        with self._store.read() as tx:
            known = tx.jobs.find(JobFilter(job_id=incoming.job_id, limit=1))
            own = tx.schedules.get(incoming.job_id)
        others = [*(j.initiator for j in known), *([own.initiator] if own else [])]
        if any(other != initiator for other in others):
            raise SubmitRefused(reason=f"another job has the id {incoming.job_id} here")

    def create(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """Store the job and its tasks; answers which components run here."""
        now_ms = self._clock.now_ms()
        site = incoming.job.site
        if tx.received.get(_tombstone(incoming)) is not None:
            raise JobEnded(job_id=incoming.job_id, status="before it was created here")
        spec = self._specs.get(
            incoming.job_id, incoming.member("dsl"), incoming.member("runtime_conf")
        )
        self._check_same(tx, incoming, spec)
        digests = incoming.member("loaded_models")
        self._acceptance.check_content(tx, spec, site, digests=digests)
        parameters = spec.job_parameters_at(site)
        record = JobRecord(
            key=incoming.job,
            initiator=spec.initiator,
            status=JobStatus.WAITING,
            epoch=epoch_of(incoming.body),
            dsl=spec.dsl,
            conf=spec.conf,
            train_conf=self._predictions.train_conf(tx, spec, site),
            roles={role.value: list(ids) for role, ids in spec.roles.items()},
            cores=cores_at(spec, site),
            created_ms=now_ms,
            updated_ms=now_ms,
            warnings=tuple(spec.warnings),
            parameters=parameters.as_json(),
            user=parameters.user,
        )
        tx.jobs.add(record)
        taken = self._inheritance.take_over(tx, record, spec, incoming.member("inherited"))
        components = [c for c in spec.components if site in spec.sites_of(c.name)]
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
                    auto_retries=parameters.auto_retries,
                    auto_retry_delay_s=parameters.auto_retry_delay,
                )
                for c in components
            ]
        )
        self._hearing.heard_initiator(tx, incoming.job_id)
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

    def _check_same(self, tx: Tx, incoming: Incoming, spec: JobSpec) -> None:
        """Refuse other contents under the id of a job that is here already."""
        given = (spec.initiator, incoming.member("dsl"), incoming.member("runtime_conf"))
        for job in tx.jobs.find(JobFilter(job_id=incoming.job_id)):
            if (job.initiator, job.dsl, job.conf) != given:
                self._specs.forget(incoming.job_id)
                raise SubmitRefused(reason=f"another job has the id {incoming.job_id} here")

    # --- cores and start ------------------------------------------------------------------------

    def apply_cores(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """Take the job's cores, or say how many are missing."""
        job = self._current(tx, incoming)
        if tx.jobs.take_cores(job.key, self._engine, now_ms=self._clock.now_ms()):
            return Reply(retcode=0)
        engine = tx.engines.get(self._engine)
        free, total = (engine.remaining_cores, engine.cores) if engine else (0, 0)
        message = f"waits for {job.cores} cores at {job.key.site}: {free} of {total} free"
        return Reply(retcode=103, retmsg=message, error="NotEnoughResources")

    def return_cores(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """Give the job's cores back."""
        job = self._current(tx, incoming)
        if tx.jobs.return_cores(job.key, self._engine, now_ms=self._clock.now_ms()):
            effects.add(self._wakeup.queue)
        return Reply(retcode=0)

    def start(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """The job runs from now on."""
        job = self._current(tx, incoming)
        if job.status is JobStatus.WAITING:
            tx.jobs.move(job.key, JobEvent.STARTED, seen=job.status, now_ms=self._clock.now_ms())
            effects.add(lambda: self._wakeup.job_changed(incoming.job_id))
        return Reply(retcode=0)

    # --- end ------------------------------------------------------------------------------------

    def end(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """The initiator says how the job ended; a job that is not known here needs nothing."""
        job = tx.jobs.get(incoming.job)
        if job is None:
            nothing = Reply(retcode=0, retmsg="no such job here, nothing to end")
            tombstone = _tombstone(incoming)
            if tx.received.get(tombstone) is None:
                tx.received.put(tombstone, nothing, now_ms=self._clock.now_ms())
            return nothing
        self.check_source(job, incoming)
        status = _job_status(incoming.status)
        epoch = epoch_of(incoming.body)
        if epoch < job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if epoch > job.epoch and job.status in JOB_FINAL:
            job = self._catch_up(tx, job, epoch)
        if incoming.member("tag") == SUBMIT_FAILED:
            tx.jobs.set_tag(job.key, SUBMIT_FAILED, now_ms=self._clock.now_ms())
        take_news(tx, incoming.job, incoming.body, now_ms=self._clock.now_ms())
        self.end_here(tx, job, status, reason_from_wire(incoming.member("reason")), effects)
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
            now_ms=self._clock.now_ms(),
        )
        reopened = tx.jobs.get(job.key)
        if reopened is None or reopened.epoch != epoch:
            raise StillEnding(job_id=job.key.job_id, site=job.key.site)
        return reopened

    def end_here(
        self, tx: Tx, job: JobRecord, status: JobStatus, reason: Reason | None, effects: Effects
    ) -> None:
        """End this site's share: stop what runs, move the job, return the cores when all is
        still.
        """
        now_ms = self._clock.now_ms()
        self._tasks.stop_all(tx, job.key, status, reason, effects)
        if job.status not in JOB_FINAL:
            tx.jobs.move(
                job.key, JOB_END_EVENT[status], seen=job.status, now_ms=now_ms, reason=reason
            )
        elif self._was_given_up(job) and status in OVERRULE_EVENT:
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
            self._hearing.forget(tx, job.key.job_id)
        effects.add(lambda: self._wakeup.job_changed(job.key.job_id))
        logger.info(
            "Job %s ended at %s: %s",
            job.key.job_id,
            job.key.site,
            status.value,
            extra={"action": "end_job", "job_id": job.key.job_id},
        )

    def return_if_still(self, tx: Tx, key: JobKey, effects: Effects) -> None:
        """Return the cores of an ended job once none of its processes is left here."""
        job = tx.jobs.get(key)
        if job is None or job.status not in JOB_FINAL or not job.in_use:
            return
        if has_process(tx, key):
            return
        if tx.jobs.return_cores(key, self._engine, now_ms=self._clock.now_ms()):
            effects.add(self._wakeup.queue)

    # --- heartbeat ------------------------------------------------------------------------------

    def heartbeat(self, tx: Tx, incoming: Incoming, effects: Effects) -> Reply:
        """Renew the leases of the initiator's jobs, take its news, and tell how the tasks here
        stand.

        The answer is the PULL half of status collection: it repairs reports that were lost.
        """
        jobs = incoming.member("jobs")
        if not isinstance(jobs, dict):
            raise BadRequest(reason="`jobs` must be an object")
        told_sites = [told["sites"] for told in jobs.values() if _tells_sites(told)]
        if len(jobs) > MAX_SITES or sum(map(len, told_sites)) > MAX_SITES:
            raise BadRequest(reason=f"a heartbeat may name {MAX_SITES} sites")
        answer: dict[str, Any] = {}
        for job_id, told in jobs.items():
            answer[job_id] = self._answer_for(tx, str(job_id), told, incoming.source_party)
        return Reply(retcode=0, data={"jobs": answer})

    def _answer_for(
        self, tx: Tx, job_id: str, told: Any, source_party: str | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        for text in told["sites"] if _tells_sites(told) else ():
            key = JobKey(job_id=job_id, site=_site(text))
            job = tx.jobs.get(key)
            if job is None:
                answer[text] = {"status": None}
                continue
            if source_party is not None and source_party != job.initiator.party_id:
                raise WrongSite(site=f"party {source_party}", job_id=job_id)
            self._hearing.heard_initiator(tx, job_id)
            if told.get("epoch", job.epoch) == job.epoch:
                take_news(tx, key, told, now_ms=self._clock.now_ms())
            answer[text] = {
                "status": job.status.value,
                "epoch": job.epoch,
                "tasks": self._tasks.told(tx, key),
            }
        return answer

    # --- checks ---------------------------------------------------------------------------------

    def _current(self, tx: Tx, incoming: Incoming) -> JobRecord:
        """Return the job that a command is for. Raises: JobNotFound, JobEnded, StaleCommand,
        WrongSite.
        """
        job = tx.jobs.get(incoming.job)
        if job is None:
            raise JobNotFound(job_id=incoming.job_id)
        self.check_source(job, incoming)
        epoch = epoch_of(incoming.body)
        if epoch != job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if job.status in JOB_FINAL:
            raise JobEnded(job_id=incoming.job_id, status=job.status.value)
        self._hearing.heard_initiator(tx, incoming.job_id)
        return job

    def check_source(self, job: JobRecord, incoming: Incoming) -> None:
        """Raises: WrongSite: the command is not from the party that initiated the job."""
        if incoming.source_party is not None and incoming.source_party != job.initiator.party_id:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)

    def _was_given_up(self, job: JobRecord) -> bool:
        return job.reason is not None and job.reason.code == "InitiatorLost"


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


def _tombstone(incoming: Incoming) -> str:
    """Return under which name a party's end of a job is noted that was never created here.

    It counts against that party's own create only. Names of replies have one `/`, this has two.
    """
    whose = f"{incoming.source_party or ''}/{incoming.job_id}/{incoming.job.site.key}"
    return f"/end/{hashlib.sha256(whose.encode()).hexdigest()}"


def _initiator(body: Any) -> Site:
    try:
        return Site(Role(body["initiator_role"]), PartyId(str(body["initiator_party_id"])))
    except (KeyError, TypeError, ValueError) as exc:
        raise BadRequest(reason="initiator_role and initiator_party_id must name a site") from exc


def epoch_of(body: Any) -> int:
    """Return the epoch that a command is of. Raises: BadRequest."""
    epoch = body.get("epoch", 0) if isinstance(body, dict) else 0
    if not isinstance(epoch, int) or not 0 <= epoch <= MAX_COUNT:
        raise BadRequest(reason="`epoch` must be a number")
    return epoch


def _tells_sites(told: Any) -> bool:
    """Tell whether what a heartbeat says of a job names sites."""
    return isinstance(told, dict) and isinstance(told.get("sites"), dict)


def _site(text: Any) -> Site:
    try:
        return Site.from_key(str(text))
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a site") from exc


def _job_status(text: str | None) -> JobStatus:
    try:
        status = JobStatus(text or "")
    except ValueError as exc:
        raise BadRequest(reason=f"{text!r} is not a job status") from exc
    if status not in JOB_FINAL:
        raise BadRequest(reason=f"{text!r} does not end a job")
    return status
