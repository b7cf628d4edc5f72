"""Rows of tags (`tag` or `tag:value`) and of svmlight's `index:value`, as columns.

The label, if there is one, and match ids stand before the tags. The columns are all tags in order,
or x0 to x<greatest index>; a tag that a row does not have is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.features.cells import BadCells, CellType, SpecialValues, parse
from fedflow.components.features.row_formats import Items, items_of, slices, spread
from fedflow.sdk import BadData, Table
from fedflow.sdk.names import has_control

MAX_COLUMNS: Final = 20_000  #: features of one table; they are stored whether 0 or not
MAX_CELLS: Final = 2_000_000_000  #: rows times features
_COUNTED: Final = 1_000_000  #: tags that are counted for a message
_INDEX: Final = re.compile(r"x(\d{1,9})")


@dataclass(frozen=True, kw_only=True, slots=True)
class TagRules:
    """How the items of a row are read."""

    delimitor: str
    joined: str  #: stood between the texts of a row when it was uploaded
    indexed: bool  #: svmlight: the tag is the number of a column
    separator: str | None  #: between tag and value; None: a tag alone counts 1
    leading: int  #: items before the tags: match ids, label

    def items_of(self, batch: pa.RecordBatch, *, leading: int | None = None) -> Items:
        """Return the items of a block."""
        count = self.leading if leading is None else leading
        return items_of(batch, joined=self.joined, delimitor=self.delimitor, leading=count)

    def pairs(self, items: Items) -> tuple[pa.Array, pa.Array]:
        """Return tags and their values, one each per item."""
        if self.separator is None:
            return items.texts, pa.array(["1"], pa.string()).take(
                pa.array(np.zeros(len(items.texts), np.int64))
            )
        parts = pc.split_pattern(items.texts, self.separator, max_splits=1)
        flat = pc.list_flatten(parts)
        at = np.arange(0, len(flat), 2)
        return flat.take(pa.array(at)), flat.take(pa.array(at + 1))

    def bad_items(self, items: Items) -> NDArray[np.int64]:
        """Return which items are no pairs."""
        if self.separator is None:
            return np.empty(0, np.int64)
        good = pc.match_substring(items.texts, self.separator)
        good = pc.and_(good, pc.invert(pc.starts_with(items.texts, self.separator)))
        if self.indexed:
            good = pc.and_(good, pc.match_substring_regex(items.texts, r"^[0-9]{1,9}:"))
        return np.flatnonzero(~good.to_numpy(zero_copy_only=False))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """What one block's rows are like."""

    rows: int
    short: int = 0  #: rows that lack what stands before the tags
    first_short: int = -1
    wrong: int = 0  #: items that are no pairs
    first_wrong: int = -1  #: row of the first one
    greatest: int = -1  #: index of a column
    tags: tuple[str, ...] = ()


class TaggedRows:
    """The rows of one table."""

    def __init__(self, table: Table, rules: TagRules) -> None:
        self._table = table
        self._rules = rules
        self._where = f"table {table.name}"

    def header(self, *, told: Callable[[int], None]) -> tuple[str, ...]:
        """Return the columns, from a pass over the rows; `told` gets how many rows were read.

        Raises: BadData: an item is wrong, there are too many columns or none.
        """
        greatest, tags = -1, set[str]()
        for look in self._looks(_looking(self._rules, notes=True), told):
            greatest = max(greatest, look.greatest)
            if len(tags) < _COUNTED:
                tags.update(look.tags)
        count = greatest + 1 if self._rules.indexed else len(tags)
        if not count:
            raise BadData(where=self._where, reason="no row has a feature")
        self._check_size(count)
        if self._rules.indexed:
            return tuple(f"x{i}" for i in range(count))
        bad = [tag for tag in tags if has_control(tag)]
        if bad:
            raise BadData(where=self._where, reason=f"{len(bad)} tags hold control characters")
        return tuple(sorted(tags))

    def _check_size(self, count: int) -> None:
        rows = self._table.count
        if count > MAX_COLUMNS:
            many = f"at least {count}" if count >= _COUNTED else count
            reason = f"its rows name {many} different features, more than {MAX_COLUMNS}"
            raise BadData(where=self._where, reason=reason)
        if count * rows > MAX_CELLS:
            reason = f"{rows} rows of {count} features are more than {MAX_CELLS} cells"
            raise BadData(where=self._where, reason=reason)

    def cells_of(self, header: tuple[str, ...]) -> TagCells:
        """Return what reads the columns of `header`; other tags are left out."""
        return TagCells(rules=self._rules, header=header)

    def has_leading(self, position: int) -> bool:
        """Tell whether the item at a position may be a label: in no first row is it a pair."""
        separator = self._rules.separator
        if separator is None:
            return True
        first = next(iter(self._table.to_batches()), None)
        if first is None:
            return True
        items = self._rules.items_of(first, leading=position + 1)
        found = pc.match_substring(items.leading[position].drop_null(), separator)
        return not pc.any(found).as_py()

    def check(self, *, told: Callable[[int], None]) -> None:
        """Look at all rows.

        Raises: BadData: rows lack what stands before the tags, or items are no pairs.
        """
        for _ in self._looks(_looking(self._rules, notes=False), told):
            pass

    def _looks(
        self, looking: Callable[[pa.RecordBatch], _Look], told: Callable[[int], None]
    ) -> Iterator[_Look]:
        """Yield what all blocks are like. Raises: BadData: rows are wrong; after the last one."""
        start, short, wrong, first_short, first_wrong = 0, 0, 0, -1, -1
        for look in self._table.fold_blocks(looking):
            if look.short and first_short < 0:
                first_short = start + look.first_short
            if look.wrong and first_wrong < 0:
                first_wrong = start + look.first_wrong
            short += look.short
            wrong += look.wrong
            told(look.rows)
            start += look.rows
            yield look
        if short:
            reason = f"{short} of {start} rows lack an item before the features, first in row "
            raise BadData(where=self._where, reason=f"{reason}{first_short + 1}")
        if wrong:
            rules = self._rules
            what = "<number>:<value>" if rules.indexed else f"<tag>{rules.separator}<value>"
            reason = f"{wrong} items are not {what}, first in row {first_wrong + 1}"
            raise BadData(where=self._where, reason=reason)


