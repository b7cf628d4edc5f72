"""`/v1/job/delete`: forgetting an ended job and all that it made here. fedflow's own."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.app.queries.deleting import Deletion
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.job_delete import DeletedJob, DeletedModel, DeletedTable, UsedTable

job_delete = Blueprint("job_delete", __name__, url_prefix="/job")
job_delete.before_request(require_client)


class DeleteJobBody(Body, frozen=True):
    """Which job; a preview deletes nothing."""

    job_id: Text
    preview: Flag = Flag(0)


@route(job_delete, "/delete", body=DeleteJobBody, data=DeletedJob, own=True)
def delete(body: DeleteJobBody) -> Response:
    """Delete an ended job at this server, and return what was deleted; other parties keep theirs.

    A delete that was interrupted is finished by another one.
    """
    deletions = services().deletions
    found = deletions.preview(body.job_id) if body.preview else deletions.delete(body.job_id)
    return success(_deleted(found))


def _deleted(found: Deletion) -> DeletedJob:
    return DeletedJob(
        job_id=found.job_id,
        sites=tuple(site.key for site in found.sites),
        partners=found.partners,
        tasks=found.tasks,
        metrics=found.metrics,
        caches=found.caches,
        tags=found.tags,
        tables=tuple(
            DeletedTable(namespace=t.namespace, name=t.name, rows=t.rows, size_bytes=t.size_bytes)
            for t in found.tables
        ),
        kept_tables=tuple(
            UsedTable(namespace=t.namespace, name=t.name, jobs=t.jobs) for t in found.kept_tables
        ),
        models=tuple(
            DeletedModel(
                model_id=m.key.model_id, model_version=m.key.model_version,
                role=m.key.site.role.value, party_id=m.key.site.party_id,
                size_bytes=m.size_bytes, kept=m.kept,
            )
            for m in found.models
        ),
        log_files=found.log_files,
        log_bytes=found.log_bytes,
        file_bytes=found.file_bytes,
        left_over=found.left_over,
    )  # fmt: skip
