"""Who may call whom over an exchange: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedflow.base.values import dataclass

DIAL_IN: Final = "dial-in"  #: in place of the address of a party that cannot be called


@dataclass(frozen=True, kw_only=True, slots=True)
class Parties:
    """The parties of an exchange, and which of them may call each other."""

    known: frozenset[str]
    pairs: frozenset[frozenset[str]] | None = None  #: None: all

    def refusal(self, source: str, destination: str) -> str | None:
        """Return why a call is refused, None if it is not."""
        if source not in self.known:
            return "your party is not known here"
        if destination not in self.known or destination == source:
            return f"party {destination[:64]} is not behind this exchange"
        if self.pairs is not None and frozenset((source, destination)) not in self.pairs:
            return f"parties {source} and {destination} may not call each other"
        return None


def parties_of(known: Iterable[str], pairs: Iterable[tuple[str, str]] | None) -> Parties:
    """Return the parties that settings name."""
    allowed = None if pairs is None else frozenset(frozenset(pair) for pair in pairs)
    return Parties(known=frozenset(known), pairs=allowed)
