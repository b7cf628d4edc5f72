"""Fills a matrix of bytes, such as blinded ids or ciphertexts, with several forked processes.

The arithmetic holds the interpreter's lock (X25519, gmpy2, the hashing of ids), so threads do not
help. The processes inherit their input by `fork` and write into one shared anonymous mapping:
nothing is pickled but an error, and no file is made. They run only the given work on memory and end
without exit handlers of this process. A child that does not move (a lock that another thread held
at the fork would do that) is killed and its share done here.
"""

from __future__ import annotations

import gc
import logging
import mmap
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.error import FedflowError
from fedflow.cores.blocks import bounds
from fedflow.sdk.workers import Progress, no_progress

logger = logging.getLogger(__name__)

Work = Callable[[int, int, memoryview], None]
"""Writes rows `start` to `stop` to the given memory. Raises: FedflowError: an input is unusable."""

FORK_FROM = 3_000  #: fewer operations than this, of cost 1, are not worth processes
BLOCK = 4_096  #: operations of cost 1 between two reports of progress

STALL_S = 30.0  #: a child that uses no processor for so long is stuck, seconds

_MOVING = 200  # states below count blocks, modulo this; 0 = none yet
_NO_MEMORY, _DONE, _REFUSED = 253, 254, 255
_TOLD = 8_192  # bytes after a child's state, for the error that it tells


def fill_rows(
    count: int,
    width: int,
    work: Work,
    *,
    processes: int,
    progress: Progress,
    cost: float = 1.0,
) -> NDArray[np.uint8]:
    """Return `count` rows of `width` bytes made by `work`.

    Args:
        processes: at most so many do it, this one included.
        progress: gets the done part, 0 to 1.
        cost: of one row, in multiplications on curve25519 (about 30 microseconds).

    Raises: FedflowError: from `work`, as it is. MemoryError: also of another process.
    ComponentFailed: a process died.
    """
    block = max(1, int(BLOCK / cost))
    if count == 0:
        progress(1.0)
    if processes <= 1 or not is_worth_forks(count, cost):
        own = bytearray(width * count)
        run_blocks(
            work, 0, count, memory=memoryview(own), width=width, block=block, progress=progress
        )
        return np.frombuffer(own, np.uint8).reshape(count, width)
    places = bounds(count, processes)
    shared = memoryview(mmap.mmap(-1, width * count + processes * (1 + _TOLD)))
    rows, rest = shared[: width * count], shared[width * count :]
    states = [rest[i : i + 1 + _TOLD] for i in range(0, len(rest), 1 + _TOLD)]

    def share(start: int, stop: int, beat: Progress) -> None:
        run_blocks(work, start, stop, memory=rows, width=width, block=block, progress=beat)

    _run_forked(share, places, states=states, progress=progress)
    return np.frombuffer(rows, np.uint8).reshape(count, width)  # keeps the mapping alive


def is_worth_forks(count: int, cost: float) -> bool:
    """Tell whether so many rows are made quicker by other processes, and there may be some."""
    may_fork = hasattr(os, "fork") and not multiprocessing.current_process().daemon
    return may_fork and count * cost >= FORK_FROM


_Share = Callable[[int, int, Progress], None]


def _run_forked(
    share: _Share, places: list[int], *, states: list[memoryview], progress: Progress
) -> None:
    """Do the first range here and the others in children; end with no child left."""
    fork = multiprocessing.get_context("fork")
    children = [
        fork.Process(
            target=_child,
            args=(share, places[i], places[i + 1]),
            kwargs={"state": states[i], "parent": os.getpid()},
            name=f"fill-rows-{i}",
            daemon=True,
        )
        for i in range(1, len(places) - 1)
    ]
    try:
        for child in children:
            child.start()
        share(0, places[1], progress)
        for i, child in enumerate(children, start=1):
            if not _await(child, states[i]):
                logger.warning("Worker %s is stuck; its share is done here.", child.name)
                child.kill()
                child.join()
                share(places[i], places[i + 1], no_progress)
                states[i][0] = _DONE
        codes = [child.exitcode for child in children]
        for state in states[1:]:
            _raise_told(state, codes)
    finally:
        for child in children:
            if child.is_alive():
                child.kill()
            with suppress(AssertionError):  # it was never started
                child.join()


def _raise_told(state: memoryview, codes: list[int | None]) -> None:
    """Do nothing if a child is done. Raises: the error of the child."""
    if state[0] == _REFUSED:
        error = pickle.loads(state[1:])  # noqa: S301  from a fork of this very process
        raise error
    if state[0] == _NO_MEMORY:
        raise MemoryError
    if state[0] != _DONE:
        raise ComponentFailed(component="a worker process", reason=f"exit codes {codes}")


def _await(child: BaseProcess, state: memoryview) -> bool:
    """Wait until `child` ends; tell whether it did, and did not stand still for STALL_S."""
    before: object = None
    while child.is_alive():
        child.join(STALL_S)
        if not child.is_alive():
            break
        now = state[0], _used_s(child)
        if now == before:
            return False
        before = now
    return True


def _used_s(child: BaseProcess) -> float:
    """Return the processor time of a child so far, seconds; one block may take long."""
    import psutil  # 1.3 MiB of every zygote, for a child that takes longer than STALL_S

    try:
        times = psutil.Process(child.pid).cpu_times()
    except psutil.Error:
        return 0.0  # it has ended
    return float(times.user + times.system)


def _child(share: _Share, start: int, stop: int, *, state: memoryview, parent: int) -> None:
    """Run in the forked process; the outcome is the state byte and the exit code."""
    become_child()

    def beat(_: float) -> None:
        end_without(parent)
        state[0] = state[0] % _MOVING + 1

    try:
        share(start, stop, beat)
    except FedflowError as exc:
        _tell(exc, state)
    except MemoryError:
        state[0] = _NO_MEMORY
    else:
        state[0] = _DONE


def become_child() -> None:
    """Begin as a fork: nothing of the parent is ended or collected here."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the parent has is never collected here: the end of a Java object or of a connection
    # would be sent to its other side, through the parent's own socket.
    gc.freeze()


def end_without(parent: int) -> None:
    """Do nothing while the process `parent` is this fork's. Raises: SystemExit: it has ended."""
    if os.getppid() != parent:
        raise SystemExit(1)


def _tell(exc: FedflowError, state: memoryview) -> None:
    told = pickle.dumps(exc)
    if len(told) > _TOLD:
        told = pickle.dumps(ComponentFailed(component="a worker", reason=exc.message[:1_000]))
    state[1 : 1 + len(told)] = told
    state[0] = _REFUSED


def run_blocks(
    work: Work,
    start: int,
    stop: int,
    *,
    memory: memoryview,
    width: int,
    block: int,
    progress: Progress,
) -> None:
    """Let `work` write rows `start` to `stop` into `memory`, block by block."""
    for begin in range(start, stop, block):
        end = min(stop, begin + block)
        work(begin, end, memory[width * begin : width * end])
        progress((end - start) / (stop - start))
