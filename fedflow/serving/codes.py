"""FATE-Serving's return codes, and the answer to one row of a request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from fedflow.base.values import dataclass

OF_HOST: Final = 2_000  #: added to the code of what failed at a host, or on the way to it


class ServingCode(IntEnum):
    """What came of a request, or of one of its rows."""

    SUCCESS = 0
    PARAMETERS = 100  #: the request cannot be read, or something misses in it
    FEATURES = 102  #: features that cannot be used
    NO_MODEL = 104
    NETWORK = 105
    ROUTING = 106
    MERGE = 108
    SYSTEM = 110
    SHUTTING_DOWN = 111
    NO_FEATURES = 113  #: a host has no features for an id
    SOURCE = 116  #: a feature source failed
    AUTHORISATION = 121
    NO_SERVICE = 122
    OVERLOAD = 124
    TOKEN = 127
    BAD_RESPONSE = 135
    HOOK = 140  #: a hook of the service failed, or refuses the row
    HOOK_LATE = 141  #: a hook exceeded its time limit, or is off as it did so several times


@dataclass(frozen=True, kw_only=True, slots=True)
class Degraded:
    """How a score came about although a host gave no part."""

    how: str  #: guest_only, cached_stale or default_score
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemAnswer:
    """The answer to one row: a score, or a return code and a sentence."""

    retcode: int = ServingCode.SUCCESS
    message: str = ""
    score: float | list[float] | None = None  #: a list has one value per class
    label: str | int | float | None = None
    credit_score: float | None = None  #: of a scorecard
    degraded: Degraded | None = None
    more: Mapping[str, object] | None = None  #: further members of the answer, from hooks


def failed(code: int, message: str) -> ItemAnswer:
    """Return the answer to a row that has no score."""
    return ItemAnswer(retcode=int(code), message=message)


def failed_at_host(party_id: str, code: int, message: str) -> ItemAnswer:
    """Return the answer to a row for which a host has no part."""
    text = f"host {party_id} return code {int(code)}, host {party_id} msg: {message}"
    return failed(OF_HOST + int(code), text)


def is_partners_fault(item: ItemAnswer) -> bool:
    """Tell whether a row has no score because of a host, or of the way to it."""
    return item.retcode >= OF_HOST or item.retcode in (ServingCode.NETWORK, ServingCode.ROUTING)
