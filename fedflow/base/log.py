"""Sets up logging: one handler for people or for machines, and none on import.

A server that was started in the background writes to `server.log`, which is its standard error. It
begins a new file when that one is full, and when another program moved it away (SIGHUP).
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TextIO

_JOB_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")  #: all but the tab
_BEGIN: Final = re.compile(r"\[|\d{4}-")  #: how a record's first line begins: `[LEVEL]` or the date
_JOB_LOGS: Final = {
    "fate_flow_schedule.log": logging.INFO,
    "fate_flow_schedule_error.log": logging.ERROR,
}
_MINUTE_S: Final = 60
_SHOWN: Final = 5  #: different warnings of one kind that are shown in a minute
_KINDS: Final = 1000  #: with more of them at once, jobs are not told apart
_REPEATED: Final = "repeated"
_JOBS: Final = 256  #: whose folders are remembered
_LONGEST_TEXT: Final = 500  #: characters by which lines of one kind are told apart
_LACKS: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class RepeatedLines(logging.Filter):
    """Lets a few warnings, errors and refusals of one kind pass each minute, and counts the others.

    Other parties, or whoever reaches a port, can cause some as often as they like. A kind is the
    line of the source that logs, the job that it is about, the number of the error, and where a
    traceback ends: no text that somebody else chose. The same text is shown once, as what cannot be
    used is met by every call; a traceback may differ below the same text. How many were left out
    follows with the first line after the minute.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler
        self._lock = threading.RLock()  #: what is collected as garbage meanwhile may log, too
        self._busy = False
        self._minutes: dict[tuple[object, ...], _Minute] = {}  #: the oldest first

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is shown."""
        if getattr(record, "action", None) == _REPEATED:
            return True
        with self._lock:
            if self._busy:  # this thread's own line, from within one of its lines
                return True
            self._busy = True
            try:
                ended = self._ended(record.created)
                is_limited = record.levelno >= logging.WARNING or _is_refusal(record)
                shown = not is_limited or self._is_shown(record)
            finally:
                self._busy = False
        for minute in ended:
            self._handler.handle(minute.summary())
        return shown

    def _is_shown(self, record: logging.LogRecord) -> bool:
        job_id = getattr(record, "job_id", None) if len(self._minutes) < _KINDS else None
        code = getattr(record, "code", None)
        kind = (record.pathname, record.lineno, job_id, code, *_place(record))
        return self._minutes.setdefault(kind, _Minute(record)).shows(record)

    def _ended(self, now_s: float) -> list[_Minute]:
        """Forget the minutes that are over; return those in which something was left out."""
        ended = []
        while self._minutes:
            kind, minute = next(iter(self._minutes.items()))
            if 0 <= now_s - minute.first.created < _MINUTE_S:
                break
            del self._minutes[kind]
            if minute.left_out:
                ended.append(minute)
        return ended


class _Minute:
    """What was logged of one kind since its first record."""

    def __init__(self, first: logging.LogRecord) -> None:
        self.first = first
        self.left_out = 0
        self._shown = 0
        self._texts: set[str] = set()  #: that were shown

    def shows(self, record: logging.LogRecord) -> bool:
        """Tell whether a further record is shown; if not, count it."""
        if self._shown < _SHOWN:
            text = record.getMessage()[:_LONGEST_TEXT]
            if record.exc_info or text not in self._texts:
                self._texts.add(text)
                self._shown += 1
                return True
        self.left_out += 1
        return False

    def summary(self) -> logging.LogRecord:
        """Return a record that says how many were left out."""
        first = self.first
        said = {
            "name": first.name,
            "levelno": first.levelno,
            "levelname": first.levelname,
            "msg": "%d more within %d s, the first was: %s",
            "args": (self.left_out, _MINUTE_S, first.getMessage()),
            "action": _REPEATED,
            "left_out": self.left_out,
        }
        return logging.makeLogRecord(said)


def _is_refusal(record: logging.LogRecord) -> bool:
    """Tell whether a record says that a request was refused."""
    return getattr(record, "action", None) == "refuse"


def _place(record: logging.LogRecord) -> tuple[object, ...]:
    """Return what was raised and where."""
    if not record.exc_info or record.exc_info[2] is None:
        return ()
    end = record.exc_info[2]
    while end.tb_next is not None:
        end = end.tb_next
    return record.exc_info[0], end.tb_frame.f_code.co_filename, end.tb_lineno


def _lack(record: logging.LogRecord) -> str:
    """Return what the machine lacks if that is what was raised: no line of the code is wrong then,
    and the sentence says more than a traceback.
    """
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, OSError) and error.errno in _LACKS:
            return f": {error}"
        error = error.__cause__ or error.__context__
    return ""


class JsonLines(logging.Formatter):
    """One JSON object per line: time_ms, level, logger, message, and what `extra` gave.

    `traceback` is not there if an error only says what the machine lacks; the message names that.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage() + (lack := _lack(record)),
        }
        line.update({k: v for k, v in vars(record).items() if k not in _STANDARD})
        if record.exc_info and not lack:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class OneLine(logging.Formatter):
    """A line for people: control characters of the message are shown, not obeyed.

    Messages repeat what other parties sent, who could else write lines of their own, or make a
    terminal do things. A traceback follows in lines of its own (`exc_info`); none of them can be
    taken for another record's first one. What the machine lacks, such as descriptors, is told in
    the line itself.
    """

    def format(self, record: logging.LogRecord) -> str:
        lack = _lack(record)
        record.message = record.getMessage() + lack
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        following = [self.formatException(record.exc_info)] if record.exc_info and not lack else []
        following += [record.stack_info] if record.stack_info else []
        return "\n".join([line, *(_following(text) for text in following)])

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        if not record.message.isprintable():
            record.message = _CONTROL.sub(_shown, record.message)
        return super().formatMessage(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        if datefmt is not None:
            return super().formatTime(record, datefmt)
        return f"{_second(int(record.created))},{int(record.msecs):03d}"


@lru_cache(maxsize=4)
def _second(time_s: int) -> str:
    """Return a second as `asctime` shows it; many lines, in two files each, are of the same one."""
    return time.strftime(logging.Formatter.default_time_format, time.localtime(time_s))


def _following(text: str) -> str:
    """Return lines that belong to a record; one that looks like a record's first is indented."""
    lines = (_CONTROL.sub(_shown, line) for line in text.rstrip("\n").split("\n"))
    return "\n".join(f"  {line}" if _BEGIN.match(line) else line for line in lines)


def _shown(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode("ascii")


class JobLogFiles(logging.Handler):
    """Appends what is logged about a job (`extra` has `job_id`) to the job's own files, for its
    users: everything to `fate_flow_schedule.log`, errors to `fate_flow_schedule_error.log` too.

    `folder_of` gives the job's folder. A file is open only while a line is written: jobs are many.
    """

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(OneLine("[%(levelname)s] [%(asctime)s] - %(message)s"))
        self._folder_of = lru_cache(maxsize=_JOBS)(lambda job_id: str(folder_of(job_id)))

    def emit(self, record: logging.LogRecord) -> None:
        job_id = getattr(record, "job_id", None)
        if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
            return
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
            folder = self._folder_of(job_id)
            for name, level in _JOB_LOGS.items():
                if record.levelno >= level:
                    _append(f"{folder}/{name}", line)
        except OSError:
            return  # a full disk, say: the server's own log has the line
        except Exception:  # noqa: BLE001  logging's own way to handle it
            self.handleError(record)


def _append(path: str, line: bytes) -> None:
    """Append a line to a file; its folder is made if need be. Raises: OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        file = os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = os.open(path, flags, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


if TYPE_CHECKING:
    _Stream = logging.StreamHandler[TextIO]
else:
    _Stream = logging.StreamHandler


class ServerLogFile(_Stream):
    """Writes to standard error, which is a file of this process, and begins a new one by size.

    Standard output and error move to the new file together, so what libraries print is in it too.
    """

    def __init__(self, path: Path, *, max_bytes: int, kept: int) -> None:
        """`max_bytes` 0: never by size. `kept` older files stay, as `<name>.1` (the newest) ..."""
        super().__init__(sys.stderr)
        self._path = path
        self._max_bytes = max_bytes
        self._limit = max_bytes
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if not self._limit:
            return
        try:
            size = os.fstat(2).st_size
            if size >= self._limit:
                self._limit = 2 * size  # if it fails, it is tried again much later
                self._rotate()
                self._limit = self._max_bytes
        except OSError:
            self.handleError(record)

    def reopen(self) -> None:
        """Go on in the file of this name, which is a new one if the old one was moved away."""
        with suppress(OSError):  # the old file stays good
            self.acquire()
            try:
                self._open()
            finally:
                self.release()

    def _rotate(self) -> None:
        """Give the files their next numbers, and begin a new one. Raises: OSError."""
        for number in range(self._kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        if self._kept:
            os.replace(self._path, f"{self._path}.1")
        else:
            os.unlink(self._path)
        self._open()

    def _open(self) -> None:
        """Let standard output and error go to the file of this name. Raises: OSError."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
                stream.flush()
                os.dup2(file, number)
        finally:
            os.close(file)


def log_file_of(path: Path, *, max_bytes: int, kept: int) -> ServerLogFile | None:
    """Return the handler of a log file, None if standard error goes elsewhere."""
    try:
        if not os.path.samestat(os.fstat(2), path.stat()):
            return None
    except OSError:
        return None
    return ServerLogFile(path, max_bytes=max_bytes, kept=kept)


def set_up_logging(
    *,
    level: str,
    style: Literal["console", "json"],
    stream: TextIO | None = None,
    handler: logging.Handler | None = None,
) -> None:
    """Send all from `level` up to a handler, else to a stream (standard error by default)."""
    handler = handler or logging.StreamHandler(stream or sys.stderr)
    if style == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(OneLine("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    handler.addFilter(RepeatedLines(handler))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("waitress").setLevel(logging.WARNING)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # waiting requests are normal
    logging.getLogger("grpc._cython.cygrpc").addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Let a record pass without its traceback: gRPC logs texts of its own that it cannot decode,
    such as that of a socket that could not be made; the line has the whole text.
    """
    record.exc_info = None
    return True
