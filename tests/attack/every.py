"""All attacks, and those that still achieve something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.attack.attacks import Attack
from tests.attack.floods import FLOODS
from tests.attack.rights import RIGHTS

ALL: Final[tuple[Attack, ...]] = (*FLOODS, *RIGHTS)

KNOWN_GAPS: Final[Mapping[str, str]] = {
    "big-calls": "Decoding several large bodies leaves more than 64 MiB of freed memory behind.",
    "job-documents": "Decoding several large confs leaves more than 64 MiB of freed memory behind.",
    "table-probe": "Whoever has a certificate may ask which results a job may take over.",
    "stranger-job": "A route is no list of partners: who needs none may start jobs.",
}
"""Attack -> why it still succeeds. The test of one that fails meanwhile says to remove it here."""
