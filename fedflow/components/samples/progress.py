"""How far a pass over a table's rows is, shown to people."""

from __future__ import annotations

from collections.abc import Callable

from fedflow.sdk import Context, Table


class RowProgress:
    """Shows one pass over `rows` rows as the part of a run from `start` to `end`, 0 to 1."""

    def __init__(
        self, ctx: Context, rows: int | Table, *, start: float = 0.0, end: float = 1.0
    ) -> None:
        self.done = 0  #: rows
        self._tracker = ctx.tracker
        self._rows = max(1, rows if isinstance(rows, int) else rows.count)
        self._start, self._width = start, end - start

    def add(self, rows: int) -> None:
        """Tell that so many more rows are done."""
        self.done += rows
        self._tracker.progress(self._start + self._width * min(1.0, self.done / self._rows))


def part_of(ctx: Context, *, start: float = 0.0, end: float = 1.0) -> Callable[[float], None]:
    """Return what shows how far one pass is, as the part of a run from `start` to `end`."""

    def show(done: float) -> None:
        ctx.tracker.progress(min(end, start + (end - start) * done))

    return show
