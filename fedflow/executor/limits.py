"""Limits and time-outs of the executors, and the environment that their processes get."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fedflow.base.errors.start import BadSetting
from fedflow.base.values import dataclass

OUTPUT_FILE: Final = "stdout.log"  #: what a worker and its children print, in its log folder

MIB: Final = 1024 * 1024
_GROUP_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
PRELOAD: Final[tuple[str, ...]] = ("fedflow.worker.run",)
"""What a zygote imports before it is ready, numpy and pyarrow with it.

A component, and what it needs besides, comes when a job first names it.
"""

_KEPT: Final = frozenset(
    {
        "DYLD_LIBRARY_PATH",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "LOGNAME",
        "PATH",
        "PYTHONPATH",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)

_FIXED: Final[Mapping[str, str]] = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",  # Arrow's first array would take 4 MiB of huge pages
    "PYTHONUTF8": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorLimits:
    """How patient the server is with its executors. Raises: BadSetting: a value is out of range."""

    start_timeout_s: float = 30.0  #: from the request until a process exists, seconds
    reply_timeout_s: float = 15.0  #: for a description or a parameter check, seconds
    restart_base_s: float = (
        0.05  #: pause before a lost zygote is replaced, doubled each time, seconds
    )
    restart_cap_s: float = 5.0  #: longest pause between two zygotes, seconds
    stable_s: float = 10.0  #: a zygote that lived this long resets the pause, seconds
    launch_attempts: int = 3  #: zygotes that may be lost over one launch before it is given up
    line_bytes: int = 64 * 1024 * 1024  #: longest message to or from a zygote, bytes
    output_bytes: int = 64 * 1024 * 1024  #: what is kept of what a run prints, bytes

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) <= 0:
                raise BadSetting(path=f"executor.{name}", reason="must be above 0")


def machine_memory() -> int | None:
    """Return the bytes of memory that this process and its children may use; None: unknown.

    That is the machine's, or what the control group of a container has.
    """
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    for path in _GROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max", or another version of groups
            found = min(found, int(Path(path).read_text(encoding="ascii")))
    return found if found > 0 else None


def executor_memory(memory_mib: int | str | None) -> int | None:
    """Return the bytes that one executor may allocate, from the setting; None: all.

    By default that is half of the memory: a value that unpacks to more than the machine has ends
    its task and nothing else, and a task alone has room. If two take all together, the system ends
    an executor before a server (`worker.process.prefer_for_oom_kill`).
    """
    if isinstance(memory_mib, int):
        return memory_mib * MIB
    memory = machine_memory() if memory_mib is None else None
    return None if memory is None else memory // 2


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an executor process.

    It holds the server's variables that any program needs, one thread per numeric library, and
    `extra`. The server's other variables stay out: they may name passwords, and a component is
    somebody else's code.
    """
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith("LC_")}
    return {**kept, **_FIXED, **extra}
