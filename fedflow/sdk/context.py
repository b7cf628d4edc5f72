"""What a running component is given."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fedflow.domain.site import Role, Site
from fedflow.sdk.outputs import Model
from fedflow.sdk.table import Table, TableStore

Value: TypeAlias = Any
"""What may be sent to another party: numpy arrays (kinds b i u f S V), Arrow tables and record
batches,
raw bytes, plain JSON values. Ciphertexts of one fixed width travel as bytes or as an array of
`V<width>`.
"""


class Federation(Protocol):
    """Values to and from the same component's runs at the other sites.

    A value is named by (name, tag, source, destination) within one task attempt and may be sent
    and read once. Sends return when the own server has the value. `remote` and `get` are FATE's
    words for the same.
    """

    def send(self, name: str, value: Value, *, to: Site | Sequence[Site], tag: str = "") -> None:
        """Send `value` to every site in `to`. Raises: DuplicateValue, PeerFailed, SpoolFull."""

    def recv(self, name: str, *, from_: Site, tag: str = "", timeout_s: float | None = None) -> Any:
        """Wait for a value of `from_` and return it; arrays are read-only views.

        Raises: PeerFailed: the other task ended without sending it. ValueTooLate. CodecError.
        """

    def recv_all(
        self, name: str, *, from_: Sequence[Site], tag: str = "", timeout_s: float | None = None
    ) -> list[Any]:
        """Return one value per site, in the order of `from_`."""


class Tracker(Protocol):
    """Records what the run shows to people. All values are plain JSON."""

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Add points to the metric (namespace, name); `meta` entries replace earlier ones."""

    def progress(self, done: float) -> None:
        """Tell how much of the run is done, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What upstream components produced, at this site.

    `data[port]` is a list of (upstream component, table); a table that the upstream component did
    not produce at this site is None. `model` maps upstream component to its model.
    """

    data: Mapping[str, Sequence[tuple[str, Table | None]]]
    model: Mapping[str, Model]

    def first(self, *ports: str) -> Table | None:
        """Return the first table of the first connected port among `ports`, or None."""
        for port in ports:
            for _, table in self.data.get(port, ()):
                if table is not None:
                    return table
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """One run of a component at one site."""

    job_id: str
    component: str  #: name of the DAG node, for example `hetero_lr_0`
    task_version: int
    site: Site
    sites: tuple[Site, ...]  #: the sites that run this component, in the conf's order
    params: Any  #: instance of the declared parameter class
    inputs: Inputs
    federation: Federation
    tracker: Tracker
    tables: TableStore
    work_dir: Path  #: private folder of this attempt
    cores: int  #: how many cores the task may use
    log: logging.Logger
    output_names: tuple[str, ...] = ()  #: declared `output.data` names

    def sites_of(self, role: Role) -> tuple[Site, ...]:
        """Return this component's sites with `role`, in the conf's order."""
        return tuple(s for s in self.sites if s.role is role)

    def only(self, role: Role) -> Site:
        """Return the single site with `role`. Raises: ValueError: there is not exactly one."""
        found = self.sites_of(role)
        if len(found) != 1:
            raise ValueError(f"{self.component} needs exactly one {role.value}, got {len(found)}")
        return found[0]
