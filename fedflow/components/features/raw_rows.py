"""The rows of a raw table as cells of named columns, whatever their format is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from fedflow.components.features.cells import CellType, SpecialValues
from fedflow.components.features.data_transform_params import DataTransformParams, described
from fedflow.components.features.match_ids import UNNAMED, MatchIds, match_ids_of
from fedflow.components.features.row_formats import Delimited, DenseRows
from fedflow.components.features.tagged_rows import TagCells, TaggedRows, TagRules
from fedflow.sdk import BadData, Table

TAG_LABEL = "label"  #: of rows without column names


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Which columns a table gives."""

    match_id: str | None
    label: str | None
    columns: tuple[str, ...]  #: features


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """Some rows: an array per column, text unless `typed`, null where a value is missing."""

    ids: pa.Array
    match_ids: pa.Array | None
    labels: pa.Array | None  #: text
    features: Sequence[pa.Array]  #: in the order of the layout
    typed: bool  #: the features are what they shall become


Told = Callable[[int], None]  #: gets how many rows were read


class BlockRows(Protocol):
    """Reads blocks of one raw table; it can be sent to another process."""

    def cells(
        self, batch: pa.RecordBatch, kind: CellType | None, marks: SpecialValues
    ) -> Iterator[Cells]:
        """Yield the rows of a block, some at a time, at least once.

        `kind` is that of all features, None if they differ; a format that has their values apart
        from each other may read them as such, without those that `marks` say are missing.

        Raises: BadCells: rows cannot be read; the first of the block, and how many `fault` counts.
        """

    def fault(self) -> str:
        """Return the sentence for rows that cannot be read: of {count}, {rows}, {first}."""


class RawRows(Protocol):
    """One raw table, read by the rules of DataTransform's parameters."""

    looks: int  #: how often `layout` reads all rows
    spreads: bool  #: texts of any length become columns: a block may be large

    def layout(self, header: tuple[str, ...] | None, *, told: Told) -> Layout:
        """Return the columns; with a `header` its features, then the label may be absent.

        Raises: BadData: a column is missing, or a row cannot be read.
        """

    def blocks(self, layout: Layout) -> BlockRows:
        """Return what reads the columns of a layout."""


def raw_rows(table: Table, params: DataTransformParams, log: logging.Logger) -> RawRows:
    """Return the rows of a raw table."""
    match_ids = match_ids_of(params, described(table))
    if params.input_format == "dense":
        return _Dense(table, params, match_ids, log)
    return _Tagged(table, params, match_ids, log)


