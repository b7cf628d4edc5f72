"""Receiving a multipart body: its file goes to disk while it arrives, its text fields to memory."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from flask import request
from werkzeug.formparser import parse_form_data
from werkzeug.utils import secure_filename

from fedflow.base.disk import writing
from fedflow.base.errors.requests import BadRequest

MAX_FORM_BYTES: Final = 1024 * 1024  #: of the text fields beside a file


class UploadSpool:
    """Writes the parts of a multipart body: the part `file` to disk, small texts to memory."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._file: IO[bytes] | None = None
        self.path: Path | None = None

    def receive(self) -> dict[str, Any]:
        """Read the body and return its text fields.

        Raises: BadRequest, RequestEntityTooLarge, DiskFull, FolderNotWritable.
        """
        try:
            with writing(self._folder):
                _, form, files = parse_form_data(
                    request.environ,
                    stream_factory=self._open,
                    max_form_memory_size=MAX_FORM_BYTES,
                    max_content_length=self._max_bytes,
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
        """Close the file; it stays."""
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Delete the file."""
        self.close()
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
                self.path.parent.rmdir()
