"""A stored metric taken apart: which type it has, which model and part it is about, its points."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.charts import Series, finite
from fedflow.domain.records import Metric

Texts = Callable[..., str]  #: `language.t`, or what stands for it

PARTS: Final = ("train", "validate", "predict", "test")  #: in the order in which they are shown
_ITERATION: Final = re.compile(r"(?:(?P<fold>fold_\d{1,9})\.)?iteration_(?P<number>\d{1,9})")


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricItem:
    """One metric. `model` is its name without the ending that tells its type."""

    kind: str
    model: str
    part: str
    name: str
    points: tuple[tuple[Any, Any], ...]
    meta: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return model and part, for rows and legends."""
        return f"{self.model} · {self.part}" if self.part else self.model

    def list_of(self, member: str) -> list[Any]:
        """Return a member of the meta that should be a list; else an empty one."""
        value = self.meta.get(member)
        return value if isinstance(value, list) else []

    def map_of(self, member: str) -> dict[str, Any]:
        """Return a member of the meta that should be an object; else an empty one."""
        value = self.meta.get(member)
        return value if isinstance(value, dict) else {}


_ENDINGS: Final = {
    "ROC_EVALUATION": ("_roc",),
    "KS_EVALUATION": ("_ks_fpr", "_ks_tpr"),
    "LIFT_EVALUATION": ("_lift",),
    "GAIN_EVALUATION": ("_gain",),
    "ACCURACY_EVALUATION": ("_accuracy",),
    "PRECISION_BINARY_EVALUATION": ("_precision",),
    "RECALL_BINARY_EVALUATION": ("_recall",),
    "PRECISION_MULTI_EVALUATION": ("_precision",),
    "RECALL_MULTI_EVALUATION": ("_recall",),
    "QUANTILE_PR": ("_quantile_pr",),
    "CONFUSION_MAT": ("_confusion_mat",),
    "F1_SCORE": ("_f1_score",),
    "PSI": ("_psi",),
    "ovr": ("_ovr",),
    "CONTINGENCY_MATRIX": ("_contingency_matrix",),
    "DISTANCE_MEASURE": ("_distance_measure",),
}


def items_of(metrics: Iterable[Metric]) -> list[MetricItem]:
    """Return metrics taken apart, those of train first, then validate, predict, test, others."""
    found = [_item(metric) for metric in metrics]
    return sorted(found, key=lambda item: PARTS.index(item.part) if item.part in PARTS else 9)


def _item(metric: Metric) -> MetricItem:
    kind = metric.meta.get("metric_type")
    kind = kind if isinstance(kind, str) else ""
    model = metric.name
    for ending in _ENDINGS.get(kind, ()):
        if model.endswith(ending) and len(model) > len(ending):
            model = model.removesuffix(ending)
            break
    return MetricItem(
        kind=kind, model=model, part=metric.namespace, name=metric.name,
        points=metric.points, meta=metric.meta,
    )  # fmt: skip


def series_of(item: MetricItem, *, name: str = "", with_notes: bool = True) -> Series:
    """Return a metric as a curve; points whose x cannot be drawn are left out.

    `thresholds` in the meta run parallel to the points as they were written.
    """
    thresholds = item.list_of("thresholds") if with_notes else []
    found: list[tuple[float, float | None, str]] = []
    for at, (key, value) in enumerate(item.points):
        place = finite(key)
        if place is not None:
            note = _note(thresholds[at]) if at < len(thresholds) else ""
            found.append((place, finite(value), note))
    found.sort(key=lambda point: point[0])
    return Series(
        name=name or item.label, model=item.model, part=item.part,
        x=tuple(point[0] for point in found), y=tuple(point[1] for point in found),
        notes=tuple(point[2] for point in found) if thresholds else (),
    )  # fmt: skip


def _note(threshold: Any) -> str:
    number = finite(threshold)
    return str(threshold)[:40] if number is None else f"{number:.6g}"


def by_label(items: Sequence[MetricItem]) -> dict[tuple[str, str], list[MetricItem]]:
    """Return metrics by model and part, in their order."""
    found: dict[tuple[str, str], list[MetricItem]] = {}
    for item in items:
        found.setdefault((item.model, item.part), []).append(item)
    return found


def iteration_of(model: str) -> tuple[str, int] | None:
    """Return fold (or nothing) and iteration of a model that stands for one, else None."""
    found = _ITERATION.fullmatch(model)
    return (found["fold"] or "", int(found["number"])) if found else None
