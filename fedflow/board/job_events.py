"""The history of a job with its causes: the newest part live, the rest in pages."""

from __future__ import annotations

from typing import Any, Final

from flask import Response, request

from fedflow.board.job_frame import PREFIX, JobFrame, job_frame
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, fragment, page, unchanged
from fedflow.board.presenters.attempts import attempts
from fedflow.board.urls import site_named
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL
from fedflow.web.context import services

board_job_events = board_blueprint("board_job_events", PREFIX)

SHOWN: Final = 200  #: events of one page


@board_job_events.get("/events")
def show(job_id: str, role: str, party_id: str) -> Response:
    """Return a page of the history; `since` begins it after an event, else it is the newest part.

    `component` and `site` limit it.
    """
    frame = job_frame(job_id, role, party_id)
    values = _values(frame)
    found = _attempts(frame, values["component"]) if values["component"] else ()
    return page(
        "job_events.html",
        title=t("Events of job {job_id}", job_id=job_id[:60]),
        nav="jobs",
        names=services().site_jobs.order(frame.job),
        attempts=found,
        **frame.values("events"),
        **values,
    )


@board_job_events.get("/events/live")
def live(job_id: str, role: str, party_id: str) -> Response:
    """Return the events themselves."""
    site = site_named(job_id, role, party_id)
    asked = request.args.to_dict()
    tag = f"events {site.key} {services().site_jobs.etag(job_id)} {sorted(asked.items())}"
    known = unchanged(tag)
    if known is not None:
        return known
    frame = job_frame(job_id, role, party_id)
    values = _values(frame)
    return fragment(
        "job_events_live.html", tag=tag, final=values["is_final"], frame=frame, **values
    )


def _values(frame: JobFrame) -> dict[str, Any]:
    component = request.args.get("component", "") or None
    about = _about(frame, request.args.get("site", ""))
    given = request.args.get("since", "")
    is_tail = not given.isdecimal()
    found = services().histories.events(
        frame.job_id,
        component=component,
        since=0 if is_tail else int(given[:18]),
        limit=SHOWN,
        seen_by=frame.site,
        about=about,
        newest=is_tail,
    )
    chosen = {"component": component, "site": about.key if about else None}
    return {
        "found": found,
        "is_tail": is_tail,
        "component": component or "",
        "about": about,
        "members": _members(frame),
        "begin_ms": frame.job.created_ms,
        "is_final": frame.job.status in JOB_FINAL,
        "first_url": frame.url("events", since=0, **chosen),
        "tail_url": frame.url("events", **chosen),
        "next_url": frame.url("events", since=found.next, **chosen),
        "live_url": frame.url("events/live", **chosen),
    }


def _about(frame: JobFrame, key: str) -> Site | None:
    """Return the site that the query names, None if it is none of this job."""
    return next((site for site in _members(frame) if site.key == key), None)


def _members(frame: JobFrame) -> list[Site]:
    if not frame.is_initiator:
        return [frame.site]
    keys = [f"{role}-{party}" for role, ids in frame.job.roles.items() for party in ids]
    return sorted((Site.from_key(key) for key in keys), key=lambda s: s.order)


def _attempts(frame: JobFrame, component: str) -> list[Any]:
    found = attempts(*services().site_jobs.attempts(frame.job_id, frame.site))
    own = [a for a in found if a.component == component]
    return sorted(own, key=lambda a: (a.version, a.site.order))
