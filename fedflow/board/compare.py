"""`/board/compare`: two to five jobs side by side, each as one of its sites here has it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from flask import Response, request

from fedflow.base.errors.data import NoData
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.values import dataclass
from fedflow.board.component_pages import own_parameters
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, json_answer, page
from fedflow.board.presenters.charts import Chart
from fedflow.board.presenters.comparing import (
    OVERLAID,
    SCORES,
    differences,
    duration_chart,
    overlaid,
    score_grid,
    unlike,
)
from fedflow.board.presenters.flattening import flat
from fedflow.board.presenters.masking import masked
from fedflow.board.presenters.metric_files import view_csv
from fedflow.board.presenters.paging import page_of
from fedflow.board.presenters.slugs import slug
from fedflow.board.urls import component_url, share_at, site_named, site_url
from fedflow.domain.records import JobRecord, Metric, TaskFilter, TaskRecord
from fedflow.domain.site import Site
from fedflow.web.context import services
from fedflow.web.responses import download

board_compare = board_blueprint("board_compare", "/compare")

MOST_JOBS: Final = 5
MOST_ROWS: Final = 500  #: of a table of differences
CURVED_AT_ONCE: Final = 5  #: components whose curves are on one page
MOST_CHARTS: Final = 30  #: of them
MOST_COMPONENTS: Final = 400  #: of a job

LABELS: Final = ("A", "B", "C", "D", "E")


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One job of the comparison."""

    label: str
    job: JobRecord
    tasks: dict[str, TaskRecord]  #: latest attempts of its site, by component

    @property
    def site(self) -> Site:
        return self.job.key.site

    @property
    def job_id(self) -> str:
        return self.job.key.job_id

    @property
    def url(self) -> str:
        return site_url(self.job_id, self.site)

    def component_url(self, component: str) -> str:
        """Return the address of a component's metrics."""
        return component_url(self.job_id, self.site, component, "metrics")

    def durations(self) -> dict[str, int | None]:
        """Return how long each component ran, in milliseconds."""
        return {
            name: task.ended_ms - task.started_ms if task.started_ms and task.ended_ms else None
            for name, task in self.tasks.items()
        }


@board_compare.get("")
def compare() -> Response:
    """Return the comparison of `?job=ID&job=ID`; an id may have `:role:party_id` after it."""
    asked = list(dict.fromkeys(filter(None, (a.strip() for a in request.args.getlist("job")))))
    found, missing = _find(asked[:MOST_JOBS])
    shows_all = request.args.get("all") == "1"
    values: dict[str, Any] = {
        "jobs": found,
        "missing": missing,
        "too_many": len(asked) - MOST_JOBS if len(asked) > MOST_JOBS else 0,
        "asked": asked[:MOST_JOBS],
        "most": MOST_JOBS,
        "shows_all": shows_all,
        "most_rows": MOST_ROWS,
    }
    if len(found) >= 2:
        values |= _comparison(found, shows_all=shows_all)
    return page("compare.html", title=t("Compare jobs"), nav="jobs", **values)


@board_compare.get("/view")
def view_json() -> Response:
    """Return what a drawing reads: `?component=&key=` of the jobs. Raises: NoData."""
    return json_answer(_chart().to_json())


@board_compare.get("/view.csv")
def csv_file() -> Response:
    """Return all points of a drawing. Raises: NoData."""
    chart = _chart()
    content = io.BytesIO(view_csv(chart).encode("utf-8-sig", "replace"))
    return download(content, f"compare_{slug(chart.key)}.csv", mimetype="text/csv")


def _chart() -> Chart:
    found, _ = _find(request.args.getlist("job")[:MOST_JOBS])
    key, component = request.args.get("key", ""), request.args.get("component", "")
    labels = _labels(found)
    if key == "durations":
        return duration_chart(labels, [one.durations() for one in found], t)
    charts = overlaid(labels, _curves(found, component), t)
    chosen = next((chart for chart in charts if chart.key == key), None)
    if chosen is None:
        raise NoData(reason="these jobs have no such curves")
    return chosen


# --- which jobs -----------------------------------------------------------------------------------


def _find(asked: Sequence[str]) -> tuple[list[Compared], list[str]]:
    """Return the jobs of this server, and the requested ones that it does not have."""
    found: list[Compared] = []
    missing: list[str] = []
    for text in asked:
        try:
            job = _share(text)
        except JobNotFound:
            missing.append(text)
            continue
        site = job.key.site
        which = TaskFilter(
            job_id=job.key.job_id, roles=(site.role,), party_id=site.party_id,
            limit=MOST_COMPONENTS,
        )  # fmt: skip
        tasks = {
            task.key.component: task
            for task in services().jobs.tasks(which)
            if task.here and task.key.site == site
        }
        found.append(Compared(label=LABELS[len(found)], job=job, tasks=tasks))
    return found, missing


