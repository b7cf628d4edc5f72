"""The union of several parties' values, from sums of marks alone: who has which is not shown.

Values are bytes. A search goes from the empty text on: each round asks how many parties have a
value that goes on with a byte, or ends, after each known beginning, and keeps those that somebody
has. It ends after as many rounds as the longest value has bytes, and two more.

The first round asks which bytes there are at all, so that later vectors are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

END: Final = 256  #: the mark of a value that ends
SYMBOLS: Final = 257  #: all bytes, and END
MAX_BYTES: Final = 128  #: of one value, so of rounds


@dataclass(frozen=True, kw_only=True, slots=True)
class Beginnings:
    """What one round asks about one column."""

    symbols: tuple[int, ...]  #: ascending; that can follow
    known: tuple[bytes, ...] = ()  #: beginnings of values; () = which symbols occur at all

    @property
    def size(self) -> int:
        """Return how many marks answer it."""
        return len(self.symbols) * max(1, len(self.known))


FIRST: Final = Beginnings(symbols=tuple(range(SYMBOLS)))


def marks_of(values: Sequence[bytes], asked: Beginnings) -> Ints:
    """Return 1 for each beginning and symbol that a value of this party goes on with, else 0."""
    place = {symbol: number for number, symbol in enumerate(asked.symbols)}
    if not asked.known:
        marks = np.zeros(len(asked.symbols), dtype=np.int64)
        marks[[place[s] for s in {b for value in values for b in value} if s in place]] = 1
        if values and END in place:
            marks[place[END]] = 1
        return marks
    marks = np.zeros((len(asked.known), len(asked.symbols)), dtype=np.int64)
    rows = {beginning: number for number, beginning in enumerate(asked.known)}
    length = len(asked.known[0])
    for value in values:
        row = rows.get(value[:length])
        if row is None or len(value) < length:
            continue
        symbol = END if len(value) == length else value[length]
        if symbol in place:
            marks[row, place[symbol]] = 1
    return marks.ravel()


@dataclass
class UnionSearch:
    """The search in one column, at the site that gets the sums."""

    most: int  #: values; with more of them the search ends as `too_many`
    values: list[bytes] = field(default_factory=list)  #: found so far
    asked: Beginnings | None = FIRST  #: None: the search has ended
    too_many: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return all of it but `most`, as a state of the search has it."""
        asked = self.asked and {
            "symbols": list(self.asked.symbols),
            "known": [beginning.hex() for beginning in self.asked.known],
        }
        return {"values": [value.hex() for value in self.values], "asked": asked}

    @staticmethod
    def of_json(value: Mapping[str, Any], *, most: int) -> UnionSearch:
        """Return what `to_json` gave."""
        asked = value["asked"] and Beginnings(
            symbols=tuple(value["asked"]["symbols"]),
            known=tuple(bytes.fromhex(beginning) for beginning in value["asked"]["known"]),
        )
        values = [bytes.fromhex(one) for one in value["values"]]
        return UnionSearch(most=most, values=values, asked=asked)

    def take(self, sums: Ints) -> None:
        """Go on with the sums of all parties' marks of `asked`."""
        asked = self.asked
        if asked is None:
            return
        seen = [symbol for symbol, total in zip(asked.symbols, sums, strict=False) if total > 0]
        if not asked.known:
            self.asked = Beginnings(symbols=tuple(seen), known=(b"",)) if seen else None
            return
        table = sums.reshape(len(asked.known), len(asked.symbols)) > 0
        longer: list[bytes] = []
        for beginning, follows in zip(asked.known, table, strict=True):
            for number in np.flatnonzero(follows):
                symbol = asked.symbols[number]
                if symbol == END:
                    self.values.append(beginning)
                else:
                    longer.append(beginning + bytes((symbol,)))
        self.too_many = len(self.values) + len(longer) > self.most
        ended = self.too_many or not longer or len(longer[0]) > MAX_BYTES
        self.asked = None if ended else Beginnings(symbols=asked.symbols, known=tuple(longer))
