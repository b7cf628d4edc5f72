"""Rows of tags (`tag` or `tag:value`) and of svmlight's `index:value`, as columns.

The label, if there is one, and match ids stand before the tags. The columns are all tags in order,
or x0 to x<greatest index>; a tag that a row does not have is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.features.cells import BadCells, CellType, Marks, parse
from fedflow.components.features.row_formats import Delimited, Items, items_of, slices, spread
from fedflow.domain.table_names import has_control
from fedflow.sdk import BadData, Table

MAX_COLUMNS: Final = 20_000  #: features of one table; they are stored whether 0 or not
MAX_CELLS: Final = 2_000_000_000  #: rows times features
_COUNTED: Final = 1_000_000  #: tags that are counted for a message
_INDEX: Final = re.compile(r"x(\d{1,9})")


@dataclass(frozen=True, kw_only=True, slots=True)
class TagRules:
    """How the items of a row are read."""

    delimitor: str
    indexed: bool  #: svmlight: the tag is the number of a column
    separator: str | None  #: between tag and value; None: a tag alone counts 1
    leading: int  #: items before the tags: match ids, label


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What becomes of the values."""

    kind: CellType | None  #: of all features; None: they stay text, to be read one by one
    missing: Marks  #: values that mean missing


class TaggedRows:
    """The rows of one table."""

    def __init__(self, table: Table, rules: TagRules) -> None:
        self._table = table
        self._rules = rules
        self._joined = table.id_delimiter if isinstance(table, Delimited) else ","
        self._where = f"table {table.name}"

    def header(self, *, told: Callable[[int], None]) -> tuple[str, ...]:
        """Return the columns, from a pass over the rows; `told` how many rows were read.

        Raises: BadData: an item is wrong, there are too many columns or none.
        """
        greatest, tags = -1, set[str]()

        def note(items: Items) -> None:
            nonlocal greatest
            keys, _ = self._pairs(items)
            if self._rules.indexed:
                highest = pc.max(pc.cast(keys, pa.int64())).as_py()
                greatest = max(greatest, -1 if highest is None else highest)
            elif len(tags) < _COUNTED:
                tags.update(keys.unique().to_pylist())

        self.check(note=note, told=told)
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

    def batches(
        self, header: tuple[str, ...], reading: Reading
    ) -> Iterator[tuple[pa.Array, list[pa.Array], list[pa.Array]]]:
        """Yield ids, leading texts and features (null where missing) of some rows at a time.

        Tags that `header` does not have are left out.

        Raises: BadData: an item is wrong, or a value is no number, with the first row and count.
        """
        places = self._places(header)
        start = 0
        for whole in self._table.to_batches():
            for batch in slices(whole, len(header)):
                items = self._items_of(batch)
                keys, values = self._pairs(items)
                at = places(keys)
                kept = np.flatnonzero(at >= 0)
                chosen = values.take(pa.array(kept))
                try:
                    cells, absent = _read(chosen, reading)
                except BadCells as bad:
                    self._refuse(header, reading, start + int(items.rows[kept[bad.first]]))
                columns = spread(
                    items.rows[kept], at[kept], cells,
                    count=batch.num_rows, columns=len(header), absent=absent,
                )  # fmt: skip
                yield batch.column(0), list(items.leading), columns
                start += batch.num_rows

    def has_leading(self, position: int) -> bool:
        """Tell whether the item at a position may be a label: in no first row is it a pair."""
        separator = self._rules.separator
        if separator is None:
            return True
        first = next(iter(self._table.to_batches()), None)
        if first is None:
            return True
        items = items_of(
            first, joined=self._joined, delimitor=self._rules.delimitor, leading=position + 1
        )
        found = pc.match_substring(items.leading[position].drop_null(), separator)
        return not pc.any(found).as_py()

    def _items_of(self, batch: pa.RecordBatch) -> Items:
        rules = self._rules
        return items_of(
            batch, joined=self._joined, delimitor=rules.delimitor, leading=rules.leading
        )

    def _pairs(self, items: Items) -> tuple[pa.Array, pa.Array]:
        """Return tags and their values, one each per item."""
        if self._rules.separator is None:
            return items.texts, pa.array(["1"], pa.string()).take(
                pa.array(np.zeros(len(items.texts), np.int64))
            )
        parts = pc.split_pattern(items.texts, self._rules.separator, max_splits=1)
        flat = pc.list_flatten(parts)
        at = np.arange(0, len(flat), 2)
        return flat.take(pa.array(at)), flat.take(pa.array(at + 1))

    def check(
        self,
        *,
        note: Callable[[Items], None] | None = None,
        told: Callable[[int], None] | None = None,
    ) -> None:
        """Look at all rows; `note` is given the items of each batch as long as all are right.

        Raises: BadData: rows lack what stands before the tags, or items are no pairs.
        """
        start, short, wrong, first_short, first_wrong = 0, 0, 0, -1, -1
        for batch in self._table.to_batches():
            items = self._items_of(batch)
            for text in items.leading[-1:]:
                lacking = np.flatnonzero(pc.is_null(text).to_numpy(zero_copy_only=False))
                if len(lacking) and first_short < 0:
                    first_short = start + int(lacking[0])
                short += len(lacking)
            bad = self._bad_items(items)
            if len(bad) and first_wrong < 0:
                first_wrong = start + int(items.rows[bad[0]])
            wrong += len(bad)
            if note is not None and not wrong:
                note(items)
            if told is not None:
                told(batch.num_rows)
            start += batch.num_rows
        if short:
            reason = f"{short} of {start} rows lack an item before the features, first in row "
            raise BadData(where=self._where, reason=f"{reason}{first_short + 1}")
        if wrong:
            rules = self._rules
            what = "<number>:<value>" if rules.indexed else f"<tag>{rules.separator}<value>"
            reason = f"{wrong} items are not {what}, first in row {first_wrong + 1}"
            raise BadData(where=self._where, reason=reason)

    def _bad_items(self, items: Items) -> NDArray[np.int64]:
        if self._rules.separator is None:
            return np.empty(0, np.int64)
        good = pc.match_substring(items.texts, self._rules.separator)
        good = pc.and_(good, pc.invert(pc.starts_with(items.texts, self._rules.separator)))
        if self._rules.indexed:
            good = pc.and_(good, pc.match_substring_regex(items.texts, r"^[0-9]{1,9}:"))
        return np.flatnonzero(~good.to_numpy(zero_copy_only=False))

    def _places(self, header: tuple[str, ...]) -> Callable[[pa.Array], NDArray[np.int64]]:
        """Return what gives the column of each tag, -1 for none."""
        if not self._rules.indexed:
            known = pa.array(header, pa.string())

            def by_name(keys: pa.Array) -> NDArray[np.int64]:
                found = pc.fill_null(pc.index_in(keys, value_set=known), -1)
                return np.asarray(found.to_numpy(), dtype=np.int64)

            return by_name
        numbers = [int(m[1]) if (m := _INDEX.fullmatch(name)) else -1 for name in header]
        # one place more, for indexes beyond all of them
        table = np.full(max(numbers, default=-1) + 2, -1, dtype=np.int64)
        for place, number in enumerate(numbers):
            if number >= 0:
                table[number] = place

        def by_number(keys: pa.Array) -> NDArray[np.int64]:
            indexes = pc.cast(keys, pa.int64()).to_numpy()
            return np.asarray(table[np.minimum(indexes, len(table) - 1)])

        return by_number

    def _refuse(self, header: tuple[str, ...], reading: Reading, first: int) -> NoReturn:
        """Raises: BadData: with the number of values that cannot be read in the whole table."""
        places, count = self._places(header), 0
        for batch in self._table.to_batches():
            keys, values = self._pairs(self._items_of(batch))
            kept = np.flatnonzero(places(keys) >= 0)
            try:
                _read(values.take(pa.array(kept)), reading)
            except BadCells as bad:
                count += bad.count
        raise BadData(
            where=self._where,
            reason=f"{count} values of features are no valid number, first in row {first + 1}",
        )


def _read(values: pa.Array, reading: Reading) -> tuple[pa.Array, pa.Scalar]:
    """Return values as they are wanted, and what stands for an absent one."""
    if reading.kind is None:
        return values, pa.scalar("0")
    cells = parse(values, reading.kind, missing=reading.missing)
    zero = {CellType.FLOAT: 0.0, CellType.INT: 0, CellType.TEXT: "0"}[reading.kind]
    return cells, pa.scalar(zero, cells.type)
