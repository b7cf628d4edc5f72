"""`/v1/data`: files that become tables, and tables that become files. Each is a local job.

A file is written to the spool folder while it arrives; the upload job reads it from there and
deletes it. Source: `docs/reference/rest.md#upload-and-download` and `docs/reference/rest.md#data`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from flask import Blueprint, Response, request

from fedflow.app.initiator.submissions import Submitted
from fedflow.app.local_jobs.uploads import PastUpload
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.web.auth import require_client
from fedflow.web.context import built, services
from fedflow.web.requests import Body, Flag, Text, Whole, read_body
from fedflow.web.responses import submitted, success
from fedflow.web.routes import json_object, route
from fedflow.web.spool import UploadSpool
from fedflow.wire import fields
from fedflow.wire.api.jobs import Uploaded
from fedflow.wire.api.tables import Upload, UploadInfo
from fedflow.wire.json_text import decode_json

data = Blueprint("data", __name__, url_prefix="/data")
data.before_request(require_client)

Given = dict[str, Any]


class ServerFile(Body, frozen=True):
    """A file on the server, instead of one that is sent."""

    file: Text


class UploadBody(Body, frozen=True):
    """How a file becomes a table.

    The members may be JSON text that is the whole query, `k=v` pairs of the query, or fields of the
    form. Without a form they are the JSON body, with `use_local_data` 0 and the `file` of the
    server.
    """

    namespace: Text
    table_name: Text
    head: Whole
    partition: Whole
    id_delimiter: str = ","
    drop: Whole = Whole(0)
    destroy: Flag = Flag(0)
    extend_sid: Flag = Flag(0)
    auto_increasing_sid: Flag = Flag(0)
    with_meta: Flag = Flag(0)
    meta: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    task_cores: Whole = Whole(1)
    storage_engine: str = ""
    party_id: Text = Text("0")
    use_local_data: Whole = Whole(1)


class HistoryBody(Body, frozen=True):
    """How many uploads (0: all), or the one of a job."""

    limit: Whole = Whole(0)
    job_id: Text | None = None


class DownloadBody(Body, frozen=True):
    """Which table, and where its rows are to be written on the server's machine."""

    namespace: Text
    table_name: Text
    output_path: str
    delimiter: str | None = None


class WriterBody(Body, frozen=True):
    """Which table, and what the new one is called."""

    namespace: Text
    table_name: Text
    output_namespace: Text | None = None
    output_name: Text | None = None
    storage_engine: str | None = None
    address: dict[str, Any] | None = None
    drop: Flag = Flag(0)


@route(data, "/upload", body=UploadBody, data=Uploaded, form=True)
def upload() -> Response:
    """Start the job that reads a file into a table: one that is sent, or one on the server."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise BadRequest(reason="a packed body is not read; send it without Content-Encoding")
    if request.mimetype == "multipart/form-data":
        return _answer(*_received())
    body = json_object()
    if body.get("use_local_data") not in (0, "0", False):
        raise BadRequest(reason="no file was sent; `use_local_data` must be 0 for a server's file")
    path = services().data.uploads.check_local(read_body(ServerFile, body).file)
    return _answer(services().data.uploads.submit(body, path, keep_file=True), body)


@route(data, "/upload/history", body=HistoryBody, data=list[dict[str, Upload]])
def upload_history(body: HistoryBody) -> Response:
    """Return what was uploaded, newest first, also what was deleted or replaced since."""
    found = services().data.uploads.history(max(0, body.limit), body.job_id)
    return success([{past.job.key.job_id: _past(past)} for past in found])


@route(data, "/download", body=DownloadBody, data=Uploaded)
def data_download(body: DownloadBody) -> Response:
    """Start the job that writes a table as a CSV file of the server's machine."""
    job = services().data.transfers.download(
        body.namespace, body.table_name, body.output_path, delimiter=body.delimiter
    )
    return submitted(job, table=(body.namespace, body.table_name))


@route(data, "/writer", body=WriterBody, data=Uploaded)
def data_writer(body: WriterBody) -> Response:
    """Start the job that writes the rows of a table to another table or to a storage."""
    job = services().data.transfers.write(
        body.namespace,
        body.table_name,
        output_namespace=body.output_namespace,
        output_name=body.output_name,
        storage_engine=body.storage_engine,
        address=body.address,
        drop=bool(body.drop),
    )
    return submitted(job, table=(body.namespace, body.table_name))


def _answer(job: Submitted, parameters: Given) -> Response:
    namespace, name = (str(parameters.get(one)) for one in ("namespace", "table_name"))
    return submitted(job, table=(namespace, name))


def _past(upload: PastUpload) -> Upload:
    info = UploadInfo(
        table_name=upload.name,
        namespace=upload.namespace,
        partition=upload.partitions,
        upload_count=upload.count,
    )
    return fields.upload(upload.job, info, upload.table)


def _received() -> tuple[Submitted, Given]:
    """Receive the file and hand it on; it is deleted if the upload is refused."""
    spool = UploadSpool(services().data.uploads.spool_dir, max_bytes=built().settings.upload_bytes)
    try:
        parameters = _parameters(spool.receive())
        if spool.path is None:
            raise MissingArgument(names="file")
        return services().data.uploads.submit(parameters, spool.path), parameters
    except BaseException:
        spool.discard()
        raise
    finally:
        spool.close()


def _parameters(form: Given) -> Given:
    """Return the parameters: JSON text as the whole query, else `k=v` pairs, else the form's texts.

    `+` is not a space here: the clients leave it as it is.
    """
    raw = unquote_to_bytes(request.query_string)
    if raw.lstrip().startswith(b"{"):
        value = decode_json(raw)
        if isinstance(value, dict):
            return value
    try:
        pairs = dict(parse_qsl(request.query_string.decode("ascii"), strict_parsing=bool(raw)))
    except ValueError as exc:
        raise BadRequest(reason="the query is neither JSON nor k=v pairs") from exc
    return {**form, **pairs}
