"""Data, parties and a plaintext twin for the tests of HeteroSecureBoost.

All parties run for real, in threads over an in-process federation, with 1024-bit keys. The twin
grows the same trees on the joined table, row by row and candidate by candidate, with exact
rationals for sums: it shares no code with the component but the draws of rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor, inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.boosting.hetero_secureboost import HeteroSecureBoost
from fedflow.domain.site import Site
from fedflow.sdk import Checkpoints, Inputs, Model, Workers
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component
from tests.support.shared_keys import shared_keys
from tests.unit.components.hetero_lr_parties import GUEST, HOST, HOST_2, Data, schema_of

Floats = NDArray[np.float64]

BASE: dict[str, Any] = {
    "num_trees": 2,
    "n_iter_no_change": False,
    "encrypt_param": {"key_length": 1024},
}


def data_of(
    *,
    rows: int = 60,
    widths: Mapping[Site, int] | None = None,
    missing: float = 0.0,
    values: int = 0,
    seed: int = 5,
) -> Data:
    """Return data of some columns per party, labels 0 and 1.

    `values`: columns have so many different ones, which makes ties; 0: all differ.
    """
    widths = widths or {GUEST: 2, HOST: 3}
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, sum(widths.values())))
    if values:
        features = generator.integers(0, values, features.shape).astype(float)
    truth = features @ generator.normal(size=features.shape[1])
    y = (truth > np.median(truth)).astype(int)
    features[generator.random(features.shape) < missing] = np.nan
    return of_features(features, widths, y)


def of_features(features: Floats, widths: Mapping[Site, int], labels: Any) -> Data:
    """Return data of these columns, the guest's first, and labels."""
    ids = [f"id{i:04}" for i in range(len(features))]
    tables, start = {}, 0
    for site, width in widths.items():
        columns: dict[str, Any] = {"id": ids}
        if site is GUEST:
            columns["y"] = np.asarray(labels).astype(int)
        block = features[:, start : start + width]
        columns.update({f"x{j}": block[:, j] for j in range(width)})
        tables[site] = pa.table(columns)
        start += width
    return Data(tables, features, np.asarray(labels).astype(float))


def rows_of(data: Data, chosen: Any) -> Data:
    """Return some of the rows, at all parties: a slice, or their numbers."""
    numbers = np.arange(len(data.labels))[chosen]
    tables = {site: table.take(pa.array(numbers)) for site, table in data.tables.items()}
    weights = None if data.weights is None else data.weights[numbers]
    return Data(tables, data.features[numbers], data.labels[numbers], weights)


def with_weights(data: Data, weights: Any = None) -> Data:
    """Return the data with sample weights."""
    if weights is None:
        weights = np.random.default_rng(9).uniform(0.1, 4.0, len(data.labels))
    guest = data.tables[GUEST].add_column(2, "weight", pa.array(weights))
    return replace(data, tables={**data.tables, GUEST: guest}, weights=weights)


def run(
    data: Data,
    work_dir: Path,
    *,
    ports: Mapping[str, Data] | None = None,
    models: Mapping[Site, Model] | None = None,
    checkpoints: Mapping[Site, Checkpoints] | None = None,
    task_version: int = 0,
    per_site: Mapping[Site, Mapping[str, Any]] | None = None,
    federation: LocalFederation | None = None,
    workers: Mapping[Site, Workers] | None = None,
    only: Sequence[Site] | None = None,
    cores: int = 1,
    **params: Any,
) -> dict[Site, RunResult]:
    """Run all parties; `data` goes to train_data, or `ports` says what goes where."""
    ports = ports or {"train_data": data}
    inputs = {}
    for site in data.tables:
        store = MemoryTableStore()
        tables: dict[str, Any] = {}
        for port, given in ports.items():
            rows = given.tables[site]
            tables[port] = [("upstream", store.add(rows, schema=schema_of(rows)))]
        model = (models or {}).get(site)
        inputs[site] = Inputs(data=tables, model={"hetero_secureboost_0": model} if model else {})
    with shared_keys():
        return run_component(
            HeteroSecureBoost,
            sites=tuple(data.tables),
            only=only,
            work_dir=work_dir,
            params={s: {**BASE, **params, **(per_site or {}).get(s, {})} for s in data.tables},
            inputs=inputs,
            federation=federation,
            workers=workers,
            checkpoints=checkpoints,
            task_version=task_version,
            cores=cores,
        )


