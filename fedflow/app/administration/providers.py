"""The component modules of this server as FATE shows them: providers with versions and components.

Source: `docs/reference/rest.md#components-and-checkpoints`, `docs/reference/jobs.md#providers`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from fedflow import __version__
from fedflow.app.ports.components import ProviderFolders, ProviderHost, ProviderRegistry
from fedflow.base.clock import Clock
from fedflow.base.errors.components import ProviderRefused
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.providers import (
    FATE,
    FATE_FLOW,
    PROVIDERS,
    ProviderManifest,
    RegisteredProvider,
    provider_of_module,
)
from fedflow.wire.api.administration import ProvidedModule

logger = logging.getLogger(__name__)

_VERSION_KEYS: Final = {FATE: "FATE", FATE_FLOW: "FATEFlow"}


class ModuleIndex(Protocol):
    """Who knows the modules."""

    def describe(self) -> list[dict[str, Any]]:
        """Return `module`, `aliases`, `provider` and more of each module."""

    def registered(self) -> Mapping[str, Any]:
        """Return the versions of each registered provider, the default last."""

    def packages(self) -> Mapping[str, str]:
        """Return the versions of installed packages that offer modules by an entry point."""

    def renew(self) -> None:
        """Look again: a provider came or went."""


class Providers:
    """The use cases of `/v1/provider` and of `/v1/component/get`."""

    def __init__(
        self,
        modules: ModuleIndex,
        *,
        folders: ProviderFolders,
        book: ProviderRegistry,
        host: ProviderHost,
        clock: Clock,
    ) -> None:
        self._modules = modules
        self._folders = folders
        self._book = book
        self._host = host
        self._clock = clock

    def components(self) -> dict[str, ProvidedModule]:
        """Return each module by its lower-case name."""
        return {str(one["module"]).lower(): _shown(one) for one in self._modules.describe()}

    def component(self, name: str) -> ProvidedModule | None:
        """Return one module by its name or an alias, None if there is none."""
        for one in self._modules.describe():
            if name.lower() in (alias.lower() for alias in _names(one)):
                return _shown(one)
        return None

    def providers(self) -> dict[str, dict[str, Any]]:
        """Return what each provider has, by version."""
        found: dict[str, dict[str, Any]] = {}
        for provider in PROVIDERS:
            modules = [one for one in self._modules.describe() if _provider(one) == provider]
            found[provider] = {
                "default": {"version": __version__},
                __version__: {
                    "path": "fedflow/components",
                    "class_path": {},
                    "components": sorted(str(one["module"]).lower() for one in modules),
                },
            }
        for package, version in self._modules.packages().items():
            modules = [one for one in self._modules.describe() if _provider(one) == package]
            found[package] = {
                "default": {"version": version},
                version: {
                    "path": "",
                    "class_path": {},
                    "components": sorted(str(one["module"]).lower() for one in modules),
                },
            }
        for name, versions in self._modules.registered().items():
            found[name] = {"default": {"version": versions[-1].manifest.version}}
            found[name] |= {one.manifest.version: _version(one) for one in versions}
        return found

    def registry(self) -> dict[str, dict[str, Any]]:
        """Return FATE's whole registry: aliases are entries of their own."""
        components: dict[str, Any] = {}
        for one in self._modules.describe():
            for name in _names(one):
                components[name.lower()] = _shown(one)
        providers = self.providers()
        for versions in providers.values():
            for version, content in versions.items():
                if version != "default":
                    names = content["components"]
                    content["components"] = {name: {"module": name} for name in names}
        settings = {name: {"default_version_key": key} for name, key in _VERSION_KEYS.items()}
        return {"components": components, "providers": providers, "default_settings": settings}

    def register(self, path: str, *, name: str = "", version: str = "") -> dict[str, Any]:
        """Add the provider in a folder of this machine, and return what it has.

        Its interpreter is asked for its components; it becomes the default of its name. A name or
        version that is given must be the folder's own. Registered again, a version is looked at
        anew; `replaced_path` is the folder that it was read from before.

        Raises: ProviderRefused: the folder, its interpreter or its components cannot be used, or a
            module has a name of another provider's.
        """
        manifest = self._folders.read(path)
        for given, own in ((name, manifest.name), (version, manifest.version)):
            if given and given != own:
                reason = f"the folder says {own!r}, the request {given[:100]!r}"
                raise ProviderRefused(provider=manifest.label, reason=reason)
        described = self._host.describe(manifest)
        self._check_names(manifest, described)
        registered = RegisteredProvider(
            manifest=manifest, described=tuple(described), registered_ms=self._clock.now_ms()
        )
        earlier = self._modules.registered().get(manifest.name, ())
        replaced = [v.manifest.path for v in earlier if v.manifest.version == manifest.version]
        self._book.put(registered)
        self._modules.renew()
        logger.info(
            "Provider %s was registered from %s%s.", manifest.label, manifest.path,
            f" in place of {replaced[0]}" if replaced else "", extra={"action": "provider"},
        )  # fmt: skip
        return {
            "name": manifest.name,
            "version": manifest.version,
            **_version(registered),
            "modules": [str(one["module"]) for one in described],
            "replaced_path": replaced[0] if replaced else None,
        }

    def delete(self, name: str, version: str) -> None:
        """Forget a version of a provider; tasks that run go on.

        Raises: BadRequest: there is none, or it comes with fedflow.
        """
        if name in PROVIDERS:
            raise BadRequest(reason=f"provider {name} comes with fedflow")
        if not self._book.remove(name, version):
            raise BadRequest(reason=f"there is no provider {name[:100]}@{version[:100]}")
        self._modules.renew()
        logger.info("Provider %s@%s was deleted.", name, version, extra={"action": "provider"})

    def _check_names(self, manifest: ProviderManifest, described: list[dict[str, Any]]) -> None:
        """Raises: ProviderRefused: a name is taken by another provider."""
        taken = {
            name.lower(): _provider(one)
            for one in self._modules.describe()
            for name in _names(one)
            if _provider(one) != manifest.name
        }
        clashes = [n for one in described for n in _names(one) if n.lower() in taken]
        if clashes:
            what = ", ".join(f"{name} ({taken[name.lower()]})" for name in clashes)
            reason = f"other providers have modules of these names: {what}"
            raise ProviderRefused(provider=manifest.label, reason=reason)


def _provider(one: Mapping[str, Any]) -> str:
    return one.get("provider") or provider_of_module(str(one["module"]))


def _names(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (one["module"], *one["aliases"])


def _version(registered: RegisteredProvider) -> dict[str, Any]:
    manifest = registered.manifest
    return {
        "path": manifest.path,
        "python": manifest.python,
        "class_path": {},
        "components": sorted(str(one["module"]).lower() for one in registered.described),
    }


def _shown(one: Mapping[str, Any]) -> ProvidedModule:
    provider = _provider(one)
    return ProvidedModule(
        default_provider=provider, support_provider=(provider,), alias=tuple(_names(one))
    )
