"""Finding results of earlier jobs that a submitted job may take over: same cache key, still there.

The initiator asks every site twice, and only for jobs that want it (`reuse`): which tables the
readers name there now, and whether the results of the earlier job are there still. What is found is
taken over as `inheritance_info` does it (`app/inheritance.py`); all of it from one job,
so that results fit together. What a site has lost, or does not tell, simply runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from fedflow import __version__
from fedflow.app.inheritance import InheritancePlan, ended_task
from fedflow.app.protocol.kernel import UseCase
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.job.inheritance import check_inheritance
from fedflow.domain.job.reuse import cache_keys, closed, named_tables
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning, warning
from fedflow.domain.records import JobKey, ScheduledJob
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TaskStatus
from fedflow.wire import paths
from fedflow.wire.commands import ReuseAnswer, ReuseRequest, plain, read_command

logger = logging.getLogger(__name__)

_JOBS: Final = 50  #: newest jobs that are looked at
_TRIES: Final = 3  #: of them, those that the sites are asked about


@dataclass(frozen=True, kw_only=True, slots=True)
class ReuseResult:
    """The cache keys of a job's components, and what it takes over."""

    keys: Mapping[str, str] = field(default_factory=dict)
    plan: InheritancePlan | None = None
    warnings: tuple[JobWarning, ...] = ()


class Reuse(UseCase):
    """The initiator's side of reuse; the sites' is `app/participant/party_reuse.py`."""

    def find(self, job_id: str, spec: JobSpec, *, model: str | None) -> ReuseResult:
        """Return what a submitted job may take over, nothing if it does not want to.

        `model` is the digest of a predict job's model.
        """
        parameters = spec.job_parameters_at(spec.initiator)
        path = "$.conf.job_parameters.common.reuse"
        if not parameters.reuse:
            return ReuseResult()
        if parameters.inherits is not None:
            message = "inheritance_info says what is taken over"
            return ReuseResult(warnings=(warning("NotReused", path, message),))
        asked = _Asked(self, job_id, spec)
        tables = {
            (component, site): identity
            for site in spec.sites
            for component, identity in asked.tables(site).items()
        }
        keys = cache_keys(spec, version=__version__, tables=tables, model=model)
        runs = spec.rules.selected  # what `run_to` asks for; None: all
        wanted = {
            name: key
            for name, key in keys.items()
            if parameters.task(name).reuse and (runs is None or name in runs)
        }
        plan = self._best(spec, wanted, asked)
        warnings = tuple(
            warning("NotReused", path, f"{silent}, so that what it read or made runs")
            for silent in asked.silent
        )
        return ReuseResult(keys=keys, plan=plan, warnings=warnings)

    def _best(
        self, spec: JobSpec, wanted: Mapping[str, str], asked: _Asked
    ) -> InheritancePlan | None:
        """Return what the earlier job has that gives most, None if none gives anything."""
        best: tuple[ScheduledJob, frozenset[str]] | None = None
        for old, names in self._candidates(spec, wanted)[:_TRIES]:
            if best is not None and len(names) <= len(best[1]):
                break
            left = closed(spec.dag, names - asked.missing(old.job_id, names))
            if left and (best is None or len(left) > len(best[1])):
                best = old, left
        if best is None:
            return None
        old, left = best
        done = {t.component: t for t in old.tasks}
        return InheritancePlan(
            job_id=old.job_id,
            tasks=tuple(
                ended_task(done[name], spec.sites_of(name), earlier_job=old.job_id)
                for name in spec.dag.order
                if name in left
            ),
        )

    def _candidates(
        self, spec: JobSpec, wanted: Mapping[str, str]
    ) -> list[tuple[ScheduledJob, frozenset[str]]]:
        """Return earlier jobs with the components that they may give, the richest, newest first."""
        if not wanted:
            return []
        made: dict[str, set[str]] = {}
        with self._store.read() as tx:
            limit = _JOBS * len(wanted)
            for job_id, component, key in tx.schedules.reusable(set(wanted.values()), limit=limit):
                if wanted.get(component) == key:
                    made.setdefault(job_id, set()).add(component)
            sizes = {job_id: closed(spec.dag, names) for job_id, names in made.items()}
            richest = sorted(sizes, key=lambda j: len(sizes[j]), reverse=True)[: 2 * _TRIES]
            jobs = [tx.schedules.get(job_id) for job_id in richest if sizes[job_id]]
        return [
            (job, sizes[job.job_id])
            for job in jobs
            if job is not None and self._fits(job, spec, sizes[job.job_id])
        ]

    def _fits(self, old: ScheduledJob, spec: JobSpec, names: frozenset[str]) -> bool:
        """Tell whether an earlier job has ended and says the same of these components."""
        done = {t.component for t in old.tasks if t.status is TaskStatus.SUCCESS}
        if old.status not in JOB_FINAL or old.initiator != spec.initiator or not names <= done:
            return False
        before = self._specs.get(old.job_id, old.dsl, old.conf)
        return not check_inheritance(before, spec, sorted(names))

    def ask(self, job_id: str, spec: JobSpec, site: Site, **body: Any) -> ReuseAnswer:
        """Return a site's answer. Raises: FedflowError: it gave none."""
        reply = self._parties.call(
            spec.initiator,
            site.party_id,
            paths.job_path("job_reuse", JobKey(job_id=job_id, site=site)),
            plain(
                ReuseRequest(
                    initiator_role=spec.initiator.role.value,
                    initiator_party_id=spec.initiator.party_id,
                    **body,
                )
            ),
            request_id=new_request_id(),
            job_id=job_id,
            deadline_s=self._timing.call_timeout_s,
        )
        return read_command(reply.data, ReuseAnswer) if reply.retcode == 0 else ReuseAnswer()


class _Asked:
    """What the sites of one job answered; `silent` says which of them did not."""

    def __init__(self, reuse: Reuse, job_id: str, spec: JobSpec) -> None:
        self._reuse = reuse
        self._job_id = job_id
        self._spec = spec
        self.silent: list[str] = []

    def tables(self, site: Site) -> dict[str, str | None]:
        """Return the identity of the table that each reader names at a site."""
        named = named_tables(self._spec, site)
        told = self._told(site, tables=named).tables or {} if named else {}
        return {name: _text(told.get(name)) for name in named}

    def missing(self, earlier_job: str, names: Iterable[str]) -> frozenset[str]:
        """Return those of some components whose results of an earlier job a site has not."""
        missing: set[str] = set()
        for site in self._spec.sites:
            own = sorted(n for n in names if self._spec.runs_at(n, site))
            if own:
                readers = {n: t for n, t in named_tables(self._spec, site).items() if n in own}
                told = self._told(site, earlier_job=earlier_job, components=own, tables=readers)
                there = told.there or {}
                missing.update(name for name in own if there.get(name) is not True)
        return frozenset(missing)

    def _told(self, site: Site, **body: Any) -> ReuseAnswer:
        try:
            answer = self._reuse.ask(self._job_id, self._spec, site, **body)
        except FedflowError as exc:
            logger.info("Job %s: %s was not asked for results: %s", self._job_id, site, exc.message)
            answer = ReuseAnswer()
        if (answer.there if "earlier_job" in body else answer.tables) is not None:
            return answer
        sentence = f"{site} does not tell what it has"
        if sentence not in self.silent:
            self.silent.append(sentence)
        return ReuseAnswer()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 100 else None
