"""What a component may send to other sites: the messages of its protocol, each with its content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Content(StrEnum):
    """What a message shows the site that gets it."""

    SETTINGS = "settings"  #: plans, flags, sizes, anonymous names of columns
    COUNTS = "counts"  #: how many rows, columns, classes
    KEY = "key"  #: a public key, a commitment, or the seed of masks
    CIPHERTEXT = "ciphertext"  #: encrypted; who gets it cannot open it
    SEALED = "sealed"  #: encrypted; only who gets it can open it
    MASKED = "masked"  #: shares and masked numbers, random to who has only one of them
    BLINDED_IDS = "blinded ids"  #: ids under secrets of one or more sites
    ROWS = "rows"  #: which rows, by their places or by a digest of their ids
    IDS = "ids"  #: ids in clear
    VALUES = "values"  #: a number or a cell per row, in clear
    STATISTICS = "statistics"  #: numbers over many rows, in clear
    MODEL = "model"  #: weights, updates or splits, in clear


@dataclass(frozen=True, slots=True)
class DeclaredMessage:
    """The messages of one name."""

    name: str  #: as it is sent
    content: Content  #: the word that shows most, if it may show more or less
    route: str  #: between which roles, for people: `host -> guest`
    value: str = ""  #: what is sent, for people


Protocol: TypeAlias = tuple[DeclaredMessage, ...]


def protocol(*parts: str | Protocol) -> Protocol:
    """Return the messages of a protocol, with those of the protocols that it includes.

    A text has a line `names | content | route | value` for each, commas between several names.

    Raises: ValueError: a line has no such content, or a name has different ones.
    """
    found: list[DeclaredMessage] = []
    for part in parts:
        found += _messages(part) if isinstance(part, str) else part
    _check_contents(found)
    return tuple(dict.fromkeys(found))


def names_of(messages: Protocol | None) -> frozenset[str] | None:
    """Return the names; None if nothing is declared, so that all may be sent."""
    return None if messages is None else frozenset(message.name for message in messages)


def _check_contents(messages: Iterable[DeclaredMessage]) -> None:
    """Raises: ValueError: a name has different contents."""
    found: dict[str, Content] = {}
    for message in messages:
        if found.setdefault(message.name, message.content) is not message.content:
            raise ValueError(f"the message {message.name} has different contents")


def _messages(text: str) -> Iterator[DeclaredMessage]:
    for line in text.strip().splitlines():
        names, content, route, value = (cell.strip() for cell in line.split("|", 3))
        for name in names.split(", "):
            yield DeclaredMessage(name, Content(content), route, value)
