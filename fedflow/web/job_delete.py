"""`/v1/job/delete`: forgetting an ended job and all that it made here. fedflow's own."""

from __future__ import annotations

from typing import TypedDict

from flask import Blueprint, Response

from fedflow.app.queries.deleting import Deletion
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, Text
from fedflow.web.responses import success
from fedflow.web.routes import route

job_delete = Blueprint("job_delete", __name__, url_prefix="/job")
job_delete.before_request(require_client)


class DeleteBody(Body, frozen=True):
    """Which job; a preview deletes nothing."""

    job_id: Text
    preview: Flag = Flag(0)


class DeletedTable(TypedDict):
    """A table that goes; `size_bytes` of its rows at this machine."""

    namespace: str
    name: str
    rows: int
    size_bytes: int


class UsedTable(TypedDict):
    """A table that stays, since these jobs use it."""

    namespace: str
    name: str
    jobs: list[str]


class DeletedModel(TypedDict):
    """A share of a model; it stays if `kept` says why."""

    model_id: str
    model_version: str
    role: str
    party_id: str
    size_bytes: int
    kept: str


class DeletedJob(TypedDict):
    """What goes, or went, at this server; `partners` are parties that keep their shares."""

    job_id: str
    sites: list[str]
    partners: list[str]
    tasks: int
    metrics: int
    caches: int
    tags: list[str]
    tables: list[DeletedTable]
    kept_tables: list[UsedTable]
    models: list[DeletedModel]
    log_files: int
    log_bytes: int
    file_bytes: int
    left_over: bool  #: the job was deleted before, and only files of it are left


@route(job_delete, "/delete", body=DeleteBody, data=DeletedJob, own=True)
def delete(body: DeleteBody) -> Response:
    """Delete an ended job at this server, and return what went; other parties keep theirs.

    A delete that broke off is finished by another one.
    """
    deletions = services().deletions
    return success(
        _row(deletions.preview(body.job_id) if body.preview else deletions.delete(body.job_id))
    )


def _row(found: Deletion) -> DeletedJob:
    return {
        "job_id": found.job_id,
        "sites": [site.key for site in found.sites],
        "partners": list(found.partners),
        "tasks": found.tasks,
        "metrics": found.metrics,
        "caches": found.caches,
        "tags": list(found.tags),
        "tables": [
            {"namespace": t.namespace, "name": t.name, "rows": t.rows, "size_bytes": t.size_bytes}
            for t in found.tables
        ],
        "kept_tables": [
            {"namespace": t.namespace, "name": t.name, "jobs": list(t.jobs)}
            for t in found.kept_tables
        ],
        "models": [
            {
                "model_id": m.key.model_id,
                "model_version": m.key.model_version,
                "role": m.key.site.role.value,
                "party_id": m.key.site.party_id,
                "size_bytes": m.size_bytes,
                "kept": m.kept,
            }
            for m in found.models
        ],
        "log_files": found.log_files,
        "log_bytes": found.log_bytes,
        "file_bytes": found.file_bytes,
        "left_over": found.left_over,
    }
