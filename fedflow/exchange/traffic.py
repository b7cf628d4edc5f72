"""How much each pair of parties sent: what an exchange knows of its calls."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass


@dataclass(kw_only=True, slots=True)
class PairTraffic:
    """What went from one party's calls to another, since the start."""

    calls: int = 0
    refused: int = 0  #: by the exchange itself
    failed: int = 0  #: the called party did not answer, or its line broke
    open: int = 0  #: under way now
    bytes_up: int = 0  #: from who calls to who answers
    bytes_down: int = 0  #: back


class RelayTraffic:
    """Counts by pair of parties; written on the event loop, read by other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: defaultdict[tuple[str, str], PairTraffic] = defaultdict(PairTraffic)

    def of(self, source: str, destination: str) -> PairTraffic:
        """Return the counts of a pair, to be changed."""
        with self._lock:
            return self._of[source, destination]

    def as_json(self) -> list[dict[str, str | int]]:
        """Return all counts."""
        with self._lock:
            found = sorted(self._of.items())
        return [
            {"source": source, "destination": destination, **asdict(counts)}
            for (source, destination), counts in found
        ]

    def as_metrics(self) -> Iterator[str]:
        """Yield the lines of `/metrics`. Source: Prometheus, "Exposition formats", 0.0.4."""
        rows = self.as_json()
        for name, (kind, unit) in _METRICS.items():
            yield f"# TYPE {unit} {kind}\n"
            for row in rows:
                labels = f'source="{row["source"]}",destination="{row["destination"]}"'
                yield f"{unit}{{{labels}}} {row[name]}\n"


_METRICS = {
    "calls": ("counter", "fedflow_exchange_calls_total"),
    "refused": ("counter", "fedflow_exchange_refused_calls_total"),
    "failed": ("counter", "fedflow_exchange_failed_calls_total"),
    "open": ("gauge", "fedflow_exchange_open_calls"),
    "bytes_up": ("counter", "fedflow_exchange_sent_bytes_total"),
    "bytes_down": ("counter", "fedflow_exchange_answered_bytes_total"),
}
