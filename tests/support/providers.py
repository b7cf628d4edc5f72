"""Provider folders, their interpreters and their registrations, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedflow.base.errors.components import ProviderRefused
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.providers import ProviderManifest, RegisteredProvider


class MemoryProviders:
    """Satisfies `ProviderFolders`, `ProviderRegistry` and `ProviderHost` of `app.ports`.

    `folders` holds manifests by path, `described` what their components say, by `name@version`.
    """

    def __init__(self) -> None:
        self.folders: dict[str, ProviderManifest] = {}
        self.described: dict[str, list[dict[str, Any]]] = {}
        self.checked: list[tuple[str, str]] = []  #: label and module
        self._registered: list[RegisteredProvider] = []

    def offer(
        self, name: str, version: str, *described: dict[str, Any], path: str | None = None
    ) -> str:
        """Make a folder with components; return its path."""
        manifest = ProviderManifest(
            name=name,
            version=version,
            path=path or f"/providers/{name}-{version}",
            python="",
            components=f"{name}:COMPONENTS",
        )
        self.folders[manifest.path] = manifest
        self.described[manifest.label] = list(described)
        return manifest.path

    def read(self, path: str) -> ProviderManifest:
        if path not in self.folders:
            raise ProviderRefused(provider=path, reason="there is no such folder")
        return self.folders[path]

    def all(self) -> Sequence[RegisteredProvider]:
        return list(self._registered)

    def put(self, provider: RegisteredProvider) -> None:
        self.remove(provider.manifest.name, provider.manifest.version)
        self._registered.append(provider)

    def remove(self, name: str, version: str) -> bool:
        label = f"{name}@{version}"
        kept = [p for p in self._registered if p.manifest.label != label]
        found = len(kept) < len(self._registered)
        self._registered = kept
        return found

    def describe(self, manifest: ProviderManifest) -> list[dict[str, Any]]:
        return self.described[manifest.label]

    def check(
        self,
        manifest: ProviderManifest,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
    ) -> tuple[()]:
        self.checked.append((manifest.label, module))
        return ()
