"""Identifiers: their types, and how new ones are made."""

from __future__ import annotations

import re
import secrets
import threading
import uuid
from datetime import datetime
from typing import Final, NewType

JobId = NewType(
    "JobId", str
)  #: `%Y%m%d%H%M%S%f` and a counter digit or more, at most 25 characters
PartyId = NewType("PartyId", str)  #: one organisation's number, as text; "0" is this server
TaskId = NewType("TaskId", str)  #: `<job id>_<component name>`

_JOB_ID: Final = re.compile(r"[0-9]{20,25}")


class JobIds:
    """Makes job ids that are unique in this process and sort by time.

    `salt` (0 to 999) keeps ids apart that different servers make in the same microsecond.
    """

    def __init__(self, *, salt: int) -> None:
        self._lock = threading.Lock()
        self._salt = salt % 1000
        self._last_us = 0

    def next(self, now_ms: int) -> JobId:
        """Return a new id for the moment `now_ms` (milliseconds since the epoch), 24 digits.

        Source: FATE Flow's format, local time to the microsecond and a counter; ours is the salt
        and 0.
        """
        with self._lock:
            self._last_us = max(now_ms * 1000, self._last_us + 1)
            moment = datetime.fromtimestamp(self._last_us / 1_000_000)
        return JobId(f"{moment:%Y%m%d%H%M%S%f}{self._salt:03d}0")


def is_job_id(text: str) -> bool:
    """Tell whether a text has the form of the ids that `JobIds` and FATE Flow make."""
    return _JOB_ID.fullmatch(text) is not None


def new_salt() -> int:
    """Return a random salt for `JobIds`."""
    return secrets.randbelow(1000)


def new_request_id() -> str:
    """Return an id that no other request has, 32 hexadecimal digits."""
    return uuid.uuid4().hex


def new_token() -> str:
    """Return a secret that cannot be guessed, 32 hexadecimal digits (128 bits)."""
    return secrets.token_hex(16)


def new_session_token() -> str:
    """Return a secret for a browser's cookie, 43 characters (256 bits)."""
    return secrets.token_urlsafe(32)
