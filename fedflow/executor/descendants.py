"""Processes that outlive the one that started them, also in groups and sessions of their own.

A *subreaper* becomes the parent of what its descendants leave behind. Each worker is one, and so is
the zygote: while a worker lives, everything it started is below it; when it ends, what is left
becomes a child of the zygote, which knows its own children and ends all others. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36  #: prctl(2)
_ROUNDS: Final = 10  #: an orphan that is ended leaves its own children, and so on
_LOOKS: Final = 200  #: at processes that were killed, until the system has ended them
_LOOK_S: Final = 0.005  #: pause between two of them

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Become the parent of what this process's descendants leave; not inherited by a fork."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strangers(own: Collection[int]) -> None:
    """Kill all children of this process but `own`, and what they leave; the dead are waited for.

    Only for a process whose children are all of `own` or were left by their descendants.
    """
    for _ in range(_ROUNDS):
        strangers = [pid for pid in _children() if pid not in own]
        if not strangers:
            return
        for pid in strangers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def end_below(pid: int) -> None:
    """Stop process `pid`, which is a subreaper, and kill everything below it; it is left stopped.

    It must not have been waited for, so that nobody else can have got its number.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    for _ in range(_LOOKS):
        living = [child for child in _below(pid) if _is_living(child)]
        if not living:
            return
        for child in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _below(pid: int) -> list[int]:
    """Return the pids of a process's children, their children, and so on."""
    found = _children(pid)
    for child in found:  # grows meanwhile
        found += _children(child)
    return found


def _is_living(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _children(pid: int | str = "self") -> list[int]:
    """Return the pids of a process's children; none where the system does not tell."""
    found: list[int] = []
    tasks = f"/proc/{pid}/task"
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):
            with contextlib.suppress(OSError), open(f"{tasks}/{task}/children", "rb") as file:
                found += [int(pid) for pid in file.read().split()]
    return found
