"""How far features and scores of a loaded version are from those of its training.

Values are counted in bins, by column, when they pass; no row, id or value is kept. The measure is
the population stability index of a column, over the bins of its reference and one for missing
values:

    PSI = sum over bins of (a - e) * ln(a / e)

`e` is the share of the reference in a bin, `a` that of the newest rows; a share counts as at least
`FLOOR`. The reference comes with the share. Without one, the first `LEARNED` rows become it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from fedflow.base.values import dataclass
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.load_state import VersionKey
from fedflow.serving.metrics import braces
from fedflow.serving.online import ServableModel
from fedflow.wire.deployed_model import ColumnHistogram, ReferenceHistograms

BINS: Final = 10  #: of a reference, by quantiles
FLOOR: Final = 1e-4
WINDOW: Final = 10_000  #: rows; the PSI is of the newest one to two windows
LEARNED: Final = 1_000  #: rows
LEAST: Final = 500  #: rows before a PSI is told: with fewer, chance alone gives a large one
MOST_COLUMNS: Final = 200
SAMPLED: Final = 32  #: rows of a batch whose features are counted
SHIFTING, SHIFTED = 0.1, 0.25  #: usual limits, see docs/serving.md

_SHARED_BITS: Final = np.uint64(
    42
)  #: of a number's 64, which values counted together may differ in

_FIRST: Final = f"the first {LEARNED} rows"
_NOTHING: Final = ReferenceHistograms(source="")

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Kind = Literal["feature", "score"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnDrift:
    """How one column stands."""

    kind: Kind
    column: str
    rows: int  #: that were counted; while the reference is learned, those of it
    psi: float | None  #: None: too few rows
    is_learned: bool  #: its reference are the first rows
    edges: Sequence[float] = ()
    expected: Sequence[float] = ()  #: shares of the bins, the last one of missing values
    actual: Sequence[float] = ()

    @property
    def word(self) -> str:
        """Return what the PSI means."""
        if self.psi is None:
            return "unknown"
        return "stable" if self.psi < SHIFTING else "shifting" if self.psi < SHIFTED else "shifted"


class VersionDrift:
    """Counts the rows of one version at one party. Thread-safe."""

    def __init__(
        self,
        inputs: Sequence[str],
        texts: frozenset[str],
        *,
        scores: Sequence[str],
        reference: ReferenceHistograms | None,
        learned: ReferenceHistograms | None = None,
        keep: Callable[[ReferenceHistograms], None] | None = None,
    ) -> None:
        """`inputs` are the columns of rows, `texts` those of text, `scores` the names of scores.

        `learned` is what `keep` was given before.
        """
        self.source = reference.source if reference is not None else ""
        known, before = reference or _NOTHING, learned or _NOTHING
        self._keep = keep
        numbers = {name: n for n, name in enumerate(inputs) if name not in texts}
        chosen = dict(list(numbers.items())[:MOST_COLUMNS])
        self.left_out = len(numbers) - len(chosen)
        named = {name: n for n, name in enumerate(scores[:MOST_COLUMNS])}
        self._features = _tables("feature", chosen, known.features, before.features)
        self._scores = _tables("score", named, known.scores, before.scores)
        self._width = len(inputs)
        self._lock, self._keeping = threading.Lock(), threading.Lock()

    def count(self, features: Floats, answers: Sequence[ItemAnswer] = ()) -> None:
        """Count rows x inputs, of many rows some, and the scores of those answers that have one.

        A score that came about without a host is none of the model's, and is left out.
        """
        rows = len(features)
        scores = [
            one.score
            for one in answers
            if not one.retcode and one.score is not None and one.degraded is None
        ]
        with self._lock:
            new = False
            if rows and features.shape[1] >= self._width:  # columns of one value are behind
                sample = features[:: -(-rows // SAMPLED)]
                for table in self._features:
                    new |= table.count(sample)
            if scores:
                values = np.array(scores, dtype=np.float64).reshape(len(scores), -1)
                for table in self._scores:
                    new |= table.count(values)
        if new and self._keep is not None:
            with self._keeping:  # so that the newest is kept last
                with self._lock:
                    learned = self._learned()
                self._keep(learned)

    def _learned(self) -> ReferenceHistograms:
        """Return the references that the first rows gave so far."""
        features, scores = (
            {name: one for table in tables if table.is_learned for name, one in table.reference()}
            for tables in (self._features, self._scores)
        )
        return ReferenceHistograms(source=_FIRST, features=features, scores=scores)

    def columns(self) -> list[ColumnDrift]:
        """Return how each column stands, scores first."""
        with self._lock:
            return [one for table in (*self._scores, *self._features) for one in table.drifts()]

    def shown(self) -> dict[str, Any]:
        """Return what the admin port answers."""
        return {
            "left_out": self.left_out,
            "columns": [
                {
                    "kind": one.kind,
                    "column": one.column,
                    "rows": one.rows,
                    "psi": one.psi,
                    "state": one.word,
                    "reference": _FIRST if one.is_learned else self.source,
                    "edges": one.edges,
                    "expected": one.expected,
                    "actual": one.actual,
                }
                for one in self.columns()
            ],
        }


def drift_of(
    model: ServableModel,
    reference: ReferenceHistograms | None,
    *,
    learned: ReferenceHistograms | None = None,
    keep: Callable[[ReferenceHistograms], None] | None = None,
) -> VersionDrift:
    """Return the counts of a version: of features, and of scores where they are computed."""
    labels = model.labels
    scores = [f"score:{label}" for label in labels] if len(labels) > 2 else ["score"]
    return VersionDrift(
        model.inputs,
        model.text_inputs,
        scores=[] if model.role == "host" and not model.scores_alone else scores,
        reference=reference,
        learned=learned,
        keep=keep,
    )


def drift_answer(loaded: Sequence[tuple[VersionKey, VersionDrift]]) -> list[dict[str, Any]]:
    """Return the answer of `GET /admin/v1/drift`."""
    return [
        {
            "role": key.role,
            "party_id": key.party_id,
            "model_id": key.model_id,
            "model_version": key.model_version,
            **drift.shown(),
        }
        for key, drift in loaded
    ]


def drift_lines(loaded: Sequence[tuple[VersionKey, VersionDrift]]) -> Iterator[str]:
    """Yield a gauge per version and column that has a PSI, as text for Prometheus."""
    name = "fedflow_serving_psi"
    yield f"# HELP {name} Population stability index of a column."
    yield f"# TYPE {name} gauge"
    for key, drift in loaded:
        for one in drift.columns():
            if one.psi is not None:
                labels = (key.party_model_id, key.model_version, one.kind, one.column)
                yield f"{name}{braces(('model', 'version', 'kind', 'column'), labels)} {one.psi!r}"


# --- counts ---------------------------------------------------------------------------------------


class _CountedColumns:
    """Columns of one kind whose counts begin and end together."""

    def __init__(
        self,
        kind: Kind,
        places: Mapping[str, int],
        known: Mapping[str, ColumnHistogram] | None,
        *,
        is_learned: bool,
    ) -> None:
        """`places` are where columns are in rows; `known` None: the first rows tell."""
        self._kind, self._names = kind, list(places)
        self.is_learned = is_learned
        self._places = np.array(list(places.values()), dtype=np.intp)
        self._learned: list[Counter[int]] | None = None
        self._reference: list[ColumnHistogram] = []
        if known is None:
            self._learned = [Counter() for _ in places]
            self._seen = 0
        else:
            self._use([known[name] for name in places])

    def reference(self) -> Iterator[tuple[str, ColumnHistogram]]:
        """Yield the columns that have a reference, with it."""
        return zip(self._names, self._reference, strict=False)

    def _use(self, known: Sequence[ColumnHistogram]) -> None:
        """Count against a reference from now on; columns with fewer edges get infinite ones."""
        self._reference = list(known)
        most = max(len(one.edges) for one in known)
        self._edges = np.full((most, 1, len(known)), np.inf)
        self._expected = np.zeros((len(known), most + 2), dtype=np.int64)
        for place, one in enumerate(known):
            self._edges[: len(one.edges), 0, place] = one.edges
            self._expected[place, : len(one.counts)] = one.counts
            self._expected[place, -1] = one.missing
        self._offsets = np.arange(len(known)) * (most + 2)
        self._now = np.zeros_like(self._expected)
        self._before = np.zeros_like(self._expected)
        self._rows = self._rows_before = 0

    def count(self, values: Floats) -> bool:
        """Count rows x all columns of the model; tell whether the reference is known now."""
        chosen = values[:, self._places]
        if self._learned is not None:
            self._learn(self._learned, chosen)
            return self._learned is None
        bins = (chosen > self._edges).sum(axis=0)
        bins[~np.isfinite(chosen)] = self._now.shape[1] - 1
        flat = (bins + self._offsets).ravel()
        self._now += np.bincount(flat, minlength=self._now.size).reshape(self._now.shape)
        self._rows += len(chosen)
        if self._rows >= WINDOW:
            self._before, self._rows_before = self._now, self._rows
            self._now, self._rows = np.zeros_like(self._now), 0
        return False

    def _learn(self, learned: list[Counter[int]], values: Floats) -> None:
        """Count rounded values by column; a quantile needs no more of them."""
        for counter, column in zip(learned, _rounded(values).T.tolist(), strict=True):
            counter.update(column)
        self._seen += len(values)
        if self._seen >= LEARNED:
            self._use([_histogram(one) for one in learned])
            self._learned = None

    def drifts(self) -> Iterator[ColumnDrift]:
        """Yield how each column stands."""
        if self._learned is not None:
            for name in self._names:
                yield ColumnDrift(
                    kind=self._kind, column=name, rows=self._seen, psi=None, is_learned=True
                )
            return
        rows = self._rows + self._rows_before
        counted = self._now + self._before
        index = stability_index(self._expected, counted)
        for place, name in enumerate(self._names):
            edges = self._edges[:, 0, place]
            edges = edges[np.isfinite(edges)]
            kept = [*range(len(edges) + 1), -1]
            yield ColumnDrift(
                kind=self._kind,
                column=name,
                rows=rows,
                psi=round(float(index[place]), 6) if rows >= LEAST else None,
                is_learned=self.is_learned,
                edges=edges.tolist(),
                expected=_shares(self._expected[place])[kept].round(6).tolist(),
                actual=_shares(counted[place])[kept].round(6).tolist(),
            )


def _tables(
    kind: Kind,
    places: Mapping[str, int],
    known: Mapping[str, ColumnHistogram],
    learned: Mapping[str, ColumnHistogram],
) -> list[_CountedColumns]:
    """Return the counts of columns with a reference, with one that was learned, and without."""
    found = []
    rest = dict(places)
    for references, is_learned in ((known, False), (learned, True)):
        chosen = {name: place for name, place in rest.items() if name in references}
        if chosen:
            found.append(_CountedColumns(kind, chosen, references, is_learned=is_learned))
        rest = {name: place for name, place in rest.items() if name not in chosen}
    if rest:
        found.append(_CountedColumns(kind, rest, None, is_learned=True))
    return found


# --- arithmetic -----------------------------------------------------------------------------------


def stability_index(expected: Counts, actual: Counts) -> Floats:
    """Return the PSI per column; both are columns x bins. Source: the module's docstring."""
    e = np.maximum(_shares(expected), FLOOR)
    a = np.maximum(_shares(actual), FLOOR)
    index: Floats = ((a - e) * np.log(a / e)).sum(axis=-1)
    return index


