"""One page of a table: searched, sorted and cut on the server, whatever its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.models.sections import Cell, Table, plain
from fedflow.board.presenters.paging import number_of
from fedflow.wire.csv_text import csv_text

ROWS: Final = 25  #: on a page
COLUMNS: Final = 40  #: on a page
_FIND: Final = 200  #: characters of a search text


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A column's head: where a click sorts by it, and how it is sorted now."""

    title: str
    numeric: bool
    order: str  #: `ascending`, `descending` or `none`, as aria-sort has it
    change: Mapping[str, str]  #: parameters of the address that sorts by it


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """What one page shows of a table."""

    table: Table
    headings: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]
    find: str
    page: int  #: from 1
    pages: int
    found: int  #: rows that fit the search
    first: int  #: number of the first row shown, from 1; 0 if none is
    columns: tuple[int, int]  #: the first and the last column shown, from 1
    before: Mapping[str, str] | None  #: parameters of the page before; None: there is none
    after: Mapping[str, str] | None
    columns_before: Mapping[str, str] | None
    columns_after: Mapping[str, str] | None

    @property
    def last(self) -> int:
        """Return the number of the last row shown, 0 if none is."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def slice_of(table: Table, asked: Mapping[str, str]) -> Slice:
    """Return the page of a table that an address asks for.

    Its parameters begin with the table's id: `-find`, `-sort` (number of a column, from 0; with a
    minus before it downwards), `-page`, `-columns`.
    """
    find = asked.get(f"{table.id}-find", "").strip()[:_FIND]
    sort = asked.get(f"{table.id}-sort", "")
    rows = _sorted(_found(table.rows, find), sort)
    pages = max(1, -(-len(rows) // ROWS))
    page = min(number_of(asked.get(f"{table.id}-page")), pages)
    width = len(table.columns)
    wide = max(1, -(-(width - 1) // (COLUMNS - 1)))
    part = min(number_of(asked.get(f"{table.id}-columns")), wide)
    low = 1 + (part - 1) * (COLUMNS - 1)
    kept = [0, *range(low, min(width, low + COLUMNS - 1))][:width]
    cut = rows[(page - 1) * ROWS : page * ROWS]
    return Slice(
        table=table,
        headings=[_heading(table, number, sort) for number in kept],
        rows=[[row[number] if number < len(row) else None for number in kept] for row in cut],
        find=find,
        page=page,
        pages=pages,
        found=len(rows),
        first=(page - 1) * ROWS + 1 if cut else 0,
        columns=(min(low + 1, width), kept[-1] + 1 if kept else 0),
        before={f"{table.id}-page": str(page - 1)} if page > 1 else None,
        after={f"{table.id}-page": str(page + 1)} if page < pages else None,
        columns_before={f"{table.id}-columns": str(part - 1)} if part > 1 else None,
        columns_after={f"{table.id}-columns": str(part + 1)} if part < wide else None,
    )


def csv_of(table: Table) -> str:
    """Return a whole table as CSV."""
    heads = [column.title for column in table.columns]
    return csv_text([heads, *([plain(cell) for cell in row] for row in table.rows)])


def _heading(table: Table, number: int, sort: str) -> Heading:
    column = table.columns[number]
    order = {str(number): "ascending", f"-{number}": "descending"}.get(sort, "none")
    first_down = column.numeric
    turned = {"ascending": f"-{number}", "descending": str(number)}
    wanted = turned.get(order, f"-{number}" if first_down else str(number))
    return Heading(
        title=column.title,
        numeric=column.numeric,
        order=order,
        change={f"{table.id}-sort": wanted, f"{table.id}-page": "1"},
    )


def _found(rows: Sequence[Sequence[Cell]], find: str) -> Sequence[Sequence[Cell]]:
    """Return the rows of which a text has what is searched, whatever its case."""
    if not find:
        return rows
    wanted = find.casefold()

    def fits(row: Sequence[Cell]) -> bool:
        said = (plain(cell) for cell in row)
        return any(isinstance(text, str) and wanted in text.casefold() for text in said)

    return [row for row in rows if fits(row)]


def _sorted(rows: Sequence[Sequence[Cell]], sort: str) -> Sequence[Sequence[Cell]]:
    """Return rows by a column: numbers, then texts; cells without a value last."""
    down, digits = sort.startswith("-"), sort.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
        return rows
    number = int(digits)
    have: list[Sequence[Cell]] = []
    lack: list[Sequence[Cell]] = []
    for row in rows:
        value = plain(row[number]) if number < len(row) else None
        (lack if value is None else have).append(row)
    have.sort(key=lambda row: _key(plain(row[number])), reverse=down)
    return have + lack


def _key(value: object) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value).casefold()
