"""A file as the body of an upload: sent in pieces, so that it never has to fit in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from fedflow.base.errors.data import BadData
from fedflow.base.ids import new_request_id

Progress = Callable[[int, int], None]  #: (bytes sent, bytes in all) of the file

_CHUNK_BYTES = 1 << 20


class MultipartFile:
    """A multipart/form-data body: text fields, then the part `file`; its length is known before."""

    def __init__(
        self,
        file: IO[bytes],
        *,
        name: str,
        fields: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Take an open regular file; it is read from where it stands, when the body is sent."""
        self._file = file
        self._size = os.fstat(file.fileno()).st_size - file.tell()
        self._progress = progress
        boundary = f"fedflow-{new_request_id()}"
        self.content_type = f"multipart/form-data; boundary={boundary}"
        texts = "".join(
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="{_quoted(key)}"\r\n\r\n{value}\r\n'
            for key, value in (fields or {}).items()
        )
        self._head = (
            f"{texts}--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{_quoted(name)}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode("ascii")

    def __len__(self) -> int:
        return len(self._head) + self._size + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body. Raises: BadData: the file became shorter meanwhile."""
        yield self._head
        sent = 0
        while sent < self._size:
            chunk = self._file.read(min(_CHUNK_BYTES, self._size - sent))
            if not chunk:
                raise BadData(where=self._file.name, reason="the file became shorter while sent")
            yield chunk
            sent += len(chunk)
            if self._progress is not None:
                self._progress(sent, self._size)
        yield self._tail


def _quoted(name: str) -> str:
    """Return a file name for the header. Source: HTML standard, multipart/form-data encoding."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
