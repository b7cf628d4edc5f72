"""The tab of a component's output tables: pages of rows, and ways to take them home."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from flask import Response, request

from fedflow.base.errors.data import NoData
from fedflow.base.values import dataclass
from fedflow.board.access import need
from fedflow.board.component_pages import (
    PREFIX,
    ComponentAddress,
    StoredAttempts,
    component_page,
    component_place,
    stored_attempts,
)
from fedflow.board.page import board_blueprint
from fedflow.board.presenters.table_rows import RowsPart, part_of, shown_cell
from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.records import OutputTable, TableRecord
from fedflow.web import downloads
from fedflow.web.context import services

board_component_data = board_blueprint("board_component_data", PREFIX)

_ALL: Final = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsPage:
    """A page of the rows of a table."""

    table: TableRecord
    part: RowsPart
    rows: list[list[str | None]]
    has_more: bool  #: the table has rows that no page shows


@board_component_data.get("/data")
def data(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the page; `?output=` names one of several tables."""
    place = component_place(job_id, role, party_id, component)
    stored = _attempts(place)
    found = _outputs(place, stored)
    names = [output.data_name for output, _ in found]
    asked = request.args.get("output", "")
    chosen = asked if asked in names else (names[0] if names else "")
    output, table = next(((o, t) for o, t in found if o.data_name == chosen), (None, None))
    return component_page(
        "component_data.html", place, tab="data", names=names, chosen=chosen, stored=stored,
        data=None if table is None else rows_shown(table, request.args.to_dict()),
        command=_command(place) if output is not None and stored.is_newest else "",
    )  # fmt: skip


@board_component_data.get("/data/download")
def data_download(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return all output tables of the attempt as tar.gz. Raises: NoData, RoleNeeded."""
    need(AccountRole.OPERATOR)
    place = component_place(job_id, role, party_id, component)
    site = place.job.site
    version = _attempts(place).shown
    if version is None:
        raise NoData(reason=f"{component[:100]} has no output table of this attempt")
    name = downloads.file_word(place.component)
    return downloads.made(
        lambda content: services().tracking.write_archive(
            place.job.job_id, place.component, site, content,
            limit=_ALL, head=True, version=version,
        ),
        f"job_{place.job.job_id}_{name}_{site.role.value}_{site.party_id}_output_data.tar.gz",
    )  # fmt: skip


def rows_shown(table: TableRecord, asked: Mapping[str, str]) -> RowsPage:
    """Return the page of a table's rows that an address asks for. Raises: BadData."""
    pages = services().data.table_pages
    reachable = pages.reachable(table)
    part = part_of(table, asked, rows=reachable)
    rows = pages.rows(table, offset=part.page.offset, limit=part.page.size, columns=part.columns)
    return RowsPage(
        table=table,
        part=part,
        rows=[[shown_cell(cell) for cell in row] for row in rows],
        has_more=reachable < table.count,
    )


def _attempts(place: ComponentAddress) -> StoredAttempts:
    """Return which attempts stored tables."""
    found = services().tracking.output_versions(place.job.job_id, place.component, place.job.site)
    return stored_attempts(place, found)


def _outputs(
    place: ComponentAddress, stored: StoredAttempts
) -> list[tuple[OutputTable, TableRecord | None]]:
    if stored.shown is None:
        return []
    return services().tracking.outputs(
        place.job.job_id, place.component, place.job.site, version=stored.shown
    )


def _command(place: ComponentAddress) -> str:
    """Return the command line that fetches the newest tables."""
    site = place.job.site
    return (
        f"flow component output-data -j {place.job.job_id} -cpn {shlex.quote(place.component)}"
        f" -r {site.role.value} -p {site.party_id} -o ./output"
    )
