"""Providers: where a component module comes from, as FATE's DSL and conf name it.

fedflow has all modules itself, in one version; it answers to FATE's names `fate` (algorithms) and
`fate_flow` (modules that move data, models and caches). A job may name these; a version in it has
no effect. Source: `reference/flow-semantics.md` section 1, rule 17, and section 7.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedflow.base.errors import Problem
from fedflow.domain.document import child
from fedflow.domain.job_spec import JobSpec

FATE: Final = "fate"
FATE_FLOW: Final = "fate_flow"
PROVIDERS: Final = (FATE, FATE_FLOW)

_OF_FATE_FLOW: Final = frozenset(
    {
        "apireader", "cacheloader", "download", "modelloader", "modelrestore", "modelstore",
        "reader", "upload", "writer",
    }
)  # fmt: skip


def provider_of_module(module: str) -> str:
    """Return the provider of a module, by its name in any case."""
    return FATE_FLOW if module.lower() in _OF_FATE_FLOW else FATE


def provider_problems(spec: JobSpec) -> list[Problem]:
    """Return the mistakes in the providers that a job names: those that are not here."""
    return [
        Problem(
            f"{child('$.dsl.components', name)}.provider",
            f"there is no provider {provider!r} here, only {' and '.join(PROVIDERS)}",
            "ValueError",
        )
        for name, provider, _ in _asked(spec)
        if provider not in PROVIDERS
    ]


def provider_notes(spec: JobSpec) -> tuple[str, ...]:
    """Return what people should know: versions and providers that a job names without effect."""
    notes = []
    for name, provider, version in _asked(spec):
        place = f"{child('$.dsl.components', name)}.provider"
        own = provider_of_module(spec.modules[name].module)
        if provider in PROVIDERS and provider != own:
            notes.append(f"{place}: the module is of provider {own}, which is used")
        if version:
            notes.append(f"{place}: version {version} has no effect, this server's own is used")
    return tuple(notes)


def _asked(spec: JobSpec) -> Iterator[tuple[str, str, str]]:
    """Yield component, provider and version, each once; the version is empty if none is named."""
    seen = set()
    for component in spec.components:
        for site in spec.sites_of(component.name):
            name, _, version = (spec.provider_of(component.name, site) or "").partition("@")
            if name:
                seen.add((component.name, name, version))
    yield from sorted(seen)