class _Dense:
    """A cell per column."""

    looks = 0
    spreads = False

    def __init__(
        self,
        table: Table,
        params: DataTransformParams,
        match_ids: MatchIds | None,
        log: logging.Logger,
    ) -> None:
        self._table = table
        self._params = params
        self._match_ids = match_ids
        self._log = log
        self._rows = DenseRows.of(table, delimitor=params.delimitor)

    def layout(self, header: tuple[str, ...] | None, *, told: Told) -> Layout:
        known = self._rows.columns
        label = self._label(required=header is None)
        match_id, ids = None, tuple[str, ...]()
        if self._match_ids is not None:
            others = [c for c in known if c != label]
            match_id, ids = self._match_ids.among(others, key=self._table.schema.id)
        if header is None:
            header = tuple(c for c in known if c != label and c not in ids)
        absent = [c for c in header if c not in known]
        if absent:
            reason = f"{len(absent)} columns of the model are missing: {', '.join(absent[:20])}"
            raise BadData(where=f"table {self._table.name}", reason=reason)
        return Layout(match_id=match_id, label=label, columns=header)

    def blocks(self, layout: Layout) -> BlockRows:
        return _DenseBlocks(rows=self._rows, layout=layout)

    def _label(self, *, required: bool) -> str | None:
        """Return the label column's name, or None for rows without a label."""
        name = self._params.label_name
        if not self._params.with_label:
            return None
        if name in self._rows.columns:
            return name
        if not required:
            self._log.warning("no label column %r: the rows stay unlabelled", name)
            return None
        # They are for the log: there may be more of them than a sentence takes.
        self._log.error("columns of the table: %s", ", ".join(self._rows.columns))
        raise BadData(
            where=f"table {self._table.name}",
            reason=f"with_label is true, but there is no column {name!r}: the log lists them",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _DenseBlocks:
    """Blocks of rows with a cell per column."""

    rows: DenseRows
    layout: Layout

    def cells(
        self, batch: pa.RecordBatch, kind: CellType | None, marks: SpecialValues
    ) -> Iterator[Cells]:
        read, layout = self.rows.read(batch), self.layout
        yield Cells(
            ids=read.column(0),
            match_ids=None if layout.match_id is None else read.column(layout.match_id),
            labels=None if layout.label is None else read.column(layout.label),
            features=[read.column(name) for name in layout.columns],
            typed=False,
        )

    def fault(self) -> str:
        count, between = len(self.rows.columns), f"{self.rows.delimitor!r}"
        between = between.replace("{", "{{").replace("}", "}}")
        return (
            f"{{count}} of {{rows}} rows have not {count} cells between {between}, "
            "first row {first}"
        )


class _Tagged:
    """Ids, label, then tags or svmlight's pairs."""

    looks = 1
    spreads = True

    def __init__(
        self,
        table: Table,
        params: DataTransformParams,
        match_ids: MatchIds | None,
        log: logging.Logger,
    ) -> None:
        self._table = table
        self._params = params
        self._match_ids = match_ids
        self._ids = 0 if match_ids is None else match_ids.count
        self._log = log
        self._labelled = params.with_label
        self._rows = self._tagged_rows()

    def layout(self, header: tuple[str, ...] | None, *, told: Told) -> Layout:
        match_id = None
        if self._match_ids is not None:
            match_id = self._match_ids.name or UNNAMED
            _ = self._match_ids.position
        if header is not None and self._labelled and not self._rows.has_leading(self._ids):
            self._log.warning("rows begin with a feature, no label: they stay unlabelled")
            self._labelled = False
            self._rows = self._tagged_rows()
        if header is None:
            header = self._rows.header(told=told)
        else:
            self._rows.check(told=told)
        label = TAG_LABEL if self._labelled else None
        taken = [n for n in (self._table.schema.id, match_id, label) if n in header]
        if taken or match_id == self._table.schema.id:
            reason = f"a feature is named {taken}, as another column"
            raise BadData(where=f"table {self._table.name}", reason=reason)
        return Layout(match_id=match_id, label=label, columns=header)

    def blocks(self, layout: Layout) -> BlockRows:
        position = None if self._match_ids is None else self._match_ids.position
        return _TaggedBlocks(
            rows=self._rows.cells_of(layout.columns), match_id=position, labelled=self._labelled
        )

    def _tagged_rows(self) -> TaggedRows:
        params = self._params
        indexed = params.input_format == "sparse"
        separator = ":" if indexed else params.tag_value_delimitor
        rules = TagRules(
            delimitor=params.delimitor,
            joined=self._table.id_delimiter if isinstance(self._table, Delimited) else ",",
            indexed=indexed,
            separator=separator if indexed or params.tag_with_value else None,
            leading=self._ids + self._labelled,
        )
        return TaggedRows(self._table, rules)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TaggedBlocks:
    """Blocks of rows of tags."""

    rows: TagCells
    match_id: int | None  #: its position before the tags
    labelled: bool

    def cells(
        self, batch: pa.RecordBatch, kind: CellType | None, marks: SpecialValues
    ) -> Iterator[Cells]:
        for ids, leading, features in self.rows.read(batch, kind, marks):
            yield Cells(
                ids=ids,
                match_ids=None if self.match_id is None else leading[self.match_id],
                labels=leading[-1] if self.labelled else None,
                features=features,
                typed=kind is not None,
            )

    def fault(self) -> str:
        return "{count} values of features are no valid number, first in row {first}"
