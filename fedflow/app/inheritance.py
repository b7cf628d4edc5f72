"""Taking over finished components of an earlier job: their results count as the new job's.

The initiator plans it at the submit; every site then gives its new tasks the results of the old
ones, by reference: no table or model content is copied, and none is deleted while a job names it.
Source: `docs/reference/jobs.md#reuse-of-results`. Where FATE silently runs a component whose
results are gone at some site, here that site refuses the job and says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedflow.app.models.models import trained_key
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import UseCase
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import InheritanceRefused
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.data.caches import CacheFilter, StoredCache
from fedflow.domain.job.dsl import MAX_COMPONENTS
from fedflow.domain.job.inheritance import check_inheritance
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning, warning
from fedflow.domain.records import (
    JobKey,
    JobRecord,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledTask,
    TableRecord,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TASK_SUCCEEDED, TaskStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class InheritancePlan:
    """What a new job takes over."""

    job_id: str  #: of the earlier job
    tasks: tuple[ScheduledTask, ...]  #: as the new job's, ended
    warnings: tuple[JobWarning, ...] = ()  #: what will run nevertheless, and why

    @property
    def told(self) -> dict[str, Any]:
        """Return what is sent to the sites."""
        return {"job_id": self.job_id, "components": [t.component for t in self.tasks]}


class Inheritance(UseCase):
    """Both sides of taking over: the initiator's plan, and what a site does."""

    # --- at the initiator -----------------------------------------------------------------------

    def plan(self, spec: JobSpec) -> InheritancePlan | None:
        """Return what a submitted job takes over, None if it asks for nothing.

        A component that did not succeed in the earlier job runs, and so does what depends on it.
        Raises: InheritanceRefused, InvalidJobSpec: the two jobs differ in what matters.
        """
        wish = spec.job_parameters_at(spec.initiator).inherits
        if wish is None:
            return None
        with self._store.read() as tx:
            old = tx.schedules.get(wish.job_id)
        if old is None or old.initiator.party_id != spec.initiator.party_id:
            reason = f"{spec.initiator} has not initiated it"
            raise InheritanceRefused(earlier_job=wish.job_id, reason=reason)
        if old.status not in JOB_FINAL:
            raise InheritanceRefused(earlier_job=wish.job_id, reason=f"it is {old.status.value}")
        self._check(wish.job_id, old, spec, wish.component_list)
        done = {t.component: t for t in old.tasks if t.status in TASK_SUCCEEDED}
        taken: dict[str, ScheduledTask] = {}
        warnings: list[JobWarning] = []
        for name in spec.dag.order:
            if name not in wish.component_list:
                continue
            if name in done and all(up in taken for up in spec.dag.upstream(name)):
                sites = spec.sites_of(name)
                taken[name] = ended_task(done[name], sites, earlier_job=wish.job_id)
            else:
                path = "$.conf.job_parameters.common.inheritance_info.component_list"
                message = f"{name} did not succeed in job {wish.job_id}, so it runs"
                warnings.append(warning("NotReused", path, message))
        return InheritancePlan(
            job_id=wish.job_id, tasks=tuple(taken.values()), warnings=tuple(warnings)
        )

    def _check(
        self, job_id: str, old: ScheduledJob | JobRecord, spec: JobSpec, components: Sequence[str]
    ) -> None:
        before = self._specs.get(job_id, old.dsl, old.conf)
        problems = check_inheritance(before, spec, components)
        if problems:
            raise InvalidJobSpec(problems)

    # --- at a site ------------------------------------------------------------------------------

    def take_over(self, tx: Tx, job: JobRecord, spec: JobSpec, told: Any) -> dict[str, TaskRecord]:
        """Give a new job at its site the results that the initiator named; return its ended tasks.

        Raises: InheritanceRefused: a result is not here any more, or was another initiator's.
        InvalidJobSpec. BadRequest.
        """
        if told is None:
            return {}
        job_id, components = _read(told)
        site = job.key.site
        old = tx.jobs.get(JobKey(job_id=job_id, site=site))
        if old is None or old.initiator.party_id != job.initiator.party_id:
            raise InheritanceRefused(earlier_job=job_id, reason=f"it is not known at {site}")
        self._check(job_id, old, spec, components)
        own = [name for name in components if spec.runs_at(name, site)]
        for name in own:
            figures = [figure for figure in old.figures if figure.component == name]
            if figures:
                tx.jobs.set_figures(job.key, name, figures, now_ms=job.created_ms)
        return {name: _take_task(tx, old, job, name) for name in own}


def ended_task(task: ScheduledTask, sites: Sequence[Site], *, earlier_job: str) -> ScheduledTask:
    """Return a task that succeeded in an earlier job as the first attempt of a new one."""
    since = {p.site: p for p in task.parties}
    return ScheduledTask(
        component=task.component,
        version=0,
        status=TaskStatus.SUCCESS,
        parties=tuple(
            ScheduledPartyTask(
                site=site, status=since[site].status, since_ms=since[site].since_ms, progress=1.0
            )
            for site in sites
        ),
        started_ms=task.started_ms,
        ended_ms=task.ended_ms,
        inherited_from=task.inherited_from or earlier_job,
    )


