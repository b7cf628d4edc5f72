"""Counts and times of all serving processes together, as the page of serving shows them.

Times are quantiles of histograms, interpolated within a bin: they are since each process started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Final

from fedflow.app.ports.serving import ServingProcessState
from fedflow.base.values import dataclass

PREFIX: Final = "fedflow_serving_"
SUCCESS: Final = "0"  #: the return code of an answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """How long something took, in milliseconds; None: it did not happen."""

    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeCount:
    """How many rows were answered with a return code."""

    code: str
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheRow:
    """How one level of caches is used."""

    level: str
    lookups: int
    hits: int
    stale: int

    @property
    def share(self) -> float | None:
        """Return the share of hits, None if nothing was looked up."""
        return self.hits / self.lookups if self.lookups else None


class ServingNumbers:
    """The samples of all processes, summed up when they are asked for."""

    def __init__(self, processes: Iterable[ServingProcessState]) -> None:
        self._by_name: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for process in processes:
            for sample in process.samples:
                self._by_name[sample.name].append((sample.labels, sample.value))

    def by(self, name: str, label: str, **of: str) -> dict[str, float]:
        """Return the sums of a count by one label, of those samples that have the labels `of`."""
        found: dict[str, float] = defaultdict(float)
        for labels, value in self._by_name.get(PREFIX + name, ()):
            if all(labels.get(key) == one for key, one in of.items()) and isfinite(value):
                found[labels.get(label, "")] += value
        return dict(found)

    def codes(self, name: str, **of: str) -> list[CodeCount]:
        """Return how many rows were answered with each return code, the most frequent first."""
        found = self.by(name, "retcode", **of)
        counts = [CodeCount(code=code, rows=round(rows)) for code, rows in found.items()]
        return sorted(counts, key=lambda one: (-one.rows, one.code))

    def times(self, name: str, **of: str) -> Times:
        """Return the quantiles of a histogram of seconds."""
        counts: dict[float, float] = defaultdict(float)
        for bound, count in self.by(f"{name}_bucket", "le", **of).items():
            counts[inf if bound == "+Inf" else _number(bound)] += count
        bins = sorted(counts.items())
        return Times(p50_ms=_quantile_ms(bins, 0.5), p95_ms=_quantile_ms(bins, 0.95))

    def caches(self) -> list[CacheRow]:
        """Return how each level of caches is used; none: there are no caches."""
        levels = self.by("cache_lookups_total", "level")
        found = []
        for level in sorted(levels):
            outcomes = self.by("cache_lookups_total", "outcome", level=level)
            hits, stale = outcomes.get("hit", 0.0), outcomes.get("stale", 0.0)
            lookups = outcomes.get("miss", 0.0) + hits
            found.append(
                CacheRow(level=level, lookups=round(lookups), hits=round(hits), stale=round(stale))
            )
        return found


def _quantile_ms(bins: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return a quantile of cumulative counts by upper bound; the last finite bound at most."""
    total = bins[-1][1] if bins else 0.0
    if total <= 0:
        return None
    wanted, below_s, below = share * total, 0.0, 0.0
    for bound_s, count in bins:
        if count >= wanted:
            if not isfinite(bound_s):
                return below_s * 1000
            part = (wanted - below) / (count - below) if count > below else 1.0
            return (below_s + (bound_s - below_s) * part) * 1000
        below_s, below = bound_s, count
    return below_s * 1000


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return inf
