"""All attacks, and those that still achieve something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.attack.attacks import Attack
from tests.attack.floods import FLOODS

ALL: Final[tuple[Attack, ...]] = (*FLOODS,)

KNOWN_GAPS: Final[Mapping[str, str]] = {
    "big-calls": "Decoding several large bodies leaves more than 64 MiB of freed memory behind.",
}
"""Attack -> why it still succeeds. The test of one that fails meanwhile says to remove it here."""
