"""`/board/jobs`: the list of jobs, with filters, sorting, notes, tags and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask import Response, request

from fedflow.app.queries.job_lists import JobPage
from fedflow.board import site_roles
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, fragment, page, unchanged
from fedflow.board.presenters import job_list
from fedflow.board.presenters.paging import ListPage
from fedflow.board.urls import component_url, site_url
from fedflow.domain.job_lines import JobLine, Strip
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role
from fedflow.web.context import services

board_jobs = board_blueprint("board_jobs", "/jobs")


@board_jobs.get("")
def jobs() -> Response:
    """Show a page of this server's party jobs."""
    query = _query()
    found = _find(query)
    if not found.lines and found.count:  # the list is shorter than the address thinks
        query = replace(query, number=_paging(query, found).last)
        found = _find(query)
    return page(
        "jobs.html",
        title=t("Jobs"),
        nav="jobs",
        paging=_paging(query, found),
        roles=[role.value for role in Role],
        chips=job_list.chips(query, found.counts),
        sizes=job_list.SIZES,
        periods=_periods(),
        known_tags=services().job_tags.all(limit=100),
        **_rows(query, found.lines, found.strips),
    )


@board_jobs.get("/rows")
def live_rows() -> Response:
    """Return the rows of a page as they are now; polling ends when all jobs have ended."""
    query = _query()
    now_ms = services().info.now_ms()
    lines, strips = services().job_lists.rows(query.filter(now_ms))
    tag = job_list.tag_of(lines, strips, now_ms)
    known = unchanged(tag)
    if known is not None:
        return known
    values = _rows(query, lines, strips)
    return fragment("jobs_rows.html", tag=tag, final=not values["is_live"], **values)


def _query() -> job_list.ListQuery:
    several = {name: request.args.getlist(name) for name in ("role", "status")}
    return job_list.read_query(request.args, several)


def _find(query: job_list.ListQuery) -> JobPage:
    return services().job_lists.page(query.filter(services().info.now_ms()))


def _paging(query: job_list.ListQuery, found: JobPage) -> ListPage:
    return ListPage(number=query.number, size=query.size, count=found.count)


def _rows(
    query: job_list.ListQuery, lines: Sequence[JobLine], strips: Mapping[JobKey, Strip]
) -> dict[str, Any]:
    rows = job_list.rows(lines, strips, services().info.now_ms())
    return {
        "query": query,
        "rows": rows,
        "is_live": any(not row.is_final for row in rows),
        "site_url": site_url,
        "component_url": component_url,
        "role_word": site_roles.word,
        "rows_url": f"/board/jobs/rows{query.query(page=query.number)}",
        "most_notes": job_list.MOST_NOTES,
    }


def _periods() -> list[tuple[str, str]]:
    return [
        ("", t("at any time")),
        ("hour", t("in the last hour")),
        ("day", t("in the last day")),
        ("week", t("in the last week")),
        ("month", t("in the last 30 days")),
    ]
