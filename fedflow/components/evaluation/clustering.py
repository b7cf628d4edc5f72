"""How good clusters are: against known classes, and by their shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAgreement:
    """How clusters agree with classes; the measures count pairs of rows, not names of clusters.

    With no pair that could tell (one row; one class and one cluster; each row alone in both), all
    three measures are 1, as in scikit-learn, but for the Fowlkes-Mallows score, which is 0 when no
    two rows are together on both sides.
    """

    classes: tuple[Any, ...]  #: sorted
    clusters: tuple[Any, ...]  #: sorted
    contingency: Counts  #: rows per class and cluster: classes x clusters
    jaccard: float  #: pairs together in both / pairs together in either
    fowlkes_mallows: float  #: geometric mean of pairwise precision and recall
    adjusted_rand: float  #: Rand index, 0 for a partition by chance


def agreement(true: npt.NDArray[Any], clusters: npt.NDArray[Any]) -> ClusterAgreement:
    """Return how well `clusters` agree with `true`, one entry per row, at least one row.

    Source: Hubert and Arabie 1985 (adjusted Rand index), Fowlkes and Mallows 1983.
    """
    classes, class_codes = np.unique(true, return_inverse=True)
    names, cluster_codes = np.unique(clusters, return_inverse=True)
    shape = (len(classes), len(names))
    table = np.bincount(class_codes * shape[1] + cluster_codes, minlength=shape[0] * shape[1])
    table = table.reshape(shape)
    both = _pairs(table)  # exact: Python integers
    in_class, in_cluster = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    everything = math.comb(len(true), 2)
    either = in_class + in_cluster - both
    product = in_class * in_cluster
    chance = product / everything if everything else 0.0
    spread = (in_class + in_cluster) / 2 - chance
    return ClusterAgreement(
        classes=tuple(classes.tolist()),
        clusters=tuple(names.tolist()),
        contingency=table,
        jaccard=both / either if either else 1.0,
        fowlkes_mallows=both / math.sqrt(product) if both else 0.0,
        adjusted_rand=(both - chance) / spread if spread else 1.0,
    )


def davies_bouldin(inner: Floats, squared: Floats) -> float:
    """Return the Davies-Bouldin index: the mean over clusters of the worst overlap; 0 is best.

    Two clusters whose centroids coincide overlap infinitely.

    Args:
        inner: mean distance of a cluster's rows to its centroid, one per cluster, at least two.
        squared: squared distances of centroids: clusters x (clusters - 1), to the others in order.

    Source: Davies and Bouldin 1979, with the mean distance and p = 2.
    """
    others = _others(len(inner))
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = (inner[:, None] + inner[others]) / np.sqrt(squared)
    return float(np.where(np.isnan(overlap), np.inf, overlap).max(axis=1).mean())


def nearest(squared: Floats) -> Counts:
    """Return each cluster's nearest other one, by position; `squared` as in `davies_bouldin`."""
    rows = np.arange(len(squared))
    chosen: Counts = _others(len(squared))[rows, squared.argmin(axis=1)]
    return chosen


def _others(count: int) -> Counts:
    """Return for each of `count` clusters the positions of the others: count x (count - 1)."""
    return np.nonzero(~np.eye(count, dtype=bool))[1].reshape(count, count - 1)


def _pairs(sizes: Counts) -> int:
    """Return how many pairs of rows are in one group together."""
    return sum(math.comb(size, 2) for size in sizes.ravel().tolist())
