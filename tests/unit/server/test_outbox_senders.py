"""The threads that deliver commands."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import pytest

from fedflow.base.clock import SystemClock
from fedflow.server.outbox_senders import OUTBOX_SENDERS, OutboxSenders
from tests.memory_store import MemoryStore

DEADLINE_S = 60.0


class CountingDelivery:
    """A `Delivery` whose commands are numbers; `gate` holds deliveries up, `done` counts them."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.delivered: list[tuple[str, int]] = []
        self.under_way = self.most = self.looks = 0
        self._waiting: deque[int] = deque()
        self._changed = threading.Condition()

    def put(self, *commands: int) -> None:
        with self._changed:
            self._waiting.extend(commands)

    def take(self, _party_id: str) -> int | None:
        with self._changed:
            self.looks += 1
            self._changed.notify_all()
            return self._waiting.popleft() if self._waiting else None

    def has_more(self, _party_id: str) -> bool:
        with self._changed:
            return bool(self._waiting)

    def next_due_ms(self, _party_id: str) -> int | None:
        return None

    def deliver(self, _command: int) -> None:
        with self._changed:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self._changed.notify_all()
        self.gate.wait(DEADLINE_S)

    def settle(self, command: int, _result: None) -> None:
        with self._changed:
            self.under_way -= 1
            self.delivered.append((threading.current_thread().name, command))
            self._changed.notify_all()

    def wait(self, reached: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(reached, DEADLINE_S)


@pytest.fixture
def delivery() -> CountingDelivery:
    return CountingDelivery()


@pytest.fixture
def outbox_senders(delivery: CountingDelivery) -> Iterator[OutboxSenders]:
    store = MemoryStore()
    outbox_senders = OutboxSenders(delivery=cast(Any, delivery), store=store, clock=SystemClock())
    yield outbox_senders
    delivery.gate.set()
    outbox_senders.stop()
    store.close()


def test_many_commands_go_side_by_side_after_one_ring(
    delivery: CountingDelivery, outbox_senders: OutboxSenders
) -> None:
    delivery.put(*range(20))
    outbox_senders.wake("10000")
    delivery.wait(lambda: delivery.under_way == OUTBOX_SENDERS)
    delivery.gate.set()
    delivery.wait(lambda: len(delivery.delivered) == 20)
    assert sorted(command for _, command in delivery.delivered) == list(range(20))
    assert delivery.most == OUTBOX_SENDERS


def test_a_ring_for_one_command_wakes_one_outbox_sender(
    delivery: CountingDelivery, outbox_senders: OutboxSenders
) -> None:
    delivery.gate.set()
    outbox_senders.wake("10000")
    delivery.wait(lambda: delivery.looks >= OUTBOX_SENDERS)  # each has looked once, at its start
    outbox_senders.wake("10000")
    for number in range(50):
        before = delivery.looks
        delivery.put(number)
        outbox_senders.wake("10000")
        delivery.wait(lambda n=number: len(delivery.delivered) == n + 1)
        delivery.wait(lambda b=before: delivery.looks >= b + 2)  # the command, and nothing more
    assert (
        delivery.looks <= OUTBOX_SENDERS + 2 + 50 * 3
    )  # four outbox senders at each ring would be 250


def test_a_ring_while_all_are_busy_is_not_lost(
    delivery: CountingDelivery, outbox_senders: OutboxSenders
) -> None:
    delivery.put(*range(OUTBOX_SENDERS))
    outbox_senders.wake("10000")
    delivery.wait(lambda: delivery.under_way == OUTBOX_SENDERS)
    delivery.put(99)
    outbox_senders.wake("10000")
    delivery.gate.set()
    delivery.wait(lambda: len(delivery.delivered) == OUTBOX_SENDERS + 1)


def test_stopped_outbox_senders_end_and_take_nothing_more(
    delivery: CountingDelivery, outbox_senders: OutboxSenders
) -> None:
    delivery.gate.set()
    outbox_senders.wake("10000")
    outbox_senders.stop()
    delivery.put(1)
    outbox_senders.wake("10000")
    assert not delivery.delivered
    assert not [t for t in threading.enumerate() if t.name.startswith("outbox-sender-")]
