"""Submitting a job: check it, store it, and wait until its sites accepted it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedflow.app.folders import Folders
from fedflow.app.outgoing import Outgoing
from fedflow.app.ports import Catalog, PartyClient, Store, Wakeup
from fedflow.app.specs import Specs
from fedflow.app.timing import Timing
from fedflow.app.waiting import Changes
from fedflow.base.clock import Clock
from fedflow.base.errors import BadParameter, InvalidJobSpec, NoRoute, Problem, SubmitRefused
from fedflow.base.ids import JobId
from fedflow.domain.job_spec import JobSpec, model_id
from fedflow.domain.records import (
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
)
from fedflow.domain.schedule import Reason, SitePhase
from fedflow.domain.states import JOB_FINAL, JobStatus, TaskStatus

logger = logging.getLogger(__name__)

_GUARDED: Final[Mapping[str, str]] = {
    "Upload": "/v1/data/upload (`fedflow data upload`)",
}
"""Modules that only this server's own routes may start -> the route."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """A job that all its sites accepted."""

    job_id: str
    model_id: str
    model_version: str
    logs_directory: str
    warnings: tuple[str, ...]


class Submissions:
    """The use cases of the submit route, and of the routes that submit local jobs."""

    def __init__(
        self,
        *,
        store: Store,
        specs: Specs,
        catalog: Catalog,
        outgoing: Outgoing,
        parties: PartyClient,
        wakeup: Wakeup,
        changes: Changes,
        clock: Clock,
        timing: Timing,
        folders: Folders,
        new_job_id: Callable[[int], JobId],
    ) -> None:
        self._store = store
        self._specs = specs
        self._catalog = catalog
        self._outgoing = outgoing
        self._parties = parties
        self._wakeup = wakeup
        self._changes = changes
        self._clock = clock
        self._timing = timing
        self._folders = folders
        self._new_job_id = new_job_id

    def submit(self, dsl: Any, conf: Any, *, internal: bool = False) -> Submitted:
        """Create a job at all its sites and queue it.

        `internal` allows the modules that touch files of the server (`_GUARDED`): the caller has
        checked which ones.

        Raises: InvalidJobSpec: every mistake that can be seen here. NoRoute. SubmitRefused: a site
        did not accept the job, with its own sentence; nothing was started anywhere.
        """
        job_id, spec = self.begin(dsl, conf, internal=internal)
        wait_s = self._timing.create_timeout_ms / 1000 + 5.0
        job: ScheduledJob | None = None

        def left_ready() -> bool:
            nonlocal job
            with self._store.read() as tx:
                job = tx.schedules.get(job_id)
            return job is None or job.status is not JobStatus.READY

        if not self._changes.wait_until(left_ready, job_id=job_id, timeout_s=wait_s):
            raise SubmitRefused(reason=f"the sites did not answer within {wait_s:.0f} seconds")
        if job is not None and job.status in JOB_FINAL and job.started_ms is None:
            reason = job.reason.message if job.reason else job.status.value
            raise SubmitRefused(reason=_at(job.reason) + reason.removesuffix("."))
        return Submitted(
            job_id=job_id,
            model_id=model_id(spec),
            model_version=job_id,
            logs_directory=str(self._folders.job_logs(job_id)),
            warnings=spec.warnings,
        )

    def begin(self, dsl: Any, conf: Any, *, internal: bool = False) -> tuple[JobId, JobSpec]:
        """Check a job, store it, and send its create commands; the rest is the scheduler's."""
        now_ms = self._clock.now_ms()
        job_id = self._new_job_id(now_ms)
        spec = self._specs.get(job_id, dsl, conf)
        if not internal:
            _refuse_guarded(spec)
        self._check_parameters(spec)
        for site in spec.sites:
            if not self._parties.knows(site.party_id):
                raise NoRoute(party_id=site.party_id)
        if not self._parties.is_local(spec.initiator.party_id):
            raise SubmitRefused(
                reason=f"this server does not host the initiator, party {spec.initiator.party_id}"
            )
        job = _scheduled(job_id, spec, now_ms)
        with self._store.transaction() as tx:
            tx.schedules.add(job)
            tx.outbox.put([self._outgoing.create_job(job, site) for site in spec.sites])
        self._wakeup.outbox(sorted({s.party_id for s in spec.sites}))
        logger.info("Job %s was submitted", job_id, extra={"action": "submit", "job_id": job_id})
        return job_id, spec

    def _check_parameters(self, spec: JobSpec) -> None:
        """Check every site's component parameters, each distinct set once; report all mistakes."""
        problems: list[Problem] = []
        seen: list[tuple[str, Any]] = []
        for component in spec.components:
            for site in spec.sites_of(component.name):
                parameters = spec.component_parameters(component.name, site)
                if (component.name, parameters) in seen:
                    continue
                seen.append((component.name, parameters))
                path = f"$.conf.component_parameters ({site}) .{component.name}"
                try:
                    self._catalog.check(component.module, parameters, path=path)
                except BadParameter as exc:
                    problems.append(
                        Problem(exc.fields["path"], exc.fields["reason"], "ParameterException")
                    )
        if problems:
            raise InvalidJobSpec(problems)


def _refuse_guarded(spec: JobSpec) -> None:
    """Refuse modules that would read, write or delete any file that the server can."""
    problems = [
        Problem(
            f"$.dsl.components.{name}.module",
            f"{info.module} runs through {_GUARDED[info.module]}, which checks the file",
            "ModuleNotAllowed",
        )
        for name, info in spec.modules.items()
        if info.module in _GUARDED
    ]
    if problems:
        raise InvalidJobSpec(problems)


def _scheduled(job_id: str, spec: JobSpec, now_ms: int) -> ScheduledJob:
    return ScheduledJob(
        job_id=job_id,
        initiator=spec.initiator,
        status=JobStatus.READY,
        epoch=0,
        dsl=spec.dsl,
        conf=spec.conf,
        priority=0,
        created_ms=now_ms,
        updated_ms=now_ms,
        sites=tuple(ScheduledSite(site=s, phase=SitePhase.CREATING) for s in spec.sites),
        tasks=tuple(
            ScheduledTask(
                component=name,
                version=0,
                status=TaskStatus.WAITING,
                parties=tuple(
                    ScheduledPartyTask(site=s, status=TaskStatus.WAITING)
                    for s in spec.sites_of(name)
                ),
            )
            for name in spec.dag.order
        ),
    )


def _at(reason: Reason | None) -> str:
    return f"{reason.site}: " if reason is not None and reason.site is not None else ""
