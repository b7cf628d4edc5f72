"""Whether a site takes part in a job: its own checks of what the job would use there.

The same for a new job and for one that runs again, maybe with other parameters.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fedflow.app.model_loading import check_loaded
from fedflow.app.models import ModelRepository
from fedflow.app.permissions import Permissions
from fedflow.app.ports import Catalog, Tx
from fedflow.app.table_use import readable
from fedflow.base.errors import BadParameter, PermissionDenied
from fedflow.domain.job_spec import JobSpec
from fedflow.domain.records import JobFilter
from fedflow.domain.resources import Capacity, check_ceiling, demand_at
from fedflow.domain.site import Role, Site


class Acceptance:
    """The checks of a participant."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        permissions: Permissions,
        models: ModelRepository,
        engine: str,
    ) -> None:
        self._catalog = catalog
        self._permissions = permissions
        self._models = models
        self._engine = engine

    def check_spec(self, spec: JobSpec, site: Site) -> None:
        """Check what a job would run at a site; may take its time.

        Raises: PermissionDenied, BadParameter, UnknownComponent.
        """
        self._permissions.check_job(spec, site)
        for component in spec.components:
            if site in spec.sites_of(component.name):
                parameters = spec.component_parameters(component.name, site)
                path = f"$.runtime_conf.component_parameters ({site}).{component.name}"
                self._catalog.check(component.module, parameters, path=path)

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
        self._check_cores(tx, spec, site)
        self._check_tables(tx, spec, site, runs=runs)
        check_loaded(tx, self._models, spec, site, digests=digests)

    def _check_cores(self, tx: Tx, spec: JobSpec, site: Site) -> None:
        engine = tx.engines.get(self._engine)
        demand = demand_at(site, spec.job_parameters_at(site))
        check_ceiling(demand, Capacity(cores=engine.cores if engine else 0), site=site)

    def _check_tables(
        self, tx: Tx, spec: JobSpec, site: Site, *, runs: Collection[str] | None
    ) -> None:
        for component in spec.components:
            if runs is not None and component.name not in runs:
                continue
            if component.module.lower() != "reader" or site not in spec.sites_of(component.name):
                continue
            table = spec.component_parameters(component.name, site).get("table")
            if table is None and site.role is not Role.ARBITER:
                raise BadParameter(
                    path=f"component_parameters.role.{site.role.value}.*.{component.name}.table",
                    reason=f"{site} names no table",
                )
            if isinstance(table, dict):
                found = readable(tx, site, table, path=f"{component.name}.table")
                self._check_earlier(tx, spec, site, table)
                self._permissions.check_table(tx, spec.initiator, site, found)

    def _check_earlier(self, tx: Tx, spec: JobSpec, site: Site, table: dict[str, Any]) -> None:
        """Where tables need a grant, what an earlier job made is for its initiator's jobs only.

        Raises: PermissionDenied.
        """
        rules = self._permissions.rules
        if table.get("job_id") is None or not (rules.switch and rules.dataset):
            return
        earlier = tx.jobs.find(JobFilter(job_id=str(table["job_id"]), limit=1))
        allowed = {site.party_id, *(job.initiator.party_id for job in earlier)}
        if spec.initiator.party_id not in allowed:
            what = f"an output of job {table['job_id']}"
            raise PermissionDenied(party_id=spec.initiator.party_id, what=what, kind=3)