def models_of(results: Mapping[Site, RunResult]) -> dict[Site, Model]:
    """Return the models of a run that succeeded."""
    found = {}
    for site, result in results.items():
        if result.error is not None:
            raise result.error
        assert result.outputs is not None
        assert result.outputs.model is not None
        found[site] = result.outputs.model
    return found


def predictions(results: Mapping[Site, RunResult]) -> pa.Table:
    """Return the guest's predictions."""
    outputs = results[GUEST].outputs
    if outputs is None:
        raise results[GUEST].error or AssertionError("no outputs")
    table = outputs.data[0]
    assert table is not None
    return table.read()


# --- trees as they are compared -------------------------------------------------------------------


@dataclass
class Plain:
    """A node: whose split it is, where, and what follows; or a leaf."""

    rows: int
    weight: float | tuple[float, ...] = 0.0
    party: int = -1  #: 0 is the guest
    column: int = -1  #: of that party
    point: float = 0.0
    missing_left: bool = False
    left: Plain | None = None
    right: Plain | None = None


def trees_of(models: Mapping[Site, Model]) -> list[Plain]:
    """Return the trees of a model, put together from what each party has stored."""
    sites = list(models)
    stored = {site: model.param["trees_"] for site, model in models.items()}
    return [_joined(stored, sites, tree, 0) for tree in range(len(stored[GUEST]))]


def _joined(stored: Any, sites: list[Site], tree: int, number: int) -> Plain:
    whole = stored[GUEST][tree]
    node = whole["tree_"][number]
    if node["is_leaf"]:
        weight = tuple(node["mo_weight"]) or node["weight"]
        return Plain(rows=whole["leaf_count"][str(number)], weight=weight)
    site = next(s for s in sites if f"{s.role.value}:{s.party_id}" == node["sitename"])
    own = stored[site][tree]
    split = next(n for n in own["tree_"] if n["id"] == number)
    left = _joined(stored, sites, tree, node["left_nodeid"])
    right = _joined(stored, sites, tree, node["right_nodeid"])
    return Plain(
        rows=left.rows + right.rows,
        party=sites.index(site),
        column=split["fid"],
        point=own["split_maskdict"][str(number)],
        missing_left=own["missing_dir_maskdict"][str(number)] == -1,
        left=left,
        right=right,
    )


# --- the twin -------------------------------------------------------------------------------------


