"""Pages of long lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedflow.base.values import dataclass

MOST: Final = 10**6  #: the largest number of a page

_DIGITS: Final = 20  #: of numbers that are read


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPage:
    """One page of a list: its number from 1, how many entries a page has, how many there are."""

    number: int
    size: int
    count: int

    @property
    def last(self) -> int:
        """Return the number of the last page."""
        return max(1, -(-self.count // self.size))

    @property
    def nearest(self) -> ListPage:
        """Return this page, the last one if the list is shorter."""
        return replace(self, number=self.last) if self.number > self.last else self

    @property
    def first_entry(self) -> int:
        """Return the number of the first entry of this page, from 1; 0 of an empty list."""
        return min(self.count, (self.number - 1) * self.size + 1)

    @property
    def last_entry(self) -> int:
        """Return the number of the last entry of this page."""
        return min(self.count, self.number * self.size)

    @property
    def offset(self) -> int:
        """Return how many entries stand before this page."""
        return (self.number - 1) * self.size

    @property
    def near(self) -> list[int]:
        """Return the numbers of the pages to offer: the first, the last, and those around."""
        around = {1, self.last, *range(self.number - 2, self.number + 3)}
        return sorted(n for n in around if 1 <= n <= self.last)


def whole(text: str | None, default: int) -> int:
    """Return the whole number in an address, at most `MOST`; what is none is `default`."""
    if not (text and text.isascii() and text.isdigit()):
        return default
    return min(int(text), MOST) if len(text) <= _DIGITS else MOST


def number_of(text: str | None) -> int:
    """Return which page an address asks for; what is no number of a page is the first."""
    return max(1, whole(text, 1))


def page_of(text: str | None, *, size: int, count: int) -> ListPage:
    """Return the page that an address asks for, the nearest one that exists."""
    return ListPage(number=number_of(text), size=size, count=count).nearest
