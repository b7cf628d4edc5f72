"""The leaves of rows in trees that a host has grown alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.trees import LEAF, BoostedTree, HostTree
from fedflow.sdk.errors import CodecError


def leaves_alone(tree: HostTree, features: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the leaf of every row in a tree that this host has grown."""
    positions = np.zeros(len(features), dtype=np.int32)
    for node, (left, right) in sorted(tree.links.items()):  # children have higher numbers
        rows = np.flatnonzero(positions == node)
        split = tree.splits[node]
        goes_left = split.goes_left(features[rows, split.column])
        positions[rows] = np.where(goes_left, left, right)
    return positions


def read_leaves(
    payload: object, trees: Sequence[BoostedTree], *, rows: int, sender: str
) -> NDArray[np.int32]:
    """Return the leaf of every row in trees of a host (trees x rows).

    Raises: CodecError: not a leaf per tree and row.
    """
    wanted = (len(trees), rows)
    if not isinstance(payload, np.ndarray) or payload.dtype != np.int32 or payload.shape != wanted:
        raise CodecError(reason=f"the leaves of {sender}: not one per row")
    for tree, found in zip(trees, payload, strict=True):
        owners = tree.tables.owners
        if rows and not (found.min() >= 0 and found.max() < len(owners)):
            raise CodecError(reason=f"the leaves of {sender}: no such node")
        if (owners[found] != LEAF).any():
            raise CodecError(reason=f"the leaves of {sender}: a node that is no leaf")
    return payload
