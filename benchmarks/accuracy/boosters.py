"""xgboost and lightgbm on joined columns, with the settings of HeteroSecureBoost.

They see bin numbers, cut at the same quantiles, so they choose among the same splits. Their losses
have other units: first derivatives are `slope` times, second ones `curve` times those of
docs/reference/boosting.md. Penalty, learning rate and least gain are turned into these units.
Sums are float32 in xgboost, so splits whose gains are nearly equal may be chosen otherwise.

Both are optional: `pip install 'fedflow[accuracy]'`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.data import Floats

XGBOOST, LIGHTGBM = "xgboost", "lightgbm"
BINARY, CLASSES, NUMBERS = "binary", "classes", "numbers"
STD, MIX, LAYERED = "std", "mix", "layered"
NEARLY = 1e-8  #: a value goes left up to so much above the split point

Rows = NDArray[np.intp]


def installed(tool: str) -> bool:
    """Tell whether one of the two can be imported."""
    return importlib.util.find_spec(tool) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """A tool's derivatives, as multiples of those of HeteroSecureBoost."""

    slope: float = 1.0
    curve: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Boosting:
    """Settings of a training, for the component and for plaintext tools."""

    kind: str  #: BINARY, CLASSES or NUMBERS
    rounds: int
    learning_rate: float = 0.3
    depth: int = 3
    bins: int = 32
    l2: float = 0.1
    min_gain: float = 1e-3
    strategy: str = STD
    host_depth: int = 2  #: upper levels, of LAYERED
    goss: tuple[float, float] | None = None  #: shares of large gradients and of the others
    use_missing: bool = False  #: values may be missing
    vectors: bool = False  #: a leaf has a weight for each of several classes

    @property
    def guest_depth(self) -> int:
        """Return the number of lower levels, of LAYERED."""
        return self.depth - self.host_depth

    @property
    def params(self) -> dict[str, Any]:
        """Return the component's parameters."""
        found: dict[str, Any] = {
            "num_trees": self.rounds,
            "learning_rate": self.learning_rate,
            "bin_num": self.bins,
            "boosting_strategy": self.strategy,
            "n_iter_no_change": False,
            "multi_mode": "multi_output" if self.vectors else "single_output",
            "tree_param": {
                "max_depth": self.depth,
                "min_impurity_split": self.min_gain,
                "criterion_params": [self.l2],
                "use_missing": self.use_missing,
            },
        }
        if self.kind == NUMBERS:
            found |= {"task_type": "regression", "objective_param": {"objective": "lse"}}
        if self.strategy == LAYERED:
            found |= {"host_depth": self.host_depth, "guest_depth": self.guest_depth}
        if self.goss is not None:
            found |= {"run_goss": True, "top_rate": self.goss[0], "other_rate": self.goss[1]}
        return found


def binned(features: Floats, bins: int) -> Floats:
    """Return the bin numbers of columns (rows x columns) cut at quantiles, from 0; NaN stays."""
    return np.column_stack([_binned(column, bins) for column in features.T])


def _binned(column: Floats, bins: int) -> Floats:
    present = column[~np.isnan(column)]
    if not present.size:
        return column
    shares = np.arange(1, bins + 1) / bins
    points = np.unique(np.quantile(present, shares, method="inverted_cdf"))
    numbers = np.searchsorted(points + NEARLY, column).astype(np.float64)
    return np.where(np.isnan(column), np.nan, numbers)


def lightgbm_scores(features: Floats, labels: Floats, how: Boosting) -> Floats:
    """Return the probabilities (of class 1, or rows x classes) or numbers that lightgbm predicts.

    Strategy std, without GOSS. lightgbm looks in a node for no split of a column that has none in
    the parent. So with a high `min_gain` its trees are smaller.
    """
    import lightgbm

    classes = int(labels.max()) + 1
    units = {
        BINARY: Units(),
        CLASSES: Units(curve=classes / (classes - 1)),
        NUMBERS: Units(slope=0.5, curve=0.5),
    }[how.kind]
    params = {
        "objective": {BINARY: "binary", CLASSES: "multiclass", NUMBERS: "regression"}[how.kind],
        "max_depth": how.depth,
        "num_leaves": 2**how.depth,
        "learning_rate": how.learning_rate * units.curve / units.slope,
        "lambda_l2": how.l2 * units.curve,
        "min_gain_to_split": how.min_gain * units.slope**2 / units.curve,
        "boost_from_average": how.kind == NUMBERS,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 0.0,
        "min_data_in_bin": 1,
        "max_bin": 255,
        "num_threads": 1,
        "verbose": -1,
        **({"num_class": classes} if how.kind == CLASSES else {}),
    }
    columns = binned(features, how.bins)
    data = lightgbm.Dataset(columns, label=labels, params=params)
    return np.asarray(lightgbm.train(params, data, how.rounds).predict(columns))


def xgboost_own(features: Floats, labels: Floats, how: Boosting) -> Floats:
    """Return what xgboost predicts with its own bins, and its own second derivatives of classes."""
    params = _xgboost_params(labels, how, Units(slope=0.5, curve=0.5))
    if how.kind != NUMBERS:
        params = _xgboost_params(labels, how, Units())
    start = float(labels.mean()) if how.kind == NUMBERS else 0.5
    params |= {"max_bin": how.bins, "base_score": start}
    data = _matrix(features, labels)
    return np.asarray(_train(params, data, how.rounds).predict(data))


