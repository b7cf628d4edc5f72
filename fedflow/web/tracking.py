"""`/v1/tracking`: what runs produced. Source: `docs/reference/rest.md#tracking`.

`role` and `party_id` may be left out: the initiator's site is meant, or else any of this server.
"""

from __future__ import annotations

import io
from typing import Any

from flask import Blueprint, Response

from fedflow.base.errors.data import NoData
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.values import dataclass
from fedflow.domain import records
from fedflow.domain.records import JobFilter, JobRecord
from fedflow.domain.site import Site
from fedflow.web import downloads
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, JobBody, Text, Whole, site_of
from fedflow.web.responses import download, refusal, success
from fedflow.web.routes import Style, route
from fedflow.wire import envelope, fields, model_json, tracking_fields
from fedflow.wire.api.tracking import (
    Components,
    DataView,
    Metric,
    OutputAddress,
    OutputMeta,
    PartyModelMeta,
)

tracking = Blueprint("tracking", __name__, url_prefix="/tracking")
tracking.before_request(require_client)


Members = dict[str, Any]


# --- which party job ------------------------------------------------------------------------------


class OwnJobBody(Body, frozen=True, kw_only=True):
    """One party job."""

    job_id: Text
    role: Text | None = None
    party_id: Text | None = None

    @property
    def site(self) -> Site:
        """Return the site. Raises: BadRequest: no such role. JobNotFound: nor a site to assume."""
        if self.role is None or self.party_id is None:
            return services().tracking.default_site(self.job_id)
        return site_of(self.role, self.party_id)


class ComponentBody(OwnJobBody, frozen=True, kw_only=True):
    """One component of a job at one site."""

    component_name: Text


class MetricBody(ComponentBody, frozen=True, kw_only=True):
    """One metric of a component."""

    metric_namespace: Text
    metric_name: Text


class OutputBody(ComponentBody, frozen=True, kw_only=True):
    """Output data of a component: how many rows (-1: all), and whether with a header line."""

    limit: Whole = Whole(-1)
    head: Flag = Flag(1)


class SiteBody(Body, frozen=True):
    """One component of a job at one site, which must be named."""

    job_id: Text
    component_name: Text
    role: Text
    party_id: Text

    @property
    def site(self) -> Site:
        """Return the site. Raises: BadRequest: no such role."""
        return site_of(self.role, self.party_id)


class SummaryBody(SiteBody, frozen=True):
    """Whose summary, and the name of the file if it is wanted as one."""

    filename: Text | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentSelector:
    """One component of one job at one site."""

    job_id: str
    component: str
    site: Site

    @property
    def file_name(self) -> str:
        role, party = self.site.role.value, self.site.party_id
        return f"job_{self.job_id}_{self.component}_{role}_{party}_output_data.tar.gz"


def _share(body: ComponentBody | SiteBody) -> ComponentSelector:
    return ComponentSelector(job_id=body.job_id, component=body.component_name, site=body.site)


# --- jobs -----------------------------------------------------------------------------------------


@route(tracking, "/component/list", body=JobBody, data=Components)
def component_list(body: JobBody) -> Response:
    """Return the component names of a job."""
    return success(Components(components=tuple(services().tracking.components(body.job_id))))


@route(tracking, "/job/data_view", body=OwnJobBody, data=DataView)
def job_data_view(body: OwnJobBody) -> Response:
    """Return which tables a job reads, its roles, and this site's partners."""
    where = body.site
    which = JobFilter(job_id=body.job_id, roles=(where.role,), party_id=where.party_id, limit=1)
    found = services().jobs.find(which)
    if not found:
        return refusal(envelope.ARGUMENT_ERROR, "error")
    return success(data_view(found[0]))


def data_view(job: JobRecord) -> DataView:
    """Return which tables a job reads as far as this site may know, its roles, and its partners."""
    own, roles = job.key.site, fields.roles_as_numbers(job.roles)
    partners: Members = {}
    for role, parties in job.roles.items():
        others = [p for p in parties if (role, p) != (own.role.value, own.party_id)]
        if others:
            partners[role] = [fields.party_number(p) for p in others]
    visible = (
        [(r, p) for r, parties in job.roles.items() for p in parties]
        if job.is_initiator
        else [(own.role.value, own.party_id)]
    )
    dataset: Members = {}
    for role, party in visible:
        index = job.roles[role].index(party)
        read = _read_tables(job.conf, role, index)
        if read:
            dataset.setdefault(role, {})[party] = read
    return DataView(dataset=dataset, roles=roles, partner=partners)


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


def _member(value: Any, name: str) -> Members:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


# --- metrics --------------------------------------------------------------------------------------


@route(
    tracking, "/component/metric/all", body=ComponentBody,
    data=dict[str, dict[str, Metric]],
)  # fmt: skip
def metric_all(body: ComponentBody) -> Response:
    """Return all metrics with points and meta."""
    found = _metrics(_share(body))
    return success(tracking_fields.metric_tree(found), retmsg="success" if found else "no data")


