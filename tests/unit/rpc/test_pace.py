"""Accounts of processor time, on an event loop whose time passes only while nothing runs."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from fedflow.rpc.pace import BURST_S, CALL_S, IDLE, PAUSE_S, SHARE, Pace, price_s
from tests.support.quick_loop import run


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_who_used_less_than_a_burst_does_not_wait() -> None:
    async def scenario() -> float:
        pace = Pace()
        pace.charge("a", BURST_S - 0.01)
        await pace.turn("a")
        return now_s()

    assert run(scenario()) == 0


def test_who_uses_more_than_its_share_is_served_at_that_share() -> None:
    async def scenario() -> float:
        pace = Pace()
        for _ in range(1_000):
            await pace.turn("a", 0.01)
        return now_s()

    assert run(scenario()) == pytest.approx((10 - BURST_S) / SHARE, abs=0.1)


def test_who_is_overdrawn_holds_up_nobody_else() -> None:
    async def scenario() -> tuple[float, bool]:
        pace = Pace()
        pace.charge("a", 60.0)
        waiting = [asyncio.create_task(pace.turn("a", CALL_S)) for _ in range(100)]
        await asyncio.sleep(0)
        await pace.turn("b", CALL_S)
        at_s, ended = now_s(), any(task.done() for task in waiting)
        await asyncio.gather(*waiting)
        return at_s, ended

    assert run(scenario()) == (0, False)


def test_those_of_one_caller_come_in_their_order_and_not_all_at_once() -> None:
    async def scenario() -> list[tuple[int, float]]:
        pace, served = Pace(), []

        async def one(number: int) -> None:
            await pace.turn("a", 0.1)
            served.append((number, now_s()))

        pace.charge("a", BURST_S)
        await asyncio.gather(*(one(number) for number in range(5)))
        return served

    served = run(scenario())
    assert [number for number, _ in served] == list(range(5))
    pauses = [after[1] - before[1] for before, after in pairwise(served)]
    assert pauses == [pytest.approx(0.1 / SHARE)] * 4


def test_no_pause_is_so_long_that_an_honest_call_times_out() -> None:
    async def scenario() -> float:
        pace = Pace()
        pace.charge("a", 3_600.0)
        await pace.turn("a")
        return now_s()

    assert run(scenario()) == pytest.approx(PAUSE_S)


def test_one_that_gives_up_waiting_keeps_nobody_waiting() -> None:
    async def scenario() -> float:
        pace = Pace()
        pace.charge("a", BURST_S + SHARE)
        first = asyncio.create_task(pace.turn("a"))
        second = asyncio.create_task(pace.turn("a"))
        await asyncio.sleep(0.5)
        first.cancel()
        await second
        return now_s()

    assert run(scenario()) == pytest.approx(1.0)


def test_callers_that_owe_nothing_are_forgotten() -> None:
    async def scenario() -> int:
        pace = Pace()
        pace.charge("debtor", 60.0)
        for number in range(5_000):
            await pace.turn(f"caller-{number}", 0.001)
            await asyncio.sleep(0.01)
        assert "debtor" not in pace._accounts  # its pause is over, too
        return len(pace._accounts)

    assert run(scenario()) <= 1_000


@pytest.mark.parametrize(
    ("path", "answer", "charged"),
    [
        ("/v1/party/20260101000000000000/host/10000/start", b'{"retcode":0,"retmsg":"x"}', 0.01),
        ("/v1/party/20260101000000000000/host/10000/start", b'{"retcode":100}', IDLE * 0.011),
        ("/v1/party/heartbeat", b'{"retcode":0,"retmsg":"success"}', IDLE * 0.011),
        ("/v1/no/such/path", b'{"retcode":0,"retmsg":"success"}', IDLE * 0.011),
    ],
)
def test_what_brings_no_job_forward_is_charged_several_times(
    path: str, answer: bytes, charged: float
) -> None:
    assert price_s(path, answer, 0.01) == pytest.approx(charged)
