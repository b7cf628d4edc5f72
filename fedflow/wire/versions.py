"""Which protocols two parties speak, and which one they have in common.

A protocol is the set of commands between parties (`wire/paths.py`) with their bodies. Each call
carries the range of its sender, and each answer that of its receiver: `<lowest>-<highest>
<product version>`, for example `1-2 0.4.0`. Who sends none is of protocol 1, which had no such
header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fedflow import __version__
from fedflow.base.values import dataclass

_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})(?: ([0-9A-Za-z.+-]{1,40}))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Speaks:
    """The protocols that a release speaks, both ends included, and which release it is."""

    lowest: int
    highest: int
    product: str = ""  #: version of fedflow, empty if it is not known

    @property
    def header(self) -> str:
        """Return this as calls and answers carry it."""
        return f"{self.lowest}-{self.highest} {self.product}".rstrip()

    def __str__(self) -> str:
        which = (
            f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest} to {self.highest}"
        )
        return f"protocol {which} (fedflow {self.product or 'of an unknown version'})"


OURS: Final = Speaks(lowest=1, highest=2, product=__version__)
BEFORE: Final = Speaks(lowest=1, highest=1)  #: a release that says nothing

SINCE: Final[Mapping[str, int]] = {
    "preflight": 2,
    "job_check": 2,
    "job_reuse": 2,
    "initiator_control": 2,
    "initiator_parameters": 2,
}
"""Commands that not every protocol in use has -> the first that has it."""


def read_speaks(text: str | None) -> Speaks:
    """Return what a header says; without one, or with one that cannot be read, `BEFORE`."""
    found = _RANGE.fullmatch(text or "")
    if found is None or int(found[1]) > int(found[2]):
        return BEFORE
    return Speaks(lowest=int(found[1]), highest=int(found[2]), product=found[3] or "")


def common(one: Speaks, other: Speaks) -> int | None:
    """Return the highest protocol that both speak, None if there is none."""
    highest = min(one.highest, other.highest)
    return highest if highest >= max(one.lowest, other.lowest) else None