def _looking(rules: TagRules, *, notes: bool) -> Callable[[pa.RecordBatch], _Look]:
    """Return what looks at a block; with `notes` also at which tags there are."""

    def look(batch: pa.RecordBatch) -> _Look:
        items = rules.items_of(batch)
        lacking = np.empty(0, np.int64)
        for text in items.leading[-1:]:
            lacking = np.flatnonzero(pc.is_null(text).to_numpy(zero_copy_only=False))
        bad = rules.bad_items(items)
        greatest, tags = -1, tuple[str, ...]()
        if notes and not len(bad):
            keys, _ = rules.pairs(items)
            if rules.indexed:
                highest = pc.max(pc.cast(keys, pa.int64())).as_py()
                greatest = -1 if highest is None else highest
            else:
                tags = tuple(keys.unique().to_pylist())
        return _Look(
            rows=batch.num_rows,
            short=len(lacking),
            first_short=int(lacking[0]) if len(lacking) else -1,
            wrong=len(bad),
            first_wrong=int(items.rows[bad[0]]) if len(bad) else -1,
            greatest=greatest,
            tags=tags,
        )

    return look


@dataclass(frozen=True, kw_only=True, slots=True)
class TagCells:
    """Blocks of rows of tags as columns."""

    rules: TagRules
    header: tuple[str, ...]

    def read(
        self, batch: pa.RecordBatch, kind: CellType | None, missing: SpecialValues
    ) -> Iterator[tuple[pa.Array, list[pa.Array], list[pa.Array]]]:
        """Yield ids, leading texts and features (null where missing) of some rows at a time.

        Args:
            kind: of all features; None: they stay text, to be read one by one.
            missing: values that mean missing.

        Raises: BadCells: values are no numbers: row of the first one, and how many in some rows.
        """
        places = self._places()
        start = 0
        for part in slices(batch, len(self.header)):
            items = self.rules.items_of(part)
            keys, values = self.rules.pairs(items)
            at = places(keys)
            kept = np.flatnonzero(at >= 0)
            try:
                cells, absent = _read(values.take(pa.array(kept)), kind, missing)
            except BadCells as bad:
                raise BadCells(start + int(items.rows[kept[bad.first]]), bad.count) from None
            columns = spread(
                items.rows[kept], at[kept], cells,
                count=part.num_rows, columns=len(self.header), absent=absent,
            )  # fmt: skip
            yield part.column(0), list(items.leading), columns
            start += part.num_rows

    def _places(self) -> Callable[[pa.Array], NDArray[np.int64]]:
        """Return what gives the column of each tag, -1 for none."""
        if not self.rules.indexed:
            known = pa.array(self.header, pa.string())

            def by_name(keys: pa.Array) -> NDArray[np.int64]:
                found = pc.fill_null(pc.index_in(keys, value_set=known), -1)
                return np.asarray(found.to_numpy(), dtype=np.int64)

            return by_name
        numbers = [int(m[1]) if (m := _INDEX.fullmatch(name)) else -1 for name in self.header]
        # one place more, for indexes beyond all of them
        table = np.full(max(numbers, default=-1) + 2, -1, dtype=np.int64)
        for place, number in enumerate(numbers):
            if number >= 0:
                table[number] = place

        def by_number(keys: pa.Array) -> NDArray[np.int64]:
            indexes = pc.cast(keys, pa.int64()).to_numpy()
            return np.asarray(table[np.minimum(indexes, len(table) - 1)])

        return by_number


def _read(
    values: pa.Array, kind: CellType | None, missing: SpecialValues
) -> tuple[pa.Array, pa.Scalar]:
    """Return values as they are wanted, and what stands for an absent one."""
    if kind is None:
        return values, pa.scalar("0")
    cells = parse(values, kind, missing=missing)
    zero = {CellType.FLOAT: 0.0, CellType.INT: 0, CellType.TEXT: "0"}[kind]
    return cells, pa.scalar(zero, cells.type)
