"""Trees as each party knows them: the guest all nodes, a host the splits of its own columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.bins import NEARLY, RIGHT, Split

Floats = NDArray[np.float64]
Positions = NDArray[np.int32]

LEAF: Final = -1  #: owner of a node that has no split
OWN: Final = 0  #: owner of a split of the guest; hosts are 1, 2 ... in the conf's order

MOST_ROWS: Final = 1 << 40  #: of a node, as another party may name them


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """Who offers splits at which depth of a tree."""

    depth: int
    guest: range  #: depths at which the guest does
    hosts: range  #: and the hosts
    host: int = OWN  #: the number of the only host that takes part, from 1; OWN: all do


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeNode:
    """A node as the guest knows it."""

    owner: int = LEAF
    split: Split | None = None  #: of an own split
    left: int = -1
    right: int = -1
    weights: tuple[float, ...] = ()  #: of a leaf, per class, without the learning rate
    rows: int = 0  #: of a leaf: rows that trained it
    gain: float = 0.0


@dataclass(frozen=True)
class BoostedTree:
    """One tree at the guest; children have higher numbers than their parents."""

    nodes: tuple[TreeNode, ...]
    klass: int = 0  #: number of the class whose score it adds to; of vector leaves the first one
    grown_by: int = OWN  #: the host that has grown it alone; OWN: guest and hosts together

    @cached_property
    def tables(self) -> _Tables:
        """Return the nodes as arrays."""
        return _Tables.of(self.nodes)

    def down(self, positions: Positions, features: Floats, rows: NDArray[np.intp]) -> None:
        """Move some rows, in place, as far as the guest's own splits go."""
        tables = self.tables
        while len(rows := rows[tables.owners[positions[rows]] == OWN]):
            at = positions[rows]
            values = features[rows, tables.columns[at]]
            left = values <= tables.points[at]
            if tables.missing_left.any():
                left |= np.isnan(values) & tables.missing_left[at]
            positions[rows] = np.where(left, tables.lefts[at], tables.rights[at])

    def answer(self, positions: Positions, rows: NDArray[np.intp], left: NDArray[np.bool_]) -> None:
        """Move rows, in place, as the owner of their nodes says."""
        at = positions[rows]
        positions[rows] = np.where(left, self.tables.lefts[at], self.tables.rights[at])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tables:
    owners: NDArray[np.int16]
    columns: NDArray[np.intp]
    points: Floats  #: with what a value may be above and still go left
    missing_left: NDArray[np.bool_]
    lefts: Positions
    rights: Positions
    weights: Floats  #: nodes x classes of the tree

    @staticmethod
    def of(nodes: Sequence[TreeNode]) -> _Tables:
        splits = [node.split or Split(column=0, point=0.0, missing=RIGHT) for node in nodes]
        classes = max(len(node.weights) for node in nodes)
        return _Tables(
            owners=np.array([node.owner for node in nodes], dtype=np.int16),
            columns=np.array([split.column for split in splits], dtype=np.intp),
            points=np.array([split.point for split in splits]) + NEARLY,
            missing_left=np.array([split.missing != RIGHT for split in splits]),
            lefts=np.array([node.left for node in nodes], dtype=np.int32),
            rights=np.array([node.right for node in nodes], dtype=np.int32),
            weights=np.array([node.weights or (0.0,) * classes for node in nodes]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HostTree:
    """One tree at a host: its own splits by the number of their node."""

    splits: Mapping[int, Split] = field(default_factory=dict)
    klass: int = 0
    links: Mapping[int, tuple[int, int]] = field(default_factory=dict)  #: children, if it is alone
    is_alone: bool = False  #: this host has grown it, so it knows the whole tree
