"""Rows made ahead: whole ones only, by processes that give way and end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.cores.ahead import ForkedRowsAhead
from fedflow.cores.forked import BLOCK
from tests.support.executors import wait_until


def _ahead(work: Callable[[int], bytes]) -> ForkedRowsAhead:
    return ForkedRowsAhead(work, 10_000, width=2, processes=2, cost=100.0)


def _wait_for_children(ahead: ForkedRowsAhead) -> None:
    for child in ahead._children:
        child.join(60)
        assert child.exitcode == 0


def test_rows_are_made_ahead_by_processes_that_give_way_to_others() -> None:
    own = os.nice(0)
    ahead = _ahead(lambda count: os.nice(0).to_bytes(2, "little") * count)
    _wait_for_children(ahead)
    made = ahead.take()
    assert made.shape == (10_000, 2)
    assert set(made[:, 0].tolist()) == {min(19, own + 10)}


def test_rows_that_are_taken_early_are_those_that_are_done() -> None:
    began = time.monotonic()
    calls: list[int] = []

    def stands_still(count: int) -> bytes:
        calls.append(count)
        if len(calls) > 1:
            signal.pause()
        return b"ab" * count

    ahead = _ahead(stands_still)
    wait_until(lambda: all(int.from_bytes(done, "little") for done in ahead._done))
    made = ahead.take()
    assert made.tobytes() == b"ab" * len(made)
    assert len(made) < 10_000
    assert len(made) == 2 * (BLOCK // 100)
    assert time.monotonic() - began < 5
    assert not any(child.is_alive() for child in ahead._children)


@pytest.mark.parametrize("error", [CodecError(reason="no"), MemoryError()], ids=["error", "memory"])
def test_work_that_fails_ahead_leaves_what_was_done_before(error: Exception) -> None:
    calls: list[int] = []

    def fails(count: int) -> bytes:
        calls.append(count)
        if len(calls) > 1:
            raise error
        return b"ab" * count

    ahead = _ahead(fails)
    _wait_for_children(ahead)
    assert len(ahead.take()) == 2 * (BLOCK // 100)
