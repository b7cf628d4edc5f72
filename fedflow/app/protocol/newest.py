"""The newest names of each party: what is noted for a party is bounded, and costs the others
nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

_PARTIES: Final = 256  #: whose names are remembered; the certificates of a federation are fewer


class Newest:
    """Remembers up to `kept` names per party, and tells which ones a further one pushes out.

    They go in groups, so that who deletes what they name does so seldom. What an earlier run of the
    server noted is not known.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._group = max(1, kept // 20)
        self._names: OrderedDict[str, deque[str]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, party: str, name: str) -> Sequence[str]:
        """Remember a name of a party; return its oldest ones, which are forgotten with it."""
        with self._lock:
            names = self._names.setdefault(party, deque())
            self._names.move_to_end(party)
            names.append(name)
            if len(self._names) > _PARTIES:
                self._names.popitem(last=False)
            if len(names) <= self._kept:
                return ()
            return [names.popleft() for _ in range(self._group)]
