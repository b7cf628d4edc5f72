"""A worker's log files, named as FATE names them, and text without this machine's paths."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import fedflow
from fedflow.base.log import OneLine

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
LIMIT_BYTES: Final = 256 * 1024 * 1024  #: of what one run logs
TRACEBACK_LIMIT: Final = 20_000  #: characters of a traceback that are reported

_FORMAT = (
    "[%(levelname)s] [%(asctime)s] [%(process)d:%(thread)d] "
    "- [%(module)s.%(funcName)s] [line:%(lineno)d]: %(message)s"
)


class WorkerLine(OneLine):
    """A line of a worker's log; a traceback has no paths of this machine."""

    def formatException(  # noqa: N802  logging's own name
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | Any
    ) -> str:
        return traceback_of(ei[1]) if ei[1] is not None else ""


class LevelFiles(logging.Handler):
    """Writes a record to the file of its level and to those of all lower levels.

    So INFO.log has everything from INFO up, as in FATE. INFO.log exists from the start, another
    file from its first line on. Everything goes to the files of `shared` too, to which all workers
    of a site append; INFO.log and ERROR.log exist there from the start, as FATE's clients open
    them. A full disk loses lines, not the run;
    so does a run that logs more than `limit_bytes`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        level: int,
        shared: Path | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        super().__init__(level)
        self.setFormatter(WorkerLine(_FORMAT))
        self._folders = (folder,) if shared is None else (folder, shared)
        self._files: dict[Path, IO[bytes]] = {}
        self._left = limit_bytes
        self._numbers = {name: getattr(logging, name) for name in LEVELS}
        self._file(folder, "INFO")
        if shared is not None:
            for name in ("INFO", "ERROR"):
                self._file(shared, name)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
            line = self._counted(line)
            for name, number in self._numbers.items():
                if self.level <= number <= record.levelno and line:
                    for folder in self._folders:
                        self._file(folder, name).write(line)
        except Exception:  # noqa: BLE001  logging's own way to handle it
            self.handleError(record)

    def _counted(self, line: bytes) -> bytes:
        """Return the line, or what is written in its place when the limit is reached."""
        before, self._left = self._left, self._left - len(line)
        if self._left > 0:
            return line
        return b"[WARNING] this run logs too much: nothing more is kept\n" if before > 0 else b""

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

    def _file(self, folder: Path, name: str) -> IO[bytes]:
        """Return an open file; unbuffered, so that lines of several processes do not mix."""
        path = folder / f"{name}.log"
        if path not in self._files:
            self._files[path] = path.open("ab", buffering=0)
        return self._files[path]


def set_up_logs(folder: Path, *, level: str, shared: Path | None = None) -> logging.Handler:
    """Send everything that is logged to the files of `folder` and `shared`; return the handler.

    An unknown `level` counts as INFO. Libraries other than fedflow never go below INFO.
    """
    number = getattr(logging, level.upper(), None) if level.upper() in LEVELS else None
    chosen = number if isinstance(number, int) else logging.INFO
    handler = LevelFiles(folder, level=chosen, shared=shared)
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
