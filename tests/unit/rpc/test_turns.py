"""Turns: parties wait until their share has room, and none waits for another one."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from fedflow.rpc.turns import Turns


def test_who_waits_holds_up_nobody_of_another_party() -> None:
    async def scenario() -> list[str]:
        turns, order = Turns(4), list[str]()

        async def one(party: str, amount: int) -> None:
            await turns.take(party, amount)
            order.append(party)

        await one("9999", 3)
        waiting = asyncio.create_task(one("9999", 1))
        await asyncio.sleep(0)
        await asyncio.wait_for(one("10000", 1), 60)
        turns.give_back("9999", 3)
        await asyncio.wait_for(waiting, 60)
        return order

    assert asyncio.run(scenario()) == ["9999", "10000", "9999"]


def test_who_ceases_to_wait_takes_nothing_and_the_next_one_gets_it() -> None:
    async def scenario() -> None:
        turns = Turns(10)
        await turns.take("9999", 6)
        first = asyncio.create_task(turns.take("9999", 4))
        second = asyncio.create_task(turns.take("9999", 1))
        await asyncio.sleep(0)
        assert not second.done()  # it waits behind the first
        first.cancel()
        await asyncio.wait_for(second, 60)
        third = asyncio.create_task(turns.take("9999", 3))
        await asyncio.sleep(0)
        turns.give_back("9999", 7)
        third.cancel()  # it got it in the same moment
        await asyncio.wait([third])
        await asyncio.wait_for(turns.take("10000", 10), 60)

    asyncio.run(scenario())


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.booleans(), st.integers(0, 3)),
        max_size=30,
    )
)
def test_turns_are_never_over_the_limit_and_everybody_gets_one_in_the_end(
    calls: list[tuple[str, int, bool, int]],
) -> None:
    limit = 6

    async def scenario() -> None:
        turns, used, served = Turns(limit), 0, 0

        async def one(party: str, amount: int, rounds: int) -> None:
            nonlocal used, served
            await turns.take(party, amount)
            used += amount
            assert used <= limit
            for _ in range(rounds):
                await asyncio.sleep(0)
            used -= amount
            served += 1
            turns.give_back(party, amount)

        tasks = [
            (asyncio.create_task(one(party, amount, rounds)), ends)
            for party, amount, ends, rounds in calls
        ]
        await asyncio.sleep(0)
        for task, ends in tasks:
            if ends and not task.done() and used == 0:
                task.cancel()
        if tasks:
            _, left = await asyncio.wait([task for task, _ in tasks], timeout=60)
            assert not left
        assert served + sum(task.cancelled() for task, _ in tasks) == len(calls)

    asyncio.run(scenario())
