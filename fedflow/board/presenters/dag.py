"""The graph of a job: what never changes of it (boxes, ports, edges), and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from fedflow.base.messages import verbatim
from fedflow.base.values import dataclass
from fedflow.board.formats import duration
from fedflow.board.presenters.blame import STOPPED, followed_in
from fedflow.domain.job.conf import mode_of
from fedflow.domain.job.document import Report
from fedflow.domain.job.dsl import Component, Ref, parse_dsl
from fedflow.domain.records import TaskRecord, percent
from fedflow.domain.scheduling.explain import SILENT
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_FINAL, TaskStatus, federated_status
from fedflow.wire.api.job_history import Wait

MESSAGE: Final = 400  #: characters of a reason in a list
_NONE: Final[Mapping[str, str]] = {}


class Node(TypedDict):
    """A component as it is drawn: `[kind, name]` of each port; `here` is whether it runs here."""

    name: str
    module: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    here: bool


class Edge(TypedDict):
    """What one component takes from another: positions of the output and of the input port."""

    source: str
    output: int
    target: str
    input: int
    kind: str  #: data, model or cache


class Graph(TypedDict):
    """What never changes of a job's drawing."""

    nodes: list[Node]
    edges: list[Edge]


def graph(dsl: Any, conf: Any, *, order: Sequence[str], here: Collection[str]) -> Graph:
    """Return the boxes and edges of a job; `here` are the components that do their work here."""
    parsed = {c.name: c for c in parse_dsl(dsl, Report(), mode=mode_of(conf))}
    declared = dsl.get("components", {}) if isinstance(dsl, dict) else {}
    nodes: list[Node] = []
    edges: list[Edge] = []
    for name in order:
        component = parsed.get(name)
        if component is None:  # a DSL that this release would refuse
            given = declared.get(name)
            module = str(given.get("module", "")) if isinstance(given, dict) else ""
            nodes.append(Node(name=name, module=module, inputs=[], outputs=[], here=name in here))
            continue
        inputs = _inputs(component)
        nodes.append(
            Node(
                name=name,
                module=component.module,
                inputs=[(kind, port) for kind, port, _ in inputs],
                outputs=_outputs(component),
                here=name in here,
            )
        )
        edges += _edges(name, inputs, parsed)
    return Graph(nodes=nodes, edges=edges)


_Input = tuple[str, str, tuple[Ref, ...]]  # kind, port, what it takes


def _inputs(component: Component) -> list[_Input]:
    found: list[_Input] = [("data", port, refs) for port, refs in component.data.items()]
    found += [
        (kind, port, refs)
        for kind, port, refs in (
            ("model", "model", component.model),
            ("model", "isometric_model", component.isometric_model),
            ("cache", "cache", component.cache),
        )
        if refs
    ]
    return found


def _outputs(component: Component) -> list[tuple[str, str]]:
    return [
        *(("data", name) for name in component.data_outputs),
        *(("model", name) for name in component.model_outputs),
        *(("cache", name) for name in component.cache_outputs),
    ]


def _edges(
    target: str, inputs: Sequence[_Input], parsed: Mapping[str, Component]
) -> Iterable[Edge]:
    for place, (kind, _, refs) in enumerate(inputs):
        for ref in refs:
            source = parsed.get(ref.component)
            if source is None:
                continue
            output = _outputs(source).index((kind, ref.output))
            yield Edge(source=ref.component, output=output, target=target, input=place, kind=kind)


# --- how components stand -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyComponent:
    """One site's part of a component."""

    site: Site
    status: str  #: `STOPPED` if it failed only because of another site
    because: str  #: that site
    progress: float
    is_own: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentRow:
    """A component as the page of one site shows it."""

    name: str
    module: str
    status: str  #: of the task as far as this site knows; empty: it does not run here
    parts: tuple[PartyComponent, ...]
    progress: float | None  #: of what runs, 0 to 1
    attempt: int
    started_ms: int | None
    ended_ms: int | None
    code: str  #: why it is as it is
    message: str
    because: str  #: the site that failed, where this site's share only followed it
    remedy: str
    whole: str  #: status of the task over all sites, if it is another one than here
    held_by: tuple[Site, ...]  #: sites that others have been waiting for
    inherited_from: str  #: id of the job that made its results
    here: bool  #: this site takes part in it

    @property
    def duration_ms(self) -> int | None:
        """Return how long it took, None if it has not ended."""
        if self.started_ms is None or self.ended_ms is None:
            return None
        return self.ended_ms - self.started_ms


def rows(
    order: Sequence[str],
    modules: Mapping[str, str],
    tasks: Sequence[TaskRecord],
    *,
    site: Site,
    is_initiator: bool,
    waits: Sequence[Wait] = (),
) -> list[ComponentRow]:
    """Return every component of a job in order, as `site` sees it."""
    by_name: dict[str, list[TaskRecord]] = {name: [] for name in order}
    for task in tasks:
        by_name.setdefault(task.key.component, []).append(task)
    told: dict[str, list[Wait]] = {}
    silent = {Site.from_key(w.site).party_id for w in waits if w.code == SILENT and w.site}
    for wait in waits:
        if wait.component:
            told.setdefault(wait.component, []).append(wait)
    return [
        _row(
            name, modules.get(name, ""), found, site=site, is_initiator=is_initiator,
            waits=told.get(name, []), silent=silent,
        )
        for name, found in by_name.items()
    ]  # fmt: skip


