"""Turns what is stored about one job into the frozen view that `decide` looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedflow.app.protocol.timing import Timing
from fedflow.base.ids import PartyId
from fedflow.domain.job.control import steps_left
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.task_rule import PLAIN, Rule
from fedflow.domain.records import ScheduledJob, ScheduledTask
from fedflow.domain.scheduling.circuit import Lack
from fedflow.domain.scheduling.views import ElasticView, JobView, SiteView, TaskView


def view_of(
    job: ScheduledJob,
    spec: JobSpec,
    *,
    timing: Timing,
    heard_ms: Mapping[PartyId, int],
    lack_of: Callable[[str], Lack | None],
    may_request: bool,
) -> JobView:
    """Return the view of one job; `heard_ms` tells when each party's server last answered,
    `lack_of` why it does nothing though it did.
    """
    parameters = spec.job_parameters_at(job.initiator)
    rules = spec.rules
    return JobView(
        job_id=job.job_id,
        status=job.status,
        dag=spec.dag,
        sites=tuple(
            SiteView(
                site=s.site,
                phase=s.phase,
                heard_ms=heard_ms[s.site.party_id],
                lack=lack_of(s.site.party_id),
                retry_ms=s.retry_ms,
                denials=s.denials,
                reason=s.reason,
            )
            for s in job.sites
        ),
        tasks={
            t.component: _task(
                job,
                t,
                rule=rules.components.get(t.component, PLAIN),
                infrastructure_retries=parameters.infrastructure_retries,
            )
            for t in job.tasks
        },
        parallelism=parameters.task_parallelism,
        created_ms=job.began_ms,
        timeout_ms=parameters.timeout * 1000,
        create_timeout_ms=timing.create_timeout_ms,
        lease_ms=timing.lease_ms,
        shares=rules.shares,
        selected=rules.selected,
        paused=job.control.paused,
        steps_left=steps_left(job.control, step=parameters.step, begun=begun_in(job)),
        held_ms=job.control.held_ms,
        rested_ms=job.control.rested_ms,
        waits_ms=job.control.waits_ms,
        hold_limit_ms=timing.hold_limit_ms,
        may_request=may_request,
        starving_after_ms=timing.starving_after_ms,
        stop=job.stop,
        elastic=None if parameters.elastic is None else _elastic(spec),
    )


def _elastic(spec: JobSpec) -> ElasticView | None:
    elastic = spec.elastic
    if elastic is None:
        return None
    return ElasticView(
        min_parties=elastic.min_parties,
        rejoin=elastic.rejoin,
        round_deadline_ms=int(elastic.round_deadline_s * 1000),
        arbiter_wait_ms=int(elastic.arbiter_wait_s * 1000),
        rounds=frozenset(n for n, info in spec.modules.items() if info.absence == "rounds"),
    )


def begun_in(job: ScheduledJob) -> int:
    """Return how many components have begun in the job's current epoch."""
    return sum(_has_begun(job, task) for task in job.tasks)


def _has_begun(job: ScheduledJob, task: ScheduledTask) -> bool:
    return task.epoch == job.epoch and (task.started_ms is not None or task.retries > 0)


def _task(
    job: ScheduledJob, task: ScheduledTask, *, rule: Rule, infrastructure_retries: int
) -> TaskView:
    infrastructure = task.infrastructure_retries
    return TaskView(
        version=task.version,
        status=task.status,
        parties={p.site: p for p in task.parties},
        started_ms=task.started_ms,
        ended_ms=task.ended_ms,
        reason=task.reason,
        retries_left=task.retries_left(rule.retries),
        infrastructure_left=max(0, infrastructure_retries - infrastructure),
        kept=task.epoch != job.epoch,
        begun=_has_begun(job, task),
        rule=rule,
    )
