"""The threads that send the commands of the outbox: some for each party that commands wait for."""

from __future__ import annotations

import threading
from typing import Final

from fedflow.app.initiator.delivery import Delivery
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.server.loops import Loop

OUTBOX_SENDERS: Final = 4  #: commands to one party that may be under way at once


class _Bell:
    """Wakes one of the outbox senders of a party; a ring that nobody waits for is kept."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung = False
        self._closed = False

    def ring(self) -> None:
        """Wake one outbox sender, or the next that wants to wait."""
        with self._condition:
            self._rung = True
            self._condition.notify()

    def close(self) -> None:
        """Wake every outbox sender, and let none wait again."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def wait(self, timeout_s: float | None) -> None:
        """Return at a ring or after `timeout_s` seconds, None: at a ring only."""
        with self._condition:
            if not self._rung and not self._closed:
                self._condition.wait(timeout_s)
            self._rung = False


class _OutboxSender(Loop):
    """Delivers commands to one party, one after the other; its colleagues do the same beside it.

    A ring wakes one of them, who calls a colleague only if it sees more than it can take itself.
    """

    def __init__(
        self, party_id: str, number: int, *, bell: _Bell, delivery: Delivery, clock: Clock
    ) -> None:
        super().__init__(f"outbox-sender-{party_id}-{number}")
        self._party_id = party_id
        self._bell = bell
        self._delivery = delivery
        self._clock = clock

    def stop(self) -> None:
        super().stop()
        self._bell.close()

    def _body(self) -> None:
        while not self._stop.is_set():
            command = self._delivery.take(self._party_id)
            if command is None:
                break
            if self._delivery.has_more(self._party_id):
                self._bell.ring()
            self._delivery.settle(command, self._delivery.deliver(command))
        self._bell.wait(self._wait_s())

    def _wait_s(self) -> float | None:
        due_ms = self._delivery.next_due_ms(self._party_id)
        if due_ms is None:
            return None
        return max(0.01, (due_ms - self._clock.now_ms()) / 1000)


class OutboxSenders:
    """The outbox senders of all parties; a party gets its outbox senders with its first command."""

    def __init__(self, *, delivery: Delivery, store: Store, clock: Clock) -> None:
        self._delivery = delivery
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._bells: dict[str, _Bell] = {}
        self._outbox_senders: dict[str, list[_OutboxSender]] = {}  #: those that were started
        self._recovered = False
        self._stopped = False

    def look(self) -> None:
        """Start anew who is gone; wake an outbox sender of every party that commands wait for.

        The first look lets all be due that an earlier server left in the outbox. Raises:
        StoreUnavailable.
        """
        with self._lock:
            for outbox_sender in self._all():
                outbox_sender.start()
        if not self._recovered:
            self._delivery.recover()
            self._recovered = True
        with self._store.read() as tx:
            waiting = tx.outbox.destinations()
        for party_id in waiting:
            self.wake(party_id)

    def wake(self, party_id: str) -> None:
        """Tell a party's outbox senders that commands wait: one of them wakes."""
        with self._lock:
            if self._stopped:
                return
            bell = self._bells.get(party_id)
            if bell is None:
                bell = self._bells[party_id] = _Bell()
                self._outbox_senders[party_id] = []
            employed = self._outbox_senders[party_id]
            if len(employed) < OUTBOX_SENDERS:
                self._employ(party_id, bell, employed)
        bell.ring()

    def _employ(self, party_id: str, bell: _Bell, employed: list[_OutboxSender]) -> None:
        """Start those who are missing; as many as the system has threads for now."""
        for number in range(len(employed), OUTBOX_SENDERS):
            outbox_sender = _OutboxSender(
                party_id, number, bell=bell, delivery=self._delivery, clock=self._clock
            )
            if not outbox_sender.start():
                return
            employed.append(outbox_sender)

    def _all(self) -> list[_OutboxSender]:
        return [one for employed in self._outbox_senders.values() for one in employed]

    def faults(self) -> list[str]:
        """Return whose commands have nobody who sends them."""
        with self._lock:
            working = {
                party_id: sum(not one.fault() for one in employed)
                for party_id, employed in self._outbox_senders.items()
            }
        return [
            f"outbox senders: nobody sends the commands to party {party_id}"
            for party_id, count in working.items()
            if count == 0
        ]

    def stop(self) -> None:
        """Ask every outbox sender to end after the call that is under way."""
        with self._lock:
            self._stopped = True
        for outbox_sender in self._all():
            outbox_sender.stop()
        for outbox_sender in self._all():
            outbox_sender.join()
