"""Metrics that are shown as tables, facts or steps, by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.board.presenters.charts import (
    Chart,
    Grid,
    MetricTree,
    NamedValues,
    Series,
    Steps,
    View,
    finite,
    is_number,
    shown,
)
from fedflow.board.presenters.metric_items import MetricItem, Texts, iteration_of, series_of
from fedflow.board.presenters.slugs import slug

MOST_STEPPED: Final = 20  #: models whose tables one slider changes
MOST_FRAMES: Final = 500
_OWN_MEMBERS: Final = frozenset({"name", "metric_type", "unit_name", "ordinate_name", "curve_name",
                                 "pair_type"})  # fmt: skip


# --- scores ---------------------------------------------------------------------------------------


def scores(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """One row per model and part, one column per measure; those of iterations are drawn."""
    kept = [i for i in items if iteration_of(i.model) is None] or list(items)[-10:]
    return [_score_grid("scores", t("Scores"), kept, t)]


def _score_grid(key: str, title: str, items: Sequence[MetricItem], t: Texts) -> Grid:
    measures: list[str] = []
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for item in items:
        row = found.setdefault((item.model, item.part), {})
        for name, value in item.points:
            measure = shown(name)
            if measure not in measures:
                measures.append(measure)
            row[measure] = value
    rows = tuple((*names, *(row.get(m, "") for m in measures)) for names, row in found.items())
    return Grid(key=key, title=title, columns=(t("Model"), t("Part"), *measures), rows=rows)


def against_rest(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Measures of each class against all others: a table, and bars by class.

    They are the points of a metric per class, or, as FATE writes them, members of the meta.
    """
    items = [one for item in items for one in _by_class(item)]
    grid = _score_grid("ovr", t("One class against the rest"), items, t)
    names = tuple(dict.fromkeys(item.model for item in items))
    measures = grid.columns[2:]
    parts = tuple(dict.fromkeys(item.part for item in items))
    series = []
    for part in parts:
        for column, measure in enumerate(measures, start=2):
            values = {row[0]: row[column] for row in grid.rows if row[1] == part}
            places = [i for i, name in enumerate(names) if name in values]
            series.append(
                Series(
                    name=f"{measure} · {part}", model=measure, part=part, is_line=False,
                    x=tuple(float(i) for i in places),
                    y=tuple(finite(values[names[i]]) for i in places),
                )
            )  # fmt: skip
    chart = Chart(
        key="ovr-bars", title=t("One class against the rest by class"), x_label=t("Class"),
        y_label=t("Value"), series=tuple(series), categories=names,
    )  # fmt: skip
    return [grid, chart] if series else [grid]


def _by_class(item: MetricItem) -> list[MetricItem]:
    if item.points:
        return [item]
    return [
        replace(item, model=f"{item.model} {name}", points=tuple(measures.items()))
        for name, measures in item.meta.items()
        if isinstance(measures, dict)
    ]


# --- by threshold ---------------------------------------------------------------------------------