@route(tracking, "/component/metrics", body=ComponentBody, data=dict[str, list[str]])
def metric_names(body: ComponentBody) -> Response:
    """Return the names of the metrics by namespace."""
    found = _metrics(_share(body))
    return success(tracking_fields.metric_names(found), retmsg="success" if found else "no data")


@route(
    tracking, "/component/metric_data", body=MetricBody, data=list[list[Any]], meta=dict[str, Any]
)
def metric_data(body: MetricBody) -> Response:
    """Return the points and the meta of one metric."""
    wanted = (body.metric_namespace, body.metric_name)
    for metric in _metrics(_share(body)):
        if (metric.namespace, metric.name) == wanted:
            return success(tracking_fields.metric_points(metric), meta=dict(metric.meta))
    return success([], retmsg="no data", meta={})


@route(tracking, "/component/metric/delete", body=JobBody, data=str)
def metric_delete(body: JobBody) -> Response:
    """Delete all metrics of an ended job at this server, and say whether there was such a job."""
    try:
        services().cleaning.drop_metrics(body.job_id)
    except JobNotFound:  # fate_test asks for the version of a deployed model, which is no job
        return success("delete status: False")
    return success("delete status: True")


def _metrics(share: ComponentSelector) -> list[records.Metric]:
    return services().tracking.metrics(share.job_id, share.component, share.site)


# --- parameters, model, summary -------------------------------------------------------------------


@route(tracking, "/component/parameters", body=ComponentBody, data=dict[str, Any])
def parameters(body: ComponentBody) -> Response:
    """Return the parameters of a component as this site got them."""
    share = _share(body)
    return success(services().tracking.parameters(share.job_id, share.component, share.site))


@route(tracking, "/component/output/model", body=ComponentBody, data=Any, meta=PartyModelMeta)
def output_model(body: ComponentBody) -> Response:
    """Return the model of a component; an empty object if there is none."""
    share = _share(body)
    model = services().tracking.model(share.job_id, share.component, share.site)
    if model is None:
        return success({}, retmsg="no data", meta={})
    task = services().tracking.task(share.job_id, share.component, share.site)
    meta = PartyModelMeta(meta_data=model_json.shown(model.meta), module_name=task.module)
    return success(model_json.shown(model.param), meta=meta)


@route(
    tracking, "/component/summary/download", body=SummaryBody, data=Any, style=Style.STATUS,
    produces="application/json",
)  # fmt: skip
def summary_download(body: SummaryBody) -> Response:
    """Return the summary of a component, as a file if the body names one; HTTP 210 if none."""
    share = _share(body)
    found = services().tracking.summary(share.job_id, share.component, share.site)
    if found is None:
        raise NoData(reason=f"{share.component} has no summary at {share.site}")
    if body.filename is None:
        return success(found)
    content = io.BytesIO(envelope.encode(found))
    return download(content, _base_name(body.filename), mimetype="application/json")


def _base_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2] or "summary.json"


# --- output data ----------------------------------------------------------------------------------


@route(
    tracking, "/component/output/data", body=ComponentBody, data=list[list[list[Any]]],
    meta=OutputMeta,
)  # fmt: skip
def output_data(body: ComponentBody) -> Response:
    """Return the first rows of each output table, at most 100."""
    share = _share(body)
    services().tracking.task(share.job_id, share.component, share.site)  # unknown: an error
    rows, meta = output_rows(share.job_id, share.component, share.site)
    return success(rows, retmsg="success" if rows else "no data", meta=meta)


def output_rows(job_id: str, component: str, site: Site) -> tuple[list[Any], OutputMeta]:
    """Return the first rows of each output table, and header, total and name of each."""
    outputs = services().tracking.outputs(job_id, component, site)
    found = [(output.data_name, table) for output, table in outputs if table is not None]
    meta = OutputMeta(
        header=tuple(tuple(fields.table_columns(t)) if t.count else None for _, t in found),
        total=tuple(table.count for _, table in found),
        names=tuple(name for name, _ in found),
    )
    pages = services().data.table_pages
    return [pages.preview(table) for _, table in found], meta


@route(
    tracking, "/component/output/data/download", body=OutputBody, methods=("GET",),
    style=Style.STATUS, produces="application/gzip",
)  # fmt: skip
def output_data_download(body: OutputBody) -> Response:
    """Return the output tables as tar.gz; HTTP 210 if there are none."""
    share = _share(body)
    if body.limit == 0:
        raise NoData(reason="`limit` is 0")
    return downloads.made(
        lambda content: services().tracking.write_archive(
            share.job_id, share.component, share.site, content,
            limit=body.limit, head=bool(body.head),
        ),
        share.file_name,
    )  # fmt: skip


@route(tracking, "/component/output/data/table", body=SiteBody, data=list[OutputAddress])
def output_data_table(body: SiteBody) -> Response:
    """Return where the output tables of a component are."""
    share = _share(body)
    found = services().tracking.outputs(share.job_id, share.component, share.site)
    if not found:
        raise NoData(reason=f"{share.component} has no output table at {share.site}")
    return success([tracking_fields.output_place(output) for output, _ in found])
