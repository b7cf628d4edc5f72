"""The time line of a job: what ran where and when, live."""

from __future__ import annotations

from typing import Any, Final

from flask import Response, request

from fedflow.base.values import dataclass
from fedflow.board.job_frame import PREFIX, JobFrame, job_frame
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, fragment, page, unchanged
from fedflow.board.presenters import timeline
from fedflow.board.presenters.attempts import Attempt, Epoch, attempts, epochs
from fedflow.board.presenters.paging import ListPage, number_of, whole
from fedflow.board.presenters.timeline_sums import ORDERS, ordered, short_ones, time_sums
from fedflow.board.recent import RecentOfApp
from fedflow.board.urls import site_named
from fedflow.domain.job.conf import mode_of
from fedflow.domain.job.document import Report
from fedflow.domain.job.dsl import parse_dsl
from fedflow.domain.states import JOB_FINAL
from fedflow.web.context import services

board_job_timeline = board_blueprint("board_job_timeline", PREFIX)

SITES: Final = "site"
COMPONENTS: Final = "component"

_ATTEMPTS: Final = RecentOfApp[tuple[str, str, str], tuple[list[Attempt], list[Epoch]]](
    name="job_attempts", limit=16
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What of the time line a visitor asked for."""

    by: str
    zoom: int
    number: int  #: of the page
    site: str  #: key of the only site that is shown, empty: all
    ran: bool  #: only components that have begun
    order: str  #: of the components
    short: bool  #: short ones too

    @property
    def tag(self) -> str:
        return (
            f"{self.by} {self.zoom} {self.number} {self.site} {self.ran} {self.order} {self.short}"
        )


def _asked() -> _Asked:
    given = request.args
    zoom = whole(given.get("zoom"), 1)
    return _Asked(
        by=SITES if given.get("by") == SITES else COMPONENTS,
        zoom=zoom if zoom in timeline.ZOOMS else 1,
        number=number_of(given.get("page")),
        site=given.get("site", "")[:100],
        ran=given.get("ran") == "1",
        order=next((name for name in ORDERS if name == given.get("order")), ORDERS[0]),
        short=given.get("short") == "1",
    )


@board_job_timeline.get("/timeline")
def show(job_id: str, role: str, party_id: str) -> Response:
    """Return the page with the time line."""
    frame = job_frame(job_id, role, party_id)
    return page(
        "job_timeline.html",
        title=t("Time line of {job}", job=frame.title[:100]),
        nav="jobs",
        **frame.values("timeline"),
        **_values(frame, _asked()),
    )


@board_job_timeline.get("/timeline/live")
def live(job_id: str, role: str, party_id: str) -> Response:
    """Return the time line itself."""
    asked, site = _asked(), site_named(job_id, role, party_id)
    tag = f"timeline {site.key} {services().site_jobs.etag(job_id)} {asked.tag}"
    known = unchanged(tag)
    if known is not None:
        return known
    frame = job_frame(job_id, role, party_id)
    values = _values(frame, asked)
    return fragment(
        "job_timeline_live.html", tag=tag, final=values["is_final"], frame=frame, **values
    )


def _values(frame: JobFrame, asked: _Asked) -> dict[str, Any]:
    at = services().site_jobs
    key = (frame.job_id, frame.site.key, at.etag(frame.job_id))
    found, runs = _ATTEMPTS.get(key, lambda: _read(frame))
    sites = sorted({a.site for a in found}, key=lambda s: s.order)
    shown = [a for a in found if asked.site in ("", a.site.key)]
    order = at.order(frame.job)
    if asked.ran:
        ran = {a.component for a in shown if a.began_ms is not None}
        order = tuple(name for name in order if name in ran)
    upstream = _upstream(frame)
    now_ms = services().info.now_ms()
    sums = time_sums(shown, runs, upstream=upstream, now_ms=now_ms)
    folded = frozenset() if asked.short else short_ones(order, shown, sums)
    names = ordered([n for n in order if n not in folded], asked.order, shown, sums)
    pages = None
    if asked.by == SITES:
        drawn = timeline.by_site(shown, runs, now_ms=now_ms, zoom=asked.zoom)
    else:
        pages = ListPage(number=asked.number, size=timeline.PAGE, count=len(names)).nearest
        part = names[pages.offset : pages.offset + pages.size]
        drawn = timeline.by_component(
            shown, runs, order=part, upstream=upstream, now_ms=now_ms, zoom=asked.zoom
        )
    return {
        "drawn": drawn,
        "pages": pages,
        "sums": sums,
        "folded": len(folded) if asked.by == COMPONENTS else 0,
        "folded_ms": sum(sums.by_component[name] for name in folded),
        "whole_url": frame.url("timeline", **{**_query(asked), "short": "1", "page": 1}),
        "asked": asked,
        "orders": ORDERS,
        "site_choices": sites,
        "zooms": timeline.ZOOMS,
        "is_final": frame.job.status in JOB_FINAL,
        "live_url": frame.url("timeline/live", **_query(asked)),
    }


def _query(asked: _Asked) -> dict[str, object]:
    return {
        "by": asked.by,
        "zoom": asked.zoom,
        "page": asked.number,
        "site": asked.site or None,
        "ran": "1" if asked.ran else None,
        "order": asked.order,
        "short": "1" if asked.short else None,
    }


def _read(frame: JobFrame) -> tuple[list[Attempt], list[Epoch]]:
    tasks, events = services().site_jobs.attempts(frame.job_id, frame.site)
    now_ms = services().info.now_ms()
    return attempts(tasks, events), epochs(frame.job, events, now_ms)


def _upstream(frame: JobFrame) -> dict[str, tuple[str, ...]]:
    parsed = parse_dsl(frame.job.dsl, Report(), mode=mode_of(frame.job.conf))
    return {c.name: tuple(dict.fromkeys(ref.component for ref in c.refs)) for c in parsed}
