"""What a line of a log says: its level and time, and how it is shown to people.

Records of workers and of the server begin with `[LEVEL] [time in the server's zone]`; lines that
do not, such as those of a traceback, belong to the record before them.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from fedflow.base.values import dataclass

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
MASK: Final = "xxx.xxx.xxx.xxx"

_LEVEL: Final = r"\[({})\] "
_START: Final = re.compile(
    _LEVEL.format("|".join(LEVELS)) + r"(?:\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3})\] ?)?"
)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]?\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{0,39}:[0-9A-Fa-f:.]{0,39}(?![\w:])")
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B])")
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a record begins. `length` counts the characters before its text."""

    level: str
    at_ms: int | None
    length: int


def start_of(line: str) -> Start | None:
    """Return how a record begins, None if the line begins none."""
    found = _START.match(line)
    if found is None:
        return None
    at_ms = None if found[2] is None else _time_ms(found[2], int(found[3]))
    return Start(level=found[1], at_ms=at_ms, length=found.end())


def record_begin(levels: Iterable[str]) -> re.Pattern[bytes]:
    """Return what the end of a line and the beginning of a record with one of `levels` fit."""
    return re.compile(("\n" + _LEVEL.format("|".join(levels) or "(?!)")).encode())


def _time_ms(text: str, ms: int) -> int | None:
    """Return a time of the server's zone as milliseconds since the epoch."""
    second = _second(text)
    return None if second is None else second * 1000 + ms


@functools.lru_cache(maxsize=4096)
def _second(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def visible(text: str) -> str:
    """Return `text` without colours of terminals; what cannot be seen, or turns the direction of
    the text, is shown as its code.
    """
    return _UNSEEN.sub(_code, _ANSI.sub("", text))


def readable(text: str) -> str:
    """Return `text` as people may see it: addresses masked, everything visible."""
    return visible(mask_addresses(text))


def _code(found: re.Match[str]) -> str:
    return _code_of(found[0])


@functools.lru_cache(maxsize=4096)
def _code_of(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def mask_addresses(text: str) -> str:
    """Return `text` with the IP addresses in it replaced."""
    return _IPV6.sub(_masked_if_address, _IPV4.sub(MASK, text))


def _masked_if_address(found: re.Match[str]) -> str:
    text = found[0].rstrip(":.") if not found[0].endswith("::") else found[0]
    if text.count(":") < 2:
        return found[0]
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return found[0]
    return MASK + found[0][len(text) :] if len(text) > 2 else found[0]
