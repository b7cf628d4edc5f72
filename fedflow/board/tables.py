"""The pages of this party's tables: the list, and one of them. Their names are in the query: they
may hold any character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from flask import Response, request

from fedflow.app.data.provenance import SourceTable
from fedflow.base.errors.data import TableNotFound, TableNotTracked
from fedflow.base.errors.requests import MissingArgument
from fedflow.board.component_data import rows_shown
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, page
from fedflow.board.presenters.models.selected import shown
from fedflow.board.presenters.paging import page_of
from fedflow.board.presenters.table_facts import columns_of, facts_of
from fedflow.board.presenters.table_rows import headers_of
from fedflow.board.urls import component_url
from fedflow.domain.data.table_lists import TableFilter, TableOrder
from fedflow.domain.data.table_names import NAME_LIMIT
from fedflow.domain.records import OutputTable
from fedflow.web.context import services

board_tables = board_blueprint("board_tables", "/tables")

SIZE: Final = 50  #: tables on a page
MOST_USES: Final = 50  #: that are shown of one table
_MANY: Final = 10**9  #: tables: no list is longer
ORIGINS: Final = ("upload", "output", "reader", "table_bind")


@board_tables.get("")
def listed() -> Response:
    """Return the list; `part`, `origin`, `disabled`, `order` and `page` say of what."""
    asked = request.args
    part = asked.get("part", "").strip()[:NAME_LIMIT]
    origin = asked.get("origin", "")
    order = asked.get("order", "")
    orders = {one.value: one for one in TableOrder}
    number = asked.get("page")
    which = TableFilter(
        part=part or None,
        origins=(origin,) if origin in ORIGINS else None,
        disabled={"yes": True, "no": False}.get(asked.get("disabled", "")),
        order=orders.get(order.removeprefix("-"), TableOrder.CREATED),
        descending=order.startswith("-") or order.removeprefix("-") not in orders,
        limit=SIZE,
        offset=page_of(number, size=SIZE, count=_MANY).offset,
    )
    pages = services().data.table_pages
    found, count = pages.listed(which)
    at = page_of(number, size=SIZE, count=count)
    if at.offset != which.offset:  # the list has become shorter
        found, count = pages.listed(replace(which, offset=at.offset))
    return page(
        "tables.html", title=t("Tables"), nav="tables", tables=found, at=at, which=which,
        origins=ORIGINS, is_filtered=bool(part or which.origins or which.disabled is not None),
        order_of=_order_of(which), width_of=lambda table: len(headers_of(table)),
    )  # fmt: skip


@board_tables.get("/table")
def one() -> Response:
    """Return the page of a table. Raises: TableNotFound, MissingArgument, BadData."""
    namespace, name = request.args.get("namespace"), request.args.get("name")
    if namespace is None or name is None:
        raise MissingArgument(names="namespace,name")
    found = services().data.table_details.get(namespace[:NAME_LIMIT], name[:NAME_LIMIT])
    if found is None:
        own = services().info.place.party_id or "0"
        raise TableNotFound(namespace=namespace[:100], name=name[:100], party_id=own)
    table, asked = found.table, request.args.to_dict()
    use = services().data.table_pages.use(table.namespace, table.name)
    return page(
        "table.html", title=f"{table.namespace[:40]} / {table.name[:60]}", nav="tables",
        table=table, data=rows_shown(table, asked), use=use, uses=use.made[:MOST_USES],
        sources=_sources(table.namespace, table.name), url_of=_component_url,
        shown=shown([facts_of(table), columns_of(found.columns)], asked),
    )  # fmt: skip


def _order_of(which: TableFilter) -> dict[str, tuple[str, str]]:
    """Return for each order how the list is sorted by it now, and what sorts by it next."""
    found = {}
    for one_order in TableOrder:
        is_now = one_order is which.order
        state = ("descending" if which.descending else "ascending") if is_now else "none"
        up = state == "descending" or (state == "none" and one_order is TableOrder.NAME)
        found[one_order.value] = (state, one_order.value if up else f"-{one_order.value}")
    return found


def _sources(namespace: str, name: str) -> Sequence[SourceTable]:
    """Return what a table was made of, nothing if that is not known."""
    try:
        return services().data.provenance.sources(namespace, name)
    except TableNotTracked:
        return ()


def _component_url(output: OutputTable) -> str:
    key = output.key
    return component_url(key.job_id, key.site, key.component, "data")
