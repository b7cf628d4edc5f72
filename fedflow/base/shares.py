"""An amount that all parties use together, and of which no party can take everything."""

from __future__ import annotations

from typing import Final

FACTOR: Final = 3  #: a party may use so many times what is left over


def share_of_one(limit: int) -> int:
    """Return how much of a limit a party may use when no other uses anything."""
    return limit * FACTOR // (FACTOR + 1)


class Shares:
    """Counts who uses how much of a limit: calls, bytes, streams. Belongs to one thread.

    A party may use at most three times what is left for the others. So a party alone gets three
    quarters of the limit, two greedy ones three sevenths each, and something is left. A party that
    uses nothing is refused only if it would pass the limit itself. Source: Choudhury,
    Hahne 1998, "Dynamic queue length thresholds for shared-memory packet switches".
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0  #: used by all parties
        self._used: dict[str, int] = {}

    def used(self, party: str) -> int:
        """Return how much a party uses."""
        return self._used.get(party, 0)

    def fits(self, party: str, amount: int = 1) -> bool:
        """Tell whether a party may use `amount` more."""
        left = self.limit - self.total - amount
        own = self.used(party)
        return left >= 0 and (own <= 0 or own + amount <= FACTOR * left)

    def take(self, party: str, amount: int = 1) -> bool:
        """Count `amount` as used by a party; False, and nothing is counted: it is too much."""
        if not self.fits(party, amount):
            return False
        self.add(party, amount)
        return True

    def add(self, party: str, amount: int = 1) -> None:
        """Count `amount` as used by a party, even if it is too much."""
        self._used[party] = self.used(party) + amount
        self.total += amount

    def give_back(self, party: str, amount: int = 1) -> None:
        """Count `amount` as free again; a party that uses nothing is forgotten."""
        left = self.used(party) - amount
        if left > 0:
            self._used[party] = left
        else:
            self._used.pop(party, None)
        self.total -= amount
