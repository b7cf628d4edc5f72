"""What a running component is given."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fedflow.base.errors.components import RefusedAsStrict
from fedflow.domain.arrivals import Arrival, Departure
from fedflow.domain.job.elastic import Elastic
from fedflow.domain.job.warning import MOST, JobWarning
from fedflow.domain.site import Role, Site
from fedflow.sdk.outputs import Cache, Model
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.table import Table, TableStore
from fedflow.sdk.workers import Workers

Value: TypeAlias = Any
"""What may be sent to another party: numpy arrays of booleans, integers, floats or bytes; Arrow
tables and record batches; bytes; plain JSON. Arrow's categories arrive as their values. Python
objects are refused: nothing is unpickled.
"""


class Federation(Protocol):
    """Values to and from the runs of the same component at the other sites: `ctx.federation`.

    A value has a name and a tag, and goes from one site to another. Each is sent once and read once
    in an attempt, so a loop needs tags: `tag=str(iteration)`.

    What arrives was made by another company. Check its type, shape, size and range before use.
    """

    def send(
        self,
        name: str,
        value: Value,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        """Send `value` to the site, or to each of the sites, in `to`; do not wait for its reader.

        Args:
            required: False: a receiver may be gone, which is no error now or later. The others get
                the value.

        Raises: DuplicateValue: it was sent before; a loop needs tags. NotSendable: no value
            that can be sent. PeerFailed: the other task has failed. SpoolFull.
        """

    def send_nothing(
        self,
        name: str,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        """Send instead of a value that there is none, as what makes it was left out.

        So who receives it need not wait: `recv` raises NothingSent, and `recv_any` returns an
        Arrival that `is_nothing`. Raises: as `send`.
        """

    def recv(self, name: str, *, from_: Site, tag: str = "", timeout_s: float | None = None) -> Any:
        """Wait for a value of `from_` and return it; arrays are read-only.

        Args:
            timeout_s: longest wait, seconds; None: the setting `federation.receive_timeout_s`, an
                hour. If the other party computes for long, say more.

        Raises: PeerFailed: the other task ended without sending it. ValueTooLate: the wait was too
            long. DuplicateValue: it was read before. CodecError: it arrived damaged. NothingSent:
            the other task said that there is none.
        """

    def recv_all(
        self, name: str, *, from_: Sequence[Site], tag: str = "", timeout_s: float | None = None
    ) -> list[Any]:
        """Return one value per site, in the order of `from_`. Raises: as `recv`."""

    def recv_any(
        self, name: str, *, from_: Sequence[Site], timeout_s: float, tags: str = ""
    ) -> Arrival | Departure | None:
        """Return the next unread value `name` of any of the sites, whose tag begins with `tags`.

        Values come in the order in which they arrived, which need not be that of their sending.
        A site's departure comes once, after what has arrived of it; values of it may follow later,
        if its task is launched again.

        Args:
            timeout_s: longest wait, seconds; 0: what is there.

        Returns: None: nothing came in time.

        Raises: CodecError: a value arrived damaged. PeerFailed: the own server is gone.
        """

    def drop(self, tags: str) -> None:
        """Drop the unread values whose tags begin with `tags`, and those that arrive later.

        What a step or round left unread is dropped at the end of the run anyway. A beginning such
        as `3.` does not mean round 30.
        """


class Tracker(Protocol):
    """Records what the run shows to people on the board and by `fedflow tracking`: `ctx.tracker`.

    All values are plain JSON: `.item()` and `.tolist()` make it of numpy's.
    """

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Add points to the metric (namespace, name).

        Points are added to those recorded before; entries of `meta` replace earlier ones.

        Args:
            namespace: the part of the data: `train`, `validate`, `predict`; or any other word.
            name: of the metric; for curves of several models, the model's name and an ending.
            metric_type: how the board draws it; docs/write-a-component.md lists the types.
            points: pairs (x, y).
            meta: further facts, such as `unit_name` (of x) and `thresholds`.

        Raises: TypeError: a point is no pair, or a value not plain JSON. ValueError: a number is
            not finite, or the metric had another type before.
        """

    def progress(self, done: float) -> None:
        """Tell how much of the run is done, 0 to 1. Raises: ValueError: it is not within."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A stored state of a training: its number, its name, and the model as it was after it."""

    step_index: int  #: from 0
    step_name: str  #: for people
    model: Model  #: as it was after the step


