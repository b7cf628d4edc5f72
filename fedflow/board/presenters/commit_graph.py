"""The commits of a model as rows with a graph: each row has the part of the drawing beside it.

Lanes are columns of the drawing. A commit stands in the lane that leads to it from its children
above; its first parent goes on in this lane, others get one of their own. A parent that is not
below on the same page ends as a short dashed line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.domain.models.history import Commit, VersionId

WIDTH: Final = 18  #: of a lane, in units of the drawing
HEIGHT: Final = 44  #: of a row
COLOURS: Final = 8  #: of lanes, as in the style sheet
MEASURES: Final[Sequence[str]] = (
    "auc", "ks", "f1", "accuracy", "precision", "recall", "root_mean_squared_error",
    "mean_absolute_error", "r2_score", "loss",
)  # fmt: skip
"""Measures that a row shows, the first ones that there are."""
MOST_MEASURES: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphLine:
    """A line of a row, and which of the colours it has."""

    path: str
    colour: int
    is_open: bool = False  #: it leads to a commit that is not on this page


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitRow:
    """One commit with its part of the drawing."""

    commit: Commit
    x: float  #: of the commit's mark
    colour: int
    lines: Sequence[GraphLine] = field(default=())
    measures: Sequence[tuple[str, float]] = field(default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitGraph:
    """All rows; every part of the drawing is `width` by `HEIGHT`."""

    rows: Sequence[CommitRow]
    width: int


def graph_of(
    commits: Sequence[Commit], metrics: Mapping[VersionId, Mapping[str, Any]]
) -> CommitGraph:
    """Return the rows of commits, which come before their parents as far as times allow."""
    places = {commit.id: place for place, commit in enumerate(commits)}
    lanes: list[VersionId | None] = []  #: which commit below each lane leads to
    rows, widest = [], 1
    for place, commit in enumerate(commits):
        above = list(lanes)
        ending = [lane for lane, wanted in enumerate(above) if wanted == commit.id]
        own = ending[0] if ending else _free(lanes)
        for lane in ending:
            lanes[lane] = None
        below = [parent for parent in commit.parents if places.get(parent, -1) > place]
        leading = _lead(lanes, below, own)
        lines = [_line(lane, own, top=True) for lane in ending]
        lines += [
            _through(lane)
            for lane, wanted in enumerate(above)
            if wanted is not None and lane not in ending
        ]
        lines += [_line(lane, own, top=False) for lane in leading]
        if len(below) < len(commit.parents):
            lines.append(_stub(own))
        rows.append(
            CommitRow(
                commit=commit,
                x=_x(own),
                colour=own % COLOURS + 1,
                lines=lines,
                measures=measures_of(metrics.get(commit.id, {})),
            )
        )
        widest = max(widest, len(lanes), own + 1)
    return CommitGraph(rows=rows, width=widest * WIDTH)


def measures_of(metrics: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the measures that a row shows; of several parts that of the validation."""
    found: dict[str, float] = {}
    for name, value in _numbers(metrics):
        found[name] = value
    return [(name, found[name]) for name in MEASURES if name in found][:MOST_MEASURES]


def _numbers(value: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return numbers by their names at any depth, those of a validation last."""
    found: list[tuple[str, float]] = []
    for name, one in sorted(value.items(), key=lambda pair: "valid" in str(pair[0]).lower()):
        if isinstance(one, Mapping):
            found += _numbers(one)
        elif isinstance(one, int | float) and not isinstance(one, bool):
            found.append((str(name).lower(), float(one)))
    return found


def _free(lanes: list[VersionId | None]) -> int:
    """Return a lane that leads nowhere, perhaps a new one."""
    for lane, wanted in enumerate(lanes):
        if wanted is None:
            return lane
    lanes.append(None)
    return len(lanes) - 1


def _lead(lanes: list[VersionId | None], parents: Sequence[VersionId], own: int) -> list[int]:
    """Let lanes lead to parents, the first in the commit's own; return them."""
    found = []
    for parent in parents:
        if parent in lanes:
            found.append(lanes.index(parent))
            continue
        lane = own if lanes[own] is None else _free(lanes)
        lanes[lane] = parent
        found.append(lane)
    return found


def _x(lane: int) -> float:
    return WIDTH / 2 + lane * WIDTH


def _through(lane: int) -> GraphLine:
    return GraphLine(path=f"M{_x(lane):g} 0 V{HEIGHT}", colour=lane % COLOURS + 1)


def _line(lane: int, own: int, *, top: bool) -> GraphLine:
    """Return the line between a lane's end above or below and the commit's mark."""
    middle, end = HEIGHT / 2, 0 if top else HEIGHT
    quarter = (middle + end) / 2
    curve = f"M{_x(lane):g} {end:g} C{_x(lane):g} {quarter:g} {_x(own):g} {quarter:g}"
    return GraphLine(path=f"{curve} {_x(own):g} {middle:g}", colour=lane % COLOURS + 1)


def _stub(own: int) -> GraphLine:
    path = f"M{_x(own):g} {HEIGHT / 2:g} V{HEIGHT}"
    return GraphLine(path=path, colour=own % COLOURS + 1, is_open=True)
