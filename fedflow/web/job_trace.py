"""`/v1/job/trace`: what a job's values cost at this server. fedflow's own."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Flag, JobBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.traces import JobTrace

job_trace = Blueprint("job_trace", __name__, url_prefix="/job/trace")
job_trace.before_request(require_client)


class TraceBody(JobBody, frozen=True):
    """A job, or one of its components."""

    component_name: Text | None = None


class RecordBody(JobBody, frozen=True):
    """A job, and whether each of its values is recorded."""

    is_on: Flag


@route(job_trace, "/query", body=TraceBody, data=JobTrace, own=True, read_only=True)
def query(body: TraceBody) -> Response:
    """Return the counts of a job's sessions here, and the values that were recorded."""
    return success(services().job_traces.of(body.job_id, body.component_name))


@route(job_trace, "/record", body=RecordBody, data=JobTrace, own=True)
def record(body: RecordBody) -> Response:
    """Record each value of a job from now on, or no more; nothing of its contents."""
    services().job_traces.record(body.job_id, is_on=bool(body.is_on))
    return success(services().job_traces.of(body.job_id))