class Checkpoints(Protocol):
    """States of this component's model while it is trained, stored at this site: `ctx.checkpoints`.

    They belong to the job and component: an attempt sees those of the attempts before it. Saving a
    step removes what earlier attempts had from that step on. Each site has its own. Before training
    goes on, the sites must agree on a step that all of them have, of the same attempt if attempts
    may differ.
    """

    def save(self, step_index: int, step_name: str, model: Model) -> None:
        """Store the model after a step; the same step again replaces it.

        Args:
            step_index: from 0.
            step_name: up to 100 letters, digits, `_`, `-` and `.`.

        Raises: FedflowError: index or name are no such, or it is a predict job. TypeError,
            ValueError: the model is not plain JSON.
        """

    def steps(self) -> Sequence[tuple[int, str]]:
        """Return (index, name) of what is stored, ascending."""

    def load(self, step_index: int) -> Step:
        """Return a stored step. Raises: CheckpointNotFound: there is none. ModelDamaged."""

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


class Identity(Protocol):
    """Signatures with the certificates by which the parties know each other: `ctx.identity`.

    A signature holds for this attempt of the task alone, and for the site that made it. The key
    stays at the party's server.
    """

    def sign(self, content: bytes) -> bytes:
        """Return this site's signature of up to 64 KiB. It carries the certificate along."""

    def verify(self, signed: Sequence[tuple[Site, bytes, bytes]]) -> list[bool]:
        """Tell of each (site, content, signature) whether this site signed it in this attempt.

        The site's certificate must be valid now, and signed by an authority that this party trusts.
        """


class RunWarnings:
    """What a run warns of; it is reported with the run's end, and shown with the job."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._found: dict[JobWarning, None] = {}

    @property
    def found(self) -> tuple[JobWarning, ...]:
        """Return the warnings so far, each once, at most `MOST`."""
        return tuple(self._found)

    def add(self, warning: JobWarning) -> None:
        """Keep a warning. Raises: RefusedAsStrict: the job is strict."""
        if self._strict:
            raise RefusedAsStrict(what=str(warning))
        if len(self._found) < MOST:
            self._found[warning] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What upstream components produced at this site: `ctx.inputs`."""

    #: by port, pairs of upstream component and table; None: it made no table at this site
    data: Mapping[str, Sequence[tuple[str, Table | None]]]
    model: Mapping[str, Model]  #: by upstream component; in a predict job the stored model
    cache: Mapping[str, Cache] = field(default_factory=dict)  #: by upstream component

    def first(self, *ports: str) -> Table | None:
        """Return the first table of the first of `ports` that has one, else None."""
        for port in ports:
            for _, table in self.data.get(port, ()):
                if table is not None:
                    return table
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """One run of a component at one site."""

    job_id: str  #: the same at all sites
    component: str  #: name of the DAG node, for example `hetero_lr_0`
    task_version: int  #: number of the attempt, from 0
    site: Site  #: who runs this
    sites: tuple[Site, ...]  #: all that run this component, in the conf's order
    params: Any  #: instance of the declared parameter class
    inputs: Inputs  #: tables, models and caches
    federation: Federation  #: values to and from other sites
    tracker: Tracker  #: metrics and progress
    tables: TableStore  #: makes new tables
    checkpoints: Checkpoints  #: states that a repeated attempt goes on from
    work_dir: Path  #: private folder of this attempt, deleted later
    cores: int  #: how many cores of this machine the task may use
    workers: Workers  #: does heavy arithmetic on rows, here or on a cluster
    log: logging.Logger  #: its lines are in the task's log, see `fedflow job log`
    model_store: ModelStore | None = None  #: for components that the server itself starts
    output_names: tuple[str, ...] = ()  #: names of data outputs that the DSL declares
    #: number of this process in the attempt at this site, from 0: for the tags of its values
    launch: int = 0
    nn_folder: Path | None = None  #: of this site's own models of HomoNN; its server's conf says it
    elastic: Elastic | None = None  #: how the job lives with absent hosts; None: not at all
    warnings: RunWarnings = field(default_factory=RunWarnings)  #: `warn` adds to it
    identity: Identity | None = None  #: signs; None: this party has no certificate (no TLS)

    def warn(self, code: str, message: str, *, hint: str = "", path: str = "") -> None:
        """Warn people of something doubtful that is accepted, as FATE accepts it.

        `code` is a stable word for programs; `message` says what was ignored and what was used;
        `path` is below the component, as `train_data` or `max_iter`. The warning stays at this
        party: in the task's log, in `fedflow job query`, and on the board.
        Raises: RefusedAsStrict: the job is strict.
        """
        where = f"{self.component}.{path}" if path else self.component
        warning = JobWarning(code=code, path=where, message=message, hint=hint)
        self.warnings.add(warning)
        self.log.warning("%s", warning)

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
