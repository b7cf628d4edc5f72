"""`/v1/job`: what happened to a job, what it waits for, and why it ended (fedflow's own)."""

from __future__ import annotations

from typing import TypedDict

from flask import Blueprint, Response, request

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, Text, Whole, read_body
from fedflow.web.responses import success
from fedflow.web.routes import route

job_history = Blueprint("job_history", __name__, url_prefix="/job")
job_history.before_request(require_client)


class EventsBody(Body, frozen=True):
    """Which job, and which of its events: those after the number `since`, at most `limit` (1 to
    1000).
    """

    job_id: Text
    component_name: Text | None = None
    since: Whole = Whole(0)
    limit: Whole = Whole(1000)


class ExplainBody(Body, frozen=True):
    """Which job."""

    job_id: Text


class EventRow(TypedDict):
    """One thing that happened: what moved from which status to which, why, and who did it."""

    number: int
    at_ms: int
    at: str
    epoch: int | None
    subject: str
    site: str | None
    component: str | None
    version: int | None
    old: str | None
    new: str | None
    code: str | None
    message: str
    cause_site: str | None
    by: str
    text: str


class EventPage(TypedDict):
    """Events in order; `next` is the `since` of the next page, if there are `more`."""

    job_id: str
    events: list[EventRow]
    next: int
    more: bool


class WaitRow(TypedDict):
    """One thing that is waited for: what, where, since when, until when, and what helps."""

    code: str
    message: str
    remedy: str
    site: str | None
    component: str | None
    since_ms: int | None
    since: str | None
    heard_ms: int | None
    heard: str | None
    next_ms: int | None
    next: str | None
    deadline_ms: int | None
    deadline: str | None


class EndRow(TypedDict):
    """Why a job ended: the first component that failed, where, what helps, where its log is."""

    code: str
    message: str
    remedy: str
    site: str | None
    component: str | None
    version: int | None
    log: str | None


class Explanation(TypedDict):
    """What a job waits for, or why it ended."""

    job_id: str
    status: str
    epoch: int
    initiator: str
    is_initiator: bool
    deadline_ms: int | None
    waits: list[WaitRow]
    end: EndRow | None


@route(job_history, "/events", body=EventsBody, data=EventPage, own=True, looks=True)
def events(body: EventsBody) -> Response:
    """Return what happened to a job, oldest first, in pages."""
    return _events(body)


@route(job_history, "/<job_id>/events", data=EventPage, methods=("GET",), own=True)
def events_of(_body: NoBody, job_id: str) -> Response:
    """Return what happened to a job, oldest first; the query may have the members of the POST."""
    return _events(read_body(EventsBody, {**request.args.to_dict(), "job_id": job_id}))


@route(job_history, "/explain", body=ExplainBody, data=Explanation, own=True, looks=True)
def explain(body: ExplainBody) -> Response:
    """Return what a job waits for, where, since when, until when, and what helps."""
    return success(services().explanations.explain(body.job_id))


@route(job_history, "/<job_id>/explain", data=Explanation, methods=("GET",), own=True)
def explain_of(_body: NoBody, job_id: str) -> Response:
    """Return what a job waits for, where, since when, until when, and what helps."""
    return success(services().explanations.explain(job_id))


def _events(body: EventsBody) -> Response:
    return success(
        services().histories.events(
            body.job_id, component=body.component_name, since=body.since, limit=body.limit
        )
    )
