"""A thread that has no memory to begin does not hold up whoever starts it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedflow.base import thread_starts


@pytest.fixture(autouse=True)
def _bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # put back at the end
    monkeypatch.setattr(thread_starts, "BEGIN_S", 0.2)
    thread_starts.bound_starts()


def no_memory(_thread: threading.Thread) -> None:
    raise MemoryError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_thread_that_did_not_begin_is_an_error_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as moment:
        moment.setattr(threading.Thread, "_bootstrap", no_memory)
        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(RuntimeError, match="did not begin"):
                pool.submit(int)
            moment.undo()
            assert pool.submit(int).result(timeout=60) == 0  # it goes on afterwards
    threading._limbo.clear()  # type: ignore[attr-defined]  # the lost thread is listed there


def test_a_pool_does_with_the_threads_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with thread_starts.Pool(4) as pool:
        with monkeypatch.context() as moment:
            moment.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError, match="can't start"):
                pool.submit(int)  # it has none at all
        gate = threading.Event()
        pool.submit(gate.wait, 10)
        with monkeypatch.context() as moment:
            moment.setattr(threading.Thread, "start", no_thread)
            later = pool.submit(int)
        gate.set()
        assert later.result(timeout=60) == 0


def test_other_threads_start_as_ever() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    thread.start()
    thread.join(10)
    assert done.is_set()
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="once"):
        thread.start()
