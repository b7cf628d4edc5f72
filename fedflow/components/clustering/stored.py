"""A trained HeteroKmeans: one party's part of the centroids, and how it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.clustering.params import FEWEST, HeteroKmeansParams
from fedflow.components.samples.stored import own_model
from fedflow.sdk import BadData, BadParameter, Context, Model, Role
from fedflow.sdk.decoding import read_as

Floats = NDArray[np.float64]

META: Final = "HeteroKmeansMeta"
PARAM: Final = "HeteroKmeansParam"


@dataclass(frozen=True, kw_only=True, slots=True)
class KmeansModel:
    """One party's part of a model; the arbiter has the number of clusters alone."""

    k: int
    header: tuple[str, ...] = ()
    centroids: Floats | None = None  #: clusters x columns of this party

    def to_model(
        self,
        params: HeteroKmeansParams,
        *,
        sizes: Sequence[int],
        iterations: int,
        converged: bool,
    ) -> Model:
        """Return the model's objects; `sizes` are the training rows per cluster.

        Source: docs/reference/models.md#clusters; `max_interation` is FATE's spelling.
        """
        total = sum(sizes)
        rows = [] if self.centroids is None else self.centroids.tolist()
        return Model(
            meta_name=META,
            param_name=PARAM,
            meta={"k": params.k, "tol": params.tol, "max_iter": params.max_iter},
            param={
                "count_of_clusters": self.k,
                "max_interation": iterations,
                "converged": converged,
                "cluster_detail": [
                    {"cluster": [index, size, size / total]} for index, size in enumerate(sizes)
                ],
                "centroid_detail": [{"centroid": row} for row in rows],
                "header": list(self.header),
            },
        )


def stored_model(ctx: Context) -> KmeansModel:
    """Return this party's part of the connected model.

    Raises: BadParameter: there is none. BadData: it is not of HeteroKmeans, or damaged.
    """
    model = own_model(ctx, PARAM)
    if model is None:
        raise BadParameter(path="input.model", reason="test_data needs a trained model")
    try:
        stored = read_as(dict(model.param), _Stored)
    except msgspec.ValidationError as exc:
        raise _damaged(str(exc)) from exc
    if stored.count_of_clusters < FEWEST:
        raise _damaged(f"it has {stored.count_of_clusters} clusters")
    if ctx.site.role is Role.ARBITER:
        return KmeansModel(k=stored.count_of_clusters)
    return _with_centroids(stored)


class _Centroid(msgspec.Struct, frozen=True, kw_only=True):
    centroid: list[float]


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What prediction needs of a stored model."""

    count_of_clusters: int
    centroid_detail: list[_Centroid] = msgspec.field(default_factory=list)
    header: list[str] = msgspec.field(default_factory=list)


def _with_centroids(stored: _Stored) -> KmeansModel:
    k, header = stored.count_of_clusters, stored.header
    rows = [one.centroid for one in stored.centroid_detail]
    if not header or len(set(header)) < len(header):
        raise _damaged("it has no columns, or one twice")
    if len(rows) != k or any(len(row) != len(header) for row in rows):
        raise _damaged(f"it does not have {k} centroids of {len(header)} columns")
    centroids = np.array(rows, dtype=np.float64)
    if not np.isfinite(centroids).all():
        raise _damaged("a centroid is not finite")
    return KmeansModel(k=k, header=tuple(header), centroids=centroids)


def _damaged(reason: str) -> BadData:
    return BadData(where="the model input", reason=f"it is not of HeteroKmeans ({reason})")


def summary_of(
    sizes: Sequence[int], *, iterations: int | None = None, converged: bool = False
) -> dict[str, object]:
    """Return the component's summary; without `iterations` that of a prediction."""
    about: dict[str, object] = {"cluster_sizes": {str(i): size for i, size in enumerate(sizes)}}
    if iterations is None:
        return about
    return {"iterations": iterations, "is_converged": converged, **about}
