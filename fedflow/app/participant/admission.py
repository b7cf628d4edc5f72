"""Whether a site takes part in a job: its own checks of what the job would use there.

The same for a new job and for one that runs again, maybe with other parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from fedflow.app.administration.permissions import Permissions
from fedflow.app.data.table_use import readable
from fedflow.app.models.model_loading import check_loaded
from fedflow.app.models.models import ModelRepository
from fedflow.app.participant.job_quotas import JobQuotas
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.parameter_checks import (
    ComponentParameters,
    asked_of,
    check_parameters,
)
from fedflow.app.protocol.parsed_jobs import need_at
from fedflow.base.errors.components import BadParameter, ProviderRefused
from fedflow.base.errors.documents import Problem
from fedflow.base.errors.executors import SparkOptionRefused
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.errors.requests import PermissionDenied
from fedflow.base.messages import Message
from fedflow.domain.job.engines import SPARK
from fedflow.domain.job.providers import provider_problems
from fedflow.domain.job.spark_options import SparkSite, spark_problems_at
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.records import JobFilter, TableRecord
from fedflow.domain.site import Role, Site

logger = logging.getLogger(__name__)


class Admission(UseCase):
    """The checks of a participant."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        permissions: Permissions,
        models: ModelRepository,
        quotas: JobQuotas,
        spark: SparkSite | None = None,
    ) -> None:
        """`spark` None: this party has no cluster."""
        super().__init__(kernel)
        self.quotas = quotas
        self._permissions = permissions
        self._models = models
        self._spark = spark

    def check_spec(self, spec: JobSpec, site: Site) -> None:
        """Check what a job would run at a site; may take its time.

        Raises: PermissionDenied, UnknownComponent, ProviderRefused, EngineMissing.
        SparkOptionRefused, BadParameter: with all mistakes of their kind.
        """
        self._permissions.check_job(spec, site)
        self._engines.check(spec.settings, site, spec.job_parameters_at(site))
        self._check_spark(spec, site)
        problems = provider_problems(spec, here=(site,))
        if not problems:
            problems = self._parameter_problems(spec, site)
        if problems:
            (path, reason), *more = [(p.path, p.message) for p in problems]
            raise BadParameter(path=path, reason=reason, more=more)

    def check_change(self, before: JobSpec, spec: JobSpec, site: Site, *, source: Site) -> None:
        """Check, as for a job of its own, what a job would use at a site beyond what it used
        before, because `source` wants it to. Raises: PermissionDenied, TableNotFound, BadParameter.
        """
        for component in spec.components:
            name = component.name
            if site not in spec.sites_of(name):
                continue
            given, known = (one.component_parameters(name, site) for one in (spec, before))
            if given == known:
                continue
            self._permissions.check_component(source, site, component.module, given)
            table = given.get("table")
            if component.module.lower() == "reader" and isinstance(table, dict):
                with self._store.read() as tx:
                    self.table(tx, source, site, table, path=f"{name}.table")

    def _check_spark(self, spec: JobSpec, site: Site) -> None:
        """Raises: SparkOptionRefused: with all options that this party does not take."""
        parameters = spec.job_parameters_at(site)
        if self._spark is None or self._engines.at(site, parameters) != SPARK:
            return
        problems = spark_problems_at(
            spec.settings,
            site,
            parameters,
            allowed=self._spark.allowed_conf,
            cores=need_at(spec, site, SPARK).cores,
        )
        if problems:
            first, *more = problems
            listed = "; ".join([first.message, *(f"{p.path}: {p.message}" for p in more)])
            raise SparkOptionRefused(path=first.path, reason=listed)

    def _parameter_problems(self, spec: JobSpec, site: Site) -> list[Problem]:
        """Return the mistakes in the parameters of a site.

        Raises: ProviderRefused: the reason, which may quote what a process printed, stays here.
        """
        try:
            asked = self._in_time(asked_of(spec, (site,)))
            return check_parameters(self._catalog, spec.settings, asked).problems
        except ProviderRefused as exc:
            logger.warning("%s", exc.message, extra={"action": "provider"})
            reason = "the log of this party's server says why"
            raise ProviderRefused(provider=exc.fields["provider"], reason=reason) from None

    def _in_time(self, asked: Iterable[ComponentParameters]) -> Iterator[ComponentParameters]:
        """Yield what is asked as long as who sent the job waits. Raises: SubmitRefused."""
        limit_s = self._timing.call_timeout_s
        end_s = self._clock.monotonic_s() + limit_s
        for one in asked:
            if self._clock.monotonic_s() > end_s:
                reason = f"its parameters cannot be checked within {limit_s:g} s"
                raise SubmitRefused(reason=reason)
            yield one

    def check_content(
        self,
        tx: Tx,
        spec: JobSpec,
        site: Site,
        *,
        digests: Any = None,
        runs: Collection[str] | None = None,
    ) -> None:
        """Check that cores, tables and models are there; `digests` are the initiator's of models.

        `runs` are the components whose tables count, by default all.

        Raises: NotEnoughResources, TableNotFound, TableDisabled, PermissionDenied, BadParameter,
        ModelNotFound, ModelsDiffer.
        """
        self._queue.check_ceiling(tx, spec)
        self._check_tables(tx, spec, site, runs=runs)
        check_loaded(tx, self._models, spec, site, digests=digests)

    def _check_tables(
        self, tx: Tx, spec: JobSpec, site: Site, *, runs: Collection[str] | None
    ) -> None:
        for component in spec.components:
            if runs is not None and component.name not in runs:
                continue
            if component.module.lower() != "reader" or not spec.runs_at(component.name, site):
                continue
            table = spec.component_parameters(component.name, site).get("table")
            if table is None and site.role is not Role.ARBITER:
                raise BadParameter(
                    path=f"component_parameters.role.{site.role.value}.*.{component.name}.table",
                    reason=f"{site} names no table",
                )
            if isinstance(table, dict):
                self.table(tx, spec.initiator, site, table, path=f"{component.name}.table")

    def table(
        self, tx: Tx, initiator: Site, site: Site, table: dict[str, Any], *, path: str
    ) -> TableRecord:
        """Return the table that a reader's parameter names at a site, if an initiator's jobs may
        read it.

        Raises: TableNotFound, TableDisabled, PermissionDenied, BadParameter.
        """
        found = readable(tx, site, table, path=path)
        self._check_earlier(tx, initiator, site, table)
        self._permissions.check_table(tx, initiator, site, found)
        return found

    def _check_earlier(self, tx: Tx, initiator: Site, site: Site, table: dict[str, Any]) -> None:
        """Where tables need a grant, what an earlier job made is for its initiator's jobs only.

        Raises: PermissionDenied.
        """
        rules = self._permissions.rules
        if table.get("job_id") is None or not (rules.switch and rules.dataset):
            return
        earlier = tx.jobs.find(JobFilter(job_id=str(table["job_id"]), limit=1))
        allowed = {site.party_id, *(job.initiator.party_id for job in earlier)}
        if initiator.party_id not in allowed:
            what = Message("an output of job {earlier}", table["job_id"])
            raise PermissionDenied(party_id=initiator.party_id, what=what, kind=3)
