"""`/fateboard`: the endpoints of FATE-Board, for programs that ask it for jobs, metrics and logs.

They answer `code`, `msg`, `data` with FATE-Board's codes. Its paths stand below one address of
their own, because it and FATE Flow use the same ones below `/v1` for different answers. What is a
websocket there is asked for here, message by message. Source: `docs/reference/board.md#endpoints`.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import msgspec
from flask import Blueprint, Response, request

from fedflow.app.logs.addresses import LogName
from fedflow.base.clock import SystemClock
from fedflow.base.errors.data import NoData
from fedflow.base.errors.jobs import JobNotFound, TaskNotFound
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.board.presenters.models.visible import own_meta, own_param
from fedflow.domain.job.own_conf import without_others
from fedflow.domain.records import JobFilter, JobRecord, Metric, TaskFilter, TaskRecord
from fedflow.domain.site import Role, Site
from fedflow.web import queries
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.job import NotesBody, PartyJobBody
from fedflow.web.requests import Alternatives, Body, JobBody, NoBody, Text, Whole, site_of
from fedflow.web.responses import answer, download
from fedflow.web.routes import Style, route
from fedflow.web.tracking import SiteBody, data_view, output_rows
from fedflow.wire import envelope, fate_board, fields, model_json, tracking_fields
from fedflow.wire.api.tracking import OutputMeta, PartyModelMeta
from fedflow.wire.fate_board import BoardJob, LogRow, PageBean, PageRow

fateboard = Blueprint("fateboard", __name__, url_prefix="/fateboard")
fateboard.before_request(require_client)


@fateboard.after_request
def _keep_to_itself(given: Response) -> Response:
    """Keep what is answered out of caches and out of pages of others."""
    given.headers["Cache-Control"] = "no-store"
    given.headers["X-Content-Type-Options"] = "nosniff"
    given.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return given


Members = dict[str, Any]

MAX_RUNNING = 1000  #: jobs that `job/query/status` answers
WHOLE_JOB = "pipeline"  #: the component name that means all that did not succeed
NO_COMPONENT = "default"  #: the component id of a log that is the job's


# --- bodies ---------------------------------------------------------------------------------------


class BoardMetricBody(SiteBody, frozen=True):
    """One metric of a component, every member of which must be named."""

    metric_namespace: Text
    metric_name: Text


class BatchBody(Body, frozen=True):
    """Metrics of a component, by namespace. Either way of writing a name is read."""

    metrics: dict[str, list[Text]]
    role: Text
    job_id: Text | None = None
    party_id: Text | None = None
    component_name: Text | None = None
    job_id_camel: Text | None = msgspec.field(default=None, name="jobId")
    party_id_camel: Text | None = msgspec.field(default=None, name="partyId")
    component_name_camel: Text | None = msgspec.field(default=None, name="componentName")


class BoardRerunBody(Body, frozen=True):
    """Which job, and from where: `pipeline` stands for all that did not succeed."""

    job_id: Text
    component_name: Text = Text(WHOLE_JOB)


class BoardPageBody(Body, frozen=True):
    """Which jobs; texts may be parts. `note` and `job_id` are other names of the same."""

    job_id_camel: Text | None = msgspec.field(default=None, name="jobId")
    job_id: Text | None = None
    party_id: Text | None = msgspec.field(default=None, name="partyId")
    partner: Text | None = None
    role: Alternatives | None = None
    status: Alternatives | None = None
    description: Text | None = msgspec.field(default=None, name="fDescription")
    note: Text | None = None
    page_number: Whole = msgspec.field(default=Whole(1), name="pageNum")
    page_size: Whole = msgspec.field(default=Whole(10), name="pageSize")
    order_field: Text = msgspec.field(default=Text("f_job_id"), name="orderField")
    order_rule: Text = msgspec.field(default=Text("desc"), name="orderRule")

    def filter(self) -> JobFilter:
        """Return the filter with its page. Raises: BadRequest."""
        if self.order_field not in fate_board.ORDER_FIELDS:
            raise BadRequest(reason=f"orderField must be one of {_listed(fate_board.ORDER_FIELDS)}")
        if self.order_rule not in fate_board.ORDER_RULES:
            raise BadRequest(reason=f"orderRule must be one of {_listed(fate_board.ORDER_RULES)}")
        if self.page_size < 1:
            raise BadRequest(reason="pageSize must be at least 1")
        queries.check_words(roles=self.role, statuses=self.status)
        page = queries.page_of(
            limit=self.page_size,
            page=self.page_number,
            order_by=self.order_field.removeprefix("f_"),
            order=self.order_rule,
        )
        statuses = fate_board.statuses_of(self.status) if self.status else None
        return replace(
            queries.job_filter({"role": self.role or None, "status": statuses}),
            refused=False,
            job_id_part=self.job_id_camel or self.job_id or None,
            party_id_part=self.party_id or None,
            partner_part=self.partner or None,
            description_part=self.description or self.note or None,
            order=page.order,
            limit=page.limit,
            offset=page.offset,
        )


class DownloadBody(Body, frozen=True):
    """One of a job's documents: `type` dsl, or anything else for the runtime conf."""

    job_id: Text = msgspec.field(name="jobId")
    role: Text
    type: Text
    party_id: Text | None = msgspec.field(default=None, name="partyId")


