"""Lloyd's iteration on the columns of one party, and the shape of clusters from sums of it.

A squared distance is a sum over columns, a mean goes by columns. So each party does with its own
columns what plain k-means does with all, and only distances have to be summed over the parties.

Source: Lloyd 1982, "Least squares quantization in PCM".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.evaluation.clustering import davies_bouldin

Floats = NDArray[np.float64]
Clusters = NDArray[np.int32]  #: one per row, from 0

BLOCK_CELLS: Final = 1 << 20  #: of differences that are in memory at a time
MAX_BITS: Final = 900  #: squared distances are below 2**900, which leaves room for their sums


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterMeasures:
    """The clusters that have rows; distances are those over the columns of all parties."""

    indexes: tuple[int, ...]  #: ascending
    counts: tuple[int, ...]  #: rows
    inner: Floats  #: mean distance of the rows to the centroid
    radius: Floats  #: the largest of these distances
    apart: Floats  #: squared distances of the centroids: clusters x (clusters - 1), without itself

    @property
    def dbi(self) -> float | None:
        """Return the Davies-Bouldin index; None with one cluster, or if two centroids coincide."""
        if len(self.indexes) < 2:
            return None
        value = davies_bouldin(self.inner, self.apart)
        return value if math.isfinite(value) else None


def squared_distances(points: Floats, centroids: Floats) -> Floats:
    """Return the squared distance of every point to every centroid: points x centroids.

    Differences are squared as they are, so close points lose no digits.
    """
    found = np.empty((len(points), len(centroids)), dtype=np.float64)
    step = max(1, BLOCK_CELLS // max(1, points.shape[1]))
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        for number, centroid in enumerate(centroids):
            away = points[rows] - centroid
            found[rows, number] = np.einsum("ij,ij->i", away, away)
    return found


def means(features: Floats, clusters: Clusters, centroids: Floats) -> Floats:
    """Return the mean of every cluster's rows; a cluster without rows keeps its centroid.

    A sum of many values is rounded many times, so means are kept between the least and the largest
    value: no centroid leaves the rows, and equal values are their own mean.
    """
    moved = centroids.copy()
    for number in range(len(centroids)):
        members = features[clusters == number]
        if len(members):
            mean = members.mean(axis=0)
            moved[number] = np.clip(mean, members.min(axis=0), members.max(axis=0))
    return moved


def movement(before: Floats, after: Floats) -> float:
    """Return the sum of the squared distances by which centroids have moved."""
    return float(np.square(after - before).sum())


def distance_bits(*points: Floats) -> int:
    """Return b with all squared distances of these points, and of means of them, below 2**b.

    It is at least -900, and more than 900 if the distances are too large to be summed.
    """
    low = np.min([part.min(axis=0) for part in points], axis=0)
    high = np.max([part.max(axis=0) for part in points], axis=0)
    with np.errstate(over="ignore"):
        bound = float(np.square(high - low).sum())
    if not math.isfinite(bound):
        return MAX_BITS + 1
    if bound == 0:
        return -MAX_BITS
    return max(-MAX_BITS, math.frexp(bound)[1] + 1)  # the sums of squares are rounded


def cluster_sizes(clusters: Clusters, count: int) -> list[int]:
    """Return the number of rows of each of `count` clusters."""
    sizes: list[int] = np.bincount(clusters, minlength=count).tolist()
    return sizes


def measures_of(clusters: Clusters, own: Floats, centroid_distances: Floats) -> ClusterMeasures:
    """Return the measures of the clusters that have rows.

    Args:
        own: each row's squared distance to its centroid.
        centroid_distances: squared, clusters x clusters.
    """
    k = len(centroid_distances)
    away = np.sqrt(own)
    counts = np.bincount(clusters, minlength=k)
    radius = np.zeros(k)
    np.maximum.at(radius, clusters, away)
    kept = np.flatnonzero(counts)
    between = centroid_distances[np.ix_(kept, kept)]
    others = ~np.eye(len(kept), dtype=bool)
    return ClusterMeasures(
        indexes=tuple(kept.tolist()),
        counts=tuple(counts[kept].tolist()),
        inner=np.bincount(clusters, weights=away, minlength=k)[kept] / counts[kept],
        radius=radius[kept],
        apart=between[others].reshape(len(kept), len(kept) - 1),
    )