def _shares(counts: Counts) -> Floats:
    shares: Floats = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    return shares


def _rounded(values: Floats) -> NDArray[np.int64]:
    """Return sign, exponent and ten binary digits of numbers, about 0.1 % of each; -1: no number.

    Source: IEEE 754, binary64.
    """
    raw = np.ascontiguousarray(values + 0.0).view(np.uint64) >> _SHARED_BITS
    return np.where(np.isfinite(values), raw.astype(np.int64), -1)


def _histogram(rounded: Counter[int]) -> ColumnHistogram:
    """Return bins of about the same number of rows each, of what `_rounded` gave."""
    missing = rounded.pop(-1, 0)
    if not rounded:
        return ColumnHistogram(edges=[], counts=[0], missing=missing)
    keys = np.array(list(rounded), dtype=np.uint64)
    every = np.array(list(rounded.values()), dtype=np.int64)
    low = keys << _SHARED_BITS
    ones = np.uint64((1 << int(_SHARED_BITS)) - 1)
    upper = np.where((keys >> np.uint64(21) > 0) | (keys == 0), low, low | ones).view(np.float64)
    order = np.argsort(upper)
    upper, reached = upper[order], np.cumsum(every[order])
    wanted = reached[-1] * np.arange(1, BINS) / BINS
    ends = np.unique(np.searchsorted(reached, wanted))
    below = np.concatenate([[0], reached[ends], [reached[-1]]])
    return ColumnHistogram(
        edges=upper[ends].tolist(), counts=np.diff(below).tolist(), missing=missing
    )