def xgboost_scores(features: Floats, labels: Floats, how: Boosting, *, guest: int) -> Floats:
    """Return the probabilities (of class 1, or rows x classes) or numbers that xgboost predicts.

    Every strategy; `guest` is the number of the guest's columns, which are the first ones.
    """
    units = {
        BINARY: Units(),
        CLASSES: Units(curve=2.0),
        NUMBERS: Units(slope=0.5, curve=0.5),
    }[how.kind]
    params = _xgboost_params(labels, how, units)
    width = params.get("num_class", 1)
    start = float(labels.mean()) if how.kind == NUMBERS else 0.0
    forest = _Forest(
        columns=binned(features, how.bins),
        labels=labels,
        params=params,
        scores=np.full((len(labels), width), start),
    )
    own, others = slice(0, guest), slice(guest, None)
    for number in range(how.rounds):
        rows, weights = _drawn(forest, how, number)
        if how.strategy == LAYERED:
            forest.add_layered(rows, weights, others, own, how)
        else:
            alone = own if number % 2 == 0 else others
            forest.add(rows, weights, alone if how.strategy == MIX else slice(None))
    return _predicted(forest.scores, how.kind)


@dataclass(kw_only=True, slots=True)
class _Forest:
    """Trees are added one round after the other; `scores` (rows x classes) are those so far."""

    columns: Floats
    labels: Floats
    params: dict[str, Any]
    scores: Floats

    def add(self, rows: Rows, weights: Floats, columns: slice) -> None:
        """Add a round's trees of some columns, grown on some rows."""
        self.scores = self._after(self._grown(rows, weights, columns, {}), columns)

    def add_layered(
        self, rows: Rows, weights: Floats, upper: slice, lower: slice, how: Boosting
    ) -> None:
        """Add a tree whose upper levels split some columns and whose lower ones others.

        Each leaf of a tree of the upper levels gets a tree of its own rows; its leaves count.
        """
        top = self._grown(rows, weights, upper, {"max_depth": how.host_depth})
        after = self._after(top, upper)
        places = top.predict(_matrix(self.columns[:, upper]), pred_leaf=True).ravel()
        for leaf in _deep_leaves(top, how.host_depth):
            inside = places[rows] == leaf
            more = {"max_depth": how.guest_depth}
            below = self._grown(rows[inside], weights[inside], lower, more)
            after[places == leaf] = self._after(below, lower)[places == leaf]
        self.scores = after

    def _grown(self, rows: Rows, weights: Floats, columns: slice, more: dict[str, Any]) -> Any:
        data = _matrix(
            self.columns[rows, columns], self.labels[rows], self.scores[rows], weights=weights
        )
        return _train(self.params | more, data, 1)

    def _after(self, booster: Any, columns: slice) -> Floats:
        """Return the scores of all rows with a round's trees."""
        data = _matrix(self.columns[:, columns], None, self.scores)
        found = booster.predict(data, output_margin=True)
        return np.asarray(found, dtype=np.float64).reshape(self.scores.shape)


def _drawn(forest: _Forest, how: Boosting, number: int) -> tuple[Rows, Floats]:
    """Return the rows of a round and how often each counts; GOSS draws with its own numbers."""
    count = len(forest.labels)
    if how.goss is None:
        return np.arange(count), np.ones(count)
    top, other = (int(count * share) for share in how.goss)
    slopes = np.abs(_predicted(forest.scores, how.kind) - forest.labels)
    order = np.argsort(-slopes, kind="stable")
    drawn = np.random.default_rng(number).choice(order[top:], other, replace=False)
    rows = np.concatenate([order[:top], drawn])
    weights = np.where(np.arange(len(rows)) < top, 1.0, (1 - how.goss[0]) / how.goss[1])
    return rows, weights


def _predicted(scores: Floats, kind: str) -> Floats:
    """Return probabilities or numbers of scores (rows x classes)."""
    if kind == CLASSES:
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)
    return scores[:, 0] if kind == NUMBERS else 1 / (1 + np.exp(-scores[:, 0]))


def _xgboost_params(labels: Floats, how: Boosting, units: Units) -> dict[str, Any]:
    objective = {BINARY: "binary:logistic", CLASSES: "multi:softprob", NUMBERS: "reg:squarederror"}
    return {
        "objective": objective[how.kind],
        "max_depth": how.depth,
        "eta": how.learning_rate * units.curve / units.slope,
        "lambda": how.l2 * units.curve,
        "gamma": how.min_gain * units.slope**2 / units.curve,
        "min_child_weight": 0.0,
        "tree_method": "hist",
        "max_bin": 256,
        "nthread": 1,
        **({"num_class": int(labels.max()) + 1} if how.kind == CLASSES else {}),
        **({"multi_strategy": "multi_output_tree"} if how.vectors else {}),
    }


def _matrix(
    columns: Floats,
    labels: Floats | None = None,
    scores: Floats | None = None,
    *,
    weights: Floats | None = None,
) -> Any:
    import xgboost

    return xgboost.DMatrix(columns, label=labels, base_margin=scores, weight=weights)


def _train(params: dict[str, Any], data: Any, rounds: int) -> Any:
    import xgboost

    return xgboost.train(params, data, rounds)


def _deep_leaves(booster: Any, depth: int) -> Iterator[int]:
    """Yield the numbers of the leaves at a depth of the only tree."""
    nodes = booster.trees_to_dataframe().set_index("ID")
    level = ["0-0"]
    for _ in range(depth):
        split = nodes.loc[level]
        split = split[split["Feature"] != "Leaf"]
        level = [*split["Yes"], *split["No"]]
    yield from nodes.loc[level, "Node"].tolist()
