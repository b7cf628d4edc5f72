"""What EINI makes of trees: regions of leaves between which hosts' splits decide, and their sums.

A *region* is what the guest's splits reach from the root, or from a child of a host's node, without
another host's node. At most one of its leaves is open to a row. So a region with leaves is a column
of what the guest encrypts: the weight of the open leaf, or 0. That of the root costs no column: the
guest knows it. The columns below a side of a node follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.trees import LEAF, BoostedTree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeRegions:
    """The regions of one tree; they are numbered by their first nodes' places in `roots`."""

    tree: BoostedTree
    roots: tuple[int, ...]  #: first nodes: depth first, left before right
    parents: tuple[tuple[int, int], ...]  #: region and host's node that each region lies below
    column_of: Mapping[int, int]  #: region -> column, of those with leaves but for the first
    ranges: Mapping[int, tuple[int, int, int]]  #: host's node -> first, middle, end
    places: NDArray[np.intp]  #: node -> region that starts there
    weights: Ints

    @staticmethod
    def of(tree: BoostedTree, *, rate: float, scale: int) -> TreeRegions:
        """Return the regions of `tree`, weights times the learning rate in units of 2**-scale."""
        nodes = tree.nodes
        roots: list[int] = []
        parents: list[tuple[int, int]] = []
        column_of: dict[int, int] = {}
        ranges: dict[int, tuple[int, int, int]] = {}

        def enter(root: int, above: int, node: int) -> None:
            region = len(roots)
            roots.append(root)
            parents.append((above, node))
            reached, below = [root], []
            has_leaves = False
            while reached:
                number = reached.pop()
                owner = nodes[number].owner
                has_leaves |= owner == LEAF
                if owner > 0:
                    below.append(number)
                elif owner != LEAF:
                    reached += [nodes[number].right, nodes[number].left]
            if has_leaves and root:
                column_of[region] = len(column_of)
            for number in below:
                first = len(column_of)
                enter(nodes[number].left, region, number)
                middle = len(column_of)
                enter(nodes[number].right, region, number)
                ranges[number] = first, middle, len(column_of)

        enter(0, 0, 0)
        places = np.zeros(len(nodes), dtype=np.intp)
        places[roots] = np.arange(len(roots))
        weights = np.rint(np.ldexp(rate * tree.tables.weights[:, 0], scale)).astype(np.int64)
        return TreeRegions(
            tree=tree,
            roots=tuple(roots),
            parents=tuple(parents),
            column_of=column_of,
            ranges=ranges,
            places=places,
            weights=weights,
        )

    @property
    def columns(self) -> int:
        """Return how many columns the tree has."""
        return len(self.column_of)

    def reached(self, features: Floats) -> NDArray[np.int32]:
        """Return where the guest's splits lead rows in every region (regions x rows)."""
        found = np.repeat(np.array(self.roots, dtype=np.int32)[:, None], len(features), axis=1)
        for positions in found:
            self.tree.down(positions, features, np.arange(len(features)))
        return found

    def of_owner(self, owner: int) -> list[tuple[int, int, int, int]]:
        """Return node, first, middle, end of every split of a host, by node."""
        return [
            (number, *columns)
            for number, columns in sorted(self.ranges.items())
            if self.tree.nodes[number].owner == owner
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowValues:
    """Some rows: what is encrypted of them, and which sums are possible."""

    values: Ints  #: rows x columns of all trees
    base: Floats  #: rows x width: what the guest knows alone
    base_values: Ints  #: the same in units
    low: Ints  #: rows x width: the least and the largest sums that hosts may make of `values`
    high: Ints

    @staticmethod
    def of(
        regions: Sequence[TreeRegions],
        features: Floats,
        init_score: Floats,
        *,
        rate: float,
        scale: int,
    ) -> RowValues:
        """Return what the guest's own splits say of rows."""
        rows, width = np.arange(len(features)), len(init_score)
        base = np.tile(init_score, (len(rows), 1))
        base_values = np.tile(np.rint(np.ldexp(init_score, scale)).astype(np.int64), (len(rows), 1))
        low, high = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(2))
        values = [np.zeros((len(rows), 0), dtype=np.int64)]
        for own in regions:
            tree = own.tree
            tables, found = tree.tables, np.zeros((len(rows), own.columns), dtype=np.int64)
            least, most = (np.zeros((len(own.roots), len(rows)), dtype=np.int64) for _ in range(2))
            places = own.reached(features)
            is_open = np.ones((len(own.roots), len(rows)), dtype=np.bool_)
            for region, (above, node) in enumerate(own.parents):
                if region:
                    is_open[region] = is_open[above] & (places[above] == node)
            for region in reversed(range(len(own.roots))):  # those below have higher numbers
                at = places[region]
                is_leaf = tables.owners[at] == LEAF
                weights = np.where(is_leaf, own.weights[at], 0)
                if region in own.column_of:
                    found[:, own.column_of[region]] = np.where(is_open[region], weights, 0)
                if not region:
                    base[:, tree.klass] += np.where(is_leaf, rate * tables.weights[at, 0], 0.0)
                    base_values[:, tree.klass] += weights
                    weights = np.zeros_like(weights)
                left, right = (own.places[side[at]] for side in (tables.lefts, tables.rights))
                one, two = least[left, rows], least[right, rows]
                least[region] = np.where(is_leaf, weights, np.minimum(one, two))
                one, two = most[left, rows], most[right, rows]
                most[region] = np.where(is_leaf, weights, np.maximum(one, two))
            low[:, tree.klass] += least[0]
            high[:, tree.klass] += most[0]
            values.append(found)
        return RowValues(
            values=np.concatenate(values, axis=1),
            base=base,
            base_values=base_values,
            low=low,
            high=high,
        )

    def columns(self, *, masked: bool) -> Ints:
        """Return what is encrypted; with a mask what the guest knows goes along, per class."""
        parts = (self.values, self.base_values) if masked else (self.values,)
        return np.concatenate(parts, axis=1)

    def allow(self, sums: NDArray[np.object_], *, mask_bits: int | None) -> bool:
        """Tell whether leaves can have such sums (rows x width).

        `mask_bits`: `base_values` are in the sums, which were multiplied by 2**this to 2 * 2**this.
        """
        low, high = self.low.astype(object), self.high.astype(object)
        if mask_bits is not None:
            low, high = (
                low + self.base_values.astype(object),
                high + self.base_values.astype(object),
            )
            one, two = 1 << mask_bits, 2 << mask_bits
            low = np.where(low < 0, low * two, low * one)
            high = np.where(high < 0, high * one, high * two)
        return bool(((low <= sums) & (sums <= high)).all())
