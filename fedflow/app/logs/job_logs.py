"""What people read of a job's logs: pages of lines, searches, counts, and the first real error.

Logs grow while they are read. An answer tells with a `tag` which content it is from; who has that
tag needs no other answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import IO, Final

from fedflow.app.logs.first_error import ErrorRecord, FailedAttempt, first_failure, first_record
from fedflow.app.logs.log_index import LogFile, LogIndexes, RawLine
from fedflow.app.logs.log_levels import NAMES, START
from fedflow.app.logs.log_opening import names_below, open_below
from fedflow.app.logs.log_places import FILES, LogKind, LogPlace
from fedflow.app.logs.log_search import BUDGET, Cursor, Query, parse_cursor, search
from fedflow.app.logs.log_text import readable, start_of
from fedflow.app.ports.store import Store
from fedflow.app.protocol.folders import Folders
from fedflow.base.values import dataclass
from fedflow.domain.records import JobKey, TaskFilter, TaskRecord
from fedflow.wire.paths import fits

MAX_LINES: Final = 500  #: that one answer has
SHOWN: Final = 4096  #: characters of a line that are shown
SHOWN_SHORT: Final = 200  #: the same, once an answer has many characters
MANY: Final = 256 * 1024  #: characters
COUNT_AT_ONCE: Final = 192 * 1024 * 1024  #: bytes whose lines are counted for one answer
LEVELS_AT_ONCE: Final = 64 * 1024 * 1024  #: the same for levels
ERRORS_READ: Final = 1024 * 1024  #: bytes of ERROR.log in which the first error is looked for
LOCATE_READ: Final = 512 * 1024 * 1024  #: bytes of a log in which its line is looked for

_ADDRESS: Final = 64  #: characters behind what is shown that an address in it may have
_RAW: Final = 4 * SHOWN  #: bytes of a line that are read
_BEFORE: Final = 256 * 1024  #: bytes before a line in which the begin of its record is looked for


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """A line for people: addresses masked, control characters shown as codes.

    `level` is that of its record, '' if unknown; `begins` tells whether the record begins here:
    then `text` is what stands behind level and time. `size` is the line's length in bytes.
    """

    number: int | None
    level: str
    begins: bool
    at_ms: int | None
    text: str
    size: int
    is_cut: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPage:
    """Some lines. `total` counts all, None while they are being counted: `counted` of `size` bytes
    are, and the lines have no numbers. `levels` counts records, None likewise.
    """

    tag: str
    size: int
    total: int | None
    counted: int
    lines: tuple[LogLine, ...]
    levels: dict[str, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSearch:
    """A part of a search's result; `cursor` is where it goes on, `searched` of `size` bytes.

    `is_new`: the log was replaced since the search began, so this is a search from the beginning.
    """

    tag: str
    lines: tuple[LogLine, ...]
    cursor: str
    searched: int
    size: int
    is_done: bool
    is_new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFolder:
    """The logs in one folder and their sizes in bytes."""

    sizes: dict[LogKind, int]

    @property
    def fullest(self) -> LogKind:
        """Return the file that has every record: DEBUG.log if debugging was on, else INFO.log."""
        debug, info = self.sizes.get(LogKind.DEBUG, -1), self.sizes.get(LogKind.INFO, 0)
        return LogKind.DEBUG if debug >= info and debug > 0 else LogKind.INFO


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstError:
    """Why a share failed, and the record of its log that says so, if one does."""

    failure: FailedAttempt
    place: LogPlace
    record: ErrorRecord | None


class JobLogs:
    """The use cases of log pages. Places are checked (`log_places`); shares are the caller's."""

    def __init__(self, *, store: Store, folders: Folders, indexes: LogIndexes) -> None:
        self._store = store
        self._root = folders.shared / "logs"
        self._indexes = indexes

    # --- what there is ---------------------------------------------------------------------------

    def folder(self, place: LogPlace) -> LogFolder:
        """Return the logs beside `place`: those of its site or attempt, and the server's."""
        own = replace(place, kind=LogKind.INFO).folder
        found = {**names_below(self._root, own), **self._of_job(place.job)}
        sizes = {kind: found.get(name) for kind, name in FILES.items()}
        return LogFolder(sizes={kind: n for kind, n in sizes.items() if n is not None})

    def _of_job(self, job: JobKey) -> dict[str, int | None]:
        names = {FILES[kind] for kind in LogKind if kind.is_of_job}
        found = names_below(self._root, (job.job_id,))
        return {name: size for name, size in found.items() if name in names}

    def attempts(self, job: JobKey) -> dict[str, list[int]]:
        """Return the components with logs at a site, and the numbers of their attempts."""
        own = LogPlace(job=job, kind=LogKind.INFO).folder
        found = {}
        for name, size in sorted(names_below(self._root, own).items()):
            if size is None and fits("component", name):
                found[name] = self.attempts_of(job, name)
        return found

    def attempts_of(self, job: JobKey, component: str) -> list[int]:
        """Return the numbers of the attempts of a component that have logs, in order."""
        own = LogPlace(job=job, kind=LogKind.INFO).folder
        folders = names_below(self._root, (*own, component))
        return sorted(
            int(name)
            for name, size in folders.items()
            if size is None and name.isascii() and name.isdigit() and len(name) < 10
        )

    def tasks(self, job: JobKey) -> list[TaskRecord]:
        """Return all attempts at a site, as the store has them."""
        which = TaskFilter(
            job_id=job.job_id, roles=(job.site.role,), party_id=job.site.party_id,
            all_versions=True,
        )  # fmt: skip
        with self._store.read() as tx:
            return tx.tasks.find(which)

    # --- lines -----------------------------------------------------------------------------------

    def tag(self, place: LogPlace) -> str | None:
        """Return the tag of a log as it is now, None if there is none. This is cheap."""
        with self._open(place) as log:
            return None if log is None else log.tag

    def page(self, place: LogPlace, begin: int | None, count: int) -> LogPage | None:
        """Return up to `count` lines from number `begin`, or the last ones; None: no such log."""
        count = min(max(count, 0), MAX_LINES)
        with self._open(place) as log:
            if log is None:
                return None
            log.count(COUNT_AT_ONCE)
            total = log.total
            raw: Sequence[RawLine]
            if begin is None and total is None:
                raw = log.tail(count, longest=_RAW)
            else:
                first = max(1, (total or 0) - count + 1) if begin is None else max(1, begin)
                raw = list(islice(log.lines(first, longest=_RAW), count))
            left = log.size - log.index.levels.done
            levels = log.count_levels(LEVELS_AT_ONCE) if left <= _BEFORE else None
            return LogPage(
                tag=log.tag,
                size=log.size,
                total=total,
                counted=min(log.index.counted, log.size),
                lines=tuple(_shown(log, raw)),
                levels=None if levels is None else dict(levels),
            )

    def levels(self, place: LogPlace) -> LogPage | None:
        """Count records by level, as far as one call may; as `page`, without lines."""
        with self._open(place) as log:
            if log is None:
                return None
            levels = log.count_levels(LEVELS_AT_ONCE)
            return LogPage(
                tag=log.tag,
                size=log.size,
                total=None,
                counted=min(log.index.levels.done, log.size),
                lines=(),
                levels=None if levels is None else dict(levels),
            )

    def search(
        self, place: LogPlace, query: Query, cursor: str, *, budget: int = BUDGET
    ) -> LogSearch | None:
        """Return the next lines that a search finds, None if there is no such log.

        Raises: BadRequest: this is no cursor.
        """
        name, _, where = cursor.rpartition(":")
        start = parse_cursor(where)
        with self._open(place) as log:
            if log is None:
                return None
            is_new = bool(name) and name != log.index.name
            start = Cursor() if is_new else start
            lines: list[LogLine] = []
            is_done = False
            if log.count(COUNT_AT_ONCE) or log.index.counted > start.offset + budget:
                found = search(log, query, start, budget=budget)
                start, is_done = found.cursor, found.is_done
                for hit in found.hits:
                    lines += _shown(log, list(islice(log.lines(hit, longest=_RAW), 1)))
            return LogSearch(
                tag=log.tag,
                lines=tuple(lines),
                cursor=f"{log.index.name}:{start}",
                searched=start.offset,
                size=log.size,
                is_done=is_done,
                is_new=is_new,
            )

    def raw(self, place: LogPlace) -> IO[bytes] | None:
        """Return a log as it is, None if there is none. The caller closes it."""
        with self._open(place) as log:
            return None if log is None else os.fdopen(os.dup(log.file), "rb")

    # --- the first error -------------------------------------------------------------------------

    def first_error(
        self, job: JobKey, tasks: Sequence[TaskRecord], place: LogPlace
    ) -> FirstError | None:
        """Return what failed first at this site by itself, if anything did: of all its `tasks`, of
        one component or of one attempt, as `place` says.
        """
        failure = first_failure(
            task
            for task in tasks
            if place.component in (None, task.key.component)
            and place.attempt in (None, task.key.version)
        )
        if failure is None:
            return None
        where = LogPlace(
            job=job, kind=LogKind.ERROR, component=failure.component, attempt=failure.attempt
        )
        with self._open(where) as log:
            if log is None:
                return FirstError(failure=failure, place=where, record=None)
            text = log.read(ERRORS_READ, 0).decode(errors="replace")
        record = first_record([line.removesuffix("\r") for line in text.split("\n")])
        return FirstError(failure=failure, place=where, record=record)

    def files(self, job: JobKey, *, of_job: bool) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield the log files of a site, open, with their names below the job's folder; `of_job`:
        also what the server wrote about the job.
        """
        own = LogPlace(job=job, kind=LogKind.INFO).folder
        folders = [own, *((*own, c) for c, size in self._names(own) if size is None)]
        folders += [
            (*f, n) for f in folders[1:] for n, size in self._names(f) if size is None
        ]  # fmt: skip
        wanted = [(*f, n) for f in folders for n, size in self._names(f) if size is not None]
        if of_job:
            wanted += [(job.job_id, name) for name in self._of_job(job)]
        for parts in wanted:
            file = open_below(self._root, parts)
            if file is not None:
                with os.fdopen(file, "rb") as opened:
                    yield "/".join(parts[1:]), opened

    def _names(self, folder: tuple[str, ...]) -> list[tuple[str, int | None]]:
        return sorted(names_below(self._root, folder).items())

    def locate(self, error: FirstError) -> tuple[LogPlace, int | None]:
        """Return the log with everything that has the record of an error, and its line there."""
        kind = self.folder(error.place).fullest
        full = replace(error.place, kind=kind)
        if error.record is None:
            return full, None
        wanted = error.record.lines[0]
        query = Query(text=max(wanted[:200].split("\ufffd"), key=len))
        with self._open(full) as log:
            cursor = Cursor()
            if log is not None:
                log.count(LOCATE_READ)
            while log is not None and cursor.offset < min(log.size, LOCATE_READ):
                found = search(log, query, cursor, budget=BUDGET)
                for hit in found.hits:
                    raw = next(log.lines(hit, longest=len(wanted) * 4))
                    if raw.content.decode(errors="replace") == wanted:
                        return full, hit
                if found.is_done:
                    break
                cursor = found.cursor
        return error.place, error.record.line

    def _open(self, place: LogPlace) -> AbstractContextManager[LogFile | None]:
        return self._indexes.open(self._root, place.parts)


def _shown(log: LogFile, raw: Sequence[RawLine]) -> list[LogLine]:
    """Return lines for people."""
    shown: list[LogLine] = []
    level: str | None = None
    given = 0
    for line in raw:
        limit = SHOWN if given < MANY else SHOWN_SHORT
        text = line.content.decode(errors="replace")
        start = start_of(text)
        if start is not None:
            level = start.level
        elif level is None:
            level = level_before(log, line.offset)
        rest = text if start is None else text[start.length :]
        clear = readable(rest[: limit + _ADDRESS])
        given += min(len(clear), limit)
        shown.append(
            LogLine(
                number=line.number,
                level=level,
                begins=start is not None,
                at_ms=None if start is None else start.at_ms,
                text=clear[:limit],
                size=line.size,
                is_cut=max(len(clear), len(rest)) > limit or line.size > len(line.content),
            )
        )
    return shown


def level_before(log: LogFile, offset: int) -> str:
    """Return the level of the record that goes on at `offset`, '' if it is not found near it."""
    begin = max(0, offset - _BEFORE)
    data = log.read(offset - begin, begin)
    if begin == 0:
        data = b"\n" + data
    at = len(data)
    while (at := data.rfind(b"\n[", 0, at)) >= 0:
        found = START.match(data, at)
        if found is not None:
            return NAMES[found[1]]
    return ""
