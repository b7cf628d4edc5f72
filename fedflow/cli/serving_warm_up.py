"""`fedflow serving warm-up`: rows of a file or a table go to the admin port, at a rate."""

from __future__ import annotations

import csv
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
_OVERLOADED: Final = frozenset(
    {"124", "2124"}
)  #: return codes of rows that may pass a little later
_PAUSES_S: Final = (1.0, 2.0, 4.0)  #: before overloaded rows are sent again


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


@contextmanager
def rows_given(
    file: Path | None,
    table: tuple[str, str] | None,
    columns: Mapping[str, str],
    *,
    server: str | None,
    skip: int,
) -> Iterator[Iterator[Row]]:
    """Give the ids of a file's rows, or of a table's of the Flow server `server`, for a while.

    Raises: BadDocument; ServerNotReachable, TableNotFound, NoData: of a table.
    """
    if file is not None:
        yield chosen(rows_of(file, skip=skip), columns, str(file))
    elif table is not None:
        from fedflow.cli.connecting import connect

        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder, connect(server) as client:
            files = client.tables.download(*table, Path(folder))
            (path,) = (one for one in files if one.suffix == ".csv")
            yield chosen(rows_of(path, skip=skip), columns, f"table {'.'.join(table)}")


def columns_of(texts: Sequence[str]) -> dict[str, str]:
    """Return id -> its column, of texts like `device_id=id`; a name alone is both.

    Raises: BadDocument: a text names none, or an id is named twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, column = text.partition("=")
        if not name or name in found or text.endswith("="):
            raise BadDocument(where=f"--id {text}", reason="it is not like device_id=column")
        found[name] = column or name
    return found


def chosen(rows: Iterator[Row], columns: Mapping[str, str], where: str) -> Iterator[Row]:
    """Yield the ids of rows, and nothing else that is in them; without `columns`, all of it.

    Raises: BadDocument: a row has no such column.
    """
    for row in rows:
        missing = [column for column in columns.values() if column not in row]
        if missing:
            names = ", ".join(map(str, row))[:300]
            raise BadDocument(where=where, reason=f"there is no column {missing[0]!r} in {names}")
        yield {name: row[column] for name, column in columns.items()} if columns else row


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
        body = {"service_id": service_id, "ids": some}
        answer = _sent(session, url, body)
        for pause_s in _PAUSES_S:
            if not _OVERLOADED & answer["retcodes"].keys():
                break
            pause(pause_s, never)
            begun_s += pause_s  # what was lost is not caught up
            answer = _sent(session, url, body)  # what is in the caches is not asked for again
        progress.add(answer)
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