def _row(
    name: str, module: str, tasks: Sequence[TaskRecord], *, site: Site, is_initiator: bool,
    waits: Sequence[Wait], silent: Collection[str],
) -> ComponentRow:  # fmt: skip
    because = followed_in(tasks)
    parts = tuple(
        PartyComponent(
            site=t.key.site,
            status=STOPPED if t.key.site in because else t.party_status.value,
            because=because.get(t.key.site, ""),
            progress=t.progress,
            is_own=t.key.site == site,
        )
        for t in tasks
    )
    own = next((t for t in tasks if t.key.site == site), None)
    status, whole = "", ""
    if tasks and is_initiator:
        status = _federated(tasks).value
    elif own is not None:
        status = own.party_status.value
        whole = own.status.value if own.status is not own.party_status else ""
    code, message, remedy = _why(tasks, own, waits, status, because)
    if not is_initiator and site in because:
        status = STOPPED
    running = [t.progress for t in tasks if t.party_status is TaskStatus.RUNNING]
    started = [t.started_ms for t in tasks if t.started_ms is not None]
    ended = [t.ended_ms for t in tasks if t.ended_ms is not None]
    return ComponentRow(
        name=name,
        module=module or (tasks[0].module if tasks else ""),
        status=status,
        parts=parts,
        progress=min(running) if running else None,
        attempt=max((t.key.version for t in tasks), default=0),
        started_ms=min(started, default=None),
        ended_ms=max(ended, default=None) if len(ended) == len(tasks) else None,
        code=code,
        message=verbatim(message, MESSAGE),
        because=because.get(site, ""),
        remedy=verbatim(remedy, MESSAGE),
        whole=whole,
        held_by=_held_by(tasks, silent),
        inherited_from=next((t.inherited_from for t in tasks if t.inherited_from), ""),
        here=own is not None and not is_left_out(own),
    )


def is_left_out(task: TaskRecord) -> bool:
    """Tell whether a component has nothing to do at its site because its parameters say so."""
    given = task.parameters
    return isinstance(given, dict) and given.get("need_run") is False


def _federated(tasks: Sequence[TaskRecord]) -> TaskStatus:
    return federated_status(t.party_status for t in tasks)


def _held_by(tasks: Sequence[TaskRecord], silent: Collection[str]) -> tuple[Site, ...]:
    """Return the sites that have not ended while others have, and are not about to be stopped; of
    a running component also those that are silent.
    """
    if _interrupted(tasks):
        return ()
    is_late = any(t.party_status in TASK_FINAL for t in tasks)
    return tuple(
        t.key.site
        for t in tasks
        if (t.party_status not in TASK_FINAL and is_late)
        or (t.party_status is TaskStatus.RUNNING and t.key.site.party_id in silent)
    )


def _interrupted(tasks: Sequence[TaskRecord]) -> bool:
    bad = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED)
    return any(t.party_status in bad for t in tasks)


def _why(
    tasks: Sequence[TaskRecord], own: TaskRecord | None, waits: Sequence[Wait],
    status: str, because: Mapping[Site, str],
) -> tuple[str, str, str]:  # fmt: skip
    """Return code, sentence and remedy: the failure's own, else what is waited for."""
    failed = [t for t in tasks if t.reason is not None and t.party_status.value == status]
    failed.sort(key=lambda t: (t.key.site in because, t is not own))
    if failed and failed[0].reason is not None:
        return failed[0].reason.code, failed[0].reason.message, ""
    shown = [w for w in waits if status != TaskStatus.RUNNING.value]
    if shown:
        return shown[0].code, shown[0].message, shown[0].remedy
    return "", "", ""


def states(
    found: Sequence[ComponentRow], told: Callable[[str], str] = str,
    figures: Mapping[str, str] = _NONE,
) -> dict[str, Any]:  # fmt: skip
    """Return how components stand, for the drawing: sites once, and per component its status,
    progress, attempt, duration, figure, and `[site's place, status, progress]` per site. `told`
    puts a sentence into the viewer's language.
    """
    sites: dict[Site, int] = {}
    for row in found:
        for part in row.parts:
            sites.setdefault(part.site, len(sites))
    return {
        "sites": [str(site) for site in sites],
        "of": {
            row.name: {
                "s": row.status,
                "p": round(row.progress, 3) if row.progress is not None else None,
                "v": row.attempt,
                "parts": [[sites[p.site], p.status, round(p.progress, 3)] for p in row.parts],
                **({"t": duration(row.duration_ms)} if row.duration_ms is not None else {}),
                **({"n": figures[row.name]} if figures.get(row.name) else {}),
                **({"held": [sites[s] for s in row.held_by]} if row.held_by else {}),
                **({"why": f"{row.code}: {told(row.message)[:160]}"} if row.code else {}),
            }
            for row in found
        },
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many components stand how."""

    total: int
    ended: int
    percent: int  #: with what runs by its own progress
    by_status: tuple[tuple[str, int], ...]


def counts(found: Sequence[ComponentRow]) -> Counts:
    """Return how many components stand how, in the order in which they are met."""
    by_status: dict[str, int] = {}
    for row in found:
        if row.status:
            by_status[row.status] = by_status.get(row.status, 0) + 1
    final = {STOPPED, *(s.value for s in TASK_FINAL)}
    return Counts(
        total=sum(by_status.values()),
        ended=sum(n for s, n in by_status.items() if s in final),
        percent=percent(
            [1.0 if r.status in final else r.progress or 0.0 for r in found if r.status]
        ),
        by_status=tuple(by_status.items()),
    )
