"""`/v1/tracking`: what runs produced. Source: `reference/flow-rest-api.md` section 2.4.

`role` and `party_id` may be left out: the initiator's site is meant, or else any of this server.
"""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response

from fedflow.base.errors import NoData
from fedflow.domain.records import JobFilter, JobRecord, Metric
from fedflow.domain.site import Site
from fedflow.web.answers import download, refusal, success
from fedflow.web.auth import require_client
from fedflow.web.current import services
from fedflow.web.errors import status_errors
from fedflow.web.requests import flag, integer, json_body, optional_text, require, site, text
from fedflow.wire import envelope, fields

tracking = Blueprint("tracking", __name__, url_prefix="/tracking")
tracking.before_request(require_client)

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """One component of one job at one site."""

    job_id: str
    component: str
    site: Site

    @property
    def file_name(self) -> str:
        role, party = self.site.role.value, self.site.party_id
        return f"job_{self.job_id}_{self.component}_{role}_{party}_output_data.tar.gz"


def _share(body: Body) -> Share:
    require(body, "job_id", "component_name")
    job_id, component = text(body, "job_id"), text(body, "component_name")
    return Share(job_id=job_id, component=component, site=_site(body, job_id))


def _site(body: Body, job_id: str) -> Site:
    if body.get("role") is None or body.get("party_id") is None:
        return services().tracking.default_site(job_id)
    return site(body)


# --- jobs -----------------------------------------------------------------------------------------


@tracking.post("/component/list")
def component_list() -> Response:
    """Return the component names of a job."""
    return success({"components": services().tracking.components(text(json_body(), "job_id"))})


@tracking.post("/job/data_view")
def job_data_view() -> Response:
    """Return which tables a job reads, its roles, and this site's partners."""
    body = json_body()
    job_id = text(body, "job_id")
    where = _site(body, job_id)
    which = JobFilter(job_id=job_id, roles=(where.role,), party_id=where.party_id, limit=1)
    found = services().jobs.find(which)
    if not found:
        return refusal(envelope.ARGUMENT_ERROR, "error")
    return success(_data_view(found[0]))


def _data_view(job: JobRecord) -> Body:
    own, roles = job.key.site, fields.roles_as_numbers(job.roles)
    partners: Body = {}
    for role, parties in job.roles.items():
        others = [p for p in parties if (role, p) != (own.role.value, own.party_id)]
        if others:
            partners[role] = [fields.party_number(p) for p in others]
    visible = (
        [(r, p) for r, parties in job.roles.items() for p in parties]
        if job.is_initiator
        else [(own.role.value, own.party_id)]
    )
    dataset: Body = {}
    for role, party in visible:
        index = job.roles[role].index(party)
        read = _read_tables(job.conf, role, index)
        if read:
            dataset.setdefault(role, {})[party] = read
    return {"dataset": dataset, "roles": roles, "partner": partners, "model_summary": {}}


def _read_tables(conf: Any, role: str, index: int) -> dict[str, str]:
    """Return reader -> `namespace.name` of the tables that a submitted conf gives to one party."""
    read: dict[str, str] = {}
    parameters = _member(_member(_member(conf, "component_parameters"), "role"), role)
    for key, components in parameters.items():
        if key != "all" and str(index) not in key.split("|"):
            continue
        for component in components if isinstance(components, dict) else ():
            source = _member(_member(components, component), "table")
            if "name" in source:
                read[component] = f"{source.get('namespace')}.{source['name']}"
    return read


def _member(value: Any, name: str) -> Body:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


# --- metrics --------------------------------------------------------------------------------------


@tracking.post("/component/metric/all")
def metric_all() -> Response:
    """Return all metrics with points and meta."""
    found = _metrics(_share(json_body()))
    return success(fields.metric_tree(found), retmsg="success" if found else "no data")


