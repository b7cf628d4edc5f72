"""`/v1/job`: what happened to a job, what it waits for, and why it ended (fedflow's own)."""

from __future__ import annotations

from flask import Blueprint, Response, request

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, Text, Whole, read_body
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.job_history import Explanation, HistoryPage

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


@route(job_history, "/events", body=EventsBody, data=HistoryPage, own=True, read_only=True)
def events(body: EventsBody) -> Response:
    """Return what happened to a job, oldest first, in pages."""
    return _events(body)


@route(job_history, "/<job_id>/events", data=HistoryPage, methods=("GET",), own=True)
def events_of(_body: NoBody, job_id: str) -> Response:
    """Return what happened to a job, oldest first; the query may have the members of the POST."""
    return _events(read_body(EventsBody, {**request.args.to_dict(), "job_id": job_id}))


@route(job_history, "/explain", body=ExplainBody, data=Explanation, own=True, read_only=True)
def explain(body: ExplainBody) -> Response:
    """Return what a job waits for, at which site, since and until when, and what helps."""
    return success(services().explanations.explain(body.job_id))


@route(job_history, "/<job_id>/explain", data=Explanation, methods=("GET",), own=True)
def explain_of(_body: NoBody, job_id: str) -> Response:
    """Return what a job waits for, at which site, since and until when, and what helps."""
    return success(services().explanations.explain(job_id))


def _events(body: EventsBody) -> Response:
    return success(
        services().histories.events(
            body.job_id, component=body.component_name, since=body.since, limit=body.limit
        )
    )
