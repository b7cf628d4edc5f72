import asyncio

import pytest

from fedflow.exchange import relay
from fedflow.exchange.relay import SendingRate


def pauses_of(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of a party that may send 100 bytes per second, at a clock that stands."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(round(seconds, 3))

    async def send() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: 1000.0)
        rate = SendingRate(100)
        for size in sizes:
            await rate.wait(size)

    monkeypatch.setattr(relay.asyncio, "sleep", sleep)
    asyncio.run(send())
    return pauses


def test_a_second_of_bytes_may_be_sent_at_once_and_then_a_party_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pauses_of([50, 50], monkeypatch) == []
    assert pauses_of([50, 50, 50, 100], monkeypatch) == [0.5, 1.5]


def test_a_message_that_is_longer_than_a_second_of_bytes_waits_for_its_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pauses_of([300], monkeypatch) == [2.0]
