"""All attacks, and those that still achieve something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.attack.arbiter import ARBITERS
from tests.attack.attacks import Attack
from tests.attack.floods import FLOODS
from tests.attack.grammar import GRAMMAR
from tests.attack.replays import REPLAYS
from tests.attack.rights import RIGHTS
from tests.attack.sentences import SENTENCES
from tests.attack.servers import SERVERS
from tests.attack.signatures import SIGNATURES
from tests.attack.values import VALUES
from tests.attack.web import WEB

ALL: Final[tuple[Attack, ...]] = (
    *FLOODS,
    *VALUES,
    *RIGHTS,
    *SENTENCES,
    *REPLAYS,
    *ARBITERS,
    *GRAMMAR,
    *WEB,
    *SIGNATURES,
    *SERVERS,
)

KNOWN_GAPS: Final[Mapping[str, str]] = {}
"""Attack -> why it still succeeds. The test of one that fails meanwhile says to remove it here."""
