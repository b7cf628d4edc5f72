"""Sets up logging: one handler for people or for machines, and none on import."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, TextIO

_JOB_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")  #: all but the tab
_JOB_LOGS: Final = {
    "fate_flow_schedule.log": logging.INFO,
    "fate_flow_schedule_error.log": logging.ERROR,
}
_JOBS: Final = 256  #: whose folders are remembered
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object per line: time_ms, level, logger, message, and what `extra` gave."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({k: v for k, v in vars(record).items() if k not in _STANDARD})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class OneLine(logging.Formatter):
    """A line for people: control characters of the message are shown, not obeyed.

    Messages repeat what other parties sent, who could else write lines of their own, or make a
    terminal do things. A traceback follows in lines of its own.
    """

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


def set_up_logging(
    *, level: str, style: Literal["console", "json"], stream: TextIO | None = None
) -> None:
    """Send everything from `level` up to a stream (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    if style == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(OneLine("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("waitress").setLevel(logging.WARNING)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # waiting requests are normal
