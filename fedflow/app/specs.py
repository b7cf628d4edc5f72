"""Parsed jobs, kept while they are in use: parsing is the dearest step of a scheduler pass."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from fedflow.app.ports import Catalog
from fedflow.domain.job_spec import JobSpec, parse_job
from fedflow.domain.resources import demand_at
from fedflow.domain.site import Site

_KEEP = 512


def cores_at(spec: JobSpec, site: Site) -> int:
    """Return how many cores the job takes of the engine at `site`."""
    return demand_at(site, spec.job_parameters_at(site)).job_cores


class Specs:
    """The parsed form of the jobs that were looked at last."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, JobSpec] = OrderedDict()

    def get(self, job_id: str, dsl: Any, conf: Any, *, notes: Sequence[str] = ()) -> JobSpec:
        """Return the job parsed from `dsl` and `conf`; `notes` become its first warnings.

        Raises: InvalidJobSpec.
        """
        with self._lock:
            kept = self._kept.get(job_id)
            if kept is not None and kept.dsl == dsl and kept.conf == conf:
                self._kept.move_to_end(job_id)
                return kept
        spec = parse_job(dsl, conf, modules=self._catalog.modules(), notes=notes)
        self.keep(job_id, spec)
        return spec

    def kept(self, job_id: str) -> JobSpec | None:
        """Return a job that was parsed before and is still kept, without reading it again."""
        with self._lock:
            return self._kept.get(job_id)

    def keep(self, job_id: str, spec: JobSpec) -> None:
        """Remember a job that was just parsed."""
        with self._lock:
            self._kept[job_id] = spec
            while len(self._kept) > _KEEP:
                self._kept.popitem(last=False)

    def forget(self, job_id: str) -> None:
        """Drop what was kept under an id, because it was not that job after all."""
        with self._lock:
            self._kept.pop(job_id, None)

    def replace(self, job_id: str, dsl: Any, conf: Any) -> JobSpec:
        """Parse a job that another party sent, whatever was kept under its id. Raises:
        InvalidJobSpec.
        """
        with self._lock:
            kept = self._kept.get(job_id)
        if kept is not None and kept.dsl == dsl and kept.conf == conf:
            return kept
        spec = parse_job(dsl, conf, modules=self._catalog.modules())
        self.keep(job_id, spec)
        return spec
