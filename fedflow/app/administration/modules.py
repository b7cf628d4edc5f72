"""The component modules of this server, as the executor's prepared process describes them.

The server itself imports no component: it asks the process that has them. Descriptions are asked
for once; a parameter set that was found good is remembered.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fedflow.app.ports.components import ProviderHost, ProviderRegistry
from fedflow.base.errors.components import ProviderRefused
from fedflow.base.errors.error import FedflowError
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.providers import ProviderManifest, RegisteredProvider
from fedflow.domain.job.spec import ModuleInfo, names_of
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Role

_KEEP = 2048


class Describer(Protocol):
    """Who has the components imported."""

    def describe(self) -> list[dict[str, Any]]:
        """Return module, aliases, roles, data_ports, needs_input, outputs, messages, summary,
        parameters, param_name, defaults, checks_run.
        """

    def check(
        self,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
    ) -> Sequence[JobWarning]:
        """Check parameters and a planned run, and return what is doubtful in the parameters.

        Raises: BadParameter, UnknownComponent.
        """


class Modules:
    """The `Catalog` of the use cases."""

    def __init__(
        self,
        describer: Describer,
        *,
        book: ProviderRegistry | None = None,
        host: ProviderHost | None = None,
    ) -> None:
        """`book` and `host` know the registered providers; without them there are none."""
        self._describer = describer
        self._book = book
        self._host = host
        self._providers: dict[str, list[RegisteredProvider]] = {}  # versions by name, default last
        self._packages: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._described: list[dict[str, Any]] | None = None
        self._modules: dict[str, ModuleInfo] = {}
        self._parameters: dict[str, tuple[str, Mapping[str, Any]]] = {}  # name and defaults
        self._contents: dict[str, Mapping[str, str]] = {}  # of messages, by name
        self._look_at_runs: set[str] = set()  #: modules whose parameters may refuse a planned run
        self._good: OrderedDict[bytes, Sequence[JobWarning]] = OrderedDict()

    def describe(self) -> list[dict[str, Any]]:
        """Return everything that is known of each module, for people and other systems."""
        self.modules()
        return list(self._described or ())

    def modules(self) -> Mapping[str, ModuleInfo]:
        """Return what the scheduler must know, by lower-case name and alias."""
        with self._lock:
            if self._described is None:
                self._read()
            return self._modules

    def renew(self) -> None:
        """Forget what is known, because a provider came or went."""
        with self._lock:
            self._described = None
            self._good.clear()

    def registered(self) -> Mapping[str, Sequence[RegisteredProvider]]:
        """Return the registered providers by name, the version that is used without a word last."""
        self.modules()
        return self._providers

    def packages(self) -> Mapping[str, str]:
        """Return the versions of installed packages that offer modules by an entry point."""
        self.modules()
        return self._packages

    def _read(self) -> None:
        """Ask for all descriptions; the lock is held."""
        described, packages = _with_packages(self._describer.describe())
        providers: dict[str, list[RegisteredProvider]] = {}
        for registered in self._book.all() if self._book is not None else ():
            providers.setdefault(registered.manifest.name, []).append(registered)
        taken = {name for one in described for name in _names(one)}
        for provider, versions in providers.items():
            for one in versions[-1].described:
                if taken.isdisjoint(_names(one)):  # else this server has got such a module since
                    described.append({**one, "provider": provider})
                    taken |= _names(one)
        modules: dict[str, ModuleInfo] = {}
        looks: set[str] = set()
        for one in described:
            versions = providers.get(one["provider"], [])
            info = _info(one, [v for v in versions if _has(v, one["module"])])
            modules.update(dict.fromkeys(_names(one), info))
            if one["checks_run"] or info.provider:  # another version may look at it
                looks.add(info.module)
            self._parameters[info.module.lower()] = (one["param_name"], one["defaults"])
            messages = one.get("messages") or ()
            self._contents[info.module.lower()] = {m["name"]: m["content"] for m in messages}
        self._modules, self._look_at_runs, self._providers = modules, looks, providers
        self._packages = packages
        self._described = described

    def contents(self, module: str) -> Mapping[str, str]:
        """Return what the messages that a module declares show who gets them, by their names."""
        info = self.modules().get(module.lower())
        return {} if info is None else self._contents.get(info.module.lower(), {})

    def check(
        self,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
        provider: str | None = None,
    ) -> Sequence[JobWarning]:
        """Check parameters and a planned run, with the provider's version that a job asks for.

        Returns what is doubtful in the parameters.
        Raises: BadParameter, UnknownComponent, ProviderRefused.
        """
        info = self.modules().get(module.lower())
        if info is None:
            raise self._unknown(module)
        if info.module not in self._look_at_runs:
            run = None
        planned = run.to_json() if run is not None else None
        manifest = self.provider_of(module, provider)
        label = manifest.label if manifest is not None else None
        known = msgspec.json.encode([info.module, parameters, planned, label], order="sorted")
        key = hashlib.sha256(known).digest()  # other parties choose how much there is to remember
        with self._lock:
            known_good = self._good.get(key)
        if known_good is not None:
            return known_good
        if manifest is not None and self._host is not None:
            warnings = self._host.check(manifest, info.module, parameters, path=path, run=run)
        else:
            warnings = self._describer.check(info.module, parameters, path=path, run=run)
        with self._lock:
            self._good[key] = warnings
            while len(self._good) > _KEEP:
                self._good.popitem(last=False)
        return warnings

    def provider_of(self, module: str, asked: str | None) -> ProviderManifest | None:
        """Return the registered provider of a module, in the version that is asked for.

        None: the module comes with fedflow. A name that is not the module's provider has no effect.
        Raises: UnknownComponent, ProviderRefused: the version is not registered.
        """
        info = self.modules().get(module.lower())
        if info is None:
            raise self._unknown(module)
        if not info.provider:
            return None
        name, _, version = (asked or "").partition("@")
        wanted = version if name == info.provider and version else info.versions[-1]
        for registered in self._providers.get(info.provider, ()):
            if registered.manifest.version == wanted and _has(registered, info.module):
                return registered.manifest
        raise ProviderRefused(
            provider=f"{info.provider}@{wanted}", reason=f"it is not registered for {info.module}"
        )

    def _unknown(self, module: str) -> FedflowError:
        """Return the error for a module that is not there, with names that are like it."""
        from fedflow.domain.job.missing_modules import unknown_component  # most never need it

        return unknown_component(module, names_of(self.modules()))

    def parameters(self, module: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return what FATE calls the module's parameters, and all of them: `given` over defaults.

        Raises: UnknownComponent: it is not installed any more.
        """
        info = self.modules().get(module.lower())
        if info is None:
            raise self._unknown(module)
        name, defaults = self._parameters[info.module.lower()]
        return name, _filled(defaults, given)