@dataclass
class Twin:
    """The same algorithm on the joined table; a tree is grown from g and h of all rows.

    They are of one class, or of several (rows x classes), whose gains add up.
    """

    widths: Sequence[int]  #: columns per party, the guest's first
    max_depth: int = 3
    bins: int = 32
    l2: float = 0.1
    l1: float = 0.0
    learning_rate: float = 0.3
    min_leaf: int = 1
    min_rows: int = 2
    min_gain: float = 1e-3
    min_weight: float = 0.0
    levels: Mapping[int, Sequence[int]] = field(
        default_factory=dict
    )  #: depth -> parties that split
    columns: Sequence[Sequence[int]] = ()  #: per party, what may be split; none: all
    least: Sequence[int] = ()  #: per party, rows between splits of a column; none: 0
    points: list[list[float]] = field(default_factory=list)
    offered: list[list[tuple[float, bool]]] = field(default_factory=list)  #: of the tree

    def cut(self, features: Floats) -> None:
        """Choose the split points of all columns."""
        self.points = []
        for column in features.T:
            present = sorted(v for v in column.tolist() if not isnan(v))
            ranks = [-(-i * len(present) // self.bins) for i in range(1, self.bins + 1)]
            self.points.append(sorted({present[rank - 1] for rank in ranks if present}))

    def tree(self, features: Floats, g: Floats, h: Floats, rows: Sequence[int]) -> Plain:
        """Return the tree of derivatives of `rows` (all arrays have all rows)."""
        bits = min(30, 52 - len(rows).bit_length())
        classes = zip(np.atleast_2d(g.T), np.atleast_2d(h.T), strict=True)
        derivatives = [(_rounded(a, rows, bits), _rounded(b, rows, bits)) for a, b in classes]
        parties = [p for p, width in enumerate(self.widths) for _ in range(width)]
        self.offered = [
            self._offered(features[:, c], points, rows, self.least[p] if self.least else 0)
            for c, (p, points) in enumerate(zip(parties, self.points, strict=True))
        ]
        return self._node(features, derivatives, list(rows), 0)

    def _offered(
        self, column: Floats, points: list[float], rows: Sequence[int], least: int
    ) -> list[tuple[float, bool]]:
        """Return the splits that a column may have in a tree of these rows."""
        values = [float(column[r]) for r in rows]
        missing = sum(map(isnan, values))
        sides = (False, True) if np.isnan(column).any() else (False,)
        if least > 1 and missing < least:
            sides = (False,)
        found, last = [], -inf
        for point in points[:-1]:
            between = sum(last + 1e-8 < v <= point + 1e-8 for v in values)
            behind = sum(v > point + 1e-8 for v in values) + (missing if len(sides) == 1 else 0)
            if least <= 1 or min(between, behind) >= least:
                found += [(point, side) for side in sides]
                last = point
        return found

    def scores(self, tree: Plain, features: Floats) -> Floats:
        """Return the weight of the leaf of every row."""
        return np.array([self._leaf(tree, row).weight for row in features])

    def _leaf(self, node: Plain, row: Floats) -> Plain:
        while node.left is not None and node.right is not None:
            value = row[sum(self.widths[: node.party]) + node.column]
            to_left = node.missing_left if isnan(value) else value <= node.point + 1e-8
            node = node.left if to_left else node.right
        return node

    def _node(self, features: Floats, both: Any, rows: list[int], depth: int) -> Plain:
        total = [_sums(one, rows) for one in both]
        weights = tuple(map(self._weight, total))
        leaf = Plain(rows=len(rows), weight=weights if len(weights) > 1 else weights[0])
        if depth == self.max_depth or len(rows) < self.min_rows:
            return leaf
        found = []
        start = 0
        for party, width in enumerate(self.widths):
            for column in self.columns[party] if self.columns else range(width):
                if party in self.levels.get(depth, range(len(self.widths))):
                    where = (party, column, start + column)
                    found += self._candidates(features, both, rows, total, where)
            start += width
        best = max((gain for gain, *_ in found), default=-inf)
        if best <= self.min_gain:
            return leaf
        _, party, column, place, to_left, left = next(f for f in found if f[0] >= best - 1e-8)
        right = sorted(set(rows) - set(left))
        return Plain(
            rows=len(rows),
            party=party,
            column=column,
            point=place,
            missing_left=to_left,
            left=self._node(features, both, left, depth + 1),
            right=self._node(features, both, right, depth + 1),
        )

    def _candidates(self, features: Floats, both: Any, rows: Any, total: Any, where: Any) -> Any:
        party, column, index = where
        values = features[:, index].tolist()
        for point, to_left in self.offered[index]:
            left = [r for r in rows if (to_left if isnan(values[r]) else values[r] <= point + 1e-8)]
            if not self.min_leaf <= len(left) <= len(rows) - self.min_leaf:
                continue
            own = [_sums(one, left) for one in both]
            rest = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(total, own, strict=True)]
            if min(sum(h for _, h in side) for side in (own, rest)) < self.min_weight:
                continue
            gain = _down(self._score(own) + self._score(rest) - self._score(total))
            if gain > self.min_gain:
                yield gain, party, column, point, to_left, left

    def _weight(self, sums: tuple[float, float]) -> float:
        below = sums[1] + self.l2
        return _down(-self._shrunk(sums[0]) / below) if below else 0.0

    def _score(self, sums: Sequence[tuple[float, float]]) -> float:
        parts = [(self._shrunk(slope), curve + self.l2) for slope, curve in sums]
        return _down(sum(slope**2 / below for slope, below in parts if below))

    def _shrunk(self, slope: float) -> float:
        if abs(slope) <= self.l1:
            return 0.0
        return slope - self.l1 if slope > 0 else slope + self.l1


def _rounded(values: Floats, rows: Sequence[int], bits: int) -> tuple[list[int], Fraction]:
    """Return derivatives as multiples of a power of two that suits the largest, and that."""
    largest = max(abs(float(values[r])) for r in rows)
    unit = Fraction(1)
    if largest:
        exponent = 0
        while Fraction(2) ** exponent <= Fraction(largest):
            exponent += 1
        while Fraction(2) ** (exponent - 1) > Fraction(largest):
            exponent -= 1
        unit = Fraction(2) ** (exponent - bits)
    return [round(Fraction(float(v)) / unit) for v in values.tolist()], unit


def _sums(both: Any, rows: Sequence[int]) -> tuple[float, float]:
    """Return the exact sums of g and h over some rows."""
    (g, unit_g), (h, unit_h) = both
    return float(sum(g[r] for r in rows) * unit_g), float(sum(h[r] for r in rows) * unit_h)


def _down(value: float) -> float:
    return floor(value * 1e10) / 1e10


__all__ = ["BASE", "GUEST", "HOST", "HOST_2"]
