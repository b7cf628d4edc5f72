"""HeteroFeatureBinning and HomoFeatureBinning online: values become bin numbers, or woe of bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedflow.components.binning.columns import bin_weights
from fedflow.components.binning.homo_params import HomoFeatureBinningParams
from fedflow.components.binning.model import PARAM, StoredBins, read_model
from fedflow.components.binning.params import (
    BIN_NUM,
    NOTHING,
    WOE,
    HeteroFeatureBinningParams,
)
from fedflow.components.binning.splitting import COMPARED_POINTS, bin_numbers
from fedflow.serving.scoring.batch import Batch, Floats, OnlineStep, Places
from fedflow.serving.scoring.registry import StepSource

_COMPARED: Final = 1 << 22  #: comparisons at a time


def hetero_feature_binning(source: StepSource) -> OnlineStep:
    """Return the step. Raises: ValueError, BadData: rows and model do not fit."""
    params = source.params(HeteroFeatureBinningParams)
    if not params.need_run:
        return OnlineStep(header=source.header)
    stored = read_model(source.stored(PARAM))
    return _step(source, stored, kind=stored.output_kind(params))


def homo_feature_binning(source: StepSource) -> OnlineStep:
    """Return the step. Raises: as `hetero_feature_binning`."""
    if not source.params(HomoFeatureBinningParams).need_run:
        return OnlineStep(header=source.header)
    stored = read_model(source.stored(PARAM))
    return _step(source, stored, kind=stored.transform_type)


def _step(source: StepSource, stored: StoredBins, *, kind: str) -> OnlineStep:
    names = stored.transformed
    if kind not in (NOTHING, WOE, BIN_NUM):
        raise ValueError(f"its stored model has an unknown kind of output, {kind[:20]!r}")
    source.header.numeric(tuple(stored.points))
    if kind == NOTHING or not names:
        return OnlineStep(header=source.header)
    if lacking := [name for name in names if name not in stored.points]:
        raise ValueError(f"its stored model has no bins of {', '.join(lacking[:20])}")
    weights = bin_weights(names, points=stored.points, woe=stored.woe) if kind == WOE else None
    narrow = [name for name in names if len(stored.points[name]) <= COMPARED_POINTS]
    wide = [name for name in names if name not in set(narrow)]
    work = _Binning(
        narrow=_Columns.of([stored.points[name] for name in narrow], source.header.numeric(narrow)),
        wide=[
            (int(place), stored.points[name])
            for name, place in zip(wide, source.header.numeric(wide), strict=True)
        ],
        places=source.header.numeric([*narrow, *wide]),
        weights=None if weights is None else _padded([weights[n] for n in (*narrow, *wide)], 0.0),
    )
    return OnlineStep(header=source.header.now_whole(names, whole=kind == BIN_NUM), work=work)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Columns:
    """Columns with few split points, which are compared with all of them at a time."""

    places: Places
    cuts: Floats  #: columns x split points, without the last one of each; the rest is infinite
    missing: Places  #: per column the number of missing values

    @staticmethod
    def of(points: Sequence[Floats], places: Places) -> _Columns:
        return _Columns(
            places=places,
            cuts=_padded([own[:-1] for own in points], np.inf),
            missing=np.array([len(own) for own in points], dtype=np.intp),
        )

    def numbers(self, features: Floats) -> Places:
        """Return the bin of each value (rows x columns), as `bin_numbers` does."""
        values = features[:, self.places]
        found = np.empty(values.shape, dtype=np.intp)
        step = max(1, _COMPARED // max(1, self.cuts.size))
        for start in range(0, len(values), step):
            rows = slice(start, start + step)
            np.sum(values[rows, :, None] > self.cuts, axis=2, out=found[rows])
        return np.where(np.isnan(values), self.missing, found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Binning:
    """What is done to the columns that are transformed: first those with few split points."""

    narrow: _Columns
    wide: Sequence[tuple[int, Floats]]  #: place and split points
    places: Places  #: of all of them
    weights: Floats | None  #: columns x bins; None: bin numbers are wanted

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows with bin numbers or woe."""
        own = batch.features
        others = [bin_numbers(own[:, place], cuts) for place, cuts in self.wide]
        numbers = np.column_stack([self.narrow.numbers(own), *others])
        features = own.copy()
        if self.weights is None:
            features[:, self.places] = numbers
        else:
            features[:, self.places] = self.weights[np.arange(len(self.places)), numbers]
        return replace(batch, features=features)


def _padded(lines: Sequence[Floats], rest: float) -> Floats:
    """Return lines of different lengths as one array, filled up with `rest`."""
    found = np.full((len(lines), max(map(len, lines), default=0)), rest)
    for number, line in enumerate(lines):
        found[number, : len(line)] = line
    return found
