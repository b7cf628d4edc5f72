"""The component modules of this server as FATE shows them: providers with versions and components.

Source: `reference/flow-rest-api.md` section 2.6, `reference/flow-semantics.md` section 7.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from fedflow import __version__
from fedflow.base.errors import BadRequest, NotSupportedYet
from fedflow.domain.providers import FATE, FATE_FLOW, PROVIDERS, provider_of_module

_VERSION_KEYS: Final = {FATE: "FATE", FATE_FLOW: "FATEFlow"}


class Describer(Protocol):
    """Who knows the modules."""

    def describe(self) -> list[dict[str, Any]]:
        """Return `module`, `aliases` and more of each module."""


class Providers:
    """The use cases of `/v1/provider` and of `/v1/component/get`."""

    def __init__(self, modules: Describer) -> None:
        self._modules = modules

    def components(self) -> dict[str, dict[str, Any]]:
        """Return each module by its lower-case name."""
        return {str(one["module"]).lower(): _shown(one) for one in self._modules.describe()}

    def component(self, name: str) -> dict[str, Any] | None:
        """Return one module by its name or an alias, None if there is none."""
        for one in self._modules.describe():
            if name.lower() in (alias.lower() for alias in _names(one)):
                return _shown(one)
        return None

    def providers(self) -> dict[str, dict[str, Any]]:
        """Return what each provider has, in its one version."""
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
        return found

    def registry(self) -> dict[str, dict[str, Any]]:
        """Return FATE's whole registry: aliases are entries of their own."""
        components: dict[str, Any] = {}
        for one in self._modules.describe():
            for name in _names(one):
                components[name.lower()] = _shown(one)
        providers = self.providers()
        for versions in providers.values():
            content = versions[__version__]
            content["components"] = {name: {"module": name} for name in content["components"]}
        settings = {name: {"default_version_key": key} for name, key in _VERSION_KEYS.items()}
        return {"components": components, "providers": providers, "default_settings": settings}

    def register(self, name: str, version: str, path: str) -> None:
        """Check a provider that a client wants to add, and refuse it.

        Raises: BadRequest: a wrong argument. NotSupportedYet: always, else.
        """
        if name not in (*PROVIDERS, "fate_sql"):
            raise BadRequest(
                reason=f"{name[:100]!r} is no provider; known are fate, fate_flow, fate_sql"
            )
        if not version or len(version) > 10:
            raise BadRequest(reason="a version has 1 to 10 characters")
        if not Path(path).is_absolute():
            raise BadRequest(reason="path must be an absolute folder of the server")
        raise NotSupportedYet(what="A provider with a Python environment of its own")


def _provider(one: dict[str, Any]) -> str:
    return provider_of_module(str(one["module"]))


def _names(one: dict[str, Any]) -> tuple[str, ...]:
    return (one["module"], *one["aliases"])


def _shown(one: dict[str, Any]) -> dict[str, Any]:
    provider = _provider(one)
    return {
        "default_provider": provider,
        "support_provider": [provider],
        "alias": list(_names(one)),
    }
