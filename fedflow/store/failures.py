"""What SQLite's exceptions mean to people: a reason without SQL; see also `mysql_failures.py`."""

from __future__ import annotations

import sqlite3
from typing import Final

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.store import StoreUnavailable

DRIVER_ERRORS: Final = (sqlite3.Error, UnicodeEncodeError)
"""Everything that using a SQLite file may raise, apart from our own mistakes."""

_SQLITE: Final = {
    "unable to open database file": "the file cannot be opened or made",
    "attempt to write a readonly database": "the file may not be written",
    "database or disk is full": "the disk is full",
    "disk I/O error": "the disk reports an error",
    "database is locked": "another process has kept it locked for too long",
    "file is not a database": "the file is not a SQLite database",
    "database disk image is malformed": "the file is damaged",
}


def as_fedflow_error(exc: Exception, *, where: str) -> FedflowError:
    """Return the error to raise for one of `DRIVER_ERRORS`; `where` names the store."""
    if isinstance(exc, UnicodeEncodeError):
        return BadRequest(reason="a text contains half a character (a lone surrogate)")
    text = str(exc)
    reason = next((reason for known, reason in _SQLITE.items() if known in text), text)
    return StoreUnavailable(reason=f"{where}: {reason}")