class LogMessage(Body, frozen=True):
    """What is asked of a log: `logSize`, or a type of log with lines from 1, both ends included."""

    type: Text
    begin: Whole = Whole(1)
    end: Whole | None = None
    instance_id: Text | None = msgspec.field(default=None, name="instanceId")


# --- jobs -----------------------------------------------------------------------------------------


@route(
    fateboard, "/job/query/status", methods=("GET",), data=list[BoardJob], style=Style.BOARD,
    read_only=True,
)  # fmt: skip
def query_status(_: NoBody) -> Response:
    """Return the jobs that wait or run."""
    which = replace(
        queries.job_filter({"status": ["waiting", "running"]}), refused=False, limit=MAX_RUNNING
    )
    return _success([fate_board.board_job(job) for job in services().jobs.find(which)])


@route(
    fateboard, "/job/query/<job_id>/<role>/<party_id>", methods=("GET",), data=PageRow,
    style=Style.BOARD,
)  # fmt: skip
def query_job(_: NoBody, job_id: str, role: str, party_id: str) -> Response:
    """Return one party job, and which tables it reads."""
    return _success(_job_and_dataset(_share(job_id, site_of(role, party_id))))


@route(fateboard, "/job/query/fields", data=dict[str, list[str]], style=Style.BOARD)
def query_fields(_: NoBody) -> Response:
    """Return the words that the filters of `query/page/new` take."""
    return _success({"status": list(fate_board.STATUSES), "role": list(fate_board.ROLES)})


@route(
    fateboard, "/job/query/page/new", body=BoardPageBody, data=PageBean, style=Style.BOARD,
    read_only=True,
)  # fmt: skip
def query_page(body: BoardPageBody) -> Response:
    """Return one page of jobs with the tables that they read, and how many fit."""
    found, count = services().jobs.page(body.filter())
    rows = [_job_and_dataset(job) for job in found]
    return _success(
        fate_board.page_bean(rows, number=body.page_number, size=body.page_size, count=count)
    )


@route(fateboard, "/job/update", methods=("PUT",), body=NotesBody, style=Style.BOARD)
def update(body: NotesBody) -> Response:
    """Store people's notes about a job: any text."""
    site = body.site
    services().jobs.set_notes(body.job_id, site.role.value, site.party_id, **body.changes)
    return _success(msg="success")


@route(fateboard, "/job/v1/rerun", body=BoardRerunBody, style=Style.BOARD)
def rerun(body: BoardRerunBody) -> Response:
    """Run an ended job again from a component on, or all of it that did not succeed."""
    components = None if body.component_name == WHOLE_JOB else [str(body.component_name)]
    services().reruns.rerun(
        body.job_id, components=components, force=False, failed_only=False, sections=None
    )
    return _success()


@route(fateboard, "/job/v1/pipeline/job/stop", body=JobBody, style=Style.BOARD)
def stop(body: JobBody) -> Response:
    """End a job; nothing changes if it had ended."""
    services().jobs.stop(body.job_id, "canceled")
    return _success(msg="success")


@route(
    fateboard, "/job/download", body=DownloadBody, style=Style.BOARD, produces="application/json"
)
def download_document(body: DownloadBody) -> Response:
    """Return the DSL or the runtime conf of a job as a file.

    Of the conf, a site that did not submit the job gets its own part; an arbiter gets none.
    """
    role = site_of(body.role, "0").role
    job = _first_share(body.job_id, role, body.party_id)
    if body.type == "dsl":
        return _file(job.dsl, f"job_dsl_{job.key.job_id}.json")
    if role is Role.ARBITER:
        raise BadRequest(reason="an arbiter has no runtime conf")
    shown = fields.seen_conf(job, job.conf)
    if not job.is_initiator:
        shown = without_others(shown, job.key.site)
    return _file(shown, f"runtime_config_{job.key.job_id}.json")


