"""A participant's handlers for job commands: create, cores, start, end, heartbeat."""

from __future__ import annotations

import logging
from typing import Any

from fedflow.app.commands import Incoming
from fedflow.app.effects import Effects
from fedflow.app.hearing import Hearing
from fedflow.app.news import take_news
from fedflow.app.outgoing import reason_from_wire
from fedflow.app.party_tasks import PartyTasks
from fedflow.app.ports import Catalog, PartyClient, Store, Tx, Wakeup
from fedflow.app.specs import Specs, cores_at
from fedflow.base.clock import Clock
from fedflow.base.errors import (
    BadParameter,
    BadRequest,
    JobEnded,
    JobNotFound,
    NoRoute,
    StaleCommand,
    SubmitRefused,
    TableNotFound,
    WrongSite,
)
from fedflow.base.ids import PartyId
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import (
    JobFilter,
    JobKey,
    JobRecord,
    Reply,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.resources import Capacity, check_ceiling, demand_at
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


class PartyJobs:
    """What the initiator may do with this site's share of a job."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        catalog: Catalog,
        hearing: Hearing,
        tasks: PartyTasks,
        parties: PartyClient,
        wakeup: Wakeup,
        clock: Clock,
        engine: str,
    ) -> None:
        self._store = store
        self._specs = specs
        self._catalog = catalog
        self._hearing = hearing
        self._tasks = tasks
        self._parties = parties
        self._wakeup = wakeup
        self._clock = clock
        self._engine = engine

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
        if site not in spec.sites or spec.initiator != initiator:
            raise WrongSite(site=str(site), job_id=incoming.job_id)
        for component in spec.components:
            if site in spec.sites_of(component.name):
                parameters = spec.component_parameters(component.name, site)
                path = f"$.runtime_conf.component_parameters ({site}).{component.name}"
                self._catalog.check(component.module, parameters, path=path)

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
        if tx.received.get(_tombstone(incoming.job)) is not None:
            raise JobEnded(job_id=incoming.job_id, status="before it was created here")
        spec = self._specs.get(
            incoming.job_id, incoming.member("dsl"), incoming.member("runtime_conf")
        )
        self._check_same(tx, incoming, spec)
        self._check_cores(tx, spec, site)
        self._check_tables(tx, spec, site)
        record = JobRecord(
            key=incoming.job,
            initiator=spec.initiator,
            status=JobStatus.WAITING,
            epoch=_epoch(incoming.body),
            dsl=spec.dsl,
            conf=spec.conf,
            roles={role.value: list(ids) for role, ids in spec.roles.items()},
            cores=cores_at(spec, site),
            created_ms=now_ms,
            updated_ms=now_ms,
            warnings=tuple(spec.warnings),
        )
        tx.jobs.add(record)
        components = [c for c in spec.components if site in spec.sites_of(c.name)]
        tx.tasks.add(
            [
                TaskRecord(
                    key=TaskKey(job_id=incoming.job_id, component=c.name, version=0, site=site),
                    module=c.module,
                    initiator=spec.initiator,
                    status=TaskStatus.WAITING,
                    party_status=TaskStatus.WAITING,
                    parameters=spec.component_parameters(c.name, site),
                    created_ms=now_ms,
                    updated_ms=now_ms,
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

    def _check_cores(self, tx: Tx, spec: JobSpec, site: Site) -> None:
        engine = tx.engines.get(self._engine)
        demand = demand_at(site, spec.job_parameters_at(site))
        check_ceiling(demand, Capacity(cores=engine.cores if engine else 0), site=site)

    def _check_tables(self, tx: Tx, spec: JobSpec, site: Site) -> None:
        for component in spec.components:
            if component.module.lower() != "reader" or site not in spec.sites_of(component.name):
                continue
            table = spec.component_parameters(component.name, site).get("table")
            if table is None and site.role is not Role.ARBITER:
                raise BadParameter(
                    path=f"component_parameters.role.{site.role.value}.*.{component.name}.table",
                    reason=f"{site} names no table",
                )
            if isinstance(table, dict) and "name" in table and "namespace" in table:
                namespace, name = str(table["namespace"]), str(table["name"])
                if tx.tables.get(namespace, name) is None:
                    raise TableNotFound(namespace=namespace, name=name, party_id=site.party_id)

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
            tombstone = _tombstone(incoming.job)
            if tx.received.get(tombstone) is None:
                tx.received.put(tombstone, nothing, now_ms=self._clock.now_ms())
            return nothing
        self._check_source(job, incoming)
        status = _job_status(incoming.status)
        take_news(tx, incoming.job, incoming.body, now_ms=self._clock.now_ms())
        self.end_here(tx, job, status, reason_from_wire(incoming.member("reason")), effects)
        return Reply(retcode=0)

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
        self.return_if_still(tx, job.key, effects)
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
        tasks = tx.tasks.find(
            TaskFilter(job_id=key.job_id, roles=(key.site.role,), party_id=key.site.party_id)
        )
        if any(t.handle is not None for t in tasks):
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
        answer: dict[str, Any] = {}
        for job_id, told in jobs.items():
            answer[job_id] = self._answer_for(tx, str(job_id), told, incoming.source_party)
        return Reply(retcode=0, data={"jobs": answer})

    def _answer_for(
        self, tx: Tx, job_id: str, told: Any, source_party: str | None
    ) -> dict[str, Any]:
        sites = told.get("sites", {}) if isinstance(told, dict) else {}
        answer: dict[str, Any] = {}
        for text in sites:
            key = JobKey(job_id=job_id, site=_site(text))
            job = tx.jobs.get(key)
            if job is None:
                answer[text] = {"status": None}
                continue
            if source_party is not None and source_party != job.initiator.party_id:
                raise WrongSite(site=f"party {source_party}", job_id=job_id)
            self._hearing.heard_initiator(tx, job_id)
            take_news(tx, key, told, now_ms=self._clock.now_ms())
            answer[text] = {"status": job.status.value, "tasks": self._tasks.told(tx, key)}
        return answer

    # --- checks ---------------------------------------------------------------------------------

    def _current(self, tx: Tx, incoming: Incoming) -> JobRecord:
        """Return the job that a command is for. Raises: JobNotFound, JobEnded, StaleCommand,
        WrongSite.
        """
        job = tx.jobs.get(incoming.job)
        if job is None:
            raise JobNotFound(job_id=incoming.job_id)
        self._check_source(job, incoming)
        if _epoch(incoming.body) != job.epoch:
            raise StaleCommand(given=f"epoch {_epoch(incoming.body)}", current=f"epoch {job.epoch}")
        if job.status in JOB_FINAL:
            raise JobEnded(job_id=incoming.job_id, status=job.status.value)
        self._hearing.heard_initiator(tx, incoming.job_id)
        return job

    def _check_source(self, job: JobRecord, incoming: Incoming) -> None:
        if incoming.source_party is not None and incoming.source_party != job.initiator.party_id:
            raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)

    def _was_given_up(self, job: JobRecord) -> bool:
        return job.reason is not None and job.reason.code == "InitiatorLost"


def _tombstone(key: JobKey) -> str:
    """Return the request id under which the end of a job is noted that was never created here."""
    return f"end-{key.job_id}-{key.site.key}"


def _initiator(body: Any) -> Site:
    try:
        return Site(Role(body["initiator_role"]), PartyId(str(body["initiator_party_id"])))
    except (KeyError, TypeError, ValueError) as exc:
        raise BadRequest(reason="initiator_role and initiator_party_id must name a site") from exc


def _epoch(body: Any) -> int:
    epoch = body.get("epoch", 0) if isinstance(body, dict) else 0
    if not isinstance(epoch, int):
        raise BadRequest(reason="`epoch` must be a number")
    return epoch


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
