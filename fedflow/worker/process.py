"""Makes this process a worker: its group, signals, files, folder and memory limit."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import IO

from fedflow.executor.descendants import adopt_orphans
from fedflow.executor.limits import OUTPUT_FILE

_DESCRIPTORS = 1024  #: what `select` takes
_KILL_ME_FIRST = "500"  #: of 1000: rather an executor than its server when memory runs out


class Stopped(BaseException):
    """This process was asked to end (SIGTERM). No Exception, so that components do not catch it."""


def become_worker(*, log_dir: Path, work_dir: Path) -> None:
    """Lead an own process group, work in `work_dir`, and print to `log_dir`/stdout.log.

    From here on SIGTERM raises `Stopped` in the main thread, once. Raises: OSError.
    """
    signal.signal(signal.SIGTERM, _raise_stopped)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # it may lead one already
        os.setpgid(0, 0)
    adopt_orphans()
    # a core would hold the task's token, keys, and the credentials of storages
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.umask(0o077)
    _make(work_dir)
    os.chdir(work_dir)
    _redirect(log_dir)
    _reseed()


def open_output(log_dir: Path) -> IO[bytes]:
    """Return the file that a worker prints to, for appending. Raises: OSError."""
    _make(log_dir)
    descriptor = os.open(log_dir / OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def prefer_for_oom_kill() -> None:
    """Let the system end this process and its children before others when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_KILL_ME_FIRST, encoding="ascii")


def limit_memory(size_bytes: int) -> None:
    """Let an allocation beyond `size_bytes` more than now fail with MemoryError.

    Mapped files do not count. Where the system has no such limit, nothing happens.
    """
    limit = _data_bytes() + size_bytes
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def limit_descriptors() -> None:
    """Let this process have what a program usually may: components may use `select`.

    The server, which started it, takes as many as it gets.
    """
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before == resource.RLIM_INFINITY or before > _DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, most))


def ignore_stops() -> None:
    """Let a further SIGTERM do nothing: what is left to do is short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _raise_stopped(number: int, frame: FrameType | None) -> None:
    ignore_stops()
    raise Stopped


def _make(folder: Path) -> None:
    """Make a folder, which the server did as a rule: to look is cheaper than to fail at it."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)


def _redirect(log_dir: Path) -> None:
    """Send file descriptors 1 and 2 to a file, whatever bytes come; 0 gives nothing."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    with open_output(log_dir) as output:
        os.dup2(nothing, 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)


def _reseed() -> None:
    """Give numpy's global generator a state of its own; all forks would draw the same numbers."""
    generator = sys.modules.get("numpy.random")
    if generator is not None:
        generator.seed()


def _data_bytes() -> int:
    """Return the size of this process's writable memory, bytes; 0 if the system does not tell."""
    try:  # the sixth number; the stack is in it, too
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()
