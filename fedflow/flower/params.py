"""Parameters of FlowerApp, and who runs which app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from fedflow.flower.project import Project, Scalar, installed_version, read_project
from fedflow.flower.tables import DataFormat
from fedflow.sdk import Params, PlannedRun, Role, Site

Seconds = Annotated[float, Meta(gt=0, le=7 * 86_400)]


class FlowerParams(Params, frozen=True, kw_only=True):
    """Parameters of FlowerApp; `flower_app` fills in where the projects of this site lie."""

    projects: ClassVar[Path] = Path()

    app: Annotated[str, Meta(min_length=1, max_length=200)]
    run_config: dict[str, Any] = field(default_factory=dict)
    node_config: dict[str, Scalar] = field(default_factory=dict)
    data_format: DataFormat = "csv"
    server_role: Literal["arbiter", "guest"] = "arbiter"
    round_timeout_s: Seconds = 3600.0
    start_timeout_s: Seconds = 60.0
    min_nodes: Annotated[int, Meta(ge=1)] = 1

    @property
    def project(self) -> Project:
        """Return the project that is meant. Raises: ValueError: there is none that can be used."""
        return read_project(self.projects, self.app)

    def check(self) -> None:
        """Do nothing if the project can be run with this config. Raises: ValueError."""
        try:
            installed_version()
            project = self.project
        except ValueError as exc:
            raise ValueError(f"app: {exc}") from exc
        try:
            project.run_config(self.run_config)
        except ValueError as exc:
            raise ValueError(f"run_config: {exc}") from exc

    def check_run(self, run: PlannedRun) -> None:
        """Do nothing if there is one ServerApp and enough ClientApps. Raises: ValueError."""
        server_site(self.server_role, run.sites)
        clients = client_sites(self.server_role, run.sites)
        if not clients:
            raise ValueError("role: a FlowerApp needs sites that run its ClientApp")
        if len(clients) < self.min_nodes:
            raise ValueError(
                f"min_nodes: {self.min_nodes} are more than the {len(clients)} ClientApps"
            )


def server_site(role: str, sites: tuple[Site, ...]) -> Site:
    """Return the site of the ServerApp. Raises: ValueError: there is not exactly one."""
    found = [site for site in sites if site.role is Role(role)]
    if len(found) != 1:
        raise ValueError(
            f"server_role: the ServerApp runs at the {role}, and the job has {len(found)}"
        )
    if role == "guest" and any(site.role is Role.ARBITER for site in sites):
        raise ValueError(
            "server_role: the guest runs the ServerApp, so the job must have no arbiter"
        )
    return found[0]


def client_sites(role: str, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """Return the sites of ClientApps, in the order of their partition ids."""
    return tuple(site for site in sites if site.role is not Role(role))
