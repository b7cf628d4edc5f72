"""Writes measures as metrics, with the names, types and meta that FATE Board reads."""

from __future__ import annotations

from typing import Any

from fedflow.components.evaluation.binary import BinaryScores, Curve
from fedflow.components.evaluation.metrics import written, written_all
from fedflow.sdk import Context


class Recorder:
    """Writes metrics of one producing component and part, named as FATE Board reads them."""

    def __init__(self, ctx: Context, producer: str, part: str) -> None:
        self.log = ctx.log
        self.producer = producer
        self.part = part
        self._tracker = ctx.tracker

    def scalars(self, values: dict[str, float]) -> None:
        """Record values, in their order."""
        self._write(self.producer, "EVALUATION_SUMMARY", points=list(values.items()))

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
