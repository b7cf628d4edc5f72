"""`/v1/data`: files that become tables. Source: `reference/flow-rest-api.md` sections 1.6 and 2.2.

A file is written to the spool folder while it arrives; the upload job reads it from there and
deletes it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from flask import Blueprint, Response, request
from werkzeug.formparser import parse_form_data
from werkzeug.utils import secure_filename

from fedflow.app.submissions import Submitted
from fedflow.base.errors import BadRequest, MissingArgument
from fedflow.web.answers import submitted, success
from fedflow.web.auth import require_client
from fedflow.web.current import built, services
from fedflow.web.requests import integer, json_body, optional_body, optional_text, text
from fedflow.wire.json_text import decode_json

data = Blueprint("data", __name__, url_prefix="/data")
data.before_request(require_client)

Body = dict[str, Any]
MAX_FORM_BYTES = 1024 * 1024  #: of the text fields beside a file


@data.post("/upload")
def upload() -> Response:
    """Start the job that reads a file into a table: one that is sent, or one on the server."""
    if request.mimetype == "multipart/form-data":
        return _answer(*_received())
    body = json_body()
    if body.get("use_local_data") not in (0, "0", False):
        raise BadRequest(reason="no file was sent; `use_local_data` must be 0 for a server's file")
    path = services().uploads.check_local(text(body, "file"))
    return _answer(services().uploads.submit(body, path, keep_file=True), body)


@data.post("/upload/history")
def upload_history() -> Response:
    """Return what was uploaded, newest first."""
    body = optional_body()
    limit = integer(body, "limit", default=0)
    return success(services().uploads.history(max(0, limit), optional_text(body, "job_id")))


def _answer(job: Submitted, parameters: Body) -> Response:
    return submitted(
        job, table_name=parameters.get("table_name"), namespace=parameters.get("namespace")
    )


def _received() -> tuple[Submitted, Body]:
    """Receive the file and hand it on; it is deleted if the upload is refused."""
    spool = _Spool(services().uploads.spool_dir)
    try:
        parameters = _parameters(spool.receive())
        if spool.path is None:
            raise MissingArgument(names="file")
        return services().uploads.submit(parameters, spool.path), parameters
    except BaseException:
        spool.discard()
        raise
    finally:
        spool.close()


def _parameters(form: Body) -> Body:
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


class _Spool:
    """Writes the parts of a multipart body: the part `file` to disk, small texts to memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self.path: Path | None = None

    def receive(self) -> Body:
        """Read the body and return its text fields. Raises: BadRequest, RequestEntityTooLarge."""
        try:
            _, form, files = parse_form_data(
                request.environ,
                stream_factory=self._open,
                max_form_memory_size=MAX_FORM_BYTES,
                max_content_length=built().settings.upload_bytes,
                max_form_parts=200,
                silent=False,
            )
        except ValueError as exc:
            raise BadRequest(reason=f"the multipart body cannot be read: {exc}") from exc
        if len(list(files.values())) > 1:
            raise BadRequest(reason="send one file, in the part `file`")
        if self._file is not None:
            self._file.flush()
        return dict(form.items())

    def _open(
        self, total_content_length: int | None, content_type: str | None, filename: str | None,
        content_length: int | None = None,
    ) -> IO[bytes]:  # fmt: skip
        if self._file is not None:
            raise BadRequest(reason="send one file, in the part `file`")
        folder = self._folder / secrets.token_hex(16)
        folder.mkdir(mode=0o700, parents=True)
        self.path = folder / (secure_filename(filename or "")[-100:] or "upload")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "w+b")
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        self.close()
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()
                self.path.parent.rmdir()
