"""Which rows and columns a page shows of a table of any size, and how its cells look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.paging import ListPage, page_of
from fedflow.domain.records import TableRecord

ROWS: Final = 50  #: on a page
COLUMNS: Final = 30  #: on a page
CELL: Final = 400  #: characters that are sent of a cell
NOTHING: Final = frozenset({"", "None", "null", "nan", "NaN"})  #: texts of cells without a value


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderCell:
    """A column, and what it is: `id`, `match id`, `label`, `weight` or nothing of these."""

    name: str
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsPart:
    """What one page shows."""

    header: Sequence[HeaderCell]
    columns: Sequence[int]  #: which ones, from 0 = the id, which is always shown
    page: ListPage
    column_page: ListPage  #: of the columns behind the id


def part_of(table: TableRecord, asked: Mapping[str, str], *, rows: int) -> RowsPart:
    """Return which part of a table `page` and `columns` of an address mean; `rows` can be seen."""
    headers = headers_of(table)
    page = page_of(asked.get("page"), size=ROWS, count=rows)
    behind = page_of(asked.get("columns"), size=COLUMNS, count=max(0, len(headers) - 1))
    low = 1 + behind.offset
    columns = [0, *range(low, min(len(headers), low + COLUMNS))] if headers else []
    return RowsPart(
        header=[headers[i] for i in columns], columns=columns, page=page, column_page=behind
    )


def headers_of(table: TableRecord) -> list[HeaderCell]:
    """Return all columns in the order of the rows."""
    schema: Mapping[str, Any] = table.schema if isinstance(table.schema, Mapping) else {}
    kinds = {"id": "id", "match_id": "match id", "label": "label", "weight": "weight"}
    found = [
        HeaderCell(name=str(schema[name]), kind=kind)
        for name, kind in kinds.items()
        if schema.get(name)
    ]
    columns = schema.get("columns")
    named = columns if isinstance(columns, list | tuple) else ()
    return [*found, *(HeaderCell(name=str(name), kind="") for name in named)]


def shown_cell(text: str) -> str | None:
    """Return a cell's text, the beginning of a long one; None if it stands for no value."""
    if text in NOTHING:
        return None
    return text if len(text) <= CELL else f"{text[:CELL]}…"
