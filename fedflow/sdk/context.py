"""What a running component is given."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fedflow.domain.site import Role, Site
from fedflow.sdk.outputs import Cache, Model
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.table import Table, TableStore
from fedflow.sdk.workers import Workers

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
class Step:
    """A stored state of a training: its number, its name, and the model as it was after it."""

    step_index: int  #: from 0
    step_name: str
    model: Model


class Checkpoints(Protocol):
    """States of this component's model while it is trained, stored at this site.

    They belong to the job and component: an attempt sees those of the attempts before it. Saving a
    step removes what earlier attempts had from that step on, so that the steps of one list always
    belong together. Each site has its own; before training goes on, the sites must agree on a step
    that all of them have. What the server refuses arrives as ServerRefused with its sentence.
    """

    def save(self, step_index: int, step_name: str, model: Model) -> None:
        """Store the model after a step; the same step again replaces it.

        Raises: BadRequest: the index is negative, or the name is empty, longer than 100 characters,
            or holds other than letters, digits, `_`, `-` and `.`; or it is a predict job.
            TypeError, ValueError: the model is not plain JSON.
        """

    def steps(self) -> Sequence[tuple[int, str]]:
        """Return (index, name) of what is stored, ascending."""

    def load(self, step_index: int) -> Step:
        """Return a stored step. Raises: CheckpointNotFound, ModelDamaged."""

    def latest(self) -> Step | None:
        """Return the step with the highest index, None if there is none. Raises: ModelDamaged."""


class ModelStore(Protocol):
    """This site's models and the external model store, for the components that this server itself
    starts; which model is meant, the task's parameters say.
    """

    def store(self) -> Mapping[str, Any]:
        """Copy the model to the external store; return `sha256`, `size_bytes` of its archive."""

    def restore(self) -> Mapping[str, Any]:
        """Bring the model back from the external store. Returns the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What upstream components produced, at this site.

    `data[port]` is a list of (upstream component, table); a table that the upstream component did
    not produce at this site is None. `model` maps upstream component to its model, `cache` to its
    cache.
    """

    data: Mapping[str, Sequence[tuple[str, Table | None]]]
    model: Mapping[str, Model]
    cache: Mapping[str, Cache] = field(default_factory=dict)

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
    checkpoints: Checkpoints
    work_dir: Path  #: private folder of this attempt
    cores: int  #: how many cores of this machine the task may use
    workers: Workers  #: does heavy arithmetic on rows, here or on a cluster
    log: logging.Logger
    model_store: ModelStore | None = None  #: None: there is none, as in tests
    output_names: tuple[str, ...] = ()  #: declared `output.data` names

    @property
    def planned(self) -> PlannedRun:
        """Return what was known of this run before it started."""
        return PlannedRun(
            site=self.site,
            sites=self.sites,
            data_ports=tuple(self.inputs.data),
            has_model=bool(self.inputs.model),
            has_cache=bool(self.inputs.cache),
        )

    def sites_of(self, role: Role) -> tuple[Site, ...]:
        """Return this component's sites with `role`, in the conf's order."""
        return tuple(s for s in self.sites if s.role is role)

    def only(self, role: Role) -> Site:
        """Return the single site with `role`. Raises: ValueError: there is not exactly one."""
        found = self.sites_of(role)
        if len(found) != 1:
            raise ValueError(f"{self.component} needs exactly one {role.value}, got {len(found)}")
        return found[0]