def _filled(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` with what it leaves out, in objects that are parameters themselves too."""
    values = {**defaults, **given}
    for name, default in defaults.items():
        value = values[name]
        if isinstance(default, dict) and isinstance(value, dict):
            values[name] = _filled(default, value)
    return values


def _with_packages(
    described: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return descriptions with their `provider`, and the versions of the packages among these; the
    provider of fedflow's own modules is empty.
    """
    found, packages = [], {}
    for one in described:
        name, _, version = str(one.get("package", "")).partition("@")
        if name:
            packages[name] = version
        found.append({**{k: v for k, v in one.items() if k != "package"}, "provider": name})
    return found, packages


def _names(described: Mapping[str, Any]) -> set[str]:
    return {str(name).lower() for name in (described["module"], *described["aliases"])}


def _has(registered: RegisteredProvider, module: str) -> bool:
    return any(module.lower() in _names(one) for one in registered.described)


def _info(described: Mapping[str, Any], versions: Sequence[RegisteredProvider]) -> ModuleInfo:
    return ModuleInfo(
        module=described["module"],
        roles=tuple(Role(r) for r in described["roles"]),
        data_ports=tuple(described["data_ports"]),
        needs_input=described["needs_input"],
        outputs=tuple(described["outputs"]),
        # the code in a folder may change, and each party has its own
        repeatable=described.get("repeatable", True) and not versions,
        absence=described.get("absence"),
        provider=described["provider"] if versions else "",
        package="" if versions else described["provider"],
        versions=tuple(v.manifest.version for v in versions),
    )
