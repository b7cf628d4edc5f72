"""The ledger of a job at this server, and the switch that records each of its values."""

from __future__ import annotations

import io

from flask import Response, request

from fedflow.app.queries.job_ledgers import ledger_csv
from fedflow.board.forms import act
from fedflow.board.job_frame import PREFIX, job_frame
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, came_from, page, redirect_to
from fedflow.board.presenters.job_trace import content_words, trace_view
from fedflow.web.context import services
from fedflow.web.downloads import file_word
from fedflow.web.responses import download
from fedflow.wire.api.ledgers import JobLedger

board_job_trace = board_blueprint("board_job_trace", PREFIX)


@board_job_trace.get("/trace")
def show(job_id: str, role: str, party_id: str) -> Response:
    """Show the ledger of a site, and the largest and longest of the recorded values."""
    frame = job_frame(job_id, role, party_id)
    found, ledger = services().job_traces.of(job_id), services().job_ledgers.of(job_id)
    return page(
        "job_trace.html",
        title=t("Ledger of job {job_id}", job_id=job_id[:60]),
        nav="jobs",
        seen=trace_view(found, ledger, frame.site.key),
        words=content_words(t),
        **frame.values("trace"),
    )


@board_job_trace.get("/trace/ledger.csv")
def ledger_file(job_id: str, role: str, party_id: str) -> Response:
    """Return the ledger of a site as CSV; `fedflow job ledger --export` signs it, too."""
    site = job_frame(job_id, role, party_id).site.key
    found = services().job_ledgers.of(job_id)
    own = JobLedger(job_id=job_id, tasks=tuple(task for task in found.tasks if task.site == site))
    content = io.BytesIO(ledger_csv(own).encode())
    return download(content, f"ledger_{file_word(job_id)}.csv", mimetype="text/csv")


@act(board_job_trace, "/trace/record")
def record(job_id: str, role: str, party_id: str) -> Response:
    """Record each value of a job at this server from now on, or no more: field `is_on`."""
    frame = job_frame(job_id, role, party_id)
    is_on = request.form.get("is_on", "") == "1"
    services().job_traces.record(job_id, is_on=is_on)
    message = t("Values are recorded from now on.") if is_on else t("Values are recorded no more.")
    return redirect_to(came_from(frame.url("trace")), message=message)
