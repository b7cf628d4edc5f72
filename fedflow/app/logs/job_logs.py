"""What people and clients read of a job's logs: lines, searches, counts, the first real error.

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

from fedflow.app.logs.addresses import (
    COMPONENT,
    FILES,
    LOG_TYPES,
    LogAddress,
    LogKind,
    LogName,
    names_below,
    open_below,
)
from fedflow.app.logs.first_error import ErrorRecord, FailedAttempt, first_failure, first_record
from fedflow.app.logs.lines import LogFile, LogIndexes, RawLine
from fedflow.app.logs.records import LEVELS, mask_addresses, readable, record_begin, start_of
from fedflow.app.logs.search import BUDGET, Query, SearchCursor, parse_cursor, search
from fedflow.app.ports.store import Store
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.records import JobFilter, JobKey, TaskFilter, TaskRecord
from fedflow.domain.site import Role, Site
from fedflow.wire.api.administration import LogLine
from fedflow.wire.paths import fits

MAX_LINES: Final = 500  #: that one answer has
SHOWN: Final = 4096  #: characters of a line that are shown
SHOWN_SHORT: Final = 200  #: the same, once an answer has many characters
MANY: Final = 256 * 1024  #: characters
PRINTED_LINES: Final = 5_000  #: that FATE's route gives at once
PRINTED: Final = 4 * 1024 * 1024  #: bytes of file that it gives at once
PRINTED_LINE: Final = 16_384  #: bytes of one line that it gives
COUNT_AT_ONCE: Final = 192 * 1024 * 1024  #: bytes whose lines are counted for one answer
LEVELS_AT_ONCE: Final = 64 * 1024 * 1024  #: the same for levels
ERRORS_READ: Final = 1024 * 1024  #: bytes of ERROR.log in which the first error is looked for
LOCATE_READ: Final = 512 * 1024 * 1024  #: bytes of a log in which its line is looked for

_ADDRESS: Final = 64  #: characters behind what is shown that an address in it may have
_RECORD: Final = record_begin(LEVELS)
_RAW: Final = 4 * SHOWN  #: bytes of a line that are read
_BEFORE: Final = 256 * 1024  #: bytes before a line in which the begin of its record is looked for


@dataclass(frozen=True, kw_only=True, slots=True)
class DisplayedLine:
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
    lines: tuple[DisplayedLine, ...]
    levels: dict[str, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSearch:
    """A part of a search's result; `cursor` is where it goes on, `searched` of `size` bytes.

    `is_new`: the log was replaced since the search began, so this is a search from the beginning.
    """

    tag: str
    lines: tuple[DisplayedLine, ...]
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
    place: LogAddress
    record: ErrorRecord | None


class JobLogs:
    """The use cases of log pages and log routes. Who may read is checked by the caller."""

    def __init__(self, *, store: Store, folders: Folders, indexes: LogIndexes) -> None:
        self._store = store
        self._root = folders.shared / "logs"
        self._indexes = indexes

    # --- what there is ---------------------------------------------------------------------------

    def folder(self, place: LogAddress) -> LogFolder:
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
        own = LogAddress(job=job, kind=LogKind.INFO).folder
        found = {}
        for name, size in sorted(names_below(self._root, own).items()):
            if size is None and fits("component", name):
                found[name] = self.attempts_of(job, name)
        return found

    def attempts_of(self, job: JobKey, component: str) -> list[int]:
        """Return the numbers of the attempts of a component that have logs, in order."""
        own = LogAddress(job=job, kind=LogKind.INFO).folder
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

    def tag(self, place: LogAddress) -> str | None:
        """Return the tag of a log as it is now, None if there is none. This is cheap."""
        with self._open(place) as log:
            return None if log is None else log.tag

    def page(self, place: LogAddress, begin: int | None, count: int) -> LogPage | None:
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
            left = log.size - log.index.leveled
            levels = log.count_levels(LEVELS_AT_ONCE) if left <= _BEFORE else None
            return LogPage(
                tag=log.tag,
                size=log.size,
                total=total,
                counted=min(log.index.counted, log.size),
                lines=tuple(_shown(log, raw)),
                levels=None if levels is None else dict(levels),
            )

    def levels(self, place: LogAddress) -> LogPage | None:
        """Count records by level, as far as one call may; as `page`, without lines."""
        with self._open(place) as log:
            if log is None:
                return None
            levels = log.count_levels(LEVELS_AT_ONCE)
            return LogPage(
                tag=log.tag,
                size=log.size,
                total=None,
                counted=min(log.index.leveled, log.size),
                lines=(),
                levels=None if levels is None else dict(levels),
            )

    def search(
        self, place: LogAddress, query: Query, cursor: str, *, budget: int = BUDGET
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
            start = SearchCursor() if is_new else start
            log.count(COUNT_AT_ONCE)
            found = search(log, query, start, budget=budget)
            lines: list[DisplayedLine] = []
            for hit in found.hits:
                lines += _shown(log, list(islice(log.lines(hit, longest=_RAW), 1)))
            return LogSearch(
                tag=log.tag,
                lines=tuple(lines),
                cursor=f"{log.index.name}:{found.cursor}",
                searched=found.cursor.offset,
                size=log.size,
                is_done=found.is_done,
                is_new=is_new,
            )

    def raw(self, place: LogAddress) -> IO[bytes] | None:
        """Return a log as it is, None if there is none. The caller closes it."""
        with self._open(place) as log:
            return None if log is None else os.fdopen(os.dup(log.file), "rb")

    # --- by FATE's names -------------------------------------------------------------------------

    def size(self, which: LogName) -> int:
        """Return how many lines a log has, 0 if there is none yet.

        Raises: BadRequest: unknown log type, or what it needs is missing. JobNotFound.
        """
        with self._indexes.open(self._root, self._parts(which)) as log:
            if log is None:
                return 0
            log.count()
            return log.total or 0

    def lines(self, which: LogName, begin: int = 1, end: int | None = None) -> list[LogLine]:
        """Return the lines from `begin` to `end`, both included, with addresses masked.

        At most `PRINTED_LINES` and `PRINTED` bytes: ask again from the next number for more.
        Raises: as `size`; BadRequest: `begin` or `end` make no range.
        """
        if begin < 1 or (end is not None and end < begin):
            raise BadRequest(reason="lines are numbered from 1, and `end` is not before `begin`")
        last = begin + PRINTED_LINES - 1 if end is None else min(end, begin + PRINTED_LINES - 1)
        found: list[LogLine] = []
        given = 0
        with self._indexes.open(self._root, self._parts(which)) as log:
            if log is None:
                return found
            log.count(until=begin)
            for number, line in enumerate(log.lines(begin, longest=PRINTED_LINE), begin):
                if number > last or given > PRINTED:
                    break
                given += len(line.content)
                text = line.content.decode("utf-8", errors="replace")
                found.append(LogLine(line_num=number, content=mask_addresses(text)))
        return found

    def _parts(self, which: LogName) -> tuple[str, ...]:
        """Return the names that lead to a log; each is checked before it is used."""
        kind = LOG_TYPES.get(which.log_type)
        if kind is None:
            known = ", ".join(LOG_TYPES)
            raise BadRequest(reason=f"{which.log_type[:100]!r} is no log type; known are {known}")
        if kind.is_of_job:
            self._check_job(which.job_id)
            return (which.job_id, FILES[kind])
        key = JobKey(job_id=which.job_id, site=_site(which))
        self._check_job(which.job_id)
        if which.log_type != COMPONENT:
            return LogAddress(job=key, kind=kind).parts
        if which.component is None or not fits("component", which.component):
            raise BadRequest(reason="component_name must name a component of the job")
        attempts = self.attempts_of(key, which.component)
        attempt = attempts[-1] if attempts else 0
        return LogAddress(job=key, kind=kind, component=which.component, attempt=attempt).parts

    def _check_job(self, job_id: str) -> None:
        """Raises: JobNotFound."""
        with self._store.read() as tx:
            known = tx.jobs.find(JobFilter(job_id=job_id, limit=1)) or tx.schedules.get(job_id)
        if not known or not fits("job_id", job_id):
            raise JobNotFound(job_id=job_id[:100])

    # --- the first error -------------------------------------------------------------------------

    def first_error(
        self, job: JobKey, tasks: Sequence[TaskRecord], place: LogAddress
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
        where = LogAddress(
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
        own = LogAddress(job=job, kind=LogKind.INFO).folder
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

    def locate(self, error: FirstError) -> tuple[LogAddress, int | None]:
        """Return the log with everything that has the record of an error, and its line there."""
        kind = self.folder(error.place).fullest
        full = replace(error.place, kind=kind)
        if error.record is None:
            return full, None
        wanted = error.record.lines[0]
        query = Query(text=max(wanted[:200].split("\ufffd"), key=len))
        with self._open(full) as log:
            cursor = SearchCursor()
            if log is not None:
                log.count(LOCATE_READ)
            while log is not None and cursor.offset < min(log.size, LOCATE_READ):
                found = search(log, query, cursor, budget=BUDGET)
                for hit in found.hits:
                    raw = next(log.lines(hit, longest=len(wanted) * 4))
                    if raw.content.decode(errors="replace") == wanted:
                        return full, hit
                if found.is_done or found.cursor == cursor:
                    break
                cursor = found.cursor
        return error.place, error.record.line

    def _open(self, place: LogAddress) -> AbstractContextManager[LogFile | None]:
        return self._indexes.open(self._root, place.parts)


def _site(which: LogName) -> Site:
    """Raises: BadRequest: role or party id are missing or wrong."""
    role, party_id = which.role or "", which.party_id or ""
    if role not in {r.value for r in Role} or not fits("party_id", party_id):
        raise BadRequest(
            reason=f"{which.log_type} needs role and party_id of one of the job's sites"
        )
    return Site(Role(role), PartyId(party_id))


def _shown(log: LogFile, raw: Sequence[RawLine]) -> list[DisplayedLine]:
    """Return lines for people."""
    shown: list[DisplayedLine] = []
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
            DisplayedLine(
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
        found = _RECORD.match(data, at)
        if found is not None:
            return found[1].decode()
    return ""
