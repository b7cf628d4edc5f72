"""`/v1/job`: submit, stop, look, logs. Source: `reference/flow-rest-api.md` section 2.1."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any, Final

from flask import Blueprint, Response

from fedflow.base.errors import BadRequest, FedflowError, JobNotFound, MissingArgument, NoData
from fedflow.base.ids import PartyId
from fedflow.domain.job_spec import model_id_of
from fedflow.domain.records import JobFilter, JobRecord
from fedflow.domain.site import Role
from fedflow.domain.states import JobStatus
from fedflow.web import queries
from fedflow.web.answers import answer, download, refusal, status_refusal, submitted, success
from fedflow.web.auth import require_client
from fedflow.web.current import services
from fedflow.web.errors import status_errors
from fedflow.web.requests import json_body, optional_body, optional_text, require, site, text
from fedflow.wire import envelope, fields

job = Blueprint("job", __name__, url_prefix="/job")
job.before_request(require_client)

_OPERATING_ERROR: Final = 103


# --- submit, stop ---------------------------------------------------------------------------------


@job.post("/submit")
def submit() -> Response:
    """Start a job."""
    body = json_body()
    conf = body.get("job_runtime_conf", body.get("runtime_conf"))
    dsl = body.get("job_dsl", body.get("dsl"))
    if conf is None:
        raise MissingArgument(names="job_runtime_conf")
    try:
        return submitted(services().submissions.submit(dsl, conf))
    except FedflowError as exc:  # FATE answers every refused submit with this code
        return answer({**envelope.failure(exc), "retcode": _OPERATING_ERROR})


@job.post("/stop")
def stop() -> Response:
    """End a job."""
    body = json_body()
    job_id = text(body, "job_id")
    services().jobs.stop(job_id, optional_text(body, "stop_status") or JobStatus.CANCELED.value)
    return success()


# --- look -----------------------------------------------------------------------------------------


@job.post("/query")
def query() -> Response:
    """Return the shares of jobs that fit; an empty list if none does."""
    body = optional_body()
    found = services().jobs.find(queries.job_filter(body)) if body else []
    rows = [fields.job_row(j) for j in found]
    return success([row for row in rows if queries.matches(row, body)])


@job.post("/list/job")
@status_errors
def list_job() -> Response:
    """Return one page of all jobs, and how many fit."""
    body = optional_body()
    queries.check_words(body)
    page = queries.page_of(body, order_by="create_time")
    narrow = queries.job_filter({n: body.get(n) for n in ("role", "status")})
    tests = [queries.contains(n, body) for n in ("job_id", "description", "party_id", "partner")]
    plain = all(body.get(n) is None for n in ("job_id", "description", "party_id", "partner"))
    if plain and page.limit and page.order_by == "create_time" and page.descending:
        first = JobFilter(
            roles=narrow.roles, statuses=narrow.statuses,
            limit=page.limit, offset=(page.page - 1) * page.limit,
        )  # fmt: skip
        found = services().jobs.find(first)
        rows = [fields.job_list_row(j) for j in found]
        return success({"jobs": rows, "count": services().jobs.count(narrow)})
    every = JobFilter(roles=narrow.roles, statuses=narrow.statuses, limit=queries.MAX_ROWS)
    rows = [fields.job_list_row(j) for j in services().jobs.find(every)]
    rows = [row for row in rows if all(test(row) for test in tests)]
    return success({"jobs": page.cut(rows), "count": len(rows)})


@job.post("/task/query")
def task_query() -> Response:
    """Return the latest attempts that fit; retcode 101 if none does."""
    body = optional_body()
    found = services().jobs.tasks(queries.task_filter(body)) if body else []
    rows = [fields.task_row(t) for t in found]
    rows = [row for row in rows if queries.matches(row, body)]
    if not rows:
        return refusal(envelope.ARGUMENT_ERROR, "no task could be found")
    return success(rows)


@job.post("/list/task")
@status_errors
def list_task() -> Response:
    """Return one page of tasks, and how many fit."""
    body = optional_body()
    queries.check_words(body)
    page = queries.page_of(body, order_by="create_time")
    rows = [fields.task_list_row(t) for t in services().jobs.tasks(queries.task_filter(body))]
    return success({"tasks": page.cut(rows), "count": len(rows)})


@job.post("/update")
def update() -> Response:
    """Store people's notes about a job."""
    body = json_body()
    require(body, "job_id", "role", "party_id")
    where, notes = site(body), optional_text(body, "notes") or ""
    try:
        services().jobs.set_notes(text(body, "job_id"), where.role.value, where.party_id, notes)
    except JobNotFound as exc:
        return refusal(envelope.ARGUMENT_ERROR, f"{exc.message} {exc.hint}", error=exc)
    return success()


