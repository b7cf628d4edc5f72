"""Which components there are, with their parameters, and the providers of more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.providers import ProviderManifest, RegisteredProvider
from fedflow.domain.job.warning import JobWarning


class Catalog(Protocol):
    """The component modules of this server."""

    def modules(self) -> Mapping[str, Any]:
        """Return `domain.job.spec.ModuleInfo` by lower-case name and alias."""

    def check(
        self,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
        provider: str | None = None,
    ) -> Sequence[JobWarning]:
        """Check parameters, and the run that is planned with them if one is given.

        Returns what is doubtful in the parameters, with paths as those of mistakes. `provider` is
        what the job asks for, as `name@version`.

        Raises: BadParameter: with all mistakes. UnknownComponent.
        """


class ProviderFolders(Protocol):
    """Folders of this machine with components."""

    def read(self, path: str) -> ProviderManifest:
        """Return what a folder says of itself. Raises: ProviderRefused."""


class ProviderRegistry(Protocol):
    """Remembers the registered providers of this server."""

    def all(self) -> Sequence[RegisteredProvider]:
        """Return them in the order of their registration."""

    def put(self, provider: RegisteredProvider) -> None:
        """Add a version of a provider, in place of an earlier one; it becomes the last one."""

    def remove(self, name: str, version: str) -> bool:
        """Forget a version; False if it was not there."""


class ProviderHost(Protocol):
    """Asks the interpreters of providers about their components."""

    def describe(self, manifest: ProviderManifest) -> list[dict[str, Any]]:
        """Return what `components.registry.describe` says of each. Raises: ProviderRefused."""

    def check(
        self,
        manifest: ProviderManifest,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
    ) -> Sequence[JobWarning]:
        """Check parameters as `Catalog.check`. Raises: BadParameter, ProviderRefused."""


class ProviderChoice(Protocol):
    """Knows which provider runs a module."""

    def provider_of(self, module: str, asked: str | None) -> ProviderManifest | None:
        """Return the registered provider of a module, in the version that is asked for as
        `name@version`; None: it comes with fedflow. Raises: ProviderRefused: there is no such one.
        """


class ParameterSchemas(Protocol):
    """Knows the parameters of the component modules."""

    def parameters(self, module: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return FATE's name of the parameters, and all of them: `given` over the defaults.

        Raises: UnknownComponent.
        """
