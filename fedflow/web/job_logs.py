"""`/v1/job/log...`: a job's logs as an archive. Source: reference section 2.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from flask import Blueprint, Response

from fedflow.base.errors.data import NoData
from fedflow.base.errors.jobs import JobNotFound
from fedflow.web import downloads
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import JobBody
from fedflow.web.responses import status_refusal, success
from fedflow.web.routes import Style, route
from fedflow.wire.api.administration import LogsDirectory

job_logs = Blueprint("job_logs", __name__, url_prefix="/job")
job_logs.before_request(require_client)


@route(job_logs, "/log/download", body=JobBody, style=Style.STATUS, produces="application/gzip")
def log_download(body: JobBody) -> Response:
    """Return a job's logs as tar.gz, members relative to its log folder."""
    return _logs(body.job_id)


@route(
    job_logs, "/log", body=JobBody, methods=("GET",), style=Style.STATUS,
    produces="application/gzip",
)  # fmt: skip
def log_of_1_6(body: JobBody) -> Response:
    """Return a job's logs as clients of FATE 1.6 request them; HTTP 210 if there are none."""
    try:
        return _logs(body.job_id)
    except JobNotFound:
        return status_refusal(NoData.http, "no log")


@route(job_logs, "/log/path", body=JobBody, data=LogsDirectory, style=Style.STATUS)
def log_path(body: JobBody) -> Response:
    """Return the folder of a job's logs on the server."""
    return success({"logs_directory": str(services().jobs.log_dir(body.job_id))})


def _logs(job_id: str) -> Response:
    folder = services().jobs.log_dir(job_id)
    if not folder.is_dir():
        raise JobNotFound(job_id=job_id)
    return downloads.logs(_files(folder), f"job_{job_id}_log.tar.gz")


def _files(folder: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the regular files below a folder, each open until the next."""
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink() and path.is_file():
            with path.open("rb") as log:
                yield str(path.relative_to(folder)), log
