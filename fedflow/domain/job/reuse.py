"""When the results of a component may stand for those of another: equal cache keys.

A cache key is the digest of all that the results depend on: module, provider, fedflow's version,
the job's sites in order, the parameters of every site, the keys of what it takes by port, the names
of what it gives, and for a component that reads tables their identity at every site. Two components
with one key, of whatever jobs, would do the same work on the same data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from fedflow.domain.job.dag import Dag
from fedflow.domain.job.dsl import Component, Ref
from fedflow.domain.job.providers import provider_of_module
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.models.model import canonical_json
from fedflow.domain.site import Site

READER: Final = "reader"  #: the one module whose results depend on tables that others may replace

TableIds = Mapping[tuple[str, Site], str | None]
"""(component, site) -> what identifies the table that it reads there; None: not known."""


def cache_keys(
    spec: JobSpec, *, version: str, tables: TableIds, model: str | None = None
) -> dict[str, str]:
    """Return the cache keys (sha256, hex) of the components of a job that have one.

    `version` is fedflow's, `model` the digest of what a predict job's model is. A component has
    none if its module is not repeatable, a table that it reads is not known, or one of those that
    it takes from has none.
    """
    keys: dict[str, str] = {}
    whole = {
        "version": version,
        "sites": [site.key for site in spec.sites],
        "initiator": spec.initiator.key,
        "mode": spec.mode,
        "model": model,
    }
    if spec.mode == "predict":
        if model is None:
            return {}
        common = spec.settings.job_parameters.common
        whole["model"] = [str(common["model_id"]), str(common["model_version"]), model]
    for name in spec.dag.order:
        known = all(up in keys for up in spec.dag.upstream(name))
        if not spec.modules[name].repeatable or not known:
            continue
        read = _tables_of(spec, name, tables)
        if read is not None:
            parts = {**whole, **_parts(spec, name, keys), "tables": read}
            keys[name] = hashlib.sha256(canonical_json(parts)).hexdigest()
    return keys


def closed(dag: Dag, names: Iterable[str]) -> frozenset[str]:
    """Return those of some components that may be taken over: with all that they take from."""
    wanted = set(names)
    taken: set[str] = set()
    for name in dag.order:
        if name in wanted and all(up in taken for up in dag.upstream(name)):
            taken.add(name)
    return frozenset(taken)


def named_tables(spec: JobSpec, site: Site) -> dict[str, Mapping[str, object]]:
    """Return, by component, the tables that the readers of a job name at one of its sites."""
    found: dict[str, Mapping[str, object]] = {}
    for component in spec.components:
        if _reads(component) and spec.runs_at(component.name, site):
            table = spec.component_parameters(component.name, site).get("table")
            if isinstance(table, Mapping):
                found[component.name] = table
    return found


def _reads(component: Component) -> bool:
    return component.module.lower() == READER


def _tables_of(spec: JobSpec, name: str, tables: TableIds) -> dict[str, str] | None:
    """Return the identities by site of the tables that a component reads; None: one is missing."""
    read: dict[str, str] = {}
    if not _reads(spec.component(name)):
        return read
    for site in spec.sites_of(name):
        if "table" not in spec.component_parameters(name, site):
            continue
        identity = tables.get((name, site))
        if identity is None:
            return None
        read[site.key] = identity
    return read


def _parts(spec: JobSpec, name: str, keys: Mapping[str, str]) -> dict[str, object]:
    component = spec.component(name)
    sites = spec.sites_of(name)

    def taken(refs: Iterable[Ref]) -> list[list[str]]:
        return [[keys[ref.component], ref.output] for ref in refs]

    return {
        "module": spec.modules[name].module,
        "provider": provider_of_module(component.module),
        "providers": [spec.provider_of(name, site) for site in sites],
        "runs_at": [site.key for site in sites],
        "parameters": {site.key: spec.component_parameters(name, site) for site in sites},
        "data": {port: taken(refs) for port, refs in component.data.items()},
        "model_inputs": [taken(component.model), taken(component.isometric_model)],
        "cache_inputs": taken(component.cache),
        "stored_models": [str(ref) for ref in component.stored_models],
        "outputs": [component.data_outputs, component.model_outputs, component.cache_outputs],
    }
