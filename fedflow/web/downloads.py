"""Files that are made for one answer: nothing is left of them when it was sent, or failed."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterable
from typing import IO

from flask import Response

from fedflow.base.errors.requests import BadRequest
from fedflow.web.responses import download


def made(write: Callable[[IO[bytes]], object], name: str) -> Response:
    """Return as a tar.gz what `write` puts into a file. Raises: what `write` raises."""
    content = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it was sent
    try:
        write(content)
    except BaseException:
        content.close()
        raise
    return download(content, name)


def logs(files: Iterable[tuple[str, IO[bytes]]], name: str) -> Response:
    """Return logs as tar.gz, by their names in it; one that grows meanwhile is cut where it was.

    Raises: BadRequest: they cannot be read.
    """

    def pack(target: IO[bytes]) -> None:
        with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as tar:
            for entry, file in files:
                info = tar.gettarinfo(arcname=entry, fileobj=file)
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                tar.addfile(info, file)

    try:
        return made(pack, name)
    except OSError as exc:
        raise BadRequest(reason=f"the logs cannot be read: {exc.strerror}") from exc


def file_word(name: str) -> str:
    """Return a name as part of a file's name: no separators, and no leading dot."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:100]
