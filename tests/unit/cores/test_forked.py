"""Rows filled by forked processes: shares, errors, and processes that die or stand still."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time

import pytest

from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.error import FedflowError
from fedflow.cores import forked


def test_a_worker_that_dies_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)

    def work(start: int, stop: int, out: memoryview) -> None:
        if start:
            raise SystemExit(7)

    with pytest.raises(ComponentFailed, match="7"):
        forked.fill_rows(20, 32, work, processes=2, progress=lambda done: None)


@pytest.mark.parametrize(
    "error", [CodecError(reason="a point is bad"), BadData(where="a table", reason="no rows")]
)
def test_an_error_of_a_worker_arrives_as_it_is(
    error: FedflowError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)

    def work(start: int, stop: int, out: memoryview) -> None:
        if start:
            raise error

    with pytest.raises(type(error), match=error.fields["reason"]):
        forked.fill_rows(20, 32, work, processes=2, progress=lambda done: None)


def test_an_error_that_is_too_long_to_be_told_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)

    def work(start: int, stop: int, out: memoryview) -> None:
        if start:
            raise CodecError(reason="x" * 10_000)

    with pytest.raises(ComponentFailed, match="xxx"):
        forked.fill_rows(20, 32, work, processes=2, progress=lambda done: None)


def test_a_worker_without_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)

    def work(start: int, stop: int, out: memoryview) -> None:
        if start:
            raise MemoryError

    with pytest.raises(MemoryError):
        forked.fill_rows(100, 32, work, processes=2, progress=lambda done: None)


def test_a_worker_that_is_stuck_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)
    monkeypatch.setattr(forked, "STALL_S", 0.1)
    here = os.getpid()

    def work(start: int, stop: int, out: memoryview) -> None:
        if os.getpid() != here:
            threading.Event().wait()
        out[:] = bytes([start]) * len(out)

    points = forked.fill_rows(30, 32, work, processes=3, progress=lambda done: None)
    assert points[:, 0].tolist() == [0] * 10 + [10] * 10 + [20] * 10
    assert caplog.text.count("is stuck") == 2
    assert not multiprocessing.active_children()


def test_dear_rows_are_spread_earlier_and_reported_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 100)
    here = os.getpid()
    done: list[float] = []

    def work(start: int, stop: int, out: memoryview) -> None:
        out[:] = bytes([os.getpid() == here]) * (stop - start)

    made = forked.fill_rows(20, 1, work, processes=2, progress=done.append, cost=4_096)
    assert made[:, 0].tolist() == [1] * 10 + [0] * 10
    assert len(done) == 10
    assert forked.fill_rows(20, 1, work, processes=2, progress=done.append).sum() == 20


def test_a_worker_that_computes_for_long_is_not_stuck(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)
    monkeypatch.setattr(forked, "STALL_S", 1.0)
    here = os.getpid()

    def work(start: int, stop: int, out: memoryview) -> None:
        while os.getpid() != here and time.process_time() < 2.2:
            pass
        out[:] = b"\1" * len(out)

    made = forked.fill_rows(2, 1, work, processes=2, progress=lambda done: None, cost=10_000)
    assert made.sum() == 2
    assert "is stuck" not in caplog.text


class _Connection:
    """Tells its other side when it is collected, as a Java object of py4j does."""

    def __init__(self, told: int) -> None:
        self._told = told
        self.itself = self

    def __del__(self) -> None:
        os.write(self._told, b"gone")


def test_a_worker_collects_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)
    told, ours = os.pipe()
    here = os.getpid()
    gc.collect()
    gc.disable()
    try:
        _Connection(ours)  # garbage that nobody has collected yet

        def work(start: int, stop: int, out: memoryview) -> None:
            if os.getpid() != here:
                gc.collect()
            out[:] = b"\1" * len(out)

        forked.fill_rows(20, 1, work, processes=2, progress=lambda done: None)
        os.set_blocking(told, False)
        with pytest.raises(BlockingIOError):
            os.read(told, 4)
    finally:
        gc.enable()
        gc.collect()
        os.close(told)
        os.close(ours)
