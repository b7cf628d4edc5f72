"""A participant's handlers for what may happen to an ended job: a rerun, and changed parameters."""

from __future__ import annotations

import logging

from fedflow.app.models.predict import model_of
from fedflow.app.participant.admission import Admission
from fedflow.app.participant.party_jobs import PartyJobs, has_process
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Incoming, TypedCommand, named_site
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.parsed_jobs import need_at
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import (
    JobNotFound,
    OutputGone,
    ParametersRefused,
    StaleCommand,
    StillEnding,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.records import JobKey, JobRecord, Moved, Reply, TaskFilter, TaskKey, TaskRecord
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TaskStatus
from fedflow.wire.commands import ChangeParameters, RerunJob

logger = logging.getLogger(__name__)


class PartyReruns(UseCase):
    """What the initiator may do with this site's party job that has ended."""

    def __init__(self, kernel: Kernel, *, acceptance: Admission, jobs: PartyJobs) -> None:
        super().__init__(kernel)
        self._acceptance = acceptance
        self._jobs = jobs

    def prepare(self, incoming: TypedCommand[RerunJob] | TypedCommand[ChangeParameters]) -> None:
        """Check a job's conf, which may be new, before anything is written.

        What another site than the initiator wants is checked against that site's rights, too.
        Raises: JobNotFound, WrongSite, InvalidJobSpec, PermissionDenied, BadParameter.
        """
        with self._store.read() as tx:
            job = self._known(tx, incoming)
        before = self._specs.get(incoming.job_id, job.dsl, job.conf)
        conf = self._conf(incoming, job)
        self._acceptance.quotas.check(job.dsl, conf, at=job.key.site)
        spec = self._specs.replace(incoming.job_id, job.dsl, conf)
        try:
            if _what_it_is(spec) != _what_it_is(before):
                raise BadRequest(
                    reason="a rerun may change parameters only, not who takes part, what kind of"
                    " job it is, or the model that it predicts with"
                )
            self._acceptance.check_spec(spec, incoming.job.site)
            if incoming.body.requested_by is not None:  # it may use no more than in its own jobs
                source = named_site(incoming.body.requested_by)
                self._acceptance.check_change(before, spec, incoming.job.site, source=source)
        except FedflowError:
            self._specs.forget(incoming.job_id)
            raise

    def rerun(self, tx: Tx, incoming: TypedCommand[RerunJob], effects: AfterCommit) -> Reply:
        """Open the job again, with new attempts of some of its tasks.

        Raises: StaleCommand, StillEnding, OutputGone, NotEnoughResources.
        """
        job = self._known(tx, incoming)
        epoch, now_ms = incoming.body.epoch, self._clock.now_ms()
        if epoch <= job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if job.status not in JOB_FINAL or job.in_use or has_process(tx, job.key):
            raise StillEnding(job_id=incoming.job_id, site=job.key.site)
        self._party_leases.begin(tx, incoming.job_id)  # before the job, as heartbeats do
        spec = self._specs.replace(incoming.job_id, job.dsl, self._conf(incoming, job))
        site = job.key.site
        parameters = spec.job_parameters_at(site)
        engine = self._engines.at(site, parameters)
        need = need_at(spec, site, engine)
        attempts = self._attempts(tx, incoming, spec, site)
        runs = {t.key.component for t in attempts}
        self._acceptance.check_content(tx, spec, site, runs=runs)
        self._check_inputs(tx, job.key, spec, runs)
        quotas = self._acceptance.quotas
        size = quotas.stored_bytes(spec, tasks=len(attempts), dsl=False)
        quotas.admit(tx, job.initiator, at=site, size=size)
        moved = tx.jobs.reopen(
            job.key,
            seen=job.status,
            epoch=epoch,
            conf=spec.conf,
            parameters=parameters.as_json(),
            cores=need.cores,
            memory=need.memory,
            engine=engine,
            more_bytes=size,
            now_ms=now_ms,
        )
        if not isinstance(moved, Moved):
            raise StillEnding(job_id=incoming.job_id, site=site)
        tx.tasks.add(attempts)
        effects.add(lambda: self._wakeup.job_changed(incoming.job_id))
        logger.info(
            "Job %s runs again at %s, epoch %s",
            incoming.job_id,
            site,
            epoch,
            extra={"action": "rerun_job", "job_id": incoming.job_id},
        )
        return Reply(retcode=0)

    def _attempts(
        self, tx: Tx, incoming: TypedCommand[RerunJob], spec: JobSpec, site: Site
    ) -> list[TaskRecord]:
        """Return the new attempts that the command asks for at this site."""
        now_ms = self._clock.now_ms()
        rules = spec.rules.components
        latest = _latest_versions(tx, incoming)
        attempts = []
        for component, version in incoming.body.tasks.items():
            if component not in spec.modules:
                raise BadRequest(reason=f"the job has no component {component[:100]!r}")
            if not spec.runs_at(component, site):
                continue
            if version <= latest.get(component, -1):
                raise StaleCommand(
                    given=f"attempt {version} of {component}",
                    current=f"attempt {latest[component]}",
                )
            attempts.append(
                TaskRecord(
                    key=TaskKey(
                        job_id=incoming.job_id, component=component, version=version, site=site
                    ),
                    module=spec.component(component).module,
                    initiator=spec.initiator,
                    status=TaskStatus.WAITING,
                    party_status=TaskStatus.WAITING,
                    parameters=spec.component_parameters(component, site),
                    created_ms=now_ms,
                    updated_ms=now_ms,
                    auto_retries=rules[component].retries,
                    auto_retry_delay_s=rules[component].retry_delay_ms // 1000,
                )
            )
        return attempts

    def _check_inputs(self, tx: Tx, key: JobKey, spec: JobSpec, runs: set[str]) -> None:
        """Raises: OutputGone: a table that a component will read was deleted meanwhile."""
        for name in sorted(runs):
            refs = [ref for refs in spec.component(name).data.values() for ref in refs]
            for source in sorted({r.component for r in refs} - runs):
                for output in tx.tracking.outputs(key.job_id, source, key.site):
                    if tx.tables.get(output.namespace, output.name) is None:
                        raise OutputGone(component=source, job_id=key.job_id, site=key.site)

    def change_parameters(
        self, tx: Tx, incoming: TypedCommand[ChangeParameters], effects: AfterCommit
    ) -> Reply:
        """Keep a changed conf of an ended job, for its next rerun; with `runs`, the components that
        a rerun with it is to repeat, only check it.

        Raises: ParametersRefused: the job has not ended. StaleCommand.
        """
        job = self._known(tx, incoming)
        epoch = incoming.body.epoch
        if epoch != job.epoch:
            raise StaleCommand(given=f"epoch {epoch}", current=f"epoch {job.epoch}")
        if job.status not in JOB_FINAL:
            raise ParametersRefused(job_id=incoming.job_id, reason=f"it is {job.status.value}")
        spec = self._specs.replace(incoming.job_id, job.dsl, self._conf(incoming, job))
        runs = incoming.body.runs
        if runs is not None:
            self._acceptance.check_content(tx, spec, job.key.site, runs=set(runs))
            self._specs.forget(incoming.job_id)
            return Reply(retcode=0)
        self._acceptance.check_content(tx, spec, job.key.site)
        parameters = spec.job_parameters_at(job.key.site).as_json()
        size = self._acceptance.quotas.stored_bytes(spec, tasks=0, dsl=False)
        self._acceptance.quotas.admit(tx, job.initiator, at=job.key.site, size=size, opens=0)
        tx.jobs.set_conf(
            job.key, spec.conf, parameters, now_ms=self._clock.now_ms(), more_bytes=size
        )
        return Reply(retcode=0)

    def _conf(
        self, incoming: TypedCommand[RerunJob] | TypedCommand[ChangeParameters], job: JobRecord
    ) -> object:
        """Return the conf of a command as it is stored here."""
        return self._acceptance.quotas.kept_conf(incoming.body.runtime_conf, job.initiator)

    def _known(self, tx: Tx, incoming: Incoming) -> JobRecord:
        job = tx.jobs.get(incoming.job)
        if job is None:
            raise JobNotFound(job_id=incoming.job_id)
        self._jobs.check_source(job, incoming)
        return job


def _what_it_is(spec: JobSpec) -> tuple[object, ...]:
    """Return what a job keeps for good: what a site checked of it once counts for its reruns."""
    model = model_of(spec, spec.initiator) if spec.mode == "predict" else None
    return spec.initiator, frozenset(spec.sites), spec.roles, spec.mode, model


def _latest_versions(tx: Tx, incoming: Incoming) -> dict[str, int]:
    site = incoming.job.site
    found = tx.tasks.find(
        TaskFilter(job_id=incoming.job_id, roles=(site.role,), party_id=site.party_id)
    )
    return {t.key.component: t.key.version for t in found}