def _share(text: str) -> JobRecord:
    """Return the party job that `ID` or `ID:role:party_id` names. Raises: JobNotFound."""
    job_id, _, where = text.partition(":")
    if not where:
        return share_at(job_id, services().tracking.default_site(job_id))
    role, _, party_id = where.partition(":")
    return share_at(job_id, site_named(job_id, role, party_id))


# --- what is compared -----------------------------------------------------------------------------


def _comparison(found: list[Compared], *, shows_all: bool) -> dict[str, Any]:
    labels = _labels(found)
    keys = [task.key for one in found for task in one.tasks.values()]
    scores = services().tracking.metrics_of(keys, SCORES)
    types = services().tracking.metric_types(keys)
    has_curves = {key.component for key, has in types.items() if not has.isdisjoint(OVERLAID)}
    components = list(dict.fromkeys(name for one in found for name in one.tasks))
    curved = [name for name in components if name in has_curves]
    curves = page_of(request.args.get("curves"), size=CURVED_AT_ONCE, count=len(curved))
    drawn = (
        (name, chart)
        for name in curved[curves.offset : curves.last_entry]
        for chart in overlaid(labels, _curves(found, name), t)
    )
    charts = list(islice(drawn, MOST_CHARTS + 1))
    by_component = [
        {name: scores.get(task.key, []) for name, task in one.tasks.items()} for one in found
    ]
    durations = [one.durations() for one in found]
    return {
        "labels": labels,
        "roles": {one.site.role for one in found},
        "scores": score_grid(labels, by_component, t),
        "parameters": _rows(_parameters(found, shows_all=shows_all), shows_all=shows_all),
        "settings": _rows(
            [flat(masked(one.job.parameters)) for one in found], shows_all=shows_all
        ),
        "graph": _rows(_graphs(found, shows_all=shows_all), shows_all=shows_all),
        "durations": duration_chart(labels, durations, t),
        "times": [(name, [of.get(name) for of in durations]) for name in components],
        "curves": curves,
        "charts": charts[:MOST_CHARTS],
        "has_more_charts": len(charts) > MOST_CHARTS,
        "chart_address": _chart_address,
    }  # fmt: skip


def _labels(found: Sequence[Compared]) -> tuple[str, ...]:
    return tuple(one.label for one in found)


def _rows(values: Sequence[dict[str, Any]], *, shows_all: bool) -> list[Any]:
    return [one for one in differences(values) if shows_all or one.differs]


def _parameters(found: Sequence[Compared], *, shows_all: bool) -> list[dict[str, Any]]:
    """Return component.parameter -> value of each job, as its site got them, secrets hidden."""
    given = [
        {name: [task.module, task.parameters] for name, task in one.tasks.items()} for one in found
    ]
    shown = _shown(given, shows_all=shows_all)
    return [
        _flat_members({n: own_parameters(task)[0] for n, task in one.tasks.items() if n in shown})
        for one in found
    ]


def _graphs(found: Sequence[Compared], *, shows_all: bool) -> list[dict[str, Any]]:
    """Return component.place -> value of each job's DSL."""
    graphs = [_graph(one.job) for one in found]
    shown = _shown(graphs, shows_all=shows_all)
    return [_flat_members({n: v for n, v in graph.items() if n in shown}) for graph in graphs]


def _graph(job: JobRecord) -> dict[str, Any]:
    components = job.dsl.get("components") if isinstance(job.dsl, dict) else None
    return components if isinstance(components, dict) else {}


def _shown(named: Sequence[Mapping[str, Any]], *, shows_all: bool) -> set[str]:
    """Return the members to look into: those that are alike in all jobs have no differences."""
    return set().union(*named) if shows_all else unlike(named)


def _flat_members(named: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}.{path}" if path else name: value
        for name, member in named.items()
        for path, value in flat(member).items()
    }


def _curves(found: Sequence[Compared], component: str) -> list[list[Metric]]:
    """Return the curves of one component in each job."""
    tasks = [one.tasks.get(component) for one in found]
    metrics = services().tracking.metrics_of([task.key for task in tasks if task], OVERLAID)
    return [metrics.get(task.key, []) if task else [] for task in tasks]


def _chart_address(component: str, key: str, *, csv: bool = False) -> str:
    jobs = [("job", text) for text in request.args.getlist("job")[:MOST_JOBS]]
    query = urlencode([*jobs, ("component", component), ("key", key)])
    return f"/board/compare/view{'.csv' if csv else ''}?{query}"
