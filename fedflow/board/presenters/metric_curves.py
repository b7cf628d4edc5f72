"""Metrics that are drawn as curves or bars, by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflow.board.presenters.charts import Chart, Grid, Series, VerticalLine, View, finite, shown
from fedflow.board.presenters.metric_items import (
    MetricItem,
    Texts,
    by_label,
    iteration_of,
    series_of,
)


def loss(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Losses of a model and its folds over the iterations."""
    return [
        Chart(
            key="loss", title=t("Loss"), x_label=t("Iteration"), y_label=t("Loss"),
            series=tuple(series_of(i, name=_curve_name(i)) for i in items),
        )
    ]  # fmt: skip


def _curve_name(item: MetricItem) -> str:
    curve = item.meta.get("curve_name")
    return curve if isinstance(curve, str) and curve else item.label


def round_seconds(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """How long each round of a training took at this party."""
    return [_seconds("round-seconds", t("Seconds per round"), t("Iteration"), items, t)]


def tree_seconds(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """How long each tree and its levels took at this party."""
    return [_seconds("tree-seconds", t("Seconds per tree"), t("Tree"), items, t)]


def _seconds(key: str, title: str, x_label: str, items: Sequence[MetricItem], t: Texts) -> Chart:
    series = tuple(series_of(i, name=_curve_name(i)) for i in items)
    return Chart(key=key, title=title, x_label=x_label, y_label=t("Seconds"), series=series)


def dbi(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """The Davies-Bouldin index over the iterations."""
    return [
        Chart(
            key="dbi", title=t("Davies-Bouldin index"), x_label=t("Iteration"),
            y_label=t("Davies-Bouldin index"), series=tuple(series_of(i) for i in items),
        )
    ]  # fmt: skip


def roc(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """ROC curves of all models and parts in one chart."""
    return [
        Chart(
            key="roc", title=t("ROC curve"), x_label=t("False positive rate"),
            y_label=t("True positive rate"), note_label=t("Threshold"), area=True, diagonal=True,
            series=tuple(series_of(i) for i in items),
        )
    ]  # fmt: skip


def ks(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Both rates of each model and part, with the largest gap of each marked."""
    series: list[Series] = []
    marks: list[VerticalLine] = []
    for (model, part), pair in by_label(items).items():
        curves: dict[str, Series] = {}
        for item in pair:
            rate = "tpr" if item.name.endswith("tpr") else "fpr"
            curves[rate] = series_of(item, name=f"{item.label} {rate}")
        series += [curves[rate] for rate in ("tpr", "fpr") if rate in curves]
        if len(curves) == 2:
            mark = _largest_gap(curves["tpr"], curves["fpr"], f"{model} · {part}", t)
            marks += [mark] if mark else []
    return [
        Chart(
            key="ks", title=t("KS curve"), x_label=t("Share of rows"), y_label=t("Rate"),
            note_label=t("Threshold"), series=tuple(series), marks=tuple(marks),
        )
    ]  # fmt: skip


def _largest_gap(tpr: Series, fpr: Series, label: str, t: Texts) -> VerticalLine | None:
    other = dict(zip(fpr.x, fpr.y, strict=True))
    best: VerticalLine | None = None
    for at, x in enumerate(tpr.x):
        high, low = tpr.y[at], other.get(x)
        if high is None or low is None or (best and high - low <= best.high - best.low):
            continue
        note = tpr.notes[at] if at < len(tpr.notes) else ""
        gap = shown(round(high - low, 6))
        text = t("{label}: KS {gap} at {x} (threshold {threshold})", label=label, gap=gap,
                 x=shown(x), threshold=note or "-")  # fmt: skip
        best = VerticalLine(x=x, low=low, high=high, text=text)
    return best


def lift(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Lift over the share of rows that count as positive."""
    return [_by_cut("lift", t("Lift"), items, t, area=False)]


def gain(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Gain over the share of rows that count as positive."""
    return [_by_cut("gain", t("Gain"), items, t, area=False)]


def accuracy(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Accuracy over the cuts."""
    return [_by_cut("accuracy", t("Accuracy"), items, t, area=False)]


def _by_cut(key: str, title: str, items: Sequence[MetricItem], t: Texts, *, area: bool) -> Chart:
    return Chart(
        key=key, title=title, x_label=t("Share of rows"), y_label=title,
        note_label=t("Threshold"), area=area, series=tuple(series_of(i) for i in items),
    )  # fmt: skip


def precision_recall(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Precision over recall: both are joined on the cut; of equal recalls the best precision."""
    series = []
    for (model, part), pair in by_label(items).items():
        found = {("recall" if "RECALL" in i.kind else "precision"): i for i in pair}
        if len(found) == 2:
            series.append(_joined(model, part, found["precision"], found["recall"]))
        else:
            series += [series_of(i, name=f"{i.label} {kind}") for kind, i in found.items()]
    return [
        Chart(
            key="precision-recall", title=t("Precision and recall"), x_label=t("Recall"),
            y_label=t("Precision"), note_label=t("Threshold"), series=tuple(series),
        )
    ]  # fmt: skip


def _joined(model: str, part: str, precision: MetricItem, recall: MetricItem) -> Series:
    up, across = series_of(precision), series_of(recall)
    at_cut = dict(zip(across.x, across.y, strict=True))
    best: dict[float, tuple[float, str]] = {}
    for at, cut in enumerate(up.x):
        x, y = at_cut.get(cut), up.y[at]
        if x is None or y is None:
            continue
        if x not in best or y > best[x][0]:
            best[x] = (y, up.notes[at] if at < len(up.notes) else "")
    x_values = sorted(best)
    return Series(
        name=precision.label, model=model, part=part, x=tuple(x_values),
        y=tuple(best[x][0] for x in x_values), notes=tuple(best[x][1] for x in x_values),
    )  # fmt: skip


def by_class(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Precision and recall of each class, as bars."""
    classes: tuple[str, ...] = ()
    series = []
    for item in items:
        names = tuple(shown(c) for c in item.list_of("classes"))
        classes = names if len(names) > len(classes) else classes
        measure = t("Recall") if "RECALL" in item.kind else t("Precision")
        curve = series_of(item, name=f"{item.label} {measure}", with_notes=False)
        series.append(_as_bars(curve))
    positions = max((int(x) for s in series for x in s.x if 0 <= x < 100_000), default=-1) + 1
    names = classes if len(classes) >= positions else tuple(str(i) for i in range(positions))
    return [
        Chart(
            key="precision-recall-classes", title=t("Precision and recall by class"),
            x_label=t("Class"), y_label=t("Precision, recall"), series=tuple(series),
            categories=names,
        )
    ]  # fmt: skip


def _as_bars(series: Series) -> Series:
    return Series(
        name=series.name, model=series.model, part=series.part, x=series.x, y=series.y,
        is_line=False,
    )  # fmt: skip


def psi(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Per model: totals, how rows moved over the intervals as bars with the index, and a table."""
    totals = [(i.model, i.meta.get("total_psi")) for i in items]
    views: list[View] = [
        Grid(key="psi", title=t("Population stability index"), columns=(t("Model"), "PSI"),
             rows=tuple(totals))
    ]  # fmt: skip
    for number, item in enumerate(items):
        names = tuple(shown(name) for name in item.list_of("intervals"))
        views.append(_psi_chart(item, names, f"psi-{number}", t))
        columns = (
            ("expected_interval", t("Train rows")), ("expected_percentage", t("Train share")),
            ("train_pos_perc", t("Train event ratio")), ("actual_interval", t("Validate rows")),
            ("actual_percentage", t("Validate share")),
            ("validate_pos_perc", t("Validate event ratio")), ("psi_scores", "PSI"),
        )  # fmt: skip
        lists = [item.list_of(member) for member, _ in columns]
        count = max([len(names), *map(len, lists)])
        rows = tuple(
            (_at(names, row), *(_at(values, row) for values in lists)) for row in range(count)
        )
        views.append(
            Grid(key=f"psi-intervals-{number}", title=t("Intervals of {model}", model=item.model),
                 columns=(t("Interval"), *(title for _, title in columns)), rows=rows)
        )  # fmt: skip
    return views


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _psi_chart(item: MetricItem, names: tuple[str, ...], key: str, t: Texts) -> Chart:
    def series(member: str, name: str, *, is_line: bool) -> Series:
        values = tuple(finite(v) for v in item.list_of(member))
        return Series(
            name=name, model=item.model, part="", x=tuple(float(i) for i in range(len(values))),
            y=values, is_line=is_line, axis=int(is_line),
        )  # fmt: skip

    return Chart(
        key=key, title=t("Shares of rows and PSI of {model}", model=item.model),
        x_label=t("Interval"), y_label=t("Share of rows"), right_label="PSI", categories=names,
        series=(
            series("expected_percentage", t("Train share"), is_line=False),
            series("actual_percentage", t("Validate share"), is_line=False),
            series("psi_scores", "PSI", is_line=True),
        ),
    )  # fmt: skip


def measures_over_iterations(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Measures that were taken again and again while a model was trained, one chart per measure."""
    found: dict[str, dict[tuple[str, str], list[tuple[int, Any]]]] = {}
    for item in items:
        place = iteration_of(item.model)
        if place is None:
            continue
        for name, value in item.points:
            found.setdefault(shown(name), {}).setdefault((place[0], item.part), []).append(
                (place[1], value)
            )
    charts: list[View] = []
    for number, (measure, curves) in enumerate(found.items()):
        if max(map(len, curves.values())) < 2 or number >= 20:
            continue
        charts.append(
            Chart(
                key=f"iterations-{number}", title=t("{measure} over iterations", measure=measure),
                x_label=t("Iteration"), y_label=measure,
                series=tuple(
                    Series(
                        name=" · ".join(filter(None, name)), model=name[0], part=name[1],
                        x=tuple(float(x) for x, _ in sorted(points, key=lambda p: p[0])),
                        y=tuple(finite(y) for _, y in sorted(points, key=lambda p: p[0])),
                    )
                    for name, points in curves.items()
                ),
            )
        )  # fmt: skip
    return charts
