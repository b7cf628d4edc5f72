"""A worker's log files, named as FATE names them, and text without this machine's paths."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from typing import Final, TextIO

import fedflow

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
TRACEBACK_LIMIT: Final = 20_000  #: characters of a traceback that are reported

_FORMAT = (
    "[%(levelname)s] [%(asctime)s] [%(process)d:%(thread)d] "
    "- [%(module)s.%(funcName)s] [line:%(lineno)d]: %(message)s"
)


class LevelFiles(logging.Handler):
    """Writes a record to the file of its level and to those of all lower levels.

    So INFO.log has everything from INFO up, as in FATE. INFO.log exists from the start, another
    file from its first line on. A full disk loses lines, not the run.
    """

    def __init__(self, folder: Path, *, level: int) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter(_FORMAT))
        self._folder = folder
        self._files: dict[str, TextIO] = {}
        self._numbers = {name: getattr(logging, name) for name in LEVELS}
        self._file("INFO")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
            for name, number in self._numbers.items():
                if self.level <= number <= record.levelno:
                    self._file(name).write(line)
        except Exception:  # noqa: BLE001  logging's own way to handle it
            self.handleError(record)

    def close(self) -> None:
        """Close the files."""
        self.acquire()
        try:
            for file in self._files.values():
                file.close()
            self._files.clear()
        finally:
            self.release()
        super().close()

    def _file(self, name: str) -> TextIO:
        if name not in self._files:
            path = self._folder / f"{name}.log"
            self._files[name] = path.open(
                "a", encoding="utf-8", errors="backslashreplace", buffering=1
            )
        return self._files[name]


def set_up_logs(folder: Path, *, level: str) -> logging.Handler:
    """Send everything that is logged to the files of `folder`; return the handler.

    An unknown `level` counts as INFO. Libraries other than fedflow never go below INFO.
    """
    number = getattr(logging, level.upper(), None) if level.upper() in LEVELS else None
    handler = LevelFiles(folder, level=number if isinstance(number, int) else logging.INFO)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    _set_level(root, max(handler.level, logging.INFO))
    _set_level(logging.getLogger("fedflow"), handler.level)
    logging.captureWarnings(True)
    return handler


def _set_level(target: logging.Logger, level: int) -> None:
    """Set a level only where it changes: every logger forgets what it knows at each call."""
    if target.level != level:
        target.setLevel(level)


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error as text, at most 20,000 characters, paths masked."""
    text = "".join(traceback.format_exception(error))
    return mask(text)[-TRACEBACK_LIMIT:]


def mask(text: str) -> str:
    """Return `text` with the paths of this installation and of the user's home made short."""
    root = Path(fedflow.__file__).parent.parent
    names = [(str(root), "<fedflow>"), (sys.prefix, "<python>"), (sys.base_prefix, "<python>")]
    names.append((str(Path.home()), "~"))
    for path, name in sorted(names, key=lambda pair: -len(pair[0])):
        if len(path) > 1:
            text = text.replace(path, name)
    return text