@route(fateboard, "/job/componentCommand", body=SiteBody, data=str, style=Style.BOARD)
def component_command(body: SiteBody) -> Response:
    """Return the command that fetches a component's output tables."""
    task = _task(body)
    site = task.key.site
    return _success(
        fate_board.output_command(
            task.key.job_id, site.role.value, site.party_id, task.key.component
        )
    )


# --- the DAG, live --------------------------------------------------------------------------------


@route(
    fateboard, "/v1/pipeline/dag/dependencies", body=PartyJobBody, data=dict[str, Any],
    style=Style.BOARD,
)  # fmt: skip
def dag_dependencies(body: PartyJobBody) -> Response:
    """Return which component takes what from which, with the status of each at one site."""
    return _success(_dag(_share(body.job_id, body.site)))


@route(
    fateboard, "/websocket/progress/<job_id>/<role>/<party_id>", methods=("GET",),
    data=dict[str, Any], style=Style.BOARD,
)  # fmt: skip
def progress(_: NoBody, job_id: str, role: str, party_id: str) -> Response:
    """Return how far a job is, in the message that FATE-Board's websocket sends.

    With `?again=1` it is without what never changes, as all its messages but the first.
    """
    job = _share(job_id, site_of(role, party_id))
    first = request.args.get("again", "") in ("", "0", "false")
    message = fate_board.progress(
        job, _dag(job), data_view(job), now_ms=SystemClock().now_ms(), first=first
    )
    return _success(message)


def _dag(job: JobRecord) -> Members:
    job_id, site = job.key.job_id, job.key.site
    info = services().documents.job_dependencies(job_id, site)
    which = TaskFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id)
    tasks = {t.key.component: t for t in services().jobs.tasks(which)}
    return fate_board.dependencies(info, tasks)


# --- what jobs produced ---------------------------------------------------------------------------


@route(
    fateboard, "/v1/tracking/component/parameters", body=SiteBody, data=dict[str, Any],
    style=Style.BOARD,
)  # fmt: skip
def parameters(body: SiteBody) -> Response:
    """Return the parameters of a component as this site got them; nulls are kept."""
    site = body.site
    found = services().tracking.parameters(body.job_id, body.component_name, site)
    return _success(found, msg="success")


@route(
    fateboard, "/v1/tracking/component/metrics", body=SiteBody,
    data=dict[str, list[str]], style=Style.BOARD,
)  # fmt: skip
def metric_names(body: SiteBody) -> Response:
    """Return the names of the metrics by namespace."""
    found = _metrics(body.job_id, body.component_name, body.site)
    return _success(tracking_fields.metric_names(found), msg="success" if found else "no data")


@route(
    fateboard, "/v1/tracking/component/metric_data", body=BoardMetricBody, data=dict[str, Any],
    style=Style.BOARD,
)  # fmt: skip
def metric_data(body: BoardMetricBody) -> Response:
    """Return one metric: FATE Flow's whole answer is the `data`, as FATE-Board passes it on."""
    found = _metrics(body.job_id, body.component_name, body.site)
    shown = _one_metric(found, body.metric_namespace, body.metric_name)
    return _success(shown, msg=shown["retmsg"])


@route(
    fateboard, "/v1/tracking/component/metric_data/batch", body=BatchBody,
    data=dict[str, dict[str, Any]], style=Style.BOARD,
)  # fmt: skip
def metric_batch(body: BatchBody) -> Response:
    """Return several metrics of a component, each as `metric_data` has it."""
    given = {
        "job_id": body.job_id or body.job_id_camel,
        "party_id": body.party_id or body.party_id_camel,
        "component_name": body.component_name or body.component_name_camel,
    }
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise MissingArgument(names=",".join(missing))
    site = site_of(body.role, str(given["party_id"]))
    found = _metrics(str(given["job_id"]), str(given["component_name"]), site)
    return _success(
        {
            namespace: {name: _one_metric(found, namespace, name) for name in names}
            for namespace, names in body.metrics.items()
        }
    )


@route(
    fateboard, "/v1/tracking/component/output/model", body=SiteBody,
    data=dict[str, Any], style=Style.BOARD,
)  # fmt: skip
def output_model(body: SiteBody) -> Response:
    """Return a component's model as this site has it; the whole answer of FATE Flow is `data`."""
    task = _task(body)
    model = services().tracking.model(body.job_id, body.component_name, body.site)
    if model is None:
        return _passed_on({}, "no data", {})
    role = body.site.role
    param = own_param(role, model.param_name, model.param, model.meta)
    about = model_json.shown(dict(own_meta(role, model.meta)))
    meta = PartyModelMeta(meta_data=about, module_name=task.module)
    return _passed_on(model_json.shown(dict(param)), "success", meta)