@job.post("/config")
def config() -> Response:
    """Return what a job was submitted with."""
    body = json_body()
    require(body, "job_id", "role", "party_id")
    found = _share(text(body, "job_id"), body)
    if found is None:
        return refusal(envelope.ARGUMENT_ERROR, "find job failed")
    model = {"model_id": model_id_of(found.roles), "model_version": found.key.job_id}
    return success(
        {
            "job_id": found.key.job_id,
            "dsl": found.dsl,
            "runtime_conf": found.conf,
            "train_runtime_conf": {},
            "model_info": model,
        }
    )


@job.post("/data/view/query")
def data_view() -> Response:
    """Return the output tables of a job."""
    body = json_body()
    job_id = text(body, "job_id")
    which = queries.job_filter({n: body.get(n) for n in ("job_id", "role", "party_id")})
    chosen = optional_text(body, "component_name")
    rows = []
    for share in services().jobs.find(which):
        for component in [chosen] if chosen else services().tracking.components(job_id):
            found = services().tracking.outputs(job_id, component, share.key.site)
            rows += [fields.data_view_row(output) for output, _ in found]
    if not rows:
        return refusal(envelope.ARGUMENT_ERROR, "no find")
    return success(rows)


@job.post("/status")
def status() -> Response:
    """Return how a job stands, with every task per site (fedflow's own)."""
    return success(services().jobs.status_view(text(json_body(), "job_id")))


@job.get("/<job_id>/status")
def status_of(job_id: str) -> Response:
    """Return how a job stands, with every task per site (fedflow's own)."""
    return success(services().jobs.status_view(job_id))


def _share(job_id: str, body: dict[str, Any]) -> JobRecord | None:
    where = site(body)
    which = JobFilter(
        job_id=job_id, roles=(Role(where.role),), party_id=PartyId(where.party_id), limit=1
    )
    return next(iter(services().jobs.find(which)), None)


# --- logs -----------------------------------------------------------------------------------------


@job.post("/log/download")
@status_errors
def log_download() -> Response:
    """Return a job's logs as tar.gz, members relative to its log folder."""
    return _logs(text(json_body(), "job_id"))


@job.get("/log")
@status_errors
def log_of_1_6() -> Response:
    """Return a job's logs as clients of FATE 1.6 ask for them; HTTP 210 if there are none."""
    try:
        return _logs(text(json_body(), "job_id"))
    except JobNotFound:
        return status_refusal(NoData.http, "no log")


@job.post("/log/path")
@status_errors
def log_path() -> Response:
    """Return the folder of a job's logs on the server."""
    return success({"logs_directory": str(services().jobs.log_dir(text(json_body(), "job_id")))})


def _logs(job_id: str) -> Response:
    folder = services().jobs.log_dir(job_id)
    if not folder.is_dir():
        raise JobNotFound(job_id=job_id)
    content = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it was sent
    try:
        _pack(folder, content)
    except OSError as exc:
        content.close()
        raise BadRequest(reason=f"the logs cannot be read: {exc.strerror}") from exc
    return download(content, f"job_{job_id}_log.tar.gz")


def _pack(folder: Path, target: IO[bytes]) -> None:
    """Write the regular files below `folder`; a log that grows meanwhile is cut where it was."""
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            with path.open("rb") as log:
                info = tar.gettarinfo(arcname=str(path.relative_to(folder)), fileobj=log)
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                tar.addfile(info, log)
