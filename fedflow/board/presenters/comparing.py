"""Two to five jobs side by side: what differs, whose scores are best, their curves in one chart."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.charts import Chart, Grid, Series, finite
from fedflow.board.presenters.document_diff import equal
from fedflow.board.presenters.metric_groups import metric_groups
from fedflow.board.presenters.metric_items import Texts, items_of, iteration_of
from fedflow.domain.job.figures import LESS_IS_BETTER, MORE_IS_BETTER
from fedflow.domain.records import Metric

OVERLAID: Final = (
    "LOSS", "ROC_EVALUATION", "KS_EVALUATION", "LIFT_EVALUATION", "GAIN_EVALUATION",
    "ACCURACY_EVALUATION", "PRECISION_BINARY_EVALUATION", "RECALL_BINARY_EVALUATION", "DBI",
)  # fmt: skip
"""Metric types whose curves several jobs share a chart for."""
SCORES: Final = ("EVALUATION_SUMMARY", "CLUSTERING_EVALUATION_SUMMARY")

ABSENT: Final = object()
"""Stands for a value that a job does not have, which is not the same as null."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One path and its value in each job; `ABSENT` where it has none."""

    path: str
    values: tuple[Any, ...]

    @property
    def differs(self) -> bool:
        return any(not _equal(one, self.values[0]) for one in self.values[1:])

    def has(self, place: int) -> bool:
        """Tell whether the job at a place has such a value."""
        return self.values[place] is not ABSENT

    def is_changed(self, place: int) -> bool:
        """Tell whether the job at a place has another value than the first job."""
        return place > 0 and not _equal(self.values[place], self.values[0])


def differences(flat: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return every path of the flat values of some jobs, in the order in which they first come."""
    paths = dict.fromkeys(path for one in flat for path in one)
    return [
        Difference(path=path, values=tuple(one.get(path, ABSENT) for one in flat)) for path in paths
    ]


def unlike(jobs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the members that are not written alike in all jobs: only these can differ."""
    names = {name for job in jobs for name in job}
    written = [
        {name: json.dumps(value, sort_keys=True, default=repr) for name, value in job.items()}
        for job in jobs
    ]
    return {name for name in names if len({of.get(name) for of in written}) > 1}


def _equal(one: Any, other: Any) -> bool:
    """Tell whether two jobs have the same at a path, or both nothing."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return equal(one, other)


def score_grid(labels: Sequence[str], jobs: Sequence[Mapping[str, list[Metric]]], t: Texts) -> Grid:
    """Return scores with a column per job; `jobs` are metrics by component. The best of a measure
    whose direction is known is marked, if the jobs differ in it.
    """
    found: dict[tuple[str, str, str, str], list[Any]] = {}
    for place, components in enumerate(jobs):
        for component, metrics in components.items():
            for item in items_of(metrics):
                if item.kind not in SCORES or iteration_of(item.model):
                    continue
                for name, value in item.points:
                    row = (component, item.model, item.part, str(name))
                    found.setdefault(row, [None] * len(jobs))[place] = value
    rows: list[tuple[Any, ...]] = []
    best: set[tuple[int, int]] = set()
    for at, (names, values) in enumerate(found.items()):
        rows.append((*names, *values))
        best |= {(at, len(names) + place) for place in best_places(names[3], values)}
    columns = (t("Component"), t("Model"), t("Part"), t("Measure"), *labels)
    title = t("Scores")
    return Grid(key="scores", title=title, columns=columns, rows=tuple(rows), best=frozenset(best))


def best_places(measure: str, values: Sequence[Any]) -> list[int]:
    """Return the places of the best values; none if no direction is known, or all are equal."""
    known = [(value, i) for i, one in enumerate(values) if (value := finite(one)) is not None]
    if len({value for value, _ in known}) < 2:
        return []
    if measure in MORE_IS_BETTER:
        wanted = max(known)[0]
    elif measure in LESS_IS_BETTER:
        wanted = min(known)[0]
    else:
        return []
    return [i for value, i in known if value == wanted]


def overlaid(labels: Sequence[str], jobs: Sequence[Iterable[Metric]], t: Texts) -> list[Chart]:
    """Return the curves of one component in several jobs: one chart per kind that any job has, the
    legend grouped by job.
    """
    charts: dict[str, Chart] = {}
    for label, metrics in zip(labels, jobs, strict=True):
        chosen = [m for m in metrics if m.meta.get("metric_type") in OVERLAID]
        views = [view for group in metric_groups(chosen, t) for view in group.views]
        for view in views:
            if not isinstance(view, Chart):
                continue
            named = _named(view, label, t("Jobs"))
            known = charts.get(view.key)
            charts[view.key] = named if known is None else _merged(known, named)
    return list(charts.values())


def _named(chart: Chart, label: str, groups_label: str) -> Chart:
    return replace(
        chart,
        groups_label=groups_label,
        series=tuple(replace(s, name=f"{label} · {s.name}", model=label) for s in chart.series),
        marks=tuple(replace(m, text=f"{label} · {m.text}") for m in chart.marks),
    )


def _merged(one: Chart, other: Chart) -> Chart:
    return replace(one, series=one.series + other.series, marks=one.marks + other.marks)


def duration_chart(
    labels: Sequence[str], jobs: Sequence[Mapping[str, int | None]], t: Texts
) -> Chart:
    """Return how many seconds each component took in each job, as bars."""
    names = tuple(dict.fromkeys(name for job in jobs for name in job))
    series = []
    for label, job in zip(labels, jobs, strict=True):
        places = [i for i, name in enumerate(names) if job.get(name) is not None]
        series.append(
            Series(
                name=label, model=label, part="", is_line=False,
                x=tuple(float(i) for i in places),
                y=tuple(_seconds(job[names[i]]) for i in places),
            )
        )  # fmt: skip
    return Chart(
        key="durations", title=t("Duration of components"), x_label=t("Component"),
        y_label=t("Seconds"), series=tuple(series), categories=names,
    )  # fmt: skip


def _seconds(ms: int | None) -> float:
    return math.nan if ms is None else ms / 1000
