"""Counts and times of a serving process, as text for Prometheus.

Labels are names of services, versions, callers and parties, and return codes: never an id, a
feature or a score.
Source: Prometheus, "Exposition formats", version 0.0.4.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

BUCKETS_S: Final = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)
BUCKETS_ROWS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 300.0)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class LabelledCounts:
    """A counter with labels."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        self._head = (name, text)
        self._labels = labels
        self._lock = threading.Lock()
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str, number: int = 1) -> None:
        """Count."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + number

    def lines(self) -> Iterator[str]:
        """Yield the text for Prometheus."""
        name, text = self._head
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} counter"
        with self._lock:
            values = sorted(self._values.items())
        for labels, value in values:
            yield f"{name}{braces(self._labels, labels)} {value}"


class LabelledHistogram:
    """A histogram with labels."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> None:
        self._head = (name, text)
        self._labels = labels
        self._buckets = buckets
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value."""
        place = bisect_left(self._buckets, value)
        with self._lock:
            counts = self._counts.get(labels)
            if counts is None:
                counts = self._counts[labels] = [0] * (len(self._buckets) + 1)
                self._sums[labels] = 0.0
            counts[place] += 1
            self._sums[labels] += value

    def lines(self) -> Iterator[str]:
        """Yield the text for Prometheus."""
        name, text = self._head
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} histogram"
        with self._lock:
            found = [(key, list(one), self._sums[key]) for key, one in sorted(self._counts.items())]
        bounds = [f"{bound:g}" for bound in self._buckets] + ["+Inf"]
        for labels, counts, total in found:
            for bound, count in zip(bounds, accumulate(counts), strict=True):
                of_bound = braces((*self._labels, "le"), (*labels, bound))
                yield f"{name}_bucket{of_bound} {count}"
            of_all = braces(self._labels, labels)
            yield f"{name}_sum{of_all} {total!r}"
            yield f"{name}_count{of_all} {sum(counts)}"


class ServingMetrics:
    """What a serving process counts."""

    def __init__(self) -> None:
        by_version = ("service", "version")
        self.requests = LabelledCounts(
            "fedflow_serving_requests_total", "Requests.", (*by_version, "kind", "caller")
        )
        self.rows = LabelledCounts(
            "fedflow_serving_rows_total", "Rows.", (*by_version, "retcode", "caller")
        )
        self.degraded = LabelledCounts(
            "fedflow_serving_degraded_rows_total",
            "Rows with a score that came about without a host.",
            (*by_version, "how"),
        )
        self.latency = LabelledHistogram(
            "fedflow_serving_request_seconds", "Time to answer a caller.", by_version, BUCKETS_S
        )
        self.joined = LabelledHistogram(
            "fedflow_serving_joined_rows", "Rows that are scored together.", (), BUCKETS_ROWS
        )
        self.partner_latency = LabelledHistogram(
            "fedflow_serving_partner_seconds", "Time until a host answers.", ("party",), BUCKETS_S
        )
        self.partner_answers = LabelledCounts(
            "fedflow_serving_partner_answers_total",
            "Answers of hosts by return code.",
            ("party", "retcode"),
        )
        self.partner_rows = LabelledCounts(
            "fedflow_serving_served_rows_total",
            "Rows asked for by guests, by return code.",
            ("party", "retcode"),
        )
        self.cache_lookups = LabelledCounts(
            "fedflow_serving_cache_lookups_total",
            "Values looked up in caches: hit, stale or miss.",
            ("level", "outcome"),
        )
        self.cache_evictions = LabelledCounts(
            "fedflow_serving_cache_evictions_total",
            "Values that went before their time, for others.",
            ("level",),
        )
        self.cache_errors = LabelledCounts(
            "fedflow_serving_cache_errors_total",
            "Calls of the shared cache that failed.",
            ("kind", "call"),
        )

    def text(self, *, loaded: int, refused: int, services: int) -> bytes:
        """Return all of it; the numbers are those of models and services now."""
        lines: list[str] = []
        for name, value in (
            ("models", loaded),
            ("refused_models", refused),
            ("services", services),
        ):
            lines += [f"# TYPE fedflow_serving_{name} gauge", f"fedflow_serving_{name} {value}"]
        for family in vars(self).values():
            lines += family.lines()
        return ("\n".join(lines) + "\n").encode()


def braces(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return labels as text for Prometheus."""
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
