"""All metrics of a component as groups of views: which type is drawn how, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fedflow.board.presenters import metric_curves as curves
from fedflow.board.presenters import metric_rounds as rounds
from fedflow.board.presenters import metric_tables as tables
from fedflow.board.presenters.charts import Group, View
from fedflow.board.presenters.metric_items import MetricItem, Texts, items_of
from fedflow.domain.records import Metric

_Builder = Callable[[Sequence[MetricItem], Texts], list[View]]
_Rule = tuple[str, tuple[str, ...], tuple[_Builder, ...]]

_RULES: Final[tuple[_Rule, ...]] = (
    ("scores", ("EVALUATION_SUMMARY",), (tables.scores, curves.measures_over_iterations)),
    ("clustering", ("CLUSTERING_EVALUATION_SUMMARY",), (tables.cluster_scores,)),
    ("loss", ("LOSS",), (curves.loss,)),
    ("participation", ("PARTICIPATION",), (rounds.participation,)),
    ("round-seconds", ("ROUND_SECONDS",), (curves.round_seconds,)),
    ("tree-seconds", ("TREE_SECONDS",), (curves.tree_seconds,)),
    ("roc", ("ROC_EVALUATION",), (curves.roc,)),
    ("ks", ("KS_EVALUATION",), (curves.ks,)),
    ("lift", ("LIFT_EVALUATION",), (curves.lift,)),
    ("gain", ("GAIN_EVALUATION",), (curves.gain,)),
    ("accuracy", ("ACCURACY_EVALUATION",), (curves.accuracy,)),
    (
        "precision-recall",
        ("PRECISION_BINARY_EVALUATION", "RECALL_BINARY_EVALUATION"),
        (curves.precision_recall,),
    ),
    (
        "classes",
        ("PRECISION_MULTI_EVALUATION", "RECALL_MULTI_EVALUATION"),
        (curves.by_class,),
    ),
    ("confusion", ("CONFUSION_MAT", "F1_SCORE"), (tables.confusion,)),
    ("quantiles", ("QUANTILE_PR",), (tables.quantile_scores,)),
    ("psi", ("PSI",), (curves.psi,)),
    ("ovr", ("ovr",), (tables.against_rest,)),
    ("dbi", ("DBI",), (curves.dbi,)),
    ("contingency", ("CONTINGENCY_MATRIX",), (tables.contingency,)),
    ("distances", ("DISTANCE_MEASURE",), (tables.distances,)),
    ("stepwise", ("STEPWISE",), (tables.stepwise,)),
    ("warm-start", ("init_iter",), (tables.warm_start,)),
    ("intersection", ("INTERSECTION",), (tables.intersection,)),
    ("data", ("data_info",), (tables.data_info,)),
    ("split", ("DATA_SPLIT",), (tables.data_split,)),
    ("sample", ("SAMPLE_TEXT", "SAMPLE_TABLE"), (tables.samples,)),
    ("union", ("UNION",), (tables.union,)),
    ("labels", ("LABEL_TRANSFORM",), (tables.label_transform,)),
    (
        "facts",
        (
            "SCALE", "SAMPLE_WEIGHT", "UPLOAD", "DOWNLOAD", "WRITER", "PU_MODEL",
            "component_model_info", "cache_info", "MODEL_LOADER", "CACHE_LOADER",
            "SBT_FEATURE_TRANSFORMER",
        ),
        (tables.facts_of_meta,),
    ),
)  # fmt: skip

KNOWN: Final = frozenset(kind for _, kinds, _ in _RULES for kind in kinds)
"""Metric types that have a drawing of their own."""

MOST_VIEWS: Final = 100  #: of a group

_MARKERS: Final = frozenset({"CORRELATION_GRAPH", "VIF_GRAPH"})  #: the data is in the model


def metric_groups(metrics: Iterable[Metric], t: Texts) -> tuple[Group, ...]:
    """Return what a page of these metrics shows. `t` translates."""
    items = items_of(metrics)
    titles = _titles(t)
    groups: list[Group] = []
    for key, kinds, builders in _RULES:
        chosen = [item for item in items if item.kind in kinds]
        if chosen:
            views = tuple(view for build in builders for view in build(chosen, t))
            groups.append(_bounded(key, titles[key], views))
    others = [i for i in items if i.kind not in KNOWN and not _is_marker(i)]
    if others:
        views = tuple(tables.unknown(others, t))
        groups.append(_bounded("others", t("Other metrics"), views))
    return tuple(groups)


def find_view(groups: Iterable[Group], key: str) -> View | None:
    """Return the view of that key, None if there is none."""
    return next((view for group in groups for view in group.views if view.key == key), None)


def _bounded(key: str, title: str, views: tuple[View, ...]) -> Group:
    kept = views[:MOST_VIEWS]
    return Group(key=key, title=title, views=kept, left_out=len(views) - len(kept))


def _is_marker(item: MetricItem) -> bool:
    return item.kind in _MARKERS and not item.points


def _titles(t: Texts) -> dict[str, str]:
    return {
        "scores": t("Scores"),
        "clustering": t("Clusters"),
        "loss": t("Loss"),
        "participation": t("Who took part"),
        "round-seconds": t("Seconds per round"),
        "tree-seconds": t("Seconds per tree"),
        "roc": t("ROC"),
        "ks": t("KS"),
        "lift": t("Lift"),
        "gain": t("Gain"),
        "accuracy": t("Accuracy"),
        "precision-recall": t("Precision and recall"),
        "classes": t("Classes"),
        "confusion": t("Confusion matrix"),
        "quantiles": t("Quantiles"),
        "psi": t("Stability"),
        "ovr": t("One class against the rest"),
        "dbi": t("Davies-Bouldin index"),
        "contingency": t("Contingency"),
        "distances": t("Distances"),
        "stepwise": t("Stepwise"),
        "warm-start": t("Warm start"),
        "intersection": t("Intersection"),
        "data": t("Data"),
        "split": t("Parts of the data"),
        "sample": t("Sample"),
        "union": t("Union"),
        "labels": t("Labels"),
        "facts": t("Facts"),
    }
