"""Fills a matrix of bytes, such as blinded ids or ciphertexts, with several forked processes.

The arithmetic holds the interpreter's lock (X25519, gmpy2, the hashing of ids), so threads do not
help. The processes inherit their input by `fork` and write into one shared anonymous mapping:
nothing is pickled and no file is made. They run only the given work on memory and end without exit
handlers of this process. A child that does not move (a lock that another thread held at the fork
would do that) is killed and its share done here.
"""

from __future__ import annotations

import logging
import mmap
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors import CodecError, ComponentFailed

logger = logging.getLogger(__name__)

Work = Callable[[int, int, memoryview], None]
"""Writes rows `start` to `stop` to the given memory. Raises: CodecError: an input is unusable."""

FORK_FROM = 20_000  #: fewer operations than this, of cost 1, are not worth processes
BLOCK = 4_096  #: operations of cost 1 between two reports of progress

STALL_S = 30.0  #: a child that finishes no block for so long is stuck, seconds

_MOVING = 200  # states below count blocks, modulo this; 0 = none yet
_NO_MEMORY, _DONE, _BAD_INPUT = 253, 254, 255


def fill_rows(
    count: int,
    width: int,
    work: Work,
    *,
    processes: int,
    progress: Callable[[float], None],
    cost: int = 1,
) -> NDArray[np.uint8]:
    """Return `count` rows of `width` bytes made by `work`.

    Args:
        processes: at most so many do it, this one included.
        progress: gets the done part, 0 to 1.
        cost: of one row, in multiplications on curve25519 (about 30 microseconds).

    Raises: CodecError: from `work`. MemoryError: also of another process. ComponentFailed: a
    process died.
    """
    block = max(1, BLOCK // cost)
    if count == 0:
        progress(1.0)
    may_fork = hasattr(os, "fork") and not multiprocessing.current_process().daemon
    if processes <= 1 or count * cost < FORK_FROM or not may_fork:
        own = bytearray(width * count)
        _run(work, 0, count, memory=memoryview(own), width=width, block=block, progress=progress)
        return np.frombuffer(own, np.uint8).reshape(count, width)
    bounds = [count * i // processes for i in range(processes + 1)]
    shared = memoryview(mmap.mmap(-1, width * count + processes))
    rows, states = shared[: width * count], shared[width * count :]

    def share(start: int, stop: int, beat: Callable[[float], None]) -> None:
        _run(work, start, stop, memory=rows, width=width, block=block, progress=beat)

    _run_forked(share, bounds, states=states, progress=progress)
    return np.frombuffer(rows, np.uint8).reshape(count, width)  # keeps the mapping alive


_Share = Callable[[int, int, Callable[[float], None]], None]


def _run_forked(
    share: _Share,
    bounds: list[int],
    *,
    states: memoryview,
    progress: Callable[[float], None],
) -> None:
    """Do the first range here and the others in children; end with no child left."""
    fork = multiprocessing.get_context("fork")
    children = [
        fork.Process(
            target=_child,
            args=(share, bounds[i], bounds[i + 1]),
            kwargs={"state": states[i : i + 1], "parent": os.getpid()},
            name=f"fill-rows-{i}",
            daemon=True,
        )
        for i in range(1, len(bounds) - 1)
    ]
    try:
        for child in children:
            child.start()
        share(0, bounds[1], progress)
        for i, child in enumerate(children, start=1):
            if not _await(child, states[i : i + 1]):
                logger.warning("Worker %s is stuck; its share is done here.", child.name)
                child.kill()
                child.join()
                share(bounds[i], bounds[i + 1], no_progress)
                states[i] = _DONE
        if _BAD_INPUT in bytes(states):
            raise CodecError(reason="a received value is not usable")
        if _NO_MEMORY in bytes(states):
            raise MemoryError
        codes = [child.exitcode for child in children]
        if any(state != _DONE for state in states[1:]):
            raise ComponentFailed(component="a worker process", reason=f"exit codes {codes}")
    finally:
        for child in children:
            if child.is_alive():
                child.kill()
            with suppress(AssertionError):  # it was never started
                child.join()


def _await(child: BaseProcess, state: memoryview) -> bool:
    """Wait until `child` ends; tell whether it did, and not stay at one state for STALL_S."""
    while child.is_alive():
        seen = state[0]
        child.join(STALL_S)
        if child.is_alive() and state[0] == seen:
            return False
    return True


def _child(share: _Share, start: int, stop: int, *, state: memoryview, parent: int) -> None:
    """Run in the forked process; the outcome is the state byte and the exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def beat(_: float) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)
        state[0] = state[0] % _MOVING + 1

    try:
        share(start, stop, beat)
    except CodecError:
        state[0] = _BAD_INPUT
    except MemoryError:
        state[0] = _NO_MEMORY
    else:
        state[0] = _DONE


def _run(
    work: Work,
    start: int,
    stop: int,
    *,
    memory: memoryview,
    width: int,
    block: int,
    progress: Callable[[float], None],
) -> None:
    for begin in range(start, stop, block):
        end = min(stop, begin + block)
        work(begin, end, memory[width * begin : width * end])
        progress((end - start) / (stop - start))


def no_progress(done: float) -> None:
    """Take a progress that nobody asks for."""
