"""The rows of a raw table with every cell in its type, and what is said of cells that have none.

Blocks are read wherever the table's engine does it. A block that cannot be read only says so; what
is wrong in the whole table is then looked up in a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.features.cells import BUILT_IN, BadCells, CellType, SpecialValues, parse
from fedflow.components.features.raw_rows import BlockRows, Cells, Layout
from fedflow.components.features.row_formats import slices
from fedflow.sdk import BadData, Table

NO_MARKS = SpecialValues.of(())
_BLANK = SpecialValues.of((), texts=BUILT_IN)
_Read = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class _Check:
    """What is looked at: one column's cells, or whole rows."""

    what: str  #: what cells shall be
    column: str | None = None


_TEXTS: Final = _Check("texts")  #: that are not cut into cells; the others cannot be looked at then
_VALUES: Final = _Check("values")  #: of all features


@dataclass(kw_only=True, slots=True)
class _Faults:
    """What is wrong in a block, or in several that follow each other."""

    rows: int = 0
    found: dict[_Check, tuple[int, int]] = field(default_factory=dict)  #: first row, count

    def add(self, check: _Check, bad: BadCells, *, start: int) -> None:
        """Add what is wrong in some rows from `start`; the fault met first stays the first."""
        first, count = self.found.get(check, (start + bad.first, 0))
        self.found[check] = (first, count + bad.count)

    def merge(self, block: _Faults) -> None:
        """Add the block after those so far."""
        for check, (first, count) in block.found.items():
            self.add(check, BadCells(first, count), start=self.rows)
        self.rows += block.rows


@dataclass(frozen=True, kw_only=True, slots=True)
class CellReader:
    """Reads blocks of one layout; it can be sent to another process."""

    blocks: BlockRows
    layout: Layout
    types: tuple[CellType, ...]  #: of the features
    label_type: CellType
    missing: SpecialValues  #: values that count as missing
    keeps_text: bool  #: text columns have no missing ones

    def read(self, batch: pa.RecordBatch) -> Iterator[Cells]:
        """Yield the rows of a block, some at a time, at least once.

        Raises: BadData: a row or a cell cannot be read; `TypedRows.explained` says which.
        """
        try:
            for cells in self.blocks.cells(batch, *self._kind()):
                yield self._typed(cells)
        except BadCells as exc:
            raise BadData(where="a block of rows", reason="it has cells of another type") from exc

    def faults(self, batch: pa.RecordBatch) -> _Faults:
        """Return what is wrong in a block, in the order in which `read` comes to it."""
        faults = _Faults()
        for part in slices(batch, len(self.types)):
            faults.merge(self._part_faults(part))
        return faults

    def _part_faults(self, part: pa.RecordBatch) -> _Faults:
        faults = _Faults(rows=part.num_rows)
        typed = True
        try:
            typed = all(cells.typed for cells in self.blocks.cells(part, *self._kind()))
        except BadCells as bad:
            faults.add(_VALUES, bad, start=0)
        try:
            (cells,) = self.blocks.cells(part, None, NO_MARKS)
        except BadCells:
            return _Faults(rows=part.num_rows, found={_TEXTS: faults.found[_VALUES]})
        for check, column, read in self._checks(cells, features=not typed):
            try:
                read(column)
            except BadCells as bad:
                faults.add(check, bad, start=0)
        return faults

    def _checks(self, cells: Cells, *, features: bool) -> Iterator[tuple[_Check, pa.Array, _Read]]:
        """Yield what can be wrong in columns of text, in the order in which they are read."""
        if cells.match_ids is not None:
            yield _Check("match id", self.layout.match_id), cells.match_ids, _match_ids
        if cells.labels is not None:
            kind = self.label_type
            yield _Check("label", self.layout.label), cells.labels, partial(_no_gaps, kind=kind)
        if not features:
            return
        for name, column, kind in zip(self.layout.columns, cells.features, self.types, strict=True):
            read = partial(parse, kind=kind, missing=self._marks(kind))
            yield _Check("number", name), column, read

    def _kind(self) -> tuple[CellType | None, SpecialValues]:
        kinds = set(self.types)
        if len(kinds) != 1:
            return None, NO_MARKS
        (kind,) = kinds
        return kind, self._marks(kind)

    def _typed(self, cells: Cells) -> Cells:
        labels, match_ids, features = cells.labels, cells.match_ids, cells.features
        if match_ids is not None:
            match_ids = _match_ids(match_ids)
        if labels is not None:
            labels = _no_gaps(labels, kind=self.label_type)
        if not cells.typed:
            features = [
                parse(column, kind, missing=self._marks(kind))
                for column, kind in zip(features, self.types, strict=True)
            ]
        return replace(cells, match_ids=match_ids, labels=labels, features=features, typed=True)

    def _marks(self, kind: CellType) -> SpecialValues:
        return NO_MARKS if self.keeps_text and kind is CellType.TEXT else self.missing


class TypedRows:
    """One raw table, read block after block."""

    def __init__(self, table: Table, reader: CellReader) -> None:
        self._table = table
        self.reader = reader

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Let a block that `CellReader.read` refused end in what is wrong in the whole table.

        Raises: BadData: a row cannot be read, or cells are none of their type, with column, first
            row and count.
        """
        try:
            yield
        except BadData:
            faults = _Faults()
            for block in self._table.fold_blocks(self.reader.faults):
                faults.merge(block)
            if faults.found:
                raise self._error(faults) from None
            raise

    def _error(self, faults: _Faults) -> BadData:
        check = _TEXTS if _TEXTS in faults.found else next(iter(faults.found))
        first, count = faults.found[check]
        if check in (_TEXTS, _VALUES):
            where, text = f"table {self._table.name}", self.reader.blocks.fault()
        else:
            where = f"column {check.column!r}"
            text = f"{{count}} of {{rows}} cells hold no valid {check.what}, first in row {{first}}"
        return BadData(
            where=where, reason=text.format(count=count, rows=faults.rows, first=first + 1)
        )


def _match_ids(column: pa.Array) -> pa.Array:
    return _no_gaps(column, kind=CellType.TEXT)


def _no_gaps(cells: pa.Array, *, kind: CellType) -> pa.Array:
    """Return cells of type `kind`. Raises: BadCells: one is missing or of another type."""
    found = parse(cells, kind, missing=_BLANK)
    if found.null_count:
        raise BadCells(pc.index(pc.is_null(found), True).as_py(), found.null_count)
    return found
