"""Writes measures as metrics, with the names, types and meta that FATE Board reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.evaluation.binary import BinaryScores, Curve
from fedflow.components.evaluation.clustering import agreement, davies_bouldin, nearest
from fedflow.components.evaluation.metrics import written, written_all
from fedflow.components.evaluation.multiclass import class_scores
from fedflow.sdk import Context


class Recorder:
    """Writes metrics of one producing component and part, named as FATE Board reads them."""

    def __init__(self, ctx: Context, producer: str, part: str, *, clustering: bool = False) -> None:
        self.log = ctx.log
        self.producer = producer
        self.part = part
        self._tracker = ctx.tracker
        self._summary_type = f"{'CLUSTERING_' if clustering else ''}EVALUATION_SUMMARY"

    def scalars(self, values: dict[str, float]) -> None:
        """Record values, in their order."""
        self._write(self.producer, self._summary_type, points=list(values.items()))

    def against_rest(self, name: str, values: dict[str, float]) -> None:
        """Record values of the class `name` against all others."""
        points = list(values.items())
        self._write(f"{self.producer}_class_{name}_ovr", "ovr", points=points)

    def curve(
        self,
        suffix: str,
        metric_type: str,
        curve: Curve,
        *,
        axes: tuple[str, str] = ("", ""),
        paired: bool = False,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Record a drawing; `paired` ones are drawn together with the producer's other."""
        points = list(zip(written_all(curve.x), written_all(curve.y), strict=True))
        meta: dict[str, Any] = {
            "unit_name": axes[0],
            "ordinate_name": axes[1],
            "curve_name": f"{self.producer}_{suffix.removeprefix('ks_')}",
            "thresholds": written_all(curve.thresholds),
        }
        if paired:
            meta["pair_type"] = self.producer
        self._write(
            f"{self.producer}_{suffix}", metric_type, points=points, meta=meta | (extra or {})
        )

    def table(self, suffix: str, meta: dict[str, Any]) -> None:
        """Record a table that is kept in the meta only."""
        self._write(f"{self.producer}_{suffix}", suffix.upper(), meta=meta)

    def _write(
        self,
        name: str,
        metric_type: str,
        *,
        points: list[tuple[Any, Any]] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self._tracker.metric(
            self.part,
            name,
            metric_type=metric_type,
            points=points or [],
            meta={"name": name, "metric_type": metric_type, **(meta or {})},
        )


def record_binary(recorder: Recorder, chosen: set[str], scores: BinaryScores) -> dict[str, float]:
    """Record the curves and return AUC and KS as far as they are asked for and defined."""
    scalars: dict[str, float] = {}
    if scores.has_both_classes:
        if "auc" in chosen:
            scalars["auc"] = written(scores.auc())
        if "ks" in chosen:
            value, fpr, tpr = scores.ks()
            scalars["ks"] = written(value)
            exact = {"exact_ks": written(scores.exact_ks())}
            recorder.curve("ks_fpr", "KS_EVALUATION", fpr, axes=("", "fpr"), paired=True)
            recorder.curve(
                "ks_tpr", "KS_EVALUATION", tpr, axes=("", "tpr"), paired=True, extra=exact
            )
        if "roc" in chosen:
            recorder.curve("roc", "ROC_EVALUATION", scores.roc(), axes=("fpr", "tpr"))
    else:
        recorder.log.warning(
            "the %s labels of %s are of one class: no auc, ks, roc",
            recorder.part,
            recorder.producer,
        )
    if scores.positives:
        lift, gain = scores.lift_and_gain()
        if "lift" in chosen:
            recorder.curve("lift", "LIFT_EVALUATION", lift, axes=("", "lift"))
        if "gain" in chosen:
            recorder.curve("gain", "GAIN_EVALUATION", gain, axes=("", "gain"))
    _by_threshold(recorder, chosen, scores)
    return scalars


def record_classes(
    recorder: Recorder,
    chosen: Sequence[str],
    true: NDArray[Any],
    predicted: NDArray[Any],
) -> dict[str, float]:
    """Record precision and recall per class and return the means over the classes.

    `true` and `predicted` are classes of one type, one per row.
    """
    scores = class_scores(true, predicted)
    scalars: dict[str, float] = {}
    index = np.arange(len(scores.classes), dtype=np.float64)
    for name in chosen:
        if name == "accuracy":
            scalars[name] = written(scores.accuracy)
            continue
        values = scores.precision if name == "precision" else scores.recall
        scalars[name] = written(float(values.mean()))
        recorder.curve(
            name,
            f"{name.upper()}_MULTI_EVALUATION",
            Curve(x=index, y=values, thresholds=index),
            axes=("", name),
            paired=True,
            extra={"classes": [str(c) for c in scores.classes]},
        )
    return scalars


def record_unfolded(recorder: Recorder, name: str, scores: BinaryScores) -> None:
    """Record AUC and KS of the class `name` against the rest, if both are there."""
    if not scores.has_both_classes:
        recorder.log.warning(
            "the %s rows of %s are all or none of the class %s: no auc, ks of it",
            recorder.part,
            recorder.producer,
            name,
        )
        return
    values = {"auc": written(scores.auc()), "ks": written(scores.ks()[0])}
    recorder.against_rest(name, values)


def record_agreement(
    recorder: Recorder, chosen: Sequence[str], true: NDArray[Any], clusters: NDArray[Any]
) -> dict[str, float]:
    """Record the contingency matrix and return the measures of clusters against classes."""
    found = agreement(true, clusters)
    if "contingency_matrix" in chosen:
        meta = {
            "true_labels": list(found.classes),
            "predicted_labels": list(found.clusters),
            "result_table": found.contingency.tolist(),
        }
        recorder.table("contingency_matrix", meta)
    values = {
        "jaccard_similarity_score": found.jaccard,
        "fowlkes_mallows_score": found.fowlkes_mallows,
        "adjusted_rand_score": found.adjusted_rand,
    }
    return {name: written(value) for name, value in values.items() if name in chosen}


def record_shape(
    recorder: Recorder,
    chosen: Sequence[str],
    *,
    names: Sequence[str],
    inner: NDArray[np.float64],
    radius: NDArray[np.float64],
    squared: NDArray[np.float64],
) -> dict[str, float]:
    """Record radius and nearest cluster of each, and return the Davies-Bouldin index.

    One entry per cluster: `names` are the clusters' indexes, `inner` and `squared` as in
    `clustering.davies_bouldin`.
    """
    if "distance_measure" in chosen:
        meta = {
            "cluster_index": list(names),
            "radius": written_all(radius),
            "nearest_idx": [names[at] for at in nearest(squared).tolist()],
        }
        recorder.table("distance_measure", meta)
    if "davies_bouldin_index" not in chosen:
        return {}
    return {"davies_bouldin_index": written(davies_bouldin(inner, squared))}


def _by_threshold(recorder: Recorder, chosen: set[str], scores: BinaryScores) -> None:
    """Record what is defined for one class too."""
    if "accuracy" in chosen:
        recorder.curve("accuracy", "ACCURACY_EVALUATION", scores.accuracy(), axes=("", "accuracy"))
    if "precision" in chosen:
        precision, recall = scores.precision_and_recall()
        for name, curve in (("precision", precision), ("recall", recall)):
            kind = f"{name.upper()}_BINARY_EVALUATION"
            recorder.curve(name, kind, curve, axes=("", name), paired=True)
    if "confusion_mat" in chosen:
        recorder.table("confusion_mat", scores.confusion())
    if "f1_score" in chosen:
        f1 = scores.f1()
        recorder.table(
            "f1_score", {"f1_scores": written_all(f1.y), "thresholds": written_all(f1.thresholds)}
        )
    if "quantile_pr" in chosen:
        by_class, recalls, thresholds = scores.quantile_precision_recall()
        recorder.table(
            "quantile_pr",
            {
                "p_scores": [written_all(pair) for pair in by_class],
                "r_scores": [written_all(pair) for pair in recalls],
                "thresholds": written_all(thresholds),
            },
        )
