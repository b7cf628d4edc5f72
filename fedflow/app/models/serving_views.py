"""What a party's serving processes say of themselves, and how fast requests come.

Processes are asked at most every `FRESH_S`, however many people look. Of each look the counts of
requests are kept for two minutes: requests per minute are the difference to the oldest of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from fedflow.app.ports.serving import ServingProcessState, ServingServers
from fedflow.base.clock import Clock
from fedflow.base.values import dataclass

FRESH_S: Final = 2.0
LEAST_S: Final = 5.0  #: between two counts that tell how fast requests come
KEPT_S: Final = 120.0

_REQUESTS: Final = "fedflow_serving_requests_total"

Counts = Mapping[tuple[str, str], float]  #: address and service -> requests since the start


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingOverview:
    """All serving processes of this party now."""

    processes: Sequence[ServingProcessState]
    per_minute: Mapping[str, float]  #: service -> requests; empty: nobody looked before


class ServingViews:
    """The use case of the board's page of serving. Thread-safe."""

    def __init__(self, *, servings: ServingServers | None, clock: Clock) -> None:
        """`servings` are those of this server's party; None: the settings name none."""
        self._servings = servings
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, Counts]] = deque()
        self._last: tuple[float, ServingOverview] | None = None

    def overview(self, *, now: bool = False) -> ServingOverview | None:
        """Return how the processes are; None: this party has none. `now`: after a change."""
        if self._servings is None:
            return None
        with self._lock:
            if self._last is not None and not now:
                at_s, known = self._last
                if self._clock.monotonic_s() - at_s < FRESH_S:
                    return known
            found = self._servings.states()
            at_s = self._clock.monotonic_s()
            counts = _counts(found)
            made = ServingOverview(processes=found, per_minute=self._rates(at_s, counts))
            self._seen.append((at_s, counts))
            self._last = (at_s, made)
            return made

    def _rates(self, at_s: float, counts: Counts) -> dict[str, float]:
        while self._seen and at_s - self._seen[0][0] > KEPT_S:
            self._seen.popleft()
        if not self._seen or at_s - self._seen[0][0] < LEAST_S:
            return {}
        before_s, before = self._seen[0]
        found: dict[str, float] = {}
        for (address, service), count in counts.items():
            more = count - before.get((address, service), 0.0)
            more = count if more < 0 else more  # the process was started anew
            found[service] = found.get(service, 0.0) + more * 60 / (at_s - before_s)
        return found


def _counts(processes: Sequence[ServingProcessState]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for process in processes:
        for sample in process.samples:
            if sample.name == _REQUESTS:
                key = (process.address, sample.labels.get("service", ""))
                found[key] = found.get(key, 0.0) + sample.value
    return found
