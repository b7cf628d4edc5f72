"""How many cores a job and its tasks take at one site.

Source: `reference/flow-semantics.md` 4.2 to 4.4. An arbiter holds keys and waits for the others, so
it is not counted (FATE's rule for its STANDALONE and EGGROLL engines), though its executor may use
one core.
"""

from __future__ import annotations

import math
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """What the computing engine of one party has."""

    cores: int  #: in all, over all nodes
    nodes: int = 1
    max_cores_percent_per_job: float = 1.0  #: share of the cores that one job may take, 0 to 1

    @property
    def ceiling(self) -> int:
        """Return the most cores that one job may take."""
        return math.floor(self.cores * self.max_cores_percent_per_job)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What a job takes of one site's cores."""

    nodes: int  #: that one task is spread over
    cores_per_node: int  #: of one task
    task_parallelism: int  #: tasks that may hold cores at once
    counted: bool  #: False for an arbiter: nothing is taken from the capacity

    @property
    def usable_cores(self) -> int:
        """Return how many cores the executors of one task may use, at least 1."""
        return self.nodes * self.cores_per_node

    @property
    def task_cores(self) -> int:
        """Return how many cores one task takes from the job's share."""
        return self.usable_cores if self.counted else 0

    @property
    def job_cores(self) -> int:
        """Return how many cores the job takes from the site's capacity."""
        return self.task_cores * self.task_parallelism


def demand_at(site: Site, parameters: JobParameters, *, nodes: int = 1) -> Demand:
    """Return what a job with `parameters` takes at `site`, whose engine has `nodes` nodes.

    Explicit engine options (`eggroll_run`, `spark_run`) win over `task_cores`.
    """
    is_spark = parameters.computing_engine in _SPARK
    requested = 1 if site.role is Role.ARBITER else parameters.task_cores
    if is_spark:
        nodes = cores_option(parameters.spark_run, EXECUTORS_KEY) or nodes
        explicit = cores_option(parameters.spark_run, EXECUTOR_CORES_KEY)
    else:
        explicit = cores_option(parameters.eggroll_run, PROCESSORS_KEY)
    return Demand(
        nodes=nodes,
        cores_per_node=explicit or max(1, requested // nodes),
        task_parallelism=parameters.task_parallelism,
        counted=site.role is not Role.ARBITER and parameters.computing_engine != "LINKIS_SPARK",
    )


def check_ceiling(demand: Demand, capacity: Capacity, *, site: Site) -> None:
    """Raises: NotEnoughResources: the job would never get its cores at `site`."""
    if demand.job_cores > capacity.ceiling:
        raise NotEnoughResources(
            what="The job", need=demand.job_cores, where=str(site), total=capacity.ceiling
        )
