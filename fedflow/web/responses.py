"""Responses: envelopes as JSON, and files."""

from __future__ import annotations

import io
import re
from typing import IO, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from flask import Response, request, send_file

from fedflow.app.initiator.submissions import Submitted
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.site import Site
from fedflow.web.context import built
from fedflow.wire import envelope
from fedflow.wire.api import jobs

_PORTS: Final = {"http": 80, "https": 443}


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
    body = envelope.status_failure(exc.http, exc.advice)
    return answer({**body, "error": envelope.error_member(exc)}, status=exc.http)


def download(content: IO[bytes], name: str, *, mimetype: str = "application/gzip") -> Response:
    """Return a file from its beginning; it is closed when it was sent."""
    content.seek(0)
    return send_file(content, mimetype=mimetype, as_attachment=True, download_name=name)


def document(value: Any, filename: str | None) -> Response:
    """Return JSON in an envelope, or as a file if a name is given. Raises: BadRequest."""
    if not filename:
        return success(value)
    if not re.fullmatch(r"[^/\\\x00-\x1f\x7f\"]{1,255}", filename):
        raise BadRequest(reason="`filename` must be a plain file name")
    text = msgspec.json.format(envelope.encode(value), indent=4)
    return download(io.BytesIO(text), filename, mimetype="application/json")


def submitted(job: Submitted, *, table: tuple[str, str] | None = None) -> Response:
    """Return the answer to a submit; `table` is the namespace and name of the one it is about."""
    data = jobs.Submitted(
        job_id=job.job_id,
        model_info=jobs.ModelInfo(model_id=job.model_id, model_version=job.model_version),
        board_url=board_url(job.job_id, job.initiator),
        logs_directory=job.logs_directory,
        dsl_path=str(job.files.dsl_path),
        runtime_conf_path=str(job.files.runtime_conf_path),
        runtime_conf_on_party_path=str(job.files.runtime_conf_on_party_path),
        train_runtime_conf_path=str(job.files.train_runtime_conf_path),
        pipeline_dsl_path=str(job.files.pipeline_dsl_path),
        warnings=job.warnings,
        reused=job.reused,
    )
    if table is not None:
        namespace, name = table
        members = msgspec.structs.asdict(data)
        data = jobs.Uploaded(**members, table_name=name, namespace=namespace)
    if not job.obsolete:
        return success(data, job_id=job.job_id)
    names = ", ".join(job.obsolete)
    retmsg = f"[WARN] success; {names} of job_parameters had no effect"
    return answer(envelope.envelope(0, retmsg, data=data, job_id=job.job_id))


def board_url(job_id: str, site: Site) -> str:
    """Return the address of a job's page, at the server as the client calls it.

    A server without a board gives FATE-Board's form, which a proxy may lead to one.
    """
    asked = urlsplit(request.host_url)
    host = asked.netloc if asked.port else f"{asked.netloc}:{_PORTS.get(asked.scheme, 80)}"
    if built().settings.board is not None:
        place = "/".join(quote(part, safe="") for part in (job_id, site.role.value, site.party_id))
        return f"{asked.scheme}://{host}/board/jobs/{place}"
    chosen = urlencode({"job_id": job_id, "role": site.role.value, "party_id": site.party_id})
    return f"{asked.scheme}://{host}/index.html#/dashboard?{chosen}"
