"""`fedflow serving warm-up`: rows of a file go to the admin port, at a rate."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.errors.requests import BadDocument, ClientError
from fedflow.base.errors.start import ServerNotReachable

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

Row = dict[str, Any]

_TELL_S: Final = 5.0
_ANSWER_S: Final = 60.0
_SECONDS_AT_ONCE: Final = 0.5  #: of rows that one request has


def rows_of(path: Path, *, skip: int = 0) -> Iterator[Row]:
    """Yield the ids of rows: of a CSV file as texts, of a file of JSON lines as they are there.

    `skip` rows at the beginning are left out. Raises: BadDocument: with the line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = _csv(file, path) if path.suffix == ".csv" else _json_lines(file, path)
            yield from islice(found, skip, None)
    except UnicodeDecodeError as exc:
        raise BadDocument(where=str(path), reason="it is not UTF-8") from exc


def _csv(lines: Iterator[str], path: Path) -> Iterator[Row]:
    reader = csv.reader(lines, strict=True)
    try:
        names = next(reader, [])
        if not names or len(set(names)) < len(names) or not all(names):
            reason = "its first line must have the names of the ids, each once"
            raise BadDocument(where=str(path), reason=reason)
        for row in reader:
            if len(row) != len(names):
                reason = f"{len(row)} cells, not {len(names)}"
                raise BadDocument(where=f"{path}, line {reader.line_num}", reason=reason)
            yield dict(zip(names, (cell.strip() for cell in row), strict=True))
    except csv.Error as exc:
        raise BadDocument(where=f"{path}, line {reader.line_num}", reason=str(exc)) from exc


def _json_lines(lines: Iterator[str], path: Path) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise BadDocument(where=f"{path}, line {number}", reason=str(exc)) from exc
        if not isinstance(row, dict):
            raise BadDocument(where=f"{path}, line {number}", reason="it is no object")
        yield row


class WarmUpProgress:
    """How far a warm-up is."""

    def __init__(self, skipped: int = 0) -> None:
        self.rows = skipped  #: of the file that were sent, or skipped
        self.warmed = 0
        self.retcodes: dict[str, int] = {}
        self._told_s = 0.0

    @property
    def text(self) -> str:
        """Return it as a line."""
        others = ", ".join(f"{number} with code {code}" for code, number in self.retcodes.items())
        return f"{self.rows} rows: {self.warmed} are in the caches" + (others and f", {others}")

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"rows": self.rows, "warmed": self.warmed, "retcodes": self.retcodes}

    def telling(self, note: Callable[[str], None]) -> Callable[[WarmUpProgress], None]:
        """Return what says every few seconds how far it is."""
        clock = SystemClock()
        self._told_s = clock.monotonic_s()

        def told(progress: WarmUpProgress) -> None:
            if clock.monotonic_s() - self._told_s > _TELL_S:
                self._told_s = clock.monotonic_s()
                note(progress.text)

        return told

    def add(self, answer: Mapping[str, Any]) -> None:
        """Count what came of some rows."""
        self.rows += answer["rows"]
        self.warmed += answer["warmed"]
        for code, number in answer["retcodes"].items():
            self.retcodes[code] = self.retcodes.get(code, 0) + number


def admin_session(token: str | None) -> requests.Session:
    """Return a session for an admin port of this machine."""
    import requests  # a fifth of the time that `fedflow --help` takes

    session = requests.Session()
    session.trust_env = False
    if token is not None:
        session.headers["Authorization"] = f"Bearer {token}"
    return session


def send(
    session: requests.Session,
    url: str,
    service_id: str,
    rows: Iterator[Row],
    *,
    rate: float,
    most: int,
    progress: WarmUpProgress,
    told: Callable[[WarmUpProgress], None],
    clock: Clock | None = None,
) -> None:
    """Send rows, at most `rate` per second and `most` at once; `told` is called after each request.

    Raises: ServerNotReachable, ClientError: the process refuses them.
    """
    clock = clock or SystemClock()
    at_once = max(1, min(most, int(rate * _SECONDS_AT_ONCE)))
    begun_s, sent, never = clock.monotonic_s(), 0, threading.Event()
    while some := list(islice(rows, at_once)):
        pause(max(begun_s + sent / rate - clock.monotonic_s(), 0.0), never)
        progress.add(_sent(session, url, {"service_id": service_id, "ids": some}))
        sent += len(some)
        told(progress)


def _sent(session: requests.Session, url: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    import requests

    try:
        response = session.post(
            f"{url}/admin/v1/caches/warm-ups", json=body, timeout=_ANSWER_S, allow_redirects=False
        )
        answer = response.json()
    except requests.exceptions.JSONDecodeError as exc:
        raise ClientError(command="warm-up", address=url, reason="no answer of its kind") from exc
    except requests.RequestException as exc:
        raise ServerNotReachable(address=url, reason=type(exc).__name__) from exc
    if not isinstance(answer, dict) or answer.get("retcode") != 0:
        said = answer.get("retmsg") if isinstance(answer, dict) else answer
        raise ClientError(command="warm-up", address=url, reason=str(said)[:1_000])
    data: Mapping[str, Any] = answer["data"]
    return data
