"""What runs produced, as people and other systems ask for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import IO, Any

from fedflow.app.ports.components import ParameterSchemas
from fedflow.app.ports.data import Archives
from fedflow.app.ports.store import Store
from fedflow.base.errors.data import NoData
from fedflow.base.errors.jobs import JobNotFound, TaskNotFound
from fedflow.domain.lists import main_share
from fedflow.domain.records import (
    JobFilter,
    Metric,
    OutputTable,
    StoredModel,
    TableRecord,
    TaskFilter,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Site


class Tracking:
    """Reads metrics, outputs, models and summaries of one site's latest attempts."""

    def __init__(self, *, store: Store, archives: Archives, modules: ParameterSchemas) -> None:
        self._store = store
        self._archives = archives
        self._modules = modules

    def default_site(self, job_id: str) -> Site:
        """Return the initiator's site if it is here, else one with data. Raises: JobNotFound."""
        with self._store.read() as tx:
            own = tx.jobs.find(JobFilter(job_id=job_id))
        if not own:
            raise JobNotFound(job_id=job_id)
        return main_share(own).key.site

    def task(self, job_id: str, component: str, site: Site) -> TaskRecord:
        """Return the latest attempt of a component at a site. Raises: TaskNotFound."""
        which = TaskFilter(
            job_id=job_id, component=component, roles=(site.role,), party_id=site.party_id
        )
        with self._store.read() as tx:
            found = tx.tasks.find(which)
        if not found:
            raise TaskNotFound(task=f"{component} of job {job_id} at {site}")
        return found[-1]

    def attempts(self, job_id: str, component: str, site: Site) -> list[TaskRecord]:
        """Return all attempts of a component at a site, the latest one last. Raises:
        TaskNotFound.
        """
        which = TaskFilter(
            job_id=job_id, component=component, roles=(site.role,), party_id=site.party_id,
            all_versions=True,
        )  # fmt: skip
        with self._store.read() as tx:
            found = tx.tasks.find(which)
        if not found:
            raise TaskNotFound(task=f"{component} of job {job_id} at {site}")
        return sorted(found, key=lambda task: task.key.version)

    def metrics(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> list[Metric]:
        """Return all metrics with their points, by default of the latest attempt that has any."""
        with self._store.read() as tx:
            return tx.tracking.metrics(job_id, component, site, version=version)

    def metric_types(self, keys: Collection[TaskKey]) -> dict[TaskKey, set[str]]:
        """Return which types of metrics some attempts have; those without any are left out."""
        with self._store.read() as tx:
            return tx.tracking.metric_types(keys)

    def metrics_of(
        self, keys: Collection[TaskKey], types: Collection[str]
    ) -> dict[TaskKey, list[Metric]]:
        """Return the metrics of some attempts that have one of some types, with their points;
        attempts without any are left out.
        """
        with self._store.read() as tx:
            return tx.tracking.metrics_of(keys, types)

    def marks(self, key: TaskKey) -> tuple[int, str]:
        """Return a number that grows with every metric point of an attempt that is added, and a
        text that is another one once a party job changed.
        """
        with self._store.read() as tx:
            return tx.tracking.metrics_etag(key), tx.jobs.etag(key.job_id)

    def outputs(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> list[tuple[OutputTable, TableRecord | None]]:
        """Return the output tables of an attempt, by default the latest that has any, in order,
        each with its description if it still exists.
        """
        with self._store.read() as tx:
            found = tx.tracking.outputs(job_id, component, site, version=version)
            return [(o, tx.tables.get(o.namespace, o.name)) for o in found]

    def output_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        """Return the attempts that have output tables, the latest one last."""
        with self._store.read() as tx:
            return tx.tracking.output_versions(job_id, component, site)

    def write_archive(
        self, job_id: str, component: str, site: Site, target: IO[bytes], *, limit: int,
        head: bool, version: int | None = None,
    ) -> None:  # fmt: skip
        """Write the output tables of an attempt, by default the latest that has any, as tar.gz;
        `limit` rows of each, -1 for all. Raises: NoData.
        """
        outputs = self.outputs(job_id, component, site, version=version)
        tables = {o.data_name: t for o, t in outputs if t is not None}
        if not tables:
            raise NoData(reason=f"{component} of job {job_id} has no output table at {site}")
        modified_ms = max(t.created_ms for t in tables.values())
        self._archives.write(target, tables, limit=limit, head=head, modified_ms=modified_ms)

    def summary(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> Any | None:
        """Return the summary of an attempt, by default the latest that has one; None: there is
        none.
        """
        with self._store.read() as tx:
            return tx.tracking.summary(job_id, component, site, version=version)

    def model(
        self, job_id: str, component: str, site: Site, *, version: int | None = None
    ) -> StoredModel | None:
        """Return the model of an attempt, by default the latest that has one; None: there is
        none.
        """
        with self._store.read() as tx:
            return tx.tracking.model(job_id, component, site, version=version)

    def model_versions(self, job_id: str, component: str, site: Site) -> list[int]:
        """Return the attempts that have a model, the latest one last."""
        with self._store.read() as tx:
            return tx.tracking.model_versions(job_id, component, site)

    def parameters(self, job_id: str, component: str, site: Site) -> dict[str, Any]:
        """Return the module, and under FATE's name all parameters with which this site ran it.

        Raises: TaskNotFound. UnknownComponent: the module is not installed any more.
        """
        return self.parameters_of(self.task(job_id, component, site))

    def parameters_of(self, task: TaskRecord) -> dict[str, Any]:
        """Return the same of one attempt. Raises: UnknownComponent."""
        name, values = self._modules.parameters(task.module, task.parameters)
        return {"module": task.module, name: values}

    def components(self, job_id: str) -> list[str]:
        """Return the component names of a job in declaration order. Raises: JobNotFound."""
        with self._store.read() as tx:
            own = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if not own:
            raise JobNotFound(job_id=job_id)
        return list(own[0].dsl["components"])
