"""The tab `metrics` of a component: charts and tables of one attempt, and the same as files."""

from __future__ import annotations

import io
from typing import Final, cast

from flask import Response, current_app, request

from fedflow.base.errors.data import NoData
from fedflow.board.component_pages import (
    PREFIX,
    ComponentAddress,
    component_page,
    component_place,
)
from fedflow.board.language import language, t
from fedflow.board.metric_pace import MetricPace
from fedflow.board.page import board_blueprint, fragment, json_answer, unchanged
from fedflow.board.presenters.charts import Chart, Group, Steps
from fedflow.board.presenters.metric_files import report, view_csv
from fedflow.board.presenters.metric_groups import find_view, metric_groups
from fedflow.board.presenters.pace import TYPES, TrainingPace, pace
from fedflow.board.presenters.slugs import slug
from fedflow.board.recent import RecentOfApp
from fedflow.board.urls import site_named
from fedflow.domain.records import TaskKey, TaskRecord
from fedflow.domain.states import TaskStatus
from fedflow.web.context import services
from fedflow.web.downloads import file_word
from fedflow.web.responses import download
from fedflow.wire import envelope, tracking_fields

board_component_metrics = board_blueprint("board_component_metrics", PREFIX)

ROWS_SHOWN: Final = 200  #: of a table on the page; the files have all
POINTS_SHOWN: Final = 100  #: of a series in the table beside a chart

_VIEWS: Final = RecentOfApp[tuple[TaskKey, TaskStatus, int, str], tuple[Group, ...]](
    name="metric_views", limit=8
)


@board_component_metrics.get("/metrics")
def metrics(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the tab; while the component runs its body is asked for again."""
    place = component_place(job_id, role, party_id, component)
    body = _body(place, _newest(place))
    return component_page("component_metrics.html", place, tab="metrics", **body)


@board_component_metrics.get("/metrics/live")
def live(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the body of the tab."""
    task = _task(job_id, role, party_id, component)
    mark, of_job = services().tracking.marks(task.key)
    mark = _pace().mark_shown(task, mark)
    tag = f"{request.full_path}|{task.key}|{task.party_status}|{mark}|{of_job}"
    known = unchanged(tag)
    if known is not None:
        return known
    place = component_place(job_id, role, party_id, component)
    return fragment(
        "component_metrics_body.html", tag=tag, final=place.is_final, place=place,
        **_body(place, mark),
    )  # fmt: skip


def _task(job_id: str, role: str, party_id: str, component: str) -> TaskRecord:
    """Return the latest attempt. Raises: JobNotFound, TaskNotFound."""
    return services().tracking.task(job_id, component, site_named(job_id, role, party_id))


@board_component_metrics.get("/metrics/view")
def view_json(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return what a drawing reads, `?key=` names it. Raises: NoData."""
    place = component_place(job_id, role, party_id, component)
    mark = _pace().mark_shown(place.task, _newest(place))
    tag = f"{request.full_path}|{place.task.key}|{place.task.party_status}|{mark}"
    known = unchanged(tag)
    if known is not None:
        return known
    found = find_view(_groups(place, mark), request.args.get("key", ""))
    if not isinstance(found, Chart | Steps):
        raise NoData(reason="this component has no such drawing")
    return json_answer(found.to_json(), tag)


@board_component_metrics.get("/metrics/view.csv")
def csv_file(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return one chart or table with all its points, `?key=` names it. Raises: NoData."""
    place = component_place(job_id, role, party_id, component)
    found = find_view(_groups(place, _newest(place)), request.args.get("key", ""))
    if found is None:
        raise NoData(reason="this component has no such chart or table")
    content = io.BytesIO(view_csv(found).encode("utf-8-sig", "replace"))
    return download(content, f"{_file(place)}_{slug(found.key)}.csv", mimetype="text/csv")


@board_component_metrics.get("/metrics.json")
def json_file(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return all metrics as they are stored."""
    place = component_place(job_id, role, party_id, component)
    found = services().tracking.metrics(
        job_id, component, place.job.site, version=place.task.key.version
    )
    content = io.BytesIO(envelope.encode(tracking_fields.metric_tree(found)))
    return download(content, f"{_file(place)}_metrics.json", mimetype="application/json")


@board_component_metrics.get("/report.zip")
def report_file(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return a CSV of every chart and table, and the summary."""
    place = component_place(job_id, role, party_id, component)
    summary = _summary(place)
    extra = [] if summary is None else [("summary.json", envelope.encode(summary).decode())]
    content = io.BytesIO(report(_groups(place, _newest(place)), extra))
    return download(content, f"{_file(place)}_report.zip", mimetype="application/zip")


def _file(place: ComponentAddress) -> str:
    return f"{place.job.job_id}_{file_word(place.component)}"


def _summary(place: ComponentAddress) -> object:
    key = place.task.key
    return services().tracking.summary(
        key.job_id, key.component, key.site, version=key.version
    )  # fmt: skip


def _pace() -> MetricPace:
    """Return the pace of this application."""
    return cast(MetricPace, current_app.extensions.setdefault("board_metric_pace", MetricPace()))


def _newest(place: ComponentAddress) -> int:
    return services().tracking.marks(place.task.key)[0]


def _body(place: ComponentAddress, mark: int) -> dict[str, object]:
    return {
        "groups": _groups(place, mark),
        "summary": _summary(place),
        "pace": _pace_of(place),
        "mark": f"{mark}-{place.task.party_status.value}",
        "rows_shown": ROWS_SHOWN,
        "points_shown": POINTS_SHOWN,
    }


def _pace_of(place: ComponentAddress) -> TrainingPace | None:
    key = place.task.key
    return pace(services().tracking.metrics_of([key], TYPES).get(key, ()))


def _groups(place: ComponentAddress, mark: int) -> tuple[Group, ...]:
    """Return the views of the attempt."""
    task, key = place.task, place.task.key

    def make() -> tuple[Group, ...]:
        found = services().tracking.metrics(
            key.job_id, key.component, key.site, version=key.version
        )  # fmt: skip
        groups = metric_groups(found, t)
        _pace().note(task, mark, points=sum(len(metric.points) for metric in found))
        return groups

    return _VIEWS.get((key, task.party_status, mark, language()), make)
