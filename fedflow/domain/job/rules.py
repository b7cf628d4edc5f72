"""What a job's parameters say about how its tasks are run, in the form in which `decide` reads it.

The parameters of the initiator count, except for what a task takes of a party job. They are the
same in every pass, so they are made once per parsed job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.parameters import JobParameters, TaskConf
from fedflow.domain.job.resources import demand_at
from fedflow.domain.job.task_rule import Rule
from fedflow.domain.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """How the tasks of one job are run."""

    components: Mapping[str, Rule]
    shares: Mapping[Site, ComputeResources]  #: of the job; empty if all its tasks take the same
    selected: frozenset[str] | None  #: what `run_to` asks for; None: all


def make_rules(
    dag: Dag,
    sites_of: Mapping[str, Sequence[Site]],
    parameters: Mapping[Site, JobParameters],
    *,
    initiator: Site,
) -> Rules:
    """Return the rules of a job; `sites_of` are the sites of each component."""
    own = parameters[initiator]
    plain = _rule(own, TaskConf())
    components = dict.fromkeys(dag.names, plain)
    for name in own.task_conf:
        if name in components:
            components[name] = _rule(own, own.task(name))
    shares: dict[Site, ComputeResources] = {}
    if any(_is_heavier(p) for p in parameters.values()):
        shares = {site: demand_at(site, p).of_job for site, p in parameters.items()}
        for name, rule in components.items():
            components[name] = _taking(rule, name, sites_of[name], parameters)
    return Rules(components=components, shares=shares, selected=selection(dag, own.runs_to))


def selection(dag: Dag, names: Iterable[str]) -> frozenset[str] | None:
    """Return some components and all that they depend on; None, which means all, for no names."""
    wanted = set(names) & set(dag.names)
    stack = list(wanted)
    while stack:
        new = [up for up in dag.upstream(stack.pop()) if up not in wanted]
        wanted.update(new)
        stack.extend(new)
    return frozenset(wanted) or None


def _rule(parameters: JobParameters, conf: TaskConf) -> Rule:
    delay_s = conf.auto_retry_delay
    retry_on = parameters.retry_on if conf.retry_on is None else conf.retry_on
    return Rule(
        policy=conf.schedule_policy,
        timeout_ms=None if conf.timeout is None else conf.timeout * 1000,
        retries=parameters.auto_retries if conf.auto_retries is None else conf.auto_retries,
        retry_delay_ms=(parameters.auto_retry_delay if delay_s is None else delay_s) * 1000,
        retry_on=None if retry_on is None else frozenset(retry_on),
    )


def _is_heavier(parameters: JobParameters) -> bool:
    """Tell whether some task takes more or less than the others at a site."""
    keys = ("task_cores", "task_memory")
    return any(key in conf for conf in parameters.task_conf.values() for key in keys)


def _taking(
    rule: Rule, component: str, sites: Iterable[Site], parameters: Mapping[Site, JobParameters]
) -> Rule:
    takes = {s: demand_at(s, parameters[s], component=component).of_task for s in sites}
    return replace(rule, takes=takes)
