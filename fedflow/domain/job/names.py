"""Names of jobs: what people call a job, beside its id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedflow.domain.job.parameters import MAX_NAME
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.site import Site

_READER: Final = "reader"
_UPLOADS: Final = ("upload", "download", "writer")  #: they name a table themselves


def job_name(spec: JobSpec, site: Site) -> str:
    """Return the job parameter `name` at a site, or a name made of the component that people care
    about most and the site's own first table: `HeteroLR · breast`.
    """
    given = spec.job_parameters_at(site).name
    if given:
        return given[:MAX_NAME]
    table = next(_tables(spec, site), None)
    name = _module(spec) if table is None else f"{_module(spec)} · {table}"
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _module(spec: JobSpec) -> str:
    """Return the module of the last component that makes a model, else of the last one."""
    if not spec.components:
        return "Job"
    ordered = [spec.component(name) for name in spec.dag.order]
    predicts = spec.mode == "predict"
    makers = [c for c in ordered if c.model_outputs or (predicts and c.stored_models)]
    module = (makers or ordered)[-1].module
    if len(ordered) > 1 and all(c.module == module for c in ordered):
        return f"{module} ({len(ordered)} components)"
    return f"{module} predicts" if predicts else module


def _tables(spec: JobSpec, site: Site) -> Iterator[str]:
    """Yield the names of the tables that a site reads, or its upload writes."""
    for component in spec.components:
        module = component.module.lower()
        if module == _READER or module in _UPLOADS:
            parameters = spec.component_parameters(component.name, site)
            table = parameters.get("table") if module == _READER else parameters
            name = table.get("name") if isinstance(table, dict) else None
            if isinstance(name, str) and name:
                yield name