@tracking.post("/component/metrics")
def metric_names() -> Response:
    """Return the names of the metrics by namespace."""
    found = _metrics(_share(json_body()))
    return success(fields.metric_names(found), retmsg="success" if found else "no data")


@tracking.post("/component/metric_data")
def metric_data() -> Response:
    """Return the points and the meta of one metric."""
    body = json_body()
    require(body, "job_id", "component_name", "metric_namespace", "metric_name")
    wanted = (text(body, "metric_namespace"), text(body, "metric_name"))
    for metric in _metrics(_share(body)):
        if (metric.namespace, metric.name) == wanted:
            return success(fields.metric_points(metric), meta=dict(metric.meta))
    return success([], retmsg="no data", meta={})


def _metrics(share: Share) -> list[Metric]:
    return services().tracking.metrics(share.job_id, share.component, share.site)


# --- parameters, model, summary -------------------------------------------------------------------


@tracking.post("/component/parameters")
def parameters() -> Response:
    """Return the parameters of a component as this site got them."""
    share = _share(json_body())
    return success(services().tracking.parameters(share.job_id, share.component, share.site))


@tracking.post("/component/output/model")
def output_model() -> Response:
    """Return the model share of a component; an empty object if there is none."""
    share = _share(json_body())
    model = services().tracking.model(share.job_id, share.component, share.site)
    if model is None:
        return success({}, retmsg="no data", meta={})
    task = services().tracking.task(share.job_id, share.component, share.site)
    return success(model.param, meta={"meta_data": model.meta, "module_name": task.module})


@tracking.post("/component/summary/download")
@status_errors
def summary_download() -> Response:
    """Return the summary of a component, as a file if the body names one; HTTP 210 if none."""
    body = json_body()
    require(body, "job_id", "component_name", "role", "party_id")
    share = _share(body)
    found = services().tracking.summary(share.job_id, share.component, share.site)
    if found is None:
        raise NoData(reason=f"{share.component} has no summary at {share.site}")
    name = optional_text(body, "filename")
    if name is None:
        return success(found)
    content = io.BytesIO(envelope.encode(found))
    return download(content, _base_name(name), mimetype="application/json")


def _base_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2] or "summary.json"


# --- output data ----------------------------------------------------------------------------------


@tracking.post("/component/output/data")
def output_data() -> Response:
    """Return the first rows of each output table, at most 100."""
    share = _share(json_body())
    services().tracking.task(share.job_id, share.component, share.site)  # unknown: an error
    rows: list[Any] = []
    meta: dict[str, list[Any]] = {"header": [], "total": [], "names": []}
    for output, table in services().tracking.outputs(share.job_id, share.component, share.site):
        if table is None:
            continue
        rows.append(table.preview)
        meta["header"].append(fields.table_columns(table) if table.count else None)
        meta["total"].append(table.count)
        meta["names"].append(output.data_name)
    return success(rows, retmsg="success" if rows else "no data", meta=meta)


@tracking.get("/component/output/data/download")
@status_errors
def output_data_download() -> Response:
    """Return the output tables as tar.gz; HTTP 210 if there are none."""
    body = json_body()
    share = _share(body)
    limit = integer(body, "limit", default=-1)
    if limit == 0:
        raise NoData(reason="`limit` is 0")
    content = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it was sent
    try:
        services().tracking.write_archive(
            share.job_id, share.component, share.site, content,
            limit=limit, head=flag(body, "head", default=True),
        )  # fmt: skip
    except BaseException:
        content.close()
        raise
    return download(content, share.file_name)


@tracking.post("/component/output/data/table")
def output_data_table() -> Response:
    """Return where the output tables of a component are."""
    body = json_body()
    require(body, "job_id", "role", "party_id", "component_name")
    share = _share(body)
    found = services().tracking.outputs(share.job_id, share.component, share.site)
    if not found:
        raise NoData(reason=f"{share.component} has no output table at {share.site}")
    return success([fields.output_table_row(output) for output, _ in found])