def results_there(tx: Tx, job: JobRecord, component: str) -> list[TableRecord] | None:
    """Return the tables that a component made at a site, by position; None if it has not succeeded
    there, or if a table or its model is gone.
    """
    done = _latest(tx, job, component)
    if done is None or done.party_status not in TASK_SUCCEEDED:
        return None
    outputs = tx.tracking.outputs(job.key.job_id, component, job.key.site)
    tables = [
        tx.tables.get(o.namespace, o.name) for o in outputs if o.key.version == done.key.version
    ]
    found = [table for table in tables if table is not None]
    if len(found) < len(tables) or not _model_there(tx, job, component):
        return None
    return found


def _model_there(tx: Tx, job: JobRecord, component: str) -> bool:
    """Tell whether the model that a component made at a site, if it made one, can still be used."""
    trained = trained_key(job)
    if trained is None or tx.tracking.model(job.key.job_id, component, job.key.site) is None:
        return True
    return any(m.component == component for m in tx.models.components(trained))


def _latest(tx: Tx, job: JobRecord, component: str) -> TaskRecord | None:
    """Return the latest attempt of a component at a site, None if it does not run there."""
    job_id, site = job.key.job_id, job.key.site
    found = tx.tasks.find(
        TaskFilter(job_id=job_id, component=component, roles=(site.role,), party_id=site.party_id)
    )
    return found[-1] if found else None


def _read(told: Any) -> tuple[str, list[str]]:
    if isinstance(told, dict) and isinstance(told.get("job_id"), str):
        names = told.get("components")
        if (
            isinstance(names, list)
            and len(names) <= MAX_COMPONENTS
            and all(isinstance(n, str) for n in names)
        ):
            return told["job_id"], list(dict.fromkeys(names))
    raise BadRequest(reason="`inherited` must name a job and components")


def _take_task(tx: Tx, old: JobRecord, job: JobRecord, component: str) -> TaskRecord:
    """Let the results of an old task be those of a new one too; return the new task."""
    site = job.key.site
    done = _latest(tx, old, component)
    if done is None or done.party_status not in TASK_SUCCEEDED:
        reason = f"{component} has not succeeded at {site}"
        raise InheritanceRefused(earlier_job=old.key.job_id, reason=reason)
    key = TaskKey(job_id=job.key.job_id, component=component, version=0, site=site)
    _take_results(tx, done.key, key, now_ms=job.created_ms)
    _take_caches(tx, done.key, key, now_ms=job.created_ms)
    _take_models(tx, old, job, component)
    return replace(
        done,
        key=key,
        initiator=job.initiator,
        status=TaskStatus.SUCCESS,
        launch_id=None,
        token=None,
        requested_ms=None,
        handle=None,
        created_ms=job.created_ms,
        updated_ms=job.created_ms,
        inherited_from=done.inherited_from or old.key.job_id,
    )


def _take_results(tx: Tx, old: TaskKey, new: TaskKey, *, now_ms: int) -> None:
    """Name tables, metrics and summary of an attempt as another one's. Raises:
    InheritanceRefused.
    """
    job_id, component, site = old.job_id, old.component, old.site
    for output in tx.tracking.outputs(job_id, component, site):
        if output.key.version != old.version:
            continue
        if tx.tables.get(output.namespace, output.name) is None:
            reason = f"the output {component}.{output.data_name} is gone at {site}"
            raise InheritanceRefused(earlier_job=job_id, reason=reason)
        tx.tracking.put_output(replace(output, key=new), now_ms=now_ms)
    for metric in tx.tracking.metrics(job_id, component, site, version=old.version):
        tx.tracking.add_metric(new, metric, now_ms=now_ms)
    summary = tx.tracking.summary(job_id, component, site)
    if summary is not None:
        tx.tracking.put_summary(new, summary, now_ms=now_ms)


def _take_caches(tx: Tx, old: TaskKey, new: TaskKey, *, now_ms: int) -> None:
    """Let the caches of an attempt be found under another one, pointing to what they hold."""
    which = CacheFilter(site=old.site, job_id=old.job_id, component=old.component)
    for cache in tx.caches.find(which):
        if cache.key.version == old.version:
            tx.caches.put(
                StoredCache(
                    cache_key=new_request_id(),
                    key=new,
                    name=cache.name,
                    meta=cache.meta,
                    same_as=cache.same_as or cache.cache_key,
                    created_ms=now_ms,
                )
            )


def _take_models(tx: Tx, old: JobRecord, job: JobRecord, component: str) -> None:
    """Name the model of a component as part of the version that the new job trains."""
    stored = tx.tracking.model(old.key.job_id, component, job.key.site)
    if stored is not None:
        key = replace(stored.key, job_id=job.key.job_id, version=0)
        tx.tracking.put_model(replace(stored, key=key), now_ms=job.created_ms)
    before, now = trained_key(old), trained_key(job)
    if before is None or now is None:
        return
    for model in tx.models.components(before):
        if model.component == component:
            tx.models.put_component(replace(model, key=now, created_ms=job.created_ms))
    for step in tx.models.checkpoints(before, component):
        tx.models.put_checkpoint(replace(step, key=now, attempt=0))
