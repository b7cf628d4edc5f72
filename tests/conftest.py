"""What every test is held to: no thread and no process may be left behind."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

_OWN = ("fedflow", "scheduler", "detector", "courier", "pulse", "executor", "data-plane")
_GRACE_S = 3.0


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    threads = {t.ident for t in threading.enumerate()}
    processes = _children()
    yield
    if "leaks" in request.keywords:
        return
    deadline = time.monotonic() + _GRACE_S
    while True:
        left = [
            t.name
            for t in threading.enumerate()
            if t.ident not in threads and t.name.startswith(_OWN)
        ]
        left += list((_children() - processes).elements())
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert not left, f"left behind: {', '.join(left)}"


def _children() -> Counter[str]:
    """Return the command lines below this process; one that replaced its like counts as it."""
    return Counter(_name(p) for p in _below(os.getpid()) if _alive(p))


def _below(pid: int) -> Iterator[psutil.Process]:
    """Yield all processes below one. The kernel's own lists: a look at all processes takes 5 ms,
    and this is done twice for each of thousands of tests.
    """
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, psutil.Error):
            for child in map(int, children.read_text().split()):
                yield psutil.Process(child)
                yield from _below(child)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        words = [word for word in process.cmdline() if not word.isdigit()]  # without descriptors
        return " ".join(words)[:200]
    except psutil.Error:
        return str(process.pid)
