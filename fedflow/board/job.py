"""The page of a job at one of its sites: how it stands, its graph, its components; live."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from flask import Response, render_template
from markupsafe import Markup

from fedflow.app.queries.site_jobs import SiteJob
from fedflow.base.errors.jobs import JobNotFound
from fedflow.board.job_frame import JobFrame, job_frame
from fedflow.board.language import language
from fedflow.board.message_catalog import told
from fedflow.board.page import (
    board_blueprint,
    fragment,
    json_answer,
    page,
    redirect_to,
    unchanged,
)
from fedflow.board.presenters import dag, job_head, results
from fedflow.board.presenters.pace import TYPES, TrainingPace, pace
from fedflow.board.recent import RecentOfApp
from fedflow.board.statuses import KINDS, SHAPES
from fedflow.board.urls import site_named, site_url
from fedflow.domain.records import TaskRecord
from fedflow.domain.site import Site
from fedflow.domain.states import TaskStatus
from fedflow.web.context import services
from fedflow.wire import envelope

board_job = board_blueprint("board_job", "/jobs")

_PLACE = "/<job_id>/<role>/<party_id>"

_Seen = tuple[SiteJob, list[dag.ComponentRow], dict[str, TrainingPace]]
_ROWS: Final = RecentOfApp[tuple[str, str, str], _Seen](name="job_rows", limit=16)
_TABLES: Final = RecentOfApp[tuple[str, str, str, str], Markup](name="job_tables", limit=16)


@board_job.get("/<job_id>")
def job(job_id: str) -> Response:
    """Redirect to the page of the initiator's party job, else of any at this server."""
    return redirect_to(site_url(job_id, services().jobs.job(job_id).key.site))


@board_job.get(_PLACE)
def overview(job_id: str, role: str, party_id: str) -> Response:
    """Return the page of a job."""
    mark = services().site_jobs.etag(job_id)
    frame = job_frame(job_id, role, party_id)
    return page(
        "job.html",
        title=frame.title,
        nav="jobs",
        job_tags=services().job_tags.of(job_id),
        **frame.values(""),
        **_live_values(frame, mark),
    )


@board_job.get(f"{_PLACE}/live")
def live(job_id: str, role: str, party_id: str) -> Response:
    """Return the part of the page that changes; what has not changed costs a few look-ups."""
    site = site_named(job_id, role, party_id)
    mark = services().site_jobs.etag(job_id)
    known = unchanged(_tag(site, mark))
    if known is not None:
        return known
    frame = job_frame(job_id, role, party_id)
    values = _live_values(frame, mark)
    return fragment(
        "job_live.html", tag=_tag(site, mark), final=values["is_settled"], frame=frame, **values
    )


def _tag(site: Site, mark: str) -> str:
    return f"job {site.key} {mark}"


def _live_values(frame: JobFrame, mark: str) -> dict[str, Any]:
    """Return what `board/job_live.html` shows. Viewers who look at the same share it."""
    key = (frame.job_id, frame.site.key, mark)
    seen, rows, paces = _ROWS.get(key, lambda: _seen(frame))
    drawn = _TABLES.get((*key, language()), lambda: _table(frame, seen, rows, paces))
    head = job_head.head(seen, services().info.now_ms())
    return {
        "seen": seen,
        "head": head,
        "is_settled": head.is_settled,
        "counts": dag.counts(rows),
        "drawn": drawn,
        "paces": paces,
        "names": seen.order,
        "error_url": _error_url(frame, head),
    }


def _seen(frame: JobFrame) -> _Seen:
    seen = services().site_jobs.at(frame.job_id, frame.site)
    rows = dag.rows(
        seen.order,
        _modules(seen),
        seen.tasks,
        site=frame.site,
        is_initiator=frame.is_initiator,
        waits=seen.explained.waits,
    )
    return seen, rows, _paces(seen)


def _modules(seen: SiteJob) -> dict[str, str]:
    declared = seen.job.dsl["components"]
    return {name: str(given.get("module", "")) for name, given in declared.items()}


def _table(
    frame: JobFrame, seen: SiteJob, rows: list[dag.ComponentRow], paces: dict[str, TrainingPace]
) -> Markup:
    """Return graph and table of components: the expensive part, the same for all viewers."""
    figures = results.by_component(seen.job.figures)
    now_ms = services().info.now_ms()
    text = render_template(
        "board/job_components.html",
        now_ms=now_ms,
        paces=paces,
        frame=frame,
        rows=rows,
        figures=figures,
        states=envelope.encode(dag.states(rows, told, figures)).decode(),
        longest_ms=max((row.duration_ms or 0 for row in rows), default=0),
        names=_names_of_jobs(rows),
    )
    return Markup(text)  # noqa: S704  # the template escapes


def _paces(seen: SiteJob) -> dict[str, TrainingPace]:
    """Return how the trainings go on that run at this site, by component."""
    running = [
        task.key
        for task in seen.tasks
        if task.key.site == seen.site and task.party_status is TaskStatus.RUNNING
    ]
    if not running:
        return {}
    found = services().tracking.metrics_of(running, TYPES)
    paces = {key.component: pace(metrics) for key, metrics in found.items()}
    return {name: one for name, one in paces.items() if one is not None}


def _names_of_jobs(rows: list[dag.ComponentRow]) -> dict[str, str]:
    """Return what people call the jobs from which results were inherited; without those unknown."""
    found = {}
    for job_id in {row.inherited_from for row in rows if row.inherited_from}:
        with suppress(JobNotFound):
            found[job_id] = services().jobs.job(job_id).name
    return found


def _error_url(frame: JobFrame, head: job_head.Head) -> str:
    """Return the address of the log of what failed first, if it is at this server."""
    end, site = head.end, head.error_site
    if end is None or not end.component:
        return ""
    where = site if site in frame.share.own_sites else None
    if where is None and site is None:
        where = frame.site
    if where is None:
        return ""
    return JobFrame(job_id=frame.job_id, site=where, share=frame.share).component_url(
        end.component, "logs"
    )


@board_job.get(f"{_PLACE}/graph.json")
def graph(job_id: str, role: str, party_id: str) -> Response:
    """Return what never changes of the graph: boxes, ports, edges."""
    frame = job_frame(job_id, role, party_id)
    tag = f"graph {job_id} {frame.site.key} {frame.job.epoch}"
    known = unchanged(tag)
    if known is not None:
        return known
    order = services().site_jobs.order(frame.job)
    found = dag.graph(frame.job.dsl, frame.job.conf, order=order, here=_here(frame))
    return json_answer({**found, "kinds": KINDS, "shapes": SHAPES}, tag)


def _here(frame: JobFrame) -> set[str]:
    """Return the components that do their work at this site."""
    tasks: list[TaskRecord] = services().site_jobs.own_tasks(frame.job_id, frame.site)
    return {task.key.component for task in tasks if not dag.is_left_out(task)}
