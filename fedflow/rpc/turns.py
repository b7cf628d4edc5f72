"""Shares of a limit for which callers of the gRPC port wait."""

from __future__ import annotations

import asyncio
from collections import deque

from fedflow.base.shares import Shares


class Turns:
    """A limit for which parties wait until their share has room. Belongs to one event loop.

    Who waits holds up nobody of another party; those of one party get it in their order.
    """

    def __init__(self, limit: int) -> None:
        self._shares = Shares(limit)
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def take(self, party: str, amount: int = 1) -> None:
        """Count `amount` as used by a party, once its share has room."""
        if self.take_at_once(party, amount):
            return
        waiting = (amount, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(party, deque()).append(waiting)
        try:
            await waiting[1]
        except asyncio.CancelledError:
            if waiting[1].cancelled():
                self._remove(party, waiting)
                self._serve()  # those behind it may want less
            else:
                self.give_back(party, amount)
            raise

    def take_at_once(self, party: str, amount: int = 1) -> bool:
        """Count `amount` as used by a party if nothing of it waits and its share has room."""
        return party not in self._waiting and self._shares.take(party, amount)

    def give_back(self, party: str, amount: int = 1) -> None:
        """Count `amount` as free again, for whoever waits."""
        self._shares.give_back(party, amount)
        self._serve()

    def _serve(self) -> None:
        served = bool(self._waiting)
        while served:
            served = False
            for party, queue in list(self._waiting.items()):
                amount, turn = queue[0]
                if not turn.done() and self._shares.take(party, amount):
                    self._remove(party, queue[0])
                    turn.set_result(None)
                    served = True

    def _remove(self, party: str, waiting: tuple[int, asyncio.Future[None]]) -> None:
        """Forget one that waits; the next ones of its party come after those of others."""
        queue = self._waiting.pop(party)
        queue.remove(waiting)
        if queue:
            self._waiting[party] = queue
