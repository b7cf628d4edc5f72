"""Whom guests asked a host about, written down without ids.

A file per day (UTC), `audit/2026-11-28.jsonl` in the folder of the process, has a line per call:

    {"time_ms": ..., "guest": "9999", "model_id": ..., "model_version": ..., "requests": [...],
     "ids": ["<HMAC-SHA256 of all ids of a row, 16 hexadecimal digits>", ...]}

The key is `audit.key` beside the state. With it `fedflow serving audit` finds the calls that were
about somebody; without it the file names nobody. What cannot be written down is not answered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import ServingStateNotUsable
from fedflow.serving.caches.keys import CacheKeys, own_secret
from fedflow.serving.partners.messages import IdValue, PartnerRequest

KEY_FILE: Final = "audit.key"
FOLDER: Final = "audit"

_SUFFIX: Final = ".jsonl"
_encoder: Final = msgspec.json.Encoder(order="sorted")


class CallAudit:
    """The files of one process. Thread-safe."""

    def __init__(self, home: Path, *, days: int, clock: Clock) -> None:
        """Files are kept for `days`. Raises: ServingStateNotUsable: the key cannot be used."""
        self._keys = CacheKeys(own_secret(home / KEY_FILE))
        self._folder = home / FOLDER
        self._days = days
        self._clock = clock
        self._lock = threading.Lock()
        self._day = ""
        self._file: int | None = None

    def note(self, request: PartnerRequest) -> None:
        """Write a call down. Raises: OSError: it is not written, or not whole."""
        now_ms = self._clock.now_ms()
        line = {
            "time_ms": now_ms,
            "guest": request.guest,
            "model_id": request.model_id,
            "model_version": request.model_version,
            "requests": request.request_ids,
            "ids": [hashed(self._keys, ids) for ids in request.ids],
        }
        raw = _encoder.encode(line) + b"\n"
        with self._lock:
            file = self._opened(_day_of(now_ms))
            if os.write(file, raw) != len(raw):
                raise OSError("the line was cut off")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _opened(self, day: str) -> int:
        if self._file is not None and day == self._day:
            return self._file
        self._folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        new = os.open(self._folder / f"{day}{_SUFFIX}", flags, 0o600)
        if self._file is not None:
            os.close(self._file)
        self._file, self._day = new, day
        self._forget_old(day)
        return new

    def _forget_old(self, day: str) -> None:
        first = datetime.fromisoformat(day) - timedelta(days=self._days)
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if path.stem < first.date().isoformat():
                path.unlink(missing_ok=True)


def hashed(keys: CacheKeys, ids: Mapping[str, IdValue]) -> str:
    """Return what stands for all ids of a row; their order does not matter, and 8 is "8"."""
    return (keys.selection(ids=ids).ids or b"").hex()


def calls_about(home: Path, ids: Mapping[str, IdValue]) -> Iterator[dict[str, Any]]:
    """Yield the calls that were about somebody, the oldest first, without what they have of others.

    Raises: ServingStateNotUsable: there is no key that can be used. OSError.
    """
    key = home / KEY_FILE
    if not key.exists():
        raise ServingStateNotUsable(path=str(key), reason="no audit was ever written here")
    wanted = hashed(CacheKeys(own_secret(key)), ids)
    for path in sorted((home / FOLDER).glob(f"*{_SUFFIX}")):
        with path.open("rb") as lines:
            for raw in lines:
                if wanted.encode() not in raw:
                    continue
                line: dict[str, Any] = msgspec.json.decode(raw)
                del line["ids"]
                yield line


def _day_of(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
