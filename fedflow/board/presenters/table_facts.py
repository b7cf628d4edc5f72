"""What is known of a table without opening it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedflow.board.language import t
from fedflow.board.presenters.models.sections import Cell, Column, Facts, Table
from fedflow.board.presenters.table_rows import headers_of
from fedflow.domain.data.storages import is_bound
from fedflow.domain.records import ColumnFacts, TableRecord


def facts_of(table: TableRecord) -> Facts:
    """Return what the table is and where its rows are; addresses of storages have no secrets."""
    schema: Mapping[str, Any] = table.schema if isinstance(table.schema, Mapping) else {}
    kinds = {"raw": t("raw rows"), "instances": t("instances"), "predictions": t("predictions")}
    kind = str(schema.get("kind") or "")
    pairs: list[tuple[str, Cell]] = [
        (t("Rows"), table.count),
        (t("Columns"), len(headers_of(table))),
        (t("Holds"), kinds.get(kind, kind or None)),
        (t("Id"), _text(schema.get("id"))),
        (t("Label"), _text(schema.get("label"))),
        (t("Match id"), _text(schema.get("match_id"))),
        (t("Weight"), _text(schema.get("weight"))),
        (t("Partitions"), table.partitions),
        (t("Storage"), table.engine),
    ]
    if is_bound(table.engine, table.storage):
        pairs.append((t("Rows are stored in"), _place(table)))
    return Facts(title=t("About this table"), pairs=[(n, v) for n, v in pairs if v is not None])


def columns_of(facts: Sequence[ColumnFacts]) -> Table:
    """Return what was counted of each column while the table was written."""
    kinds = {"number": t("number"), "text": t("text")}
    rows: list[Sequence[Cell]] = [
        (
            one.name, kinds.get(one.kind, one.kind), one.count, one.missing, one.least,
            one.greatest, one.mean,
        )
        for one in facts
    ]  # fmt: skip
    numeric = (t("Rows"), t("Missing"), t("Minimum"), t("Maximum"), t("Mean"))
    return Table(
        id="facts",
        title=t("Columns"),
        columns=(
            Column(title=t("Column")),
            Column(title=t("Kind")),
            *(Column(title=title, numeric=True) for title in numeric),
        ),
        rows=rows,
        note="" if facts else t("Nothing was counted of the columns of this table."),
    )


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _place(table: TableRecord) -> str | None:
    """Return where a bound table's rows are, in short."""
    if table.source is not None:
        return table.source
    address = table.storage.get("address") if isinstance(table.storage, Mapping) else None
    known = address if isinstance(address, Mapping) else {}
    shown = ("host", "port", "db", "database", "name", "path")
    return " ".join(f"{k}={known[k]}" for k in shown if known.get(k) is not None) or None
