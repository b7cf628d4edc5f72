"""Providers: where a component module comes from, as FATE's DSL and conf name it.

fedflow has the modules that come with it in one version; it answers to FATE's names `fate`
(algorithms) and `fate_flow` (modules that move data, models and caches), and a version of these has
no effect. Other providers are folders that were registered (`ProviderManifest`), each in any
number of versions; the one registered last is used where a job names none. A job runs with each
site's own. Source: `docs/reference/jobs.md#validation-rules`, rule 17, and
`docs/reference/jobs.md#providers`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from fedflow.base.errors.documents import Problem
from fedflow.base.values import dataclass
from fedflow.domain.job.document import child
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning, warning
from fedflow.domain.site import Site

FATE: Final = "fate"
FATE_FLOW: Final = "fate_flow"
PROVIDERS: Final = (FATE, FATE_FLOW)

_OF_FATE_FLOW: Final = frozenset(
    {
        "apireader", "cacheloader", "download", "modelloader", "modelrestore", "modelstore",
        "reader", "upload", "writer",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderManifest:
    """What a provider folder says of itself."""

    name: str
    version: str
    path: str  #: the folder, absolute; its modules are imported from there
    python: str  #: interpreter, absolute; empty: the server's own
    components: str  #: `module:attribute`, a component or a tuple of them

    @property
    def label(self) -> str:
        """Return `name@version`, as a job names it."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredProvider:
    """A provider folder, and what its interpreter said of its components when it was registered."""

    manifest: ProviderManifest
    described: tuple[Mapping[str, Any], ...]  #: as of `components.registry.describe`
    registered_ms: int


def provider_of_module(module: str) -> str:
    """Return the provider of a module that comes with fedflow, by its name in any case."""
    return FATE_FLOW if module.lower() in _OF_FATE_FLOW else FATE


def provider_problems(spec: JobSpec, *, here: Collection[Site]) -> list[Problem]:
    """Return the mistakes in the providers that a job names.

    A provider must be known, as its modules are; of a version that is only asked of the sites
    `here`, since other parties have their own.
    """
    others = {info.provider or info.package for info in spec.modules.values()}
    known = {*PROVIDERS, *(name for name in others if name)}
    problems: dict[str, Problem] = {}
    for name, site, provider, version in _asked(spec):
        path = f"{child('$.dsl.components', name)}.provider"
        info = spec.modules[name]
        if provider not in known:
            listed = ", ".join(sorted(known))
            message = f"no module of this job is of a provider {provider!r}, only of {listed}"
        elif info.provider == provider and site in here and version not in ("", *info.versions):
            listed = ", ".join(info.versions)
            message = f"{site} has no version {version} of provider {provider}, only {listed}"
        else:
            continue
        problems.setdefault(f"{path} {message}", Problem(path, message, "ValueError"))
    return list(problems.values())


def provider_warnings(spec: JobSpec) -> tuple[JobWarning, ...]:
    """Return the versions and providers that a job names without effect."""
    found: dict[JobWarning, None] = {}
    for name, _, provider, version in _asked(spec):
        place = f"{child('$.dsl.components', name)}.provider"
        info = spec.modules[name]
        own = info.provider or info.package or provider_of_module(info.module)
        if provider != own:
            message = f"the module is of provider {own}, which is used"
            found[warning("OtherProvider", place, message)] = None
        if version and not info.provider:
            message = f"version {version} has no effect, this server's own is used"
            found[warning("OtherProvider", place, message)] = None
    return tuple(found)


def _asked(spec: JobSpec) -> Iterator[tuple[str, Site, str, str]]:
    """Yield component, site, provider and version (may be empty), by name of the component."""
    for component in sorted(spec.components, key=lambda c: c.name):
        for site in spec.sites_of(component.name):
            asked = spec.provider_of(component.name, site)
            name, _, version = (asked or "").partition("@")
            if name:
                yield component.name, site, name, version
