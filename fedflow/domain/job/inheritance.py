"""Whether components of an earlier job may be taken over by a new one instead of run again.

They may if nothing that they depend on differs: module, inputs, outputs, provider, the parties that
ran them and their parameters there, and, because their inputs are then equal too, every component
before them is taken over as well. Source: `docs/reference/jobs.md#reuse-of-results`. FATE compares
the parameters as written; here those that each site gets, so that `0|1` equals `0` and `1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fedflow.base.errors.documents import Problem
from fedflow.domain.job.document import child
from fedflow.domain.job.dsl import Component
from fedflow.domain.job.spec import JobSpec

RULE: Final = "InheritanceError"  #: our word; FATE raises a plain ValueError
_LIST: Final = "$.conf.job_parameters.common.inheritance_info.component_list"
_COMPARED: Final = (
    "module", "data", "model", "isometric_model", "cache", "stored_models",
    "data_outputs", "model_outputs", "cache_outputs",
)  # fmt: skip
_WORDS: Final = {
    "module": "module", "data": "data input", "model": "model input",
    "isometric_model": "isometric model input", "cache": "cache input",
    "stored_models": "model input", "data_outputs": "data outputs",
    "model_outputs": "model outputs", "cache_outputs": "cache outputs",
}  # fmt: skip


def check_inheritance(old: JobSpec, new: JobSpec, components: Sequence[str]) -> tuple[Problem, ...]:
    """Return why results of `components` of the old job cannot be the new job's; empty if they can.

    Paths are those of the new job. Whether the old job has these results is another question.
    """
    return tuple(_problems(old, new, components))


def _problems(old: JobSpec, new: JobSpec, components: Sequence[str]) -> Iterator[Problem]:
    before = {c.name: c for c in old.components}
    now = {c.name: c for c in new.components}
    taken = set(components)
    for i, name in enumerate(components):
        if name not in now or name not in before:
            where = "this job" if name not in now else "the earlier job"
            yield Problem(f"{_LIST}[{i}]", f"{where} has no component of this name", RULE)
            continue
        path = child("$.dsl.components", name)
        for message in _differences(before[name], now[name]):
            yield Problem(path, message, RULE)
        for upstream in new.dag.upstream(name):
            if upstream not in taken:
                message = f"takes from {upstream}, which is not taken over"
                yield Problem(f"{_LIST}[{i}]", message, RULE)
        yield from _site_problems(old, new, name)


def _differences(before: Component, now: Component) -> Iterator[str]:
    differing = {
        _WORDS[member]: None
        for member in _COMPARED
        if getattr(before, member) != getattr(now, member)
    }
    for word in differing:
        yield f"differs from the earlier job in its {word}"


def _site_problems(old: JobSpec, new: JobSpec, name: str) -> Iterator[Problem]:
    """Yield what differs at the sites that run a component."""
    if set(old.sites_of(name)) != set(new.sites_of(name)):
        message = f"{name} ran at other parties in the earlier job"
        yield Problem("$.conf.role", message, RULE)
        return
    for site in new.sites_of(name):
        index = new.settings.index_of(site)
        if old.component_parameters(name, site) != new.component_parameters(name, site):
            path = f"$.conf.component_parameters.role.{site.role.value}"
            message = f"parameters at {site} differ from the earlier job's"
            yield Problem(child(f'{path}["{index}"]', name), message, RULE)
        if old.provider_of(name, site) != new.provider_of(name, site):
            path = child("$.dsl.components", name)
            message = f"differs from the earlier job in its provider at {site}"
            yield Problem(f"{path}.provider", message, RULE)
