"""Fills a buffer of points with several forked processes.

X25519 holds the interpreter's lock, so threads do not help. The processes inherit their input by
`fork` and write into one shared anonymous mapping: nothing is pickled and no file is made. They run
only the given work on memory and end without exit handlers of this process. A child that does not
move (a lock that another thread held at the fork would do that) is killed and its share done here.
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
import numpy.typing as npt

from fedflow.base.errors import CodecError, ComponentFailed
from fedflow.components.psi.curve import POINT_BYTES

logger = logging.getLogger(__name__)

Points = npt.NDArray[np.uint8]  #: shape points x POINT_BYTES
Work = Callable[[int, int, memoryview], None]
"""Writes points `start` to `stop` to the given memory. Raises: CodecError: an input is unusable."""

FORK_FROM = 20_000  #: fewer points than this are not worth processes
BLOCK = 4_096  #: points between two reports of progress

STALL_S = 30.0  #: a child that finishes no block for so long is stuck, seconds

_MOVING = 200  # states below count blocks, modulo this; 0 = none yet
_DONE, _BAD_INPUT = 254, 255


def fill_points(
    count: int, work: Work, *, processes: int, progress: Callable[[float], None]
) -> Points:
    """Return `count` points made by `work`, with at most `processes` processes (this one included).

    `progress` gets the done part, 0 to 1. Raises: CodecError: from `work`. ComponentFailed: a
    process died.
    """
    may_fork = hasattr(os, "fork") and not multiprocessing.current_process().daemon
    if processes <= 1 or count < FORK_FROM or not may_fork:
        own = bytearray(POINT_BYTES * count)
        _run(work, 0, count, memory=memoryview(own), progress=progress)
        return np.frombuffer(own, np.uint8).reshape(count, POINT_BYTES)
    bounds = [count * i // processes for i in range(processes + 1)]
    shared = memoryview(mmap.mmap(-1, POINT_BYTES * count + processes))
    points, states = shared[: POINT_BYTES * count], shared[POINT_BYTES * count :]
    _run_forked(work, bounds, points=points, states=states, progress=progress)
    return np.frombuffer(points, np.uint8).reshape(count, POINT_BYTES)  # keeps the mapping alive


def _run_forked(
    work: Work,
    bounds: list[int],
    *,
    points: memoryview,
    states: memoryview,
    progress: Callable[[float], None],
) -> None:
    """Do the first range here and the others in children; end with no child left."""
    fork = multiprocessing.get_context("fork")
    children = [
        fork.Process(
            target=_child,
            args=(work, bounds[i], bounds[i + 1]),
            kwargs={"points": points, "state": states[i : i + 1], "parent": os.getpid()},
            name=f"psi-{i}",
            daemon=True,
        )
        for i in range(1, len(bounds) - 1)
    ]
    try:
        for child in children:
            child.start()
        _run(work, 0, bounds[1], memory=points, progress=progress)
        for i, child in enumerate(children, start=1):
            if not _await(child, states[i : i + 1]):
                logger.warning("Worker %s is stuck; its share is done here.", child.name)
                child.kill()
                child.join()
                _run(work, bounds[i], bounds[i + 1], memory=points, progress=_ignore)
                states[i] = _DONE
        if _BAD_INPUT in bytes(states):
            raise CodecError(reason="a received point is not usable")
        codes = [child.exitcode for child in children]
        if any(state != _DONE for state in states[1:]):
            raise ComponentFailed(component="Intersection", reason=f"worker exit codes {codes}")
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


def _child(
    work: Work, start: int, stop: int, *, points: memoryview, state: memoryview, parent: int
) -> None:
    """Run in the forked process; the outcome is the state byte and the exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def beat(_: float) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)
        state[0] = state[0] % _MOVING + 1

    try:
        _run(work, start, stop, memory=points, progress=beat)
    except CodecError:
        state[0] = _BAD_INPUT
    else:
        state[0] = _DONE


def _run(
    work: Work, start: int, stop: int, *, memory: memoryview, progress: Callable[[float], None]
) -> None:
    for begin in range(start, stop, BLOCK):
        end = min(stop, begin + BLOCK)
        work(begin, end, memory[POINT_BYTES * begin : POINT_BYTES * end])
        progress((end - start) / (stop - start))


def _ignore(done: float) -> None:
    """Take a progress that nobody asks for."""
