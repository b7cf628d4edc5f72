"""Requests that are answered together: who does the work, how many at once, and whose wait ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from fedflow.cli.server_process import wait_for
from fedflow.serving.joining import JoinedRequests, TooManyWait, WaitedTooLong


class Work:
    """Doubles numbers; the first call waits for the gate, so that others come meanwhile."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = threading.Event()
        self.entered = threading.Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        self.entered.set()
        assert self.gate.wait(30)
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def run_while_one_works(
    pool: ThreadPoolExecutor, line: JoinedRequests[int, int], work: Work, items: Sequence[int]
) -> list[Future[int]]:
    """Start a first request, then the others; return all futures once these wait."""
    futures = [pool.submit(line.run, 0, work, wait_s=30)]
    assert work.entered.wait(30)
    for number, item in enumerate(items, 1):
        futures.append(pool.submit(line.run, item, work, wait_s=30))
        assert wait_for(lambda n=number: len(line._line) == n, timeout_s=30)
    return futures


def test_who_comes_alone_is_answered_alone() -> None:
    work, line = Work(), JoinedRequests[int, int](most=64, waiting=100)
    work.gate.set()
    assert [line.run(n, work, wait_s=1) for n in (1, 2)] == [2, 4]
    assert work.groups == [[1], [2]]


def test_those_who_come_meanwhile_are_answered_together_in_their_order(
    pool: ThreadPoolExecutor,
) -> None:
    work, line = Work(), JoinedRequests[int, int](most=4, waiting=100)
    futures = run_while_one_works(pool, line, work, range(1, 7))
    work.gate.set()
    assert [one.result(30) for one in futures] == [0, 2, 4, 6, 8, 10, 12]
    assert work.groups == [[0], [1, 2, 3, 4], [5, 6]]


def test_an_error_is_that_of_its_group_alone(pool: ThreadPoolExecutor) -> None:
    work, line = Work(), JoinedRequests[int, int](most=2, waiting=100)
    futures = run_while_one_works(pool, line, work, (13, 1, 2))
    work.gate.set()
    for unlucky in futures[1:3]:
        with pytest.raises(ValueError, match="unlucky"):
            unlucky.result(30)
    assert (futures[0].result(30), futures[3].result(30)) == (0, 4)


def test_too_many_are_refused_at_once(pool: ThreadPoolExecutor) -> None:
    work, line = Work(), JoinedRequests[int, int](most=2, waiting=3)
    futures = run_while_one_works(pool, line, work, (1, 2))
    with pytest.raises(TooManyWait):
        line.run(3, work, wait_s=30)
    work.gate.set()
    assert [one.result(30) for one in futures] == [0, 2, 4]
    assert line.run(4, work, wait_s=30) == 8


def test_a_group_has_the_time_of_its_newest_request(pool: ThreadPoolExecutor) -> None:
    work, line = Work(), JoinedRequests[int, int](most=64, waiting=100)
    late: list[Sequence[int]] = []

    def work_of_the_newest(items: Sequence[int]) -> list[int]:
        late.append(items)
        return work(items)

    futures = [pool.submit(line.run, 0, work, wait_s=30)]
    assert work.entered.wait(30)
    futures.append(pool.submit(line.run, 1, work, wait_s=30))
    assert wait_for(lambda: len(line._line) == 1, timeout_s=30)
    futures.append(pool.submit(line.run, 2, work_of_the_newest, wait_s=30))
    assert wait_for(lambda: len(line._line) == 2, timeout_s=30)
    work.gate.set()
    assert [one.result(30) for one in futures] == [0, 2, 4]
    assert late == [[1, 2]]


def test_whose_time_is_up_leaves_the_line(pool: ThreadPoolExecutor) -> None:
    work, line = Work(), JoinedRequests[int, int](most=2, waiting=100)
    futures = run_while_one_works(pool, line, work, ())
    with pytest.raises(WaitedTooLong):
        line.run(1, work, wait_s=0.0)
    work.gate.set()
    assert futures[0].result(30) == 0
    assert work.groups == [[0]]
    assert line.run(2, work, wait_s=30) == 4
