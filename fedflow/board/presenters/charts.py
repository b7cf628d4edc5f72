"""What a page of metrics is made of: charts, grids, facts, steps and trees, as plain values.

A `Chart` holds all its points; `Chart.drawn` is what a browser gets, thinned so that peaks stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.domain.job import figures

INFINITE: Final = -9_999_999  #: what FATE writes for a number that is infinite
MOST_POINTS: Final = 2_000  #: of a series in a drawing
MOST_SERIES: Final = 40  #: in a drawing
MOST_IN_ALL: Final = 16_000  #: points of a drawing
MOST_TEXT: Final = 200  #: characters of a name or a note in a drawing

_LEAST_POINTS: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One curve, or one set of bars; x is ascending. `notes`: what stands beside each point."""

    name: str
    model: str  #: what the legend groups by, such as a component or a fold
    part: str  #: train, validate, predict ...
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    notes: tuple[str, ...] = ()
    is_line: bool = True
    axis: int = 0  #: 1: the second y axis, at the right


@dataclass(frozen=True, kw_only=True, slots=True)
class VerticalLine:
    """A dashed vertical line with a text."""

    x: float
    low: float
    high: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """Curves or bars over common axes. With `categories`, x are their positions."""

    key: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    note_label: str = ""
    right_label: str = ""  #: of the second y axis
    marks: tuple[VerticalLine, ...] = ()
    categories: tuple[str, ...] = ()
    area: bool = False
    diagonal: bool = False  #: what chance would give is drawn too
    left_out: int = 0  #: series that are not drawn
    groups_label: str = ""  #: what `Series.model` is, if it is no model

    kind = "chart"

    @property
    def count(self) -> int:
        """Return how many points there are in all."""
        return sum(len(s.x) for s in self.series)

    def drawn(self, most: int = MOST_POINTS) -> Chart:
        """Return the chart with at most `most` points of each series, and not too many of them."""
        kept = self.series[-MOST_SERIES:]
        most = min(most, max(_LEAST_POINTS, MOST_IN_ALL // max(1, len(kept))))
        return replace(
            self,
            series=tuple(thinned(s, most) for s in kept),
            left_out=self.left_out + len(self.series) - len(kept),
        )

    def grid(self, most: int | None = None) -> Grid:
        """Return all points as a table, one row each; `most` per series."""
        notes = bool(self.note_label)
        columns = ["series", self.x_label or "x", self.y_label or "y"]
        rows: list[tuple[Any, ...]] = []
        for series in self.series:
            shown = series if most is None else thinned(series, most)
            for at, x in enumerate(shown.x):
                place = int(x)
                known = self.categories and 0 <= place < len(self.categories)
                key: Any = self.categories[place] if known else x
                note = (shown.notes[at] if at < len(shown.notes) else "",) if notes else ()
                rows.append((shown.name, key, shown.y[at], *note))
        return Grid(
            key=self.key,
            title=self.title,
            columns=(*columns, *((self.note_label,) if notes else ())),
            rows=tuple(rows),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what the drawing reads."""
        chart = self.drawn()
        return {
            "title": clipped(chart.title),
            "xLabel": clipped(chart.x_label),
            "yLabel": clipped(chart.y_label),
            "noteLabel": clipped(chart.note_label),
            "rightLabel": clipped(chart.right_label),
            "groupsLabel": chart.groups_label,
            "area": chart.area,
            "diagonal": chart.diagonal,
            "categories": [clipped(c) for c in chart.categories],
            "count": self.count,
            "drawn": chart.count,
            "leftOut": chart.left_out,
            "marks": [
                {"x": m.x, "low": m.low, "high": m.high, "text": clipped(m.text)}
                for m in chart.marks
            ],
            "series": [
                {
                    "name": clipped(s.name),
                    "model": clipped(s.model),
                    "part": clipped(s.part),
                    "x": list(s.x),
                    "y": list(s.y),
                    "notes": [clipped(n) for n in s.notes],
                    "line": s.is_line,
                    "axis": s.axis,
                }
                for s in chart.series
            ],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A table; cells are plain JSON values. `best` marks cells (row, column)."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()

    kind = "grid"


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedValues:
    """Names with values, in order."""

    key: str
    title: str
    rows: tuple[tuple[str, Any], ...]

    kind = "facts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Tables of which one step is shown at a time; `first` is the one that is shown first."""

    key: str
    title: str
    what: str  #: what a step is, such as "Threshold"
    labels: tuple[str, ...]
    frames: tuple[tuple[Grid, ...], ...]
    first: int = 0

    kind = "steps"

    def to_json(self) -> dict[str, Any]:
        """Return what the slider reads: cells as text."""
        return {
            "what": self.what,
            "labels": [clipped(label) for label in self.labels],
            "frames": [
                [
                    {
                        "title": clipped(grid.title),
                        "columns": [clipped(c) for c in grid.columns],
                        "rows": [[clipped(shown(cell)) for cell in row] for row in grid.rows],
                    }
                    for grid in frame
                ]
                for frame in self.frames
            ],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricTree:
    """A value of any form."""

    key: str
    title: str
    value: Any

    kind = "tree"


View = Chart | Grid | NamedValues | Steps | MetricTree


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Views that belong together, under one heading."""

    key: str
    title: str
    views: tuple[View, ...]
    left_out: int = 0  #: views that are not shown


# --- numbers and texts ----------------------------------------------------------------------------


def finite(value: Any) -> float | None:
    """Return a number that can be drawn, else None: no number, infinite, or too large."""
    found = figures.number(value)
    return None if found == INFINITE else found


def is_number(value: Any) -> bool:
    """Tell whether a value is a number, even one that cannot be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """Return a cell's value as text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _shown_number(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and len(value) <= 20 and not any(map(_is_nested, value)):
        return ", ".join(shown(one) for one in value)
    return clipped(repr(value), 2000)


def _shown_number(value: float) -> str:
    if value in (INFINITE, math.inf):
        return "∞"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "-∞"
        return f"{value:.6g}"
    if abs(value) < 10**15:
        return f"{value:,}"
    return str(value) if abs(value) < 10**30 else "> 1e30"


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple | dict)


def clipped(text: str, length: int = MOST_TEXT) -> str:
    """Return at most `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


# --- thinning -------------------------------------------------------------------------------------


def thinned(series: Series, most: int) -> Series:
    """Return a series of at most `most` points; each stretch keeps its ends of value, its gaps
    stay.
    """
    count = len(series.x)
    if count <= most:
        return series
    keep = thinned_places(series.y, most)
    return replace(
        series,
        x=tuple(series.x[i] for i in keep),
        y=tuple(series.y[i] for i in keep),
        notes=tuple(series.notes[i] for i in keep if i < len(series.notes)),
    )


def thinned_places(values: Sequence[float | None], most: int) -> list[int]:
    """Return the places of at most `most` values: both ends, and of each stretch the least and the
    greatest one.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = max(1, (most - 2) // 2)
    keep = {0, count - 1}
    for number in range(stretches):
        start = 1 + number * (count - 2) // stretches
        stop = 1 + (number + 1) * (count - 2) // stretches
        known = [(v, i) for i in range(start, stop) if (v := values[i]) is not None]
        if known:
            keep.update((min(known)[1], max(known)[1]))
        elif start < stop:
            keep.add(start)
    return sorted(keep)
