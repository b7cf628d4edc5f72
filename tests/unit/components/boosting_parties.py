"""Data, parties and a plaintext twin for the tests of HeteroSecureBoost.

All parties run for real, in threads over an in-process federation, with 1024-bit keys. The twin
grows the same trees on the joined table, row by row and candidate by candidate, with exact
rationals for sums: it shares no code with the component but the draws of rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    ids = [f"id{i:04}" for i in range(rows)]
    tables, start = {}, 0
    for site, width in widths.items():
        columns: dict[str, Any] = {"id": ids}
        if site is GUEST:
            columns["y"] = y
        block = features[:, start : start + width]
        columns.update({f"x{j}": block[:, j] for j in range(width)})
        tables[site] = pa.table(columns)
        start += width
    return Data(tables, features, y.astype(float))


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
    weight: float = 0.0
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
        return Plain(rows=whole["leaf_count"][str(number)], weight=node["weight"])
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
    """The same algorithm on the joined table; losses give g and h of (labels, scores)."""

    widths: Sequence[int]  #: columns per party, the guest's first
    max_depth: int = 3
    bins: int = 32
    l2: float = 0.1
    learning_rate: float = 0.3
    min_leaf: int = 1
    min_gain: float = 1e-3
    levels: Mapping[int, Sequence[int]] = field(
        default_factory=dict
    )  #: depth -> parties that split
    points: list[list[float]] = field(default_factory=list)

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
        first = _rounded(g, rows, bits)
        second = _rounded(h, rows, bits)
        return self._node(features, first, second, list(rows), 0)

    def scores(self, tree: Plain, features: Floats) -> Floats:
        """Return the weight of the leaf of every row."""
        return np.array([self._leaf(tree, row).weight for row in features])

    def _leaf(self, node: Plain, row: Floats) -> Plain:
        while node.left is not None and node.right is not None:
            value = row[sum(self.widths[: node.party]) + node.column]
            to_left = node.missing_left if isnan(value) else value <= node.point + 1e-8
            node = node.left if to_left else node.right
        return node

    def _node(self, features: Floats, g: Any, h: Any, rows: list[int], depth: int) -> Plain:
        total = _sums(g, h, rows)
        leaf = Plain(rows=len(rows), weight=_down(-float(total[0]) / (float(total[1]) + self.l2)))
        if depth == self.max_depth or len(rows) < 2:
            return leaf
        found = []
        start = 0
        for party, width in enumerate(self.widths):
            for column in range(width):
                if party in self.levels.get(depth, range(len(self.widths))):
                    found += self._candidates(features, g, h, rows, (party, column, start + column))
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
            left=self._node(features, g, h, left, depth + 1),
            right=self._node(features, g, h, right, depth + 1),
        )

    def _candidates(self, features: Floats, g: Any, h: Any, rows: list[int], where: Any) -> Any:
        party, column, index = where
        total = _sums(g, h, rows)
        values = features[:, index]
        sides = (False, True) if np.isnan(values).any() else (False,)
        for point in self.points[index][:-1]:
            for to_left in sides:
                left = [
                    r for r in rows if (to_left if isnan(values[r]) else values[r] <= point + 1e-8)
                ]
                if not self.min_leaf <= len(left) <= len(rows) - self.min_leaf:
                    continue
                own = _sums(g, h, left)
                rest = (total[0] - own[0], total[1] - own[1])
                gain = _down(self._score(own) + self._score(rest) - self._score(total))
                if gain > self.min_gain:
                    yield gain, party, column, point, to_left, left

    def _score(self, sums: tuple[Fraction, Fraction]) -> float:
        return _down(float(sums[0]) ** 2 / (float(sums[1]) + self.l2))


def _rounded(values: Floats, rows: Sequence[int], bits: int) -> list[Fraction]:
    """Return derivatives as multiples of a power of two that suits the largest."""
    largest = max(abs(float(values[r])) for r in rows)
    unit = Fraction(1)
    if largest:
        exponent = 0
        while Fraction(2) ** exponent <= Fraction(largest):
            exponent += 1
        while Fraction(2) ** (exponent - 1) > Fraction(largest):
            exponent -= 1
        unit = Fraction(2) ** (exponent - bits)
    return [round(Fraction(float(v)) / unit) * unit for v in values.tolist()]


def _sums(g: Any, h: Any, rows: Sequence[int]) -> tuple[Fraction, Fraction]:
    return sum((g[r] for r in rows), Fraction(0)), sum((h[r] for r in rows), Fraction(0))


def _down(value: float) -> float:
    return floor(value * 1e10) / 1e10


__all__ = ["BASE", "GUEST", "HOST", "HOST_2"]
