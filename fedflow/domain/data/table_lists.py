"""Lists of this party's tables: what fits a filter, and in which order it is shown.

Tables that are kept only for jobs that still read them (`table_names.REPLACED`) are in no list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from fedflow.base.values import dataclass
from fedflow.domain.data.table_names import REPLACED
from fedflow.domain.records import TableRecord


class TableOrder(StrEnum):
    """By what a list of tables may be ordered."""

    CREATED = "created"
    NAME = "name"
    ROWS = "rows"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFilter:
    """Which tables to list; None means any."""

    part: str | None = None  #: a text that the namespace or the name contains
    namespace: str | None = None
    origins: tuple[str, ...] | None = None
    disabled: bool | None = None
    order: TableOrder = TableOrder.CREATED
    descending: bool = True
    limit: int = 50
    offset: int = 0


def fits_table(which: TableFilter, table: TableRecord) -> bool:
    """Tell whether a table is one of those asked for, whatever the page."""
    return (
        table.namespace != REPLACED
        and (
            which.part is None or which.part in table.namespace or which.part in table.name
        )
        and which.namespace in (None, table.namespace)
        and (which.origins is None or table.origin in which.origins)
        and which.disabled in (None, table.disabled)
    )  # fmt: skip


def table_page(tables: Iterable[TableRecord], which: TableFilter) -> list[TableRecord]:
    """Return the part of `tables` that the filter's page shows, without previews."""
    ordered = sorted(tables, key=lambda t: (t.namespace, t.name), reverse=which.descending)
    if which.order is TableOrder.CREATED:
        ordered.sort(key=lambda t: t.created_ms, reverse=which.descending)
    elif which.order is TableOrder.ROWS:
        ordered.sort(key=lambda t: t.count, reverse=which.descending)
    page = ordered[which.offset : which.offset + which.limit]
    return [replace(table, preview=()) for table in page]