def confusion(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Confusion matrices and F1 scores of all models, by threshold."""
    matrices = [i for i in items if i.kind == "CONFUSION_MAT"][-MOST_STEPPED:]
    f1 = {(i.model, i.part): _by_threshold(i, "f1_scores") for i in items if i.kind == "F1_SCORE"}
    counts = {
        (i.model, i.part): {m: _by_threshold(i, m) for m in ("tp", "fn", "fp", "tn")}
        for i in matrices
    }
    if not counts:
        return f1_alone([i for i in items if i.kind == "F1_SCORE"], t)
    labels = sorted({at for of in counts.values() for values in of.values() for at in values})
    columns = (
        t("Model"), t("Part"), t("Actual"), t("Predicted positive"), t("Predicted negative"), "F1",
    )  # fmt: skip
    frames: list[tuple[Grid, ...]] = []
    for at in labels[:MOST_FRAMES]:
        rows: list[tuple[Any, ...]] = []
        for names, of in counts.items():
            cells = {m: values.get(at) for m, values in of.items()}
            total = sum(v for c in cells.values() if (v := finite(c)) is not None)
            tp, fn, fp, tn = (_with_share(cells[m], total) for m in ("tp", "fn", "fp", "tn"))
            rows.append((*names, t("positive"), tp, fn, f1.get(names, {}).get(at, "")))
            rows.append((*names, t("negative"), fp, tn, ""))
        frames.append((Grid(key="confusion", title="", columns=columns, rows=tuple(rows)),))
    return [_steps("confusion", t("Confusion matrix"), t("Threshold"), labels, frames)]


def f1_alone(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """F1 scores over the threshold, where no confusion matrix shows them."""
    series = []
    for item in items:
        values = _by_threshold(item, "f1_scores")
        x = tuple(sorted(values))
        series.append(
            Series(name=item.label, model=item.model, part=item.part, x=x,
                   y=tuple(finite(values[at]) for at in x))
        )  # fmt: skip
    return [
        Chart(key="f1", title=t("F1 score"), x_label=t("Threshold"), y_label="F1",
              series=tuple(series))
    ]  # fmt: skip


def quantile_scores(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Precision and recall of both classes at quantiles of the scores."""
    chosen = items[-MOST_STEPPED:]
    count = max((len(i.list_of("thresholds")) for i in chosen), default=0)
    columns = (
        t("Model"), t("Part"), t("Threshold"), t("Precision of positive"), t("Recall of positive"),
        t("Precision of negative"), t("Recall of negative"),
    )  # fmt: skip
    frames: list[tuple[Grid, ...]] = []
    for at in range(min(count, MOST_FRAMES)):
        rows = []
        for item in chosen:
            p, r = _pair(item.list_of("p_scores"), at), _pair(item.list_of("r_scores"), at)
            threshold = _at(item.list_of("thresholds"), at)
            rows.append((item.model, item.part, threshold, p[1], r[1], p[0], r[0]))
        frames.append((Grid(key="quantiles", title="", columns=columns, rows=tuple(rows)),))
    labels = [at / max(1, count - 1) for at in range(count)]
    title = t("Precision and recall by quantile")
    return [_steps("quantiles", title, t("Quantile"), labels, frames)]


def _steps(
    key: str, title: str, what: str, labels: Sequence[float], frames: Sequence[tuple[Grid, ...]]
) -> Steps:
    return Steps(
        key=key, title=title, what=what, labels=tuple(f"{at:.6g}" for at in labels[: len(frames)]),
        frames=tuple(frames), first=len(frames) // 2,
    )  # fmt: skip


def _by_threshold(item: MetricItem, member: str) -> dict[float, Any]:
    thresholds = (finite(at) for at in item.list_of("thresholds"))
    pairs = zip(thresholds, item.list_of(member), strict=False)
    return {at: value for at, value in pairs if at is not None}


def _with_share(count: Any, total: float) -> str:
    number = finite(count)
    if number is None or not total:
        return shown(count)
    return f"{shown(count)} ({100 * number / total:.1f} %)"


def _pair(values: Sequence[Any], at: int) -> tuple[Any, Any]:
    pair = _at(values, at)
    return (pair[0], pair[1]) if isinstance(pair, list) and len(pair) == 2 else (None, None)


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


# --- clusters -------------------------------------------------------------------------------------


def cluster_scores(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Measures of clusterings."""
    return [_score_grid("clustering", t("Scores of clusters"), items, t)]


def contingency(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Rows of each class in each cluster."""
    views: list[View] = []
    for number, item in enumerate(items):
        labels = item.list_of("true_labels")
        found = [row for row in item.list_of("result_table") if isinstance(row, list)]
        columns = (t("Class"), *(shown(c) for c in item.list_of("predicted_labels")))
        rows = tuple((_at(labels, at), *row) for at, row in enumerate(found))
        title = t("Classes and clusters of {model}", model=item.label)
        views.append(Grid(key=f"contingency-{number}", title=title, columns=columns, rows=rows))
    return views


def distances(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Radius and nearest cluster of each cluster."""
    views: list[View] = []
    for number, item in enumerate(items):
        lists = [item.list_of(m) for m in ("cluster_index", "radius", "nearest_idx")]
        rows = tuple(tuple(_at(v, at) for v in lists) for at in range(max(map(len, lists))))
        views.append(
            Grid(key=f"distances-{number}", title=t("Clusters of {model}", model=item.label),
                 columns=(t("Cluster"), t("Radius"), t("Nearest cluster")), rows=rows)
        )  # fmt: skip
    return views


# --- data -----------------------------------------------------------------------------------------

_RATES: Final = frozenset({"intersect_rate", "unmatched_rate", "Coverage"})


def intersection(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """How many ids are common; rates in percent."""
    views: list[View] = []
    for number, item in enumerate(items):
        rows = [(shown(name), _rate(name, value)) for name, value in item.points]
        rows += [(name, value) for name, value in item.meta.items() if name not in _OWN_MEMBERS]
        views.append(
            NamedValues(key=f"intersection-{number}", title=_title(item), rows=tuple(rows))
        )
    return views


def _rate(name: Any, value: Any) -> Any:
    number = finite(value)
    return f"{100 * number:.2f} %" if name in _RATES and number is not None else value


def data_info(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """What a reader read: facts of the table, and its columns with sample values."""
    views: list[View] = []
    for number, item in enumerate(items):
        samples, anonymous = item.map_of("table_info"), item.map_of("anonymous_info")
        attributes = item.map_of("attribute_info")
        inside = ("table_info", "anonymous_info", "attribute_info")
        facts = tuple(
            (name, value) for name, value in item.meta.items()
            if name not in inside and name not in _OWN_MEMBERS
        )  # fmt: skip
        views.append(NamedValues(key=f"data-{number}", title=t("Table"), rows=facts))
        names = list(dict.fromkeys([*samples, *anonymous, *attributes]))
        rows = tuple(
            (name, anonymous.get(name, ""), samples.get(name, ""), attributes.get(name, ""))
            for name in names
        )
        columns = (t("Column"), t("Name for others"), t("Sample values"), t("Attributes"))
        if rows:
            views.append(
                Grid(key=f"columns-{number}", title=t("Columns"), columns=columns, rows=rows)
            )
    return views


def data_split(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Rows of each part, their share, and with strata those of each label."""
    views: list[View] = []
    for number, item in enumerate(items):
        counts, ratios = item.map_of("data_split_count_info"), item.map_of("data_split_ratio_info")
        names = list(dict.fromkeys([*counts, *ratios]))
        rows = tuple((name, counts.get(name), ratios.get(name)) for name in names)
        views.append(
            Grid(key=f"split-{number}", title=t("Parts of the data"),
                 columns=(t("Part"), t("Rows"), t("Share")), rows=rows)
        )  # fmt: skip
        labels = item.map_of("data_split_label_info")
        if labels:
            views.append(_nested_grid(f"split-labels-{number}", t("Rows by label"), labels, t))
        rest = _rest(item, "data_split_count_info", "data_split_ratio_info",
                     "data_split_label_info")  # fmt: skip
        views += (
            [NamedValues(key=f"split-more-{number}", title=t("More"), rows=rest)] if rest else []
        )
    return views


def _nested_grid(key: str, title: str, found: Mapping[str, Any], t: Texts) -> Grid:
    """Return an object of objects as a table: outer names down, inner names across."""
    inner = list(
        dict.fromkeys(n for value in found.values() if isinstance(value, dict) for n in value)
    )
    rows = tuple(
        (name, *(value.get(n) for n in inner)) if isinstance(value, dict) else (name, value)
        for name, value in found.items()
    )
    return Grid(key=key, title=title, columns=(t("Name"), *(inner or [t("Value")])), rows=rows)


def _rest(item: MetricItem, *seen: str) -> tuple[tuple[str, Any], ...]:
    hidden = _OWN_MEMBERS | set(seen)
    return tuple((name, value) for name, value in item.meta.items() if name not in hidden)


def samples(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """How many rows were chosen; with strata, per label beside how many there were."""
    tables = [i for i in items if i.kind == "SAMPLE_TABLE"]
    views: list[View] = []
    if tables:
        chosen = {i.part: dict(_pairs(i)) for i in tables}
        names = list(dict.fromkeys(name for of in chosen.values() for name in of))
        rows = tuple((name, *(of.get(name) for of in chosen.values())) for name in names)
        columns = (t("Label"), *(_words(part) for part in chosen))
        views.append(Grid(key="sample-labels", title=t("Sample"), columns=columns, rows=rows))
    for number, item in enumerate(i for i in items if i.kind == "SAMPLE_TEXT"):
        views.append(_points_as_facts(f"sample-{number}", t("Sample"), item))
    return views


def _words(name: str) -> str:
    return name.replace("_", " ")


def _pairs(item: MetricItem) -> list[tuple[str, Any]]:
    return [(shown(name), value) for name, value in item.points]


def union(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Rows of each united table."""
    return [
        Grid(key=f"union-{number}", title=t("United tables"),
             columns=(t("Table"), t("Rows")), rows=tuple(_pairs(item)))
        for number, item in enumerate(items)
    ]  # fmt: skip


def label_transform(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Which label stands for which."""
    return [
        Grid(key=f"labels-{number}", title=t("Labels"), columns=(t("Label"), t("Becomes")),
             rows=tuple(item.map_of("label_encoder").items()))
        for number, item in enumerate(items)
    ]  # fmt: skip


def facts_of_meta(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Everything that the meta says, and the points that say more than the name."""
    views: list[View] = []
    for number, item in enumerate(items):
        points = [(shown(name), value) for name, value in item.points if name != item.name]
        rows = (*points, *_rest(item))
        views.append(NamedValues(key=f"{slug(item.kind)}-{number}", title=_title(item), rows=rows))
    return views


def warm_start(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """How many iterations the model had before."""
    rows = tuple((t("Iterations before this training"), v) for i in items for _, v in i.points)
    return [NamedValues(key="warm-start", title=t("Warm start"), rows=rows)]


def _points_as_facts(key: str, title: str, item: MetricItem) -> NamedValues:
    return NamedValues(key=key, title=title, rows=tuple(_pairs(item)))


def _title(item: MetricItem) -> str:
    return _words(item.name)


# --- stepwise -------------------------------------------------------------------------------------


def stepwise(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """A selector of steps: fit statistics, coefficients, features in and out; then how it went."""
    ordered = sorted(items, key=_step_number)
    frames: list[tuple[Grid, ...]] = []
    way: list[tuple[Any, ...]] = []
    for item in ordered[:MOST_FRAMES]:
        weights, meta = item.map_of("weight"), item.meta
        facts = (
            (t("Loss"), meta.get("loss")), (_criterion(item), meta.get("current_ic_val")),
            (t("Features in the model"), meta.get("number_in")), (t("Rows"), meta.get("n_count")),
            (t("Direction"), meta.get("direction")),
        )  # fmt: skip
        grids = [_grid(t("Fit statistics"), (t("Name"), t("Value")), facts)]
        if weights or "intercept" in meta:
            rows = (*weights.items(), ("intercept", meta.get("intercept")))
            grids.append(_grid(t("Coefficients"), (t("Feature"), t("Weight")), rows))
        entering = tuple((shown(name),) for name in item.list_of("to_enter"))
        if entering:
            grids.append(_grid(t("Features that may enter"), (t("Feature"),), entering))
        grids.append(_grid(t("Features"), (t("Party"), t("Feature"), t("In the model")),
                           _features(item)))  # fmt: skip
        frames.append(tuple(grids))
        way.append((_step_number(item), meta.get("loss"), meta.get("current_ic_val"),
                    meta.get("number_in")))  # fmt: skip
    columns = (t("Step"), t("Loss"), _criterion(ordered[0]), t("Features in the model"))
    return [
        Steps(key="stepwise", title=t("Stepwise"), what=t("Step"), frames=tuple(frames),
              labels=tuple(shown(row[0]) for row in way), first=max(0, len(frames) - 1)),
        Grid(key="stepwise-way", title=t("Steps"), columns=columns, rows=tuple(way)),
    ]  # fmt: skip


def _grid(title: str, columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> Grid:
    return Grid(key="stepwise", title=title, columns=columns, rows=rows)


def _criterion(item: MetricItem) -> str:
    name = item.meta.get("score_name")
    return name if isinstance(name, str) and name else "criterion"


def _step_number(item: MetricItem) -> int:
    ending = item.name.rpartition("_")[2]
    return int(ending) if ending.isascii() and ending.isdigit() and len(ending) < 10 else 0


def _features(item: MetricItem) -> tuple[tuple[Any, ...], ...]:
    rows: list[tuple[Any, ...]] = []
    for role in ("guest", "host"):
        names, mask = item.list_of(f"{role}_features_anonym"), item.list_of(f"{role}_mask")
        rows += [(role, _at(names, at), bool(inside)) for at, inside in enumerate(mask)]
    return tuple(rows)


# --- whatever else --------------------------------------------------------------------------------


def unknown(items: Sequence[MetricItem], t: Texts) -> list[View]:
    """Metrics of no known type: pairs of numbers as a line, names with values as a table, anything
    else as a tree; the meta beside it.
    """
    views: list[View] = []
    for item in items:
        title = " · ".join(filter(None, (item.part, item.name))) or t("Metric")
        key = slug(f"{item.part} {item.name}", always_marked=True)
        if item.points:
            views.append(_points_view(item, key, title, t))
        rest = _rest(item)
        if rest and all(not isinstance(value, dict | list) for _, value in rest):
            views.append(NamedValues(key=f"{key}-meta", title=title, rows=rest))
        elif rest:
            views.append(MetricTree(key=f"{key}-meta", title=title, value=dict(rest)))
        elif not item.points:
            views.append(NamedValues(key=key, title=title, rows=((t("Type"), item.kind or "-"),)))
    return views


def _points_view(item: MetricItem, key: str, title: str, t: Texts) -> View:
    points = item.points
    if len(points) > 1 and all(is_number(x) and is_number(y) for x, y in points):
        unit, ordinate = item.meta.get("unit_name"), item.meta.get("ordinate_name")
        return Chart(
            key=key, title=title, x_label=unit if isinstance(unit, str) else "",
            y_label=ordinate if isinstance(ordinate, str) else "", series=(series_of(item),),
        )  # fmt: skip
    if all(isinstance(y, dict) for _, y in points):
        inner = list(dict.fromkeys(name for _, y in points for name in y))
        if len(inner) <= 50:
            rows = tuple((x, *(y.get(name) for name in inner)) for x, y in points)
            return Grid(key=key, title=title, columns=(t("Point"), *inner), rows=rows)
    if not any(isinstance(y, dict | list) for _, y in points):
        return Grid(key=key, title=title, columns=(t("Name"), t("Value")), rows=points)
    return MetricTree(key=key, title=title, value=[[x, y] for x, y in points])
