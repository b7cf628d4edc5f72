"""What runs produced, as people and other systems ask for it."""

from __future__ import annotations

from typing import IO, Any

from fedflow.app.ports import Archives, ParameterBook, Store
from fedflow.base.errors import JobNotFound, NoData, TaskNotFound
from fedflow.domain.records import (
    JobFilter,
    Metric,
    OutputTable,
    StoredModel,
    TableRecord,
    TaskFilter,
    TaskRecord,
)
from fedflow.domain.site import Site


class Tracking:
    """Reads metrics, outputs, models and summaries of one site's latest attempts."""

    def __init__(self, *, store: Store, archives: Archives, modules: ParameterBook) -> None:
        self._store = store
        self._archives = archives
        self._modules = modules

    def default_site(self, job_id: str) -> Site:
        """Return the initiator's site if it is here, else any own site. Raises: JobNotFound."""
        with self._store.read() as tx:
            own = tx.jobs.find(JobFilter(job_id=job_id))
        if not own:
            raise JobNotFound(job_id=job_id)
        return next((j.key.site for j in own if j.is_initiator), own[0].key.site)

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

    def metrics(self, job_id: str, component: str, site: Site) -> list[Metric]:
        """Return all metrics with their points."""
        with self._store.read() as tx:
            return tx.tracking.metrics(job_id, component, site)

    def outputs(
        self, job_id: str, component: str, site: Site
    ) -> list[tuple[OutputTable, TableRecord | None]]:
        """Return the output tables in order, each with its description if it still exists."""
        with self._store.read() as tx:
            found = tx.tracking.outputs(job_id, component, site)
            return [(o, tx.tables.get(o.namespace, o.name)) for o in found]

    def write_archive(
        self, job_id: str, component: str, site: Site, target: IO[bytes], *, limit: int, head: bool
    ) -> None:
        """Write the output tables as tar.gz; `limit` rows of each, -1 for all. Raises: NoData."""
        tables = {o.data_name: t for o, t in self.outputs(job_id, component, site) if t is not None}
        if not tables:
            raise NoData(reason=f"{component} of job {job_id} has no output table at {site}")
        modified_ms = max(t.created_ms for t in tables.values())
        self._archives.write(target, tables, limit=limit, head=head, modified_ms=modified_ms)

    def summary(self, job_id: str, component: str, site: Site) -> Any | None:
        """Return the summary object, None if there is none."""
        with self._store.read() as tx:
            return tx.tracking.summary(job_id, component, site)

    def model(self, job_id: str, component: str, site: Site) -> StoredModel | None:
        """Return the model share, None if there is none."""
        with self._store.read() as tx:
            return tx.tracking.model(job_id, component, site)

    def parameters(self, job_id: str, component: str, site: Site) -> dict[str, Any]:
        """Return the module, and under FATE's name all parameters with which this site ran it.

        Raises: TaskNotFound. UnknownComponent: the module is not installed any more.
        """
        task = self.task(job_id, component, site)
        name, values = self._modules.parameters(task.module, task.parameters)
        return {"module": task.module, name: values}

    def components(self, job_id: str) -> list[str]:
        """Return the component names of a job in declaration order. Raises: JobNotFound."""
        with self._store.read() as tx:
            own = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if not own:
            raise JobNotFound(job_id=job_id)
        return list(own[0].dsl["components"])
