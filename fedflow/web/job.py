"""`/v1/job`: submit, stop, notes, and how one job stands.

Source: `docs/reference/rest.md#jobs`. Lists and queries: `web/job_lists.py`; logs:
`web/job_logs.py`.
"""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response, request

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import MissingArgument
from fedflow.domain.job.conf import mode_of
from fedflow.domain.job.spec import model_id_of
from fedflow.domain.records import JobFilter, JobRecord
from fedflow.domain.scheduling.submits import key_in_header
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from fedflow.web import queries
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, JobBody, NoBody, Text, site_of
from fedflow.web.responses import answer, refusal, submitted, success
from fedflow.web.routes import route
from fedflow.wire import envelope, fields
from fedflow.wire.api.job_lists import OutputTable
from fedflow.wire.api.jobs import JobConfig, JobStatusView, Submitted

job = Blueprint("job", __name__, url_prefix="/job")
job.before_request(require_client)

_OPERATING_ERROR: Final = 103


class SubmitBody(Body, frozen=True):
    """A job: what runs, and with which parameters. Each may stand under either of its two names."""

    job_runtime_conf: Any = None
    job_dsl: Any = None
    runtime_conf: Any = None
    dsl: Any = None
    strict: bool = False
    """The job is refused where it would only be warned of; stored as a job parameter."""
    idempotency_key: Text | None = None
    """A repeated submit with the same key gets the first one's answer. Also as a header, see
    docs/jobs.md."""


class StopBody(Body, frozen=True):
    """Which job, and what it ends as."""

    job_id: Text
    stop_status: Text = Text(JobStatus.CANCELED.value)


class PartyJobBody(Body, frozen=True):
    """One party job."""

    job_id: Text
    role: Text
    party_id: Text

    @property
    def site(self) -> Site:
        """Return the site. Raises: BadRequest: there is no such role."""
        return site_of(self.role, self.party_id)


class NotesBody(PartyJobBody, frozen=True):
    """People's notes about a job, and what they call it (fedflow's own)."""

    notes: Text | None = None
    name: Text | None = None

    @property
    def changes(self) -> dict[str, Text | None]:
        """Return both, None for what stays as it is. Without both the notes are removed."""
        nothing = self.notes is None and self.name is None
        return {"notes": Text() if nothing else self.notes, "name": self.name}


class DataViewBody(Body, frozen=True):
    """Whose output tables."""

    job_id: Text
    role: Text | None = None
    party_id: Text | None = None
    component_name: Text | None = None


@route(job, "/submit", body=SubmitBody, data=Submitted, needed=True)
def submit(body: SubmitBody) -> Response:
    """Start a job; returns when all sites have accepted it."""
    conf = body.runtime_conf if body.job_runtime_conf is None else body.job_runtime_conf
    dsl = body.dsl if body.job_dsl is None else body.job_dsl
    if conf is None:
        raise MissingArgument(names="job_runtime_conf")
    try:
        keys = (key_in_header(request.headers.get("Idempotency-Key")), body.idempotency_key)
        return submitted(services().submissions.submit(dsl, conf, keys=keys, strict=body.strict))
    except FedflowError as exc:  # FATE answers every refused submit with this code
        return answer({**envelope.failure(exc), "retcode": _OPERATING_ERROR})


@route(job, "/stop", body=StopBody)
def stop(body: StopBody) -> Response:
    """End a job: `canceled`, or what `stop_status` says. `retmsg` says if it had ended before."""
    stopped = services().jobs.stop(body.job_id, body.stop_status)
    if stopped.had_ended:
        return answer(envelope.envelope(0, f"nothing to stop: the job had ended, {stopped.status}"))
    return success()


@route(job, "/update", body=NotesBody)
def update(body: NotesBody) -> Response:
    """Store people's notes about a job, or what they call it (fedflow's own)."""
    where = body.site
    try:
        services().jobs.set_notes(body.job_id, where.role.value, where.party_id, **body.changes)
    except JobNotFound as exc:
        return refusal(envelope.ARGUMENT_ERROR, exc.advice, error=exc)
    return success()


@route(job, "/config", body=PartyJobBody, data=JobConfig)
def config(body: PartyJobBody) -> Response:
    """Return what a job was submitted with; of the conf, the part that this site may see."""
    found = _share(body)
    if found is None:
        return refusal(envelope.ARGUMENT_ERROR, "find job failed")
    return success(
        JobConfig(
            job_id=found.key.job_id,
            dsl=found.dsl,
            runtime_conf=fields.seen_conf(found, found.conf),
            train_runtime_conf=fields.seen_conf(found, found.train_conf),
            model_info=_model_info(found),
        )
    )


def _model_info(found: JobRecord) -> dict[str, str]:
    """Return which model a job trains, or uses if it is a predict job."""
    if mode_of(found.conf) != "predict":
        return {"model_id": model_id_of(found.roles), "model_version": found.key.job_id}
    common = found.conf["job_parameters"]["common"]
    return {name: str(common.get(name, "")) for name in ("model_id", "model_version")}


@route(job, "/data/view/query", body=DataViewBody, data=list[OutputTable])
def data_view(body: DataViewBody) -> Response:
    """Return the output tables of a job."""
    given = {"job_id": body.job_id, "role": body.role, "party_id": body.party_id}
    rows = []
    for share in services().jobs.find(queries.job_filter(given)):
        chosen = body.component_name
        for component in [chosen] if chosen else services().tracking.components(body.job_id):
            found = services().tracking.outputs(body.job_id, component, share.key.site)
            rows += [fields.data_view_row(output) for output, _ in found]
    if not rows:
        return refusal(envelope.ARGUMENT_ERROR, "no find")
    return success(rows)


@route(job, "/status", body=JobBody, data=JobStatusView, own=True)
def status(body: JobBody) -> Response:
    """Return the status of a job, with every task per site."""
    return success(services().jobs.status_view(body.job_id))


@route(job, "/<job_id>/status", data=JobStatusView, methods=("GET",), own=True)
def status_of(_body: NoBody, job_id: str) -> Response:
    """Return the status of a job, with every task per site."""
    return success(services().jobs.status_view(job_id))


def _share(body: PartyJobBody) -> JobRecord | None:
    where = body.site
    which = JobFilter(job_id=body.job_id, roles=(where.role,), party_id=where.party_id, limit=1)
    return next(iter(services().jobs.find(which)), None)
