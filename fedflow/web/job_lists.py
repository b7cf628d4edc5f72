"""`/v1/job`: queries and lists of jobs and tasks.

Source: `docs/reference/rest.md#bodies-and-queries` and `docs/reference/rest.md#jobs`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from flask import Blueprint, Response

from fedflow.web import queries
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Alternatives, Body, OpenBody, Text, Whole
from fedflow.web.responses import refusal, success
from fedflow.web.routes import Style, route
from fedflow.wire import envelope, fields
from fedflow.wire.api.job_lists import JobPage, JobQueryRow, TaskPage, TaskQueryRow

job_lists = Blueprint("job_lists", __name__, url_prefix="/job")
job_lists.before_request(require_client)

Filter = Annotated[
    Any, msgspec.Meta(description="A value, or a list: a choice of texts, or a range of numbers.")
]


class JobQuery(OpenBody, frozen=True):
    """Filters on any column of a JOB record, named without `f_`."""

    job_id: Filter = None
    role: Filter = None
    party_id: Filter = None
    status: Filter = None


class TaskQuery(JobQuery, frozen=True):
    """Filters on any column of a TASK record, named without `f_`."""

    component_name: Filter = None


class PageBody(Body, frozen=True):
    """Which part of a list, in which order."""

    limit: Whole = Whole(0)  #: 0: all
    page: Whole = Whole(1)
    order_by: Text = Text("create_time")
    order: Text = Text("desc")
    role: Alternatives | None = None
    status: Alternatives | None = None

    @property
    def page_wanted(self) -> queries.Page:
        """Return the page. Raises: BadRequest."""
        queries.check_words(roles=self.role, statuses=self.status)
        return queries.page_of(
            limit=self.limit, page=self.page, order_by=self.order_by, order=self.order
        )


class JobPageBody(PageBody, frozen=True):
    """Which jobs; the texts may be parts of what is looked for."""

    job_id: Text | None = None
    description: Text | None = None
    party_id: Text | None = None
    partner: Text | None = None
    tag: Text | None = None  #: one that people gave the job, whole; fedflow's own


class TaskPageBody(PageBody, frozen=True):
    """Which tasks."""

    job_id: Text | None = None
    component_name: Text | None = None
    party_id: Text | None = None


@route(job_lists, "/query", body=JobQuery, data=list[JobQueryRow], read_only=True)
def query(body: JobQuery) -> Response:
    """Return the party jobs that fit; an empty list if none does."""
    given = body.given
    found = services().jobs.find(queries.job_filter(given)) if given else []
    rows = [fields.job_row(j, JobQueryRow) for j in found]
    return success([row for row in rows if queries.matches(row, given)])


@route(job_lists, "/list/job", body=JobPageBody, data=JobPage, style=Style.STATUS, read_only=True)
def list_job(body: JobPageBody) -> Response:
    """Return one page of all jobs, and how many fit."""
    page = body.page_wanted
    which = replace(
        queries.job_filter({"role": body.role, "status": body.status}),
        refused=False,
        job_id_part=body.job_id or None,
        party_id_part=body.party_id or None,
        description_part=body.description or None,
        partner_part=body.partner or None,
        tag=body.tag or None,
        order=page.order,
        limit=page.limit,
        offset=page.offset,
    )
    found, count = services().jobs.page(which)
    return success(JobPage(jobs=tuple(map(fields.listed_job, found)), count=count))


@route(job_lists, "/task/query", body=TaskQuery, data=list[TaskQueryRow], read_only=True)
def task_query(body: TaskQuery) -> Response:
    """Return the latest attempts that fit; retcode 101 if none does."""
    given = body.given
    found = services().jobs.tasks(queries.task_filter(given)) if given else []
    rows = [fields.task_row(t, TaskQueryRow) for t in found]
    rows = [row for row in rows if queries.matches(row, given)]
    if not rows:
        return refusal(envelope.ARGUMENT_ERROR, "no task could be found")
    return success(rows)


@route(
    job_lists, "/list/task", body=TaskPageBody, data=TaskPage, style=Style.STATUS, read_only=True
)
def list_task(body: TaskPageBody) -> Response:
    """Return one page of tasks, and how many fit."""
    page = body.page_wanted
    which = queries.task_filter(
        {
            "job_id": body.job_id,
            "component_name": body.component_name,
            "role": body.role,
            "party_id": body.party_id,
            "status": body.status,
        }
    )
    which = replace(which, order=page.order, limit=page.limit, offset=page.offset)
    found, count = services().jobs.task_page(which)
    return success(TaskPage(tasks=tuple(map(fields.listed_task, found)), count=count))
