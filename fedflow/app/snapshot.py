"""Turns what is stored about one job into the frozen view that `decide` looks at."""

from __future__ import annotations

from collections.abc import Mapping

from fedflow.app.timing import Timing
from fedflow.base.ids import PartyId
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import ScheduledJob
from fedflow.domain.schedule import JobView, PartyTaskView, SiteView, TaskView


def view_of(
    job: ScheduledJob,
    spec: JobSpec,
    *,
    timing: Timing,
    heard_ms: Mapping[PartyId, int],
    may_apply: bool,
) -> JobView:
    """Return the view of one job; `heard_ms` tells when each party's server last answered."""
    parameters = spec.job_parameters_at(job.initiator)
    return JobView(
        job_id=job.job_id,
        status=job.status,
        dag=spec.dag,
        sites=tuple(
            SiteView(
                site=s.site,
                phase=s.phase,
                heard_ms=heard_ms[s.site.party_id],
                retry_ms=s.retry_ms,
                reason=s.reason,
            )
            for s in job.sites
        ),
        tasks={
            t.component: TaskView(
                version=t.version,
                status=t.status,
                parties={
                    p.site: PartyTaskView(status=p.status, reason=p.reason, since_ms=p.since_ms)
                    for p in t.parties
                },
                ended_ms=t.ended_ms,
                retries_left=max(0, parameters.auto_retries - t.retries),
                kept=t.epoch != job.epoch,
            )
            for t in job.tasks
        },
        parallelism=parameters.task_parallelism,
        created_ms=job.began_ms,
        timeout_ms=parameters.timeout * 1000,
        create_timeout_ms=timing.create_timeout_ms,
        lease_ms=timing.lease_ms,
        retry_delay_ms=parameters.auto_retry_delay * 1000,
        may_apply=may_apply,
        stop=job.stop,
    )
