"""Responses: envelopes as JSON, and files."""

from __future__ import annotations

from typing import IO, Any

from flask import Response, request, send_file

from fedflow.app.submissions import Submitted
from fedflow.base.errors import FedflowError
from fedflow.wire import envelope


def answer(body: Any, *, status: int = 200) -> Response:
    """Return JSON."""
    return Response(envelope.encode(body), status=status, mimetype="application/json")


def success(data: Any = None, **members: Any) -> Response:
    """Return the envelope of a success; `members` as in `envelope.success`."""
    return answer(envelope.success(data, **members))


def refusal(retcode: int, retmsg: str, *, error: FedflowError | None = None) -> Response:
    """Return an in-band error whose sentence is part of a route's protocol."""
    member = envelope.error_member(error) if error is not None else None
    return answer(envelope.envelope(retcode, retmsg, error=member))


def status_refusal(status: int, retmsg: str | None = None) -> Response:
    """Return an error with an HTTP status, as downloads answer."""
    return answer(envelope.status_failure(status, retmsg), status=status)


def status_error(exc: FedflowError) -> Response:
    """Return an error with its HTTP status; `error` tells machines which one it is."""
    body = envelope.status_failure(exc.http, f"{exc.message} {exc.hint}")
    return answer({**body, "error": envelope.error_member(exc)}, status=exc.http)


def download(content: IO[bytes], name: str, *, mimetype: str = "application/gzip") -> Response:
    """Return a file from its beginning; it is closed when it was sent."""
    content.seek(0)
    return send_file(content, mimetype=mimetype, as_attachment=True, download_name=name)


def submitted(job: Submitted, **more: Any) -> Response:
    """Return the answer to a submit, as FATE's clients read it."""
    data = {
        "code": 0,
        "message": "success",
        "job_id": job.job_id,
        "model_info": {"model_id": job.model_id, "model_version": job.model_version},
        "board_url": f"{request.host_url}board/jobs/{job.job_id}",
        "logs_directory": job.logs_directory,
        "warnings": list(job.warnings),
    }
    return success({**data, **more}, job_id=job.job_id)
