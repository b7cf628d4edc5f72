"""Sets up logging: one handler for people or for machines, and none on import."""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal, TextIO

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


def set_up_logging(
    *, level: str, style: Literal["console", "json"], stream: TextIO | None = None
) -> None:
    """Send everything from `level` up to a stream (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    if style == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("waitress").setLevel(logging.WARNING)
