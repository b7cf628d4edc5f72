"""Metrics as files to download: JSON, CSV, and a zip of CSVs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from typing import Any, Final

from fedflow.board.presenters.charts import (
    Chart,
    Grid,
    Group,
    MetricTree,
    NamedValues,
    Steps,
    View,
    shown,
)
from fedflow.board.presenters.slugs import slug
from fedflow.wire.csv_text import csv_text

MOST_ROWS: Final = 1_000_000  #: of one file
MOST_FILES: Final = 500  #: of a report


def view_csv(view: View) -> str:
    """Return a view as CSV, all its points."""
    return csv_text(
        [_cell(cell) for cell in row]
        for grid in _grids(view)
        for row in (grid.columns, *grid.rows[:MOST_ROWS])
    )


def report(groups: Iterable[Group], extra: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a zip with a CSV per view, and files of other contents."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        views = [view for group in groups for view in group.views][:MOST_FILES]
        for view in views:
            target.writestr(_entry(f"{slug(view.key)}.csv"), view_csv(view))
        for name, text in extra:
            target.writestr(_entry(name), text)
    return content.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry without the time of its making, so that equal reports are equal files."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _grids(view: View) -> list[Grid]:
    if isinstance(view, Grid):
        return [view]
    if isinstance(view, Chart):
        return [view.grid()]
    if isinstance(view, NamedValues):
        return [_grid(view, ("name", "value"), view.rows)]
    if isinstance(view, Steps):
        return _stepped(view)
    return [_grid(view, ("value",), ((view.value,),))]


def _stepped(view: Steps) -> list[Grid]:
    """Return one table per place in a frame: the rows of all steps, with the step before them."""
    found: list[Grid] = []
    for place in range(max(map(len, view.frames), default=0)):
        rows = [
            (label, *row)
            for label, frame in zip(view.labels, view.frames, strict=False)
            if place < len(frame)
            for row in frame[place].rows
        ]
        first = next(frame[place] for frame in view.frames if place < len(frame))
        found.append(_grid(view, (view.what, *first.columns), tuple(rows)))
    return found


def _grid(view: NamedValues | Steps | MetricTree, columns: tuple[str, ...], rows: Any) -> Grid:
    return Grid(key=view.key, title=view.title, columns=columns, rows=tuple(rows))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else shown(value)
