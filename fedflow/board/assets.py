"""The board's static files: `/board/static/<digest>/<path>`.

The digest covers all files, so an answer may be kept for ever, and modules that import each other
by relative paths stay together over an upgrade.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from flask import Response, request

from fedflow.base.errors.requests import RouteNotFound
from fedflow.base.values import dataclass

TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "json": "application/json",
}
"""What is served, by the end of a file's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asset:
    """A static file as it is sent."""

    content: bytes
    packed: bytes  #: the same, gzipped
    mimetype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Assets:
    """All static files by path, and the digest of them."""

    files: dict[str, Asset]
    digest: str


@functools.cache
def assets() -> Assets:
    """Return the files, which are read once."""
    found = dict(sorted(_walk(resources.files("fedflow.board") / "static", "")))
    digest = hashlib.sha256()
    for path, content in found.items():
        digest.update(path.encode() + b"\0" + content + b"\0")
    files = {
        path: Asset(
            content=content,
            packed=gzip.compress(content, 9, mtime=0),
            mimetype=TYPES[path.rpartition(".")[2]],
        )
        for path, content in found.items()
    }
    return Assets(files=files, digest=digest.hexdigest()[:16])


def asset_url(path: str) -> str:
    """Return the address of a static file. Raises: KeyError: there is none."""
    found = assets()
    found.files[path]
    return f"/board/static/{found.digest}/{path}"


def serve(path: str) -> Response:
    """Return a static file, packed if the browser understands that. Raises: RouteNotFound."""
    found = assets().files.get(path)
    if found is None:
        raise RouteNotFound(method=request.method, path=request.path[:200])
    packs = request.accept_encodings.quality("gzip") > 0
    answer = Response(found.packed if packs else found.content, mimetype=found.mimetype)
    if packs:
        answer.headers["Content-Encoding"] = "gzip"
    answer.headers["Vary"] = "Accept-Encoding"
    answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return answer


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _walk(entry, f"{path}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            found.append((path, entry.read_bytes()))
    return found
