"""`/v1/job/ledger`: what a job's tasks here sent to each party. fedflow's own."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.app.queries.job_ledgers import ledger_csv
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import JobBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.ledgers import JobLedger, SignedLedger

job_ledger = Blueprint("job_ledger", __name__, url_prefix="/job/ledger")
job_ledger.before_request(require_client)


class LedgerBody(JobBody, frozen=True):
    """A job, or one of its components."""

    component_name: Text | None = None


@route(job_ledger, "/query", body=LedgerBody, data=JobLedger, own=True, read_only=True)
def query(body: LedgerBody) -> Response:
    """Return what a job's tasks here sent to each party, received and waited for, by message."""
    return success(services().job_ledgers.of(body.job_id, body.component_name))


@route(job_ledger, "/export", body=LedgerBody, data=SignedLedger, own=True)
def export(body: LedgerBody) -> Response:
    """Return the same as CSV, signed with the site key."""
    found = services().job_ledgers.of(body.job_id, body.component_name)
    return success(services().signed_ledger(ledger_csv(found)))
