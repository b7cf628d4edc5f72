"""Parsed jobs, kept while they are in use: parsing is the dearest step of a scheduler pass."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from fedflow.app.ports.components import Catalog
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.resources import demand_at
from fedflow.domain.job.spec import JobSpec, parse_job
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Site

_KEEP = 512


def need_at(spec: JobSpec, site: Site, engine: str) -> ComputeResources:
    """Return what the job takes of an engine at `site`."""
    return demand_at(site, spec.job_parameters_at(site), engine=engine).of_job


class ParsedJobs:
    """The parsed form of the jobs that were looked at last."""

    def __init__(self, catalog: Catalog, *, defaults: JobParameters | None = None) -> None:
        """`defaults` are the server's job parameters; None: those of `JobParameters`."""
        self._catalog = catalog
        self._defaults = defaults
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, JobSpec] = OrderedDict()
        self._seen: dict[str, tuple[Any, Any]] = {}  #: the very DSL and conf that were compared

    def parse(self, dsl: Any, conf: Any, *, warnings: Sequence[JobWarning] = ()) -> JobSpec:
        """Return the job parsed from `dsl` and `conf`; `warnings` become its first ones.

        Raises: InvalidJobSpec.
        """
        return parse_job(
            dsl, conf, modules=self._catalog.modules(), defaults=self._defaults, warnings=warnings
        )

    def get(
        self, job_id: str, dsl: Any, conf: Any, *, warnings: Sequence[JobWarning] = ()
    ) -> JobSpec:
        """Return the same, as it was kept under its id. Raises: InvalidJobSpec."""
        with self._lock:
            kept = self._kept.get(job_id)
            if kept is not None and self._is_same(job_id, kept, dsl, conf):
                self._kept.move_to_end(job_id)
                return kept
        spec = self.parse(dsl, conf, warnings=warnings)
        self.keep(job_id, spec)
        return spec

    def _is_same(self, job_id: str, kept: JobSpec, dsl: Any, conf: Any) -> bool:
        """Compare documents; a large one is compared once as long as the store gives the same."""
        seen = self._seen.get(job_id)
        if seen is not None and seen[0] is dsl and seen[1] is conf:
            return True
        if kept.dsl != dsl or kept.conf != conf:
            return False
        self._seen[job_id] = (dsl, conf)
        return True

    def kept(self, job_id: str) -> JobSpec | None:
        """Return a job that was parsed before and is still kept, without reading it again."""
        with self._lock:
            return self._kept.get(job_id)

    def keep(self, job_id: str, spec: JobSpec) -> None:
        """Remember a job that was just parsed."""
        with self._lock:
            self._kept[job_id] = spec
            self._seen.pop(job_id, None)
            while len(self._kept) > _KEEP:
                dropped, _ = self._kept.popitem(last=False)
                self._seen.pop(dropped, None)

    def forget(self, job_id: str) -> None:
        """Drop what was kept under an id, because it was not that job after all."""
        with self._lock:
            self._kept.pop(job_id, None)
            self._seen.pop(job_id, None)

    def replace(self, job_id: str, dsl: Any, conf: Any) -> JobSpec:
        """Parse a job that another party sent, whatever was kept under its id. Raises:
        InvalidJobSpec.
        """
        with self._lock:
            kept = self._kept.get(job_id)
        if kept is not None and kept.dsl == dsl and kept.conf == conf:
            return kept
        spec = self.parse(dsl, conf)
        self.keep(job_id, spec)
        return spec
