"""What is known of a component's run at one site before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedflow.base.values import dataclass
from fedflow.domain.site import Role, Site


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """What is known of a component's run at one site before it starts."""

    site: Site  #: who runs it
    sites: tuple[Site, ...]  #: all that run the component, in the conf's order
    data_ports: tuple[str, ...] = ()  #: connected ones, as `train_data`
    has_model: bool = False  #: a model or isometric model is connected, or stored for prediction
    has_cache: bool = False  #: a cache is connected

    def sites_of(self, role: Role) -> tuple[Site, ...]:
        """Return the sites with `role`, in the conf's order."""
        return tuple(s for s in self.sites if s.role is role)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, which `planned_run_from_json` reads."""
        return {
            "site": self.site.key,
            "sites": [site.key for site in self.sites],
            "data_ports": list(self.data_ports),
            "has_model": self.has_model,
            "has_cache": self.has_cache,
        }


def planned_run_from_json(given: Mapping[str, Any]) -> PlannedRun:
    """Return what `PlannedRun.to_json` gave. Raises: KeyError, ValueError: it is something else."""
    return PlannedRun(
        site=Site.from_key(given["site"]),
        sites=tuple(Site.from_key(key) for key in given["sites"]),
        data_ports=tuple(given["data_ports"]),
        has_model=bool(given["has_model"]),
        has_cache=bool(given["has_cache"]),
    )
