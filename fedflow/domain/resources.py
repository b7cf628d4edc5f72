"""How many cores and how much memory a job and its tasks take at one site.

Source: `reference/flow-semantics.md` 4.2 to 4.4. An arbiter holds keys and waits for the others, so
it is not counted (FATE's rule for its STANDALONE and EGGROLL engines), though its executor may use
one core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fedflow.base.errors import NotEnoughResources
from fedflow.domain.job_parameters import (
    EXECUTOR_CORES_KEY,
    EXECUTORS_KEY,
    PROCESSORS_KEY,
    JobParameters,
    cores_option,
)
from fedflow.domain.site import Role, Site

_SPARK: Final = ("SPARK", "LINKIS_SPARK")

UNCOUNTED: Final = 2**53  #: MiB that are free where memory is not counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """Cores, and memory in MiB."""

    cores: int = 0
    memory: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(cores=self.cores + other.cores, memory=self.memory + other.memory)

    def less(self, other: Amount) -> Amount:
        """Return what is left when `other` is taken away, of neither less than nothing."""
        return Amount(
            cores=max(0, self.cores - other.cores), memory=max(0, self.memory - other.memory)
        )

    def __str__(self) -> str:
        memory = f"{self.memory} MiB of memory" if self.memory else ""
        cores = f"{self.cores} cores" if self.cores or not memory else ""
        return " and ".join(part for part in (cores, memory) if part)

    def fits(self, free: Amount) -> bool:
        """Tell whether this much is there; who needs none of a thing does not lack it."""
        return (self.cores <= max(0, free.cores)) and (self.memory <= max(0, free.memory))


NOTHING: Final = Amount()


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """What the computing engine of one party has in all."""

    cores: int  #: over all nodes
    memory: int = 0  #: MiB; 0 = not counted
    cores_percent: float = 1.0  #: share of the cores that one job may take, 0 to 1

    @property
    def cores_per_job(self) -> int:
        """Return the most cores that one job may take."""
        return math.floor(self.cores * self.cores_percent)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What a job takes at one site."""

    nodes: int  #: that one task is spread over
    cores_per_node: int  #: of one task
    task_parallelism: int  #: tasks that may hold cores at once
    counted: bool  #: False for an arbiter: nothing is taken from the capacity
    memory_per_task: int = 0  #: MiB

    @property
    def usable_cores(self) -> int:
        """Return how many cores the executors of one task may use, at least 1."""
        return self.nodes * self.cores_per_node

    @property
    def task_cores(self) -> int:
        """Return how many cores one task takes from the job's share."""
        return self.usable_cores if self.counted else 0

    @property
    def task_memory(self) -> int:
        """Return how much memory (MiB) one task takes from the job's share."""
        return self.memory_per_task if self.counted else 0

    @property
    def job_cores(self) -> int:
        """Return how many cores the job takes from the site's capacity."""
        return self.task_cores * self.task_parallelism

    @property
    def of_task(self) -> Amount:
        """Return what one task takes from the job's share."""
        return Amount(cores=self.task_cores, memory=self.task_memory)

    @property
    def of_job(self) -> Amount:
        """Return what the job takes from the site's capacity: its share."""
        return Amount(cores=self.job_cores, memory=self.task_memory * self.task_parallelism)


def demand_at(
    site: Site, parameters: JobParameters, *, component: str | None = None, nodes: int = 1
) -> Demand:
    """Return what a job with `parameters` takes at `site`, whose engine has `nodes` nodes.

    With `component` its `task_conf` counts: then `of_task` is what that task takes. Explicit engine
    options (`eggroll_run`, `spark_run`) win over `task_cores`, and `task_conf` over both.
    """
    own: Mapping[str, object] = parameters.task_conf.get(component, {}) if component else {}
    own_cores, own_memory = own.get("task_cores"), own.get("task_memory")
    is_spark = parameters.computing_engine in _SPARK
    requested = 1 if site.role is Role.ARBITER else parameters.task_cores
    if is_spark:
        nodes = cores_option(parameters.spark_run, EXECUTORS_KEY) or nodes
        explicit = cores_option(parameters.spark_run, EXECUTOR_CORES_KEY)
    else:
        explicit = cores_option(parameters.eggroll_run, PROCESSORS_KEY)
    if isinstance(own_cores, int) and site.role is not Role.ARBITER:
        requested, explicit = own_cores, None
    return Demand(
        nodes=nodes,
        cores_per_node=explicit or max(1, requested // nodes),
        task_parallelism=parameters.task_parallelism,
        counted=site.role is not Role.ARBITER and parameters.computing_engine != "LINKIS_SPARK",
        memory_per_task=own_memory if isinstance(own_memory, int) else parameters.task_memory,
    )


def shortage(need: Amount, free: Amount, capacity: Capacity) -> tuple[str, str] | None:
    """Return what is needed of the first thing that is short, and how it stands; None if nothing
    is.

    For people: `("8 cores", "2 of 8 free")`.
    """
    if need.cores > max(0, free.cores):
        return f"{need.cores} cores", f"{max(0, free.cores)} of {capacity.cores} free"
    if capacity.memory and need.memory > max(0, free.memory):
        left = f"{max(0, free.memory)} of {capacity.memory} MiB free"
        return f"{need.memory} MiB of memory", left
    return None


def check_ceiling(needs: Mapping[Site, Demand], capacity: Capacity) -> None:
    """Check what a job needs at all the sites of one engine, whose shares it holds together.

    Raises: NotEnoughResources: the job would never get them; it says which key to change.
    """
    where = " and ".join(str(site) for site in needs)
    cores = sum(d.of_job.cores for d in needs.values())
    most = capacity.cores_per_job
    if cores > most:
        limited = cores <= capacity.cores
        key = "max_cores_percent_per_job" if limited else "cores_per_node"
        raise NotEnoughResources(
            what=_product(needs, "cores"),
            need=f"{cores} cores",
            total=most if most == capacity.cores else f"{most} for one job, of {capacity.cores}",
            where=where,
            key=f"fate_on_standalone.standalone.{key}",
        )
    memory = sum(d.of_job.memory for d in needs.values())
    if capacity.memory and memory > capacity.memory:
        raise NotEnoughResources(
            what=_product(needs, "memory"),
            need=f"{memory} MiB of memory",
            total=capacity.memory,
            where=where,
            key="fate_on_standalone.standalone.memory_per_node",
        )


def _product(needs: Mapping[Site, Demand], what: str) -> str:
    """Return how the need follows from the keys of the job, for people."""
    shares = [d for d in needs.values() if d.counted]
    values = {(d.task_cores if what == "cores" else d.task_memory) for d in shares}
    product = f"job_parameters.common.task_{what} x task_parallelism"
    if len(values) == 1 and shares:
        times = f" at {len(shares)} sites" if len(shares) > 1 else ""
        return f"{product} ({values.pop()} x {shares[0].task_parallelism}{times})"
    return product
