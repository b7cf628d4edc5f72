"""`/v1/log`: single log files of a job, by lines. Source: reference section 2.7."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.app.logs.addresses import LogName
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Text, Whole
from fedflow.web.responses import status_refusal, success
from fedflow.web.routes import route
from fedflow.wire.api.administration import LogLine, LogSize

log = Blueprint("log", __name__, url_prefix="/log")
log.before_request(require_client)


class LogBody(Body, frozen=True):
    """One log of one job; `role`, `party_id`, `component_name` as the type needs them."""

    log_type: Text
    job_id: Text
    role: Text | None = None
    party_id: Text | None = None
    component_name: Text | None = None
    instance_id: Text | None = None

    def name(self) -> LogName:
        """Return which log is meant."""
        return LogName(
            log_type=self.log_type,
            job_id=self.job_id,
            role=self.role,
            party_id=self.party_id,
            component=self.component_name,
        )

    def is_elsewhere(self) -> bool:
        """Tell whether another server instance is asked for."""
        return self.instance_id not in (None, "", services().info.instance_id())


class CatBody(LogBody, frozen=True):
    """And lines of it, from 1, both ends included; the first 5,000 if `end` is left out."""

    begin: Whole = Whole(1)
    end: Whole | None = None


@route(log, "/size", body=LogBody, data=LogSize)
def size(body: LogBody) -> Response:
    """Return how many lines a log has."""
    if body.is_elsewhere():
        return status_refusal(404)
    return success(LogSize(size=services().administration.job_logs.size(body.name())))


@route(log, "/cat", body=CatBody, data=list[LogLine])
def cat(body: CatBody) -> Response:
    """Return lines of a log, with addresses masked."""
    if body.is_elsewhere():
        return status_refusal(404)
    return success(services().administration.job_logs.lines(body.name(), body.begin, body.end))
