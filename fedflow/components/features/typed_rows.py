"""The rows of a raw table with every cell in its type, and what is said of cells that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.features.cells import BUILT_IN, BadCells, CellType, Marks, parse
from fedflow.components.features.raw_rows import Cells, Layout, RawRows
from fedflow.sdk import BadData

NO_MARKS = Marks.of(())
_BLANK = Marks.of((), texts=BUILT_IN)
_Read = Callable[[pa.Array], pa.Array]


class TypedRows:
    """Reads the cells of one layout."""

    def __init__(
        self,
        rows: RawRows,
        layout: Layout,
        *,
        types: Mapping[str, CellType],
        label_type: CellType,
        missing: Marks,
        keeps_text: bool,
    ) -> None:
        """`types`: of the features. `missing`: values that count as missing; with `keeps_text` text
        columns have none.
        """
        self._rows = rows
        self._layout = layout
        self._types = [types[name] for name in layout.columns]
        self._label_type = label_type
        self._missing = missing
        self._keeps_text = keeps_text

    def batches(self) -> Iterator[Cells]:
        """Yield all rows, some at a time; for a table without any one batch without rows.

        Raises: BadData: a row cannot be read, or cells are none of their type, with column, first
            row and count.
        """
        kinds = set(self._types)
        kind = kinds.pop() if len(kinds) == 1 else None
        marks = NO_MARKS if kind is None else self._marks(kind)
        found = False
        for cells in self._rows.cells(self._layout, kind, missing=marks):
            found = True
            yield self._typed(cells)
        if not found:
            yield self._typed(self._none())

    def _typed(self, cells: Cells) -> Cells:
        labels, match_ids, features = cells.labels, cells.match_ids, cells.features
        if match_ids is not None:
            match_ids = self._read(
                match_ids, lambda c: c.match_ids, _match_ids, self._layout.match_id, "match id"
            )
        if labels is not None:
            labels = self._read(
                labels, lambda c: c.labels, self._labels, self._layout.label, "label"
            )
        if not cells.typed:
            features = [self._feature(column, index) for index, column in enumerate(features)]
        return replace(cells, match_ids=match_ids, labels=labels, features=features, typed=True)

    def _feature(self, column: pa.Array, index: int) -> pa.Array:
        kind = self._types[index]
        marks = self._marks(kind)
        return self._read(
            column,
            lambda c: c.features[index],
            lambda one: parse(one, kind, missing=marks),
            self._layout.columns[index],
            "number",
        )

    def _marks(self, kind: CellType) -> Marks:
        return NO_MARKS if self._keeps_text and kind is CellType.TEXT else self._missing

    def _labels(self, column: pa.Array) -> pa.Array:
        return _without_gaps(column, self._label_type)

    def _read(
        self,
        column: pa.Array,
        choose: Callable[[Cells], pa.Array | None],
        read: _Read,
        name: str | None,
        what: str,
    ) -> pa.Array:
        """Return a column as `read` gives it. Raises: BadData: with all that is wrong in it."""
        try:
            return read(column)
        except BadCells:
            pass
        rows, first, count = 0, -1, 0
        for cells in self._rows.cells(self._layout, None, missing=NO_MARKS):
            try:
                read(choose(cells))
            except BadCells as bad:
                first = rows + bad.first if first < 0 else first
                count += bad.count
            rows += len(cells.ids)
        raise BadData(
            where=f"column {name!r}",
            reason=f"{count} of {rows} cells hold no valid {what}, first in row {first + 1}",
        )

    def _none(self) -> Cells:
        text = pa.array([], pa.string())
        return Cells(
            ids=text,
            match_ids=None if self._layout.match_id is None else text,
            labels=None if self._layout.label is None else text,
            features=[text] * len(self._layout.columns),
            typed=False,
        )


def _match_ids(column: pa.Array) -> pa.Array:
    return _without_gaps(column, CellType.TEXT)


def _without_gaps(cells: pa.Array, kind: CellType) -> pa.Array:
    """Return cells of type `kind`. Raises: BadCells: one is missing or of another type."""
    found = parse(cells, kind, missing=_BLANK)
    if found.null_count:
        raise BadCells(pc.index(pc.is_null(found), True).as_py(), found.null_count)
    return found
