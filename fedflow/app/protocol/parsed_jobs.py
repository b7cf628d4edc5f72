"""Parsed jobs, kept while they are in use: parsing is the dearest step of a scheduler pass."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

from fedflow.app.ports.components import Catalog
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.document import size_of
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.resources import demand_at
from fedflow.domain.job.spec import JobSpec, parse_job
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Site

_KEEP = 512
_KEEP_BYTES = 4 * 1024 * 1024
"""DSLs and confs of what is kept: parsed, some take 50 times as much memory as their text."""


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
        self._sizes: dict[str, int] = {}  #: bytes of the DSL and conf of each
        self._takes: Counter[str] = Counter()  #: the same by the initiator's party
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
        size = size_of(spec.dsl, spec.conf)
        with self._lock:
            self._drop(job_id)
            while self._kept and self._is_full(size):
                self._drop(self._oldest_of_the_greediest())
            self._kept[job_id] = spec
            self._sizes[job_id] = size
            self._takes[spec.initiator.party_id] += size

    def _is_full(self, size: int) -> bool:
        return len(self._kept) >= _KEEP or self._takes.total() + size > _KEEP_BYTES

    def _oldest_of_the_greediest(self) -> str:
        """Return the job that was not looked at for the longest, of the party whose jobs take most:
        large jobs of one party are no reason to parse those of others again and again.
        """
        (party, _), *_ = self._takes.most_common(1)
        return next(i for i, spec in self._kept.items() if spec.initiator.party_id == party)

    def _drop(self, job_id: str) -> None:
        spec = self._kept.pop(job_id, None)
        self._seen.pop(job_id, None)
        if spec is not None:
            party, size = spec.initiator.party_id, self._sizes.pop(job_id)
            self._takes[party] -= size
            if not self._takes[party]:
                del self._takes[party]

    def forget(self, job_id: str) -> None:
        """Drop what was kept under an id, because it was not that job after all."""
        with self._lock:
            self._drop(job_id)

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
