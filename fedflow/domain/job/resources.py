"""How many cores and how much memory a job and its tasks take at one site.

Source: `docs/reference/jobs.md#resources`. An arbiter holds keys and waits for the others, so
it is not counted (FATE's rule for its STANDALONE and EGGROLL engines), though its executor may use
one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedflow.base.errors.jobs import NotEnoughResources
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import Capacity, ComputeResources, cores_text, memory_text
from fedflow.domain.job.engines import SECTIONS, SPARK
from fedflow.domain.job.parameters import (
    EXECUTOR_CORES_KEY,
    EXECUTORS_KEY,
    PROCESSORS_KEY,
    JobParameters,
    cores_option,
)
from fedflow.domain.site import Role, Site

_SPARKS: Final = (SPARK, "LINKIS_SPARK")


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceRequest:
    """What a job takes at one site."""

    nodes: int  #: that one task is spread over
    cores_per_node: int  #: of one task
    task_parallelism: int  #: tasks that may hold cores at once
    counted: bool  #: False for an arbiter: nothing is taken from the capacity
    memory_per_task: int = 0  #: MiB
    cores_key: str = "task_cores"  #: the job parameter that says how many cores a task takes

    @property
    def usable_cores(self) -> int:
        """Return how many cores the executors of one task may use, at least 1."""
        return self.nodes * self.cores_per_node

    @property
    def task_cores(self) -> int:
        """Return how many of the party job's cores one task takes."""
        return self.usable_cores if self.counted else 0

    @property
    def task_memory(self) -> int:
        """Return how much of the party job's memory (MiB) one task takes."""
        return self.memory_per_task if self.counted else 0

    @property
    def job_cores(self) -> int:
        """Return how many cores the job takes from the site's capacity."""
        return self.task_cores * self.task_parallelism

    @property
    def of_task(self) -> ComputeResources:
        """Return what one task takes of the party job's resources."""
        return ComputeResources(cores=self.task_cores, memory=self.task_memory)

    @property
    def of_job(self) -> ComputeResources:
        """Return what the party job takes of the site's capacity."""
        return ComputeResources(
            cores=self.job_cores, memory=self.task_memory * self.task_parallelism
        )


def demand_at(
    site: Site,
    parameters: JobParameters,
    *,
    component: str | None = None,
    nodes: int = 1,
    engine: str | None = None,
) -> ResourceRequest:
    """Return what a job with `parameters` takes at `site`, whose engine has `nodes` nodes.

    `engine` is that of the party job (`JobRecord.engine`); None: of another party, which may have
    chosen another one than the job names.

    With `component` its `task_conf` counts: then `of_task` is what that task takes. Explicit engine
    options (`eggroll_run`, `spark_run`) win over `task_cores`, and `task_conf` over both.
    """
    own: Mapping[str, object] = parameters.task_conf.get(component, {}) if component else {}
    own_cores, own_memory = own.get("task_cores"), own.get("task_memory")
    is_spark = engine == SPARK if engine else parameters.computing_engine in _SPARKS
    # Another party may have Linkis; a party job of ours computes on our engine.
    is_elsewhere = engine is None and parameters.computing_engine == "LINKIS_SPARK"
    requested = 1 if site.role is Role.ARBITER else parameters.task_cores
    if is_spark:
        nodes = cores_option(parameters.spark_run, EXECUTORS_KEY) or nodes
        explicit = cores_option(parameters.spark_run, EXECUTOR_CORES_KEY)
        key = f"spark_run.{EXECUTOR_CORES_KEY}" if explicit else "task_cores"
        key = f"{key} x {EXECUTORS_KEY}" if explicit and nodes > 1 else key
    else:
        explicit = cores_option(parameters.eggroll_run, PROCESSORS_KEY)
        key = f"eggroll_run.{PROCESSORS_KEY}" if explicit else "task_cores"
    if isinstance(own_cores, int) and site.role is not Role.ARBITER:
        requested, explicit = own_cores, None
    return ResourceRequest(
        nodes=nodes,
        cores_per_node=explicit or max(1, requested // nodes),
        task_parallelism=parameters.task_parallelism,
        counted=site.role is not Role.ARBITER and not is_elsewhere,
        memory_per_task=own_memory if isinstance(own_memory, int) else parameters.task_memory,
        cores_key=key,
    )


def shortage(
    need: ComputeResources, free: ComputeResources, capacity: Capacity
) -> tuple[str, str] | None:
    """Return what is needed of the first thing that is short, and how it stands; None if nothing
    is.

    All three are of one engine. For people: `("8 cores", "2 of 8 free")`.
    """
    if need.cores > max(0, free.cores):
        left = Message(
            "{free} of {total} free on Spark"
            if capacity.engine == SPARK
            else "{free} of {total} free",
            free=max(0, free.cores),
            total=capacity.cores,
        )
        return cores_text(need.cores, capacity.engine), left
    if capacity.memory and need.memory > max(0, free.memory):
        left = Message("{free} of {total} MiB free", max(0, free.memory), capacity.memory)
        return memory_text(need.memory), left
    return None


def check_ceiling(needs: Mapping[Site, ResourceRequest], capacity: Capacity) -> None:
    """Check what a job needs at all the sites of one engine, whose party jobs it holds together.

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
            need=cores_text(cores, capacity.engine),
            total=most
            if most == capacity.cores
            else Message("{most} for one job, of {cores}", most, capacity.cores),
            where=where,
            key=f"{SECTIONS[capacity.engine]}.{key}",
        )
    memory = sum(d.of_job.memory for d in needs.values())
    if capacity.memory and memory > capacity.memory:
        raise NotEnoughResources(
            what=_product(needs, "memory"),
            need=memory_text(memory),
            total=capacity.memory,
            where=where,
            key=f"{SECTIONS[capacity.engine]}.memory_per_node",
        )


def _product(needs: Mapping[Site, ResourceRequest], what: str) -> str:
    """Return how the need follows from the keys of the job, for people."""
    shares = [d for d in needs.values() if d.counted]
    values = {(d.task_cores if what == "cores" else d.task_memory) for d in shares}
    keys = {d.cores_key for d in shares} if what == "cores" else {"task_memory"}
    key = keys.pop() if len(keys) == 1 else f"task_{what}"
    product = f"job_parameters.common.{key} x task_parallelism"
    if len(values) == 1 and shares:
        times = f" at {len(shares)} sites" if len(shares) > 1 else ""
        return f"{product} ({values.pop()} x {shares[0].task_parallelism}{times})"
    return product
