"""What a board needs to draw a job: which component takes what from which, in what order.

Source: `docs/reference/jobs.md#dependency-answer`. The order is that of `Dag`; its levels are the
drawing's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

from fedflow.domain.job.dsl import Component, Ref
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.site import Site

_OWN_TYPES: Final = ("data", "train_data")
"""Data ports that keep their name; every other one is shown as the last of these three."""
_OTHER_DATA: Final = "validate_data"


class Dependency(TypedDict):
    """One input of a component."""

    component_name: str  #: the upstream one
    type: str  #: data, train_data, validate_data, model or cache
    up_output_info: tuple[str, int]  #: kind of the upstream output, and its position


class DependencyInfo(TypedDict):
    """All components of a job; those without inputs are absent from `dependencies`."""

    component_list: list[str]  #: every component after those it depends on
    dependencies: dict[str, list[Dependency]]
    component_module: dict[str, str]
    component_need_run: dict[str, bool]  #: at one site


def dependency_info(spec: JobSpec, site: Site) -> DependencyInfo:
    """Return what depends on what, and what runs at `site`. Raises: KeyError: it is no site."""
    found = {c.name: list(_inputs(spec, c)) for c in spec.components}
    return {
        "component_list": list(spec.dag.order),
        "dependencies": {name: inputs for name, inputs in found.items() if inputs},
        "component_module": {c.name: c.module for c in spec.components},
        "component_need_run": {c.name: _needs_run(spec, c.name, site) for c in spec.components},
    }


def _inputs(spec: JobSpec, component: Component) -> Iterator[Dependency]:
    for port, refs in component.data.items():
        shown = port if port in _OWN_TYPES else _OTHER_DATA
        for ref in refs:
            yield _one(ref, shown, "data", spec.component(ref.component).data_outputs)
    for ref in (*component.model, *component.isometric_model):
        yield _one(ref, "model", "model", spec.component(ref.component).model_outputs)
    for ref in component.cache:
        yield _one(ref, "cache", "cache", spec.component(ref.component).cache_outputs)


def _one(ref: Ref, shown: str, kind: str, outputs: Sequence[str]) -> Dependency:
    position = outputs.index(ref.output)
    return {
        "component_name": ref.component,
        "type": shown,
        "up_output_info": (kind, position),
    }


def _needs_run(spec: JobSpec, component_name: str, site: Site) -> bool:
    """Tell whether a component does its work at a site: it runs there, and is not to be skipped."""
    parameters = spec.component_parameters(component_name, site)
    return spec.runs_at(component_name, site) and parameters.get("need_run") is not False
