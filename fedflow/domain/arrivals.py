"""What a receive from whoever sends next returns; re-exported by `fedflow.sdk`."""

from __future__ import annotations

from typing import Any

from fedflow.base.values import dataclass
from fedflow.domain.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """A value that `Federation.recv_any` received."""

    site: Site  #: who sent it
    tag: str  #: under which it was sent
    value: Any  #: arrays are read-only
    is_nothing: bool = False  #: the sender said that no value comes: `send_nothing`


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """A site whose run of the component has ended, or is gone; it may return."""

    site: Site  #: who has ended
    reason: str  #: a sentence for people