@route(
    fateboard, "/v1/tracking/component/output/data", body=SiteBody,
    data=dict[str, Any], style=Style.BOARD,
)  # fmt: skip
def output_data(body: SiteBody) -> Response:
    """Return the first rows of each output table; the whole answer of FATE Flow is `data`."""
    _task(body)
    rows, meta = output_rows(body.job_id, body.component_name, body.site)
    return _passed_on(rows, "success" if rows else "no data", meta)


# --- logs -----------------------------------------------------------------------------------------


@route(
    fateboard, "/log/new/<job_id>/<role>/<party_id>/<component_id>", body=LogMessage,
    data=dict[str, int] | list[LogRow], style=Style.BOARD,
)  # fmt: skip
def log(body: LogMessage, job_id: str, role: str, party_id: str, component_id: str) -> Response:
    """Answer a message of FATE-Board's log websocket: line counts by type, or lines of one log."""
    _share(job_id, site_of(role, party_id))
    if body.instance_id not in (None, "", services().info.instance_id()):
        raise NoData(reason="the log of another server instance is at that server")
    component = None if component_id == NO_COMPONENT else component_id
    logs = services().administration.job_logs

    def named(log_type: str) -> LogName:
        return LogName(
            log_type=fate_board.LOG_TYPES[log_type], job_id=job_id, role=role, party_id=party_id,
            component=component,
        )  # fmt: skip

    if body.type == "logSize":
        shown = ["componentInfo"] if component else [*fate_board.LOG_TYPES][:-1]
        return _success({name: logs.size(named(name)) for name in shown})
    if body.type not in fate_board.LOG_TYPES:
        known = _listed(("logSize", *fate_board.LOG_TYPES))
        raise BadRequest(reason=f"type must be one of {known}")
    lines = logs.lines(named(body.type), body.begin, body.end)
    rows = [LogRow(line_num=line.line_num, content=line.content) for line in lines]
    return answer({**fate_board.success(rows), "type": body.type})


# --- parts ----------------------------------------------------------------------------------------


def _success(data: Any = None, *, msg: str = "OK") -> Response:
    return answer(fate_board.success(data, msg))


def _passed_on(data: Any, retmsg: str, meta: PartyModelMeta | OutputMeta | Members) -> Response:
    """Return an answer of FATE Flow as FATE-Board passes it on: as a whole, within its own."""
    flow = {"retcode": envelope.SUCCESS, "retmsg": retmsg, "data": data, "meta": meta}
    return _success(flow, msg=retmsg)


def _share(job_id: str, site: Site) -> JobRecord:
    """Return the party job of one site of this server. Raises: JobNotFound."""
    return _first_share(job_id, site.role, site.party_id)


def _first_share(job_id: str, role: Role, party_id: str | None) -> JobRecord:
    """Return a party job of this server. Raises: JobNotFound."""
    which = JobFilter(job_id=job_id, roles=(role,), party_id=party_id or None, limit=1)
    found = services().jobs.find(which)
    if not found:
        raise JobNotFound(job_id=job_id[:100])
    return found[0]


def _task(body: SiteBody) -> TaskRecord:
    """Return the latest attempt of a component at a site that is here. Raises: TaskNotFound."""
    found = services().tracking.task(body.job_id, body.component_name, body.site)
    if not found.here:
        raise TaskNotFound(task=f"{body.component_name} of job {body.job_id}"[:200])
    return found


def _metrics(job_id: str, component: str, site: Site) -> list[Metric]:
    return services().tracking.metrics(job_id, component, site)


def _one_metric(found: list[Metric], namespace: str, name: str) -> Members:
    for metric in found:
        if (metric.namespace, metric.name) == (namespace, name):
            return {
                "retcode": envelope.SUCCESS, "retmsg": "success",
                "data": tracking_fields.metric_points(metric), "meta": dict(metric.meta),
            }  # fmt: skip
    return {"retcode": envelope.SUCCESS, "retmsg": "no data", "data": [], "meta": {}}


def _job_and_dataset(job: JobRecord) -> PageRow:
    return PageRow(job=fate_board.board_job(job), dataset=data_view(job))


def _file(value: Any, name: str) -> Response:
    text = msgspec.json.format(envelope.encode(value), indent=4)
    return download(io.BytesIO(text), name, mimetype="application/json")


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words)
