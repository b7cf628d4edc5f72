"""How the versions of a service compare: scores, errors, time; no row and no id is kept.

Scores are counted in ten bins that the first `LEARNED` scores of the service give, whatever version
they are of. The distance of a version's scores from those of the main one is the population
stability index, as for drift. A shadow scores the very rows that another version answered, so
beside that stand the mean difference of both scores and how often the labels differ.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.serving.codes import ItemAnswer
from fedflow.serving.drift import stability_index
from fedflow.serving.metrics import BUCKETS_S
from fedflow.serving.services.releases import Version

LEARNED: Final = 256  #: scores that give the bins
BINS: Final = 10


class _Record:
    """What is counted of one version."""

    def __init__(self) -> None:
        self.rows = self.errors = self.requests = 0
        self.seconds = np.zeros(len(BUCKETS_S) + 1, np.int64)
        self.scores = np.zeros(BINS, np.int64)
        self.total = 0.0
        self.pairs = self.labels_differ = 0
        self.difference = 0.0


class VersionComparison:
    """Counts what versions of one service answer. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[Version, _Record] = {}
        self._first: list[tuple[Version, float]] = []
        self._edges: NDArray[np.float64] | None = None

    def count(
        self,
        version: Version,
        items: Sequence[ItemAnswer],
        took_s: float,
        *,
        answered: Sequence[ItemAnswer] | None = None,
    ) -> None:
        """Count a request; `answered` are the answers of the other version, if this is a shadow."""
        scores = [
            float(one.score)
            for one in items
            if one.score is not None and one.degraded is None and not isinstance(one.score, list)
        ]
        with self._lock:
            record = self._records.setdefault(version, _Record())
            record.requests += 1
            record.rows += len(items)
            record.errors += sum(1 for one in items if one.retcode)
            record.seconds[np.searchsorted(BUCKETS_S, took_s)] += 1
            record.total += sum(scores)
            self._count_scores(version, scores)
            if answered is not None:
                _count_pairs(record, items, answered)

    def shown(self, main: Version, weights: dict[Version, str]) -> list[dict[str, Any]]:
        """Return the versions with what was counted; `weights` are their parts of the service."""
        with self._lock:
            base = self._records.get(main, _Record())
            names = [*weights, *(one for one in self._records if one not in weights)]
            return [
                _shown(name, self._records.get(name, _Record()), base, weights.get(name, "gone"))
                for name in names
            ]

    def _count_scores(self, version: Version, scores: Sequence[float]) -> None:
        if self._edges is not None:
            self._put(version, scores)
            return
        self._first += [(version, score) for score in scores]
        if len(self._first) >= LEARNED:
            values = np.array([score for _, score in self._first])
            self._edges = np.quantile(values, np.arange(1, BINS) / BINS)
            for name, score in self._first:
                self._put(name, [score])
            self._first = []

    def _put(self, version: Version, scores: Sequence[float]) -> None:
        bins = np.searchsorted(self._edges, scores)  # type: ignore[arg-type]  # they are known
        self._records[version].scores += np.bincount(bins, minlength=BINS)


def _count_pairs(
    record: _Record, items: Sequence[ItemAnswer], answered: Sequence[ItemAnswer]
) -> None:
    for own, other in zip(items, answered, strict=True):
        pair = own.score, other.score
        if isinstance(pair[0], float) and isinstance(pair[1], float) and other.degraded is None:
            record.pairs += 1
            record.difference += abs(pair[0] - pair[1])
            record.labels_differ += own.label != other.label


def _shown(version: Version, record: _Record, base: _Record, weight: str) -> dict[str, Any]:
    good = record.rows - record.errors
    counted = bool(record.scores.sum() and base.scores.sum())
    psi = float(stability_index(base.scores[None], record.scores[None])[0]) if counted else None
    return {
        "model_id": version[0],
        "model_version": version[1],
        "part": weight,
        "requests": record.requests,
        "rows": record.rows,
        "errors": record.errors,
        "mean_score": record.total / good if good else None,
        "psi": psi,
        "p50_s": _quantile(record, 0.5),
        "p95_s": _quantile(record, 0.95),
        "compared_rows": record.pairs,
        "mean_difference": record.difference / record.pairs if record.pairs else None,
        "labels_differ": record.labels_differ / record.pairs if record.pairs else None,
    }


def _quantile(record: _Record, of: float) -> float | None:
    """Return the upper limit of the bin of a quantile, seconds; None: none, or above the last."""
    if not record.requests:
        return None
    place = int(np.searchsorted(np.cumsum(record.seconds), of * record.requests))
    return BUCKETS_S[place] if place < len(BUCKETS_S) else None
