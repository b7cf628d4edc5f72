"""What errors of file systems, this machine's and others, are called here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from fedflow.base.errors.data import StorageMissing, StorageRefused, StorageUnreachable

_REFUSED_WORDS: Final = (
    "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP status 403",
    "HTTP status 401", "EXPIRED_TOKEN", "INVALID_CLIENT_TOKEN_ID", "MISSING_AUTHENTICATION_TOKEN",
    "Permission denied",
)  # fmt: skip
_MISSING_WORDS: Final = ("NO_SUCH_BUCKET", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "HTTP status 404")
_FAR_WORDS: Final = (
    "NETWORK_CONNECTION", "REQUEST_TIMEOUT", "SLOW_DOWN", "SERVICE_UNAVAILABLE",
    "INTERNAL_FAILURE", "THROTTLING", "HTTP status 5", "curlCode",
)  # fmt: skip


@contextmanager
def told(where: str, *, found: str = "") -> Iterator[None]:
    """Name what a file system refuses: missing, not allowed, or out of reach.

    Raises: StorageMissing, StorageRefused, StorageUnreachable; an error of this machine's own
    files, such as a full disk, and what Arrow says of contents stay as they are.
    """
    try:
        yield
    except FileNotFoundError as exc:
        raise StorageMissing(where=where, reason=found or "there is no such file") from exc
    except PermissionError as exc:
        raise StorageRefused(where=where, reason="this user may not read it") from exc
    except pa.ArrowException:
        raise
    except OSError as exc:
        raise named(exc, where) from exc


def named(exc: Exception, where: str) -> Exception:
    """Return what a file system's error is called here, or the error itself."""
    text = str(exc)
    if any(word in text for word in _REFUSED_WORDS):
        return StorageRefused(where=where, reason="it refuses these credentials")
    if any(word in text for word in _MISSING_WORDS):
        return StorageMissing(where=where, reason="there is no such bucket or object")
    if "HTTP status 30" in text:
        reason = "its server sends to another address, which is not followed (is `region` right?)"
        return StorageUnreachable(where=where, reason=reason)
    if any(word in text for word in _FAR_WORDS):
        return StorageUnreachable(where=where, reason="its server does not answer")
    return exc
