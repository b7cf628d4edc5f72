"""`/v1/job/delete`: forgetting ended jobs and all that they made here. fedflow's own."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from fedflow.app.queries.deleting import Deletion
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job_lines import EndedJob, EndedJobs
from fedflow.domain.retention import read_age, read_statuses
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Alternatives, Body, Flag, Text, Whole
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.job_delete import (
    DeletedJob,
    DeletedJobs,
    DeletedModel,
    DeletedTable,
    RetainedJob,
    UsedTable,
)

job_delete = Blueprint("job_delete", __name__, url_prefix="/job")
job_delete.before_request(require_client)

MOST_OLD: Final = 100  #: jobs that one request looks at


class DeleteJobBody(Body, frozen=True):
    """Which job; a preview deletes nothing."""

    job_id: Text
    preview: Flag = Flag(0)


class DeleteOldBody(Body, frozen=True):
    """Which jobs: those that ended longer ago than `older_than`, such as `30d`."""

    older_than: Text
    status: Alternatives | None = None
    limit: Whole = Whole(MOST_OLD)
    after: Text = Text("")
    preview: Flag = Flag(0)


@route(job_delete, "/delete", body=DeleteJobBody, data=DeletedJob, own=True)
def delete(body: DeleteJobBody) -> Response:
    """Delete an ended job at this server, and return what was deleted; other parties keep theirs.

    A delete that was interrupted is finished by another one.
    """
    deletions = services().deletions
    found = deletions.preview(body.job_id) if body.preview else deletions.delete(body.job_id)
    return success(_deleted(found))


@route(job_delete, "/delete/old", body=DeleteOldBody, data=DeletedJobs, own=True)
def delete_old(body: DeleteOldBody) -> Response:
    """Delete some of the jobs that ended long ago, the oldest first, and return what was deleted.

    If the answer has `after`, there may be more: the next request sends it.
    """
    if not 1 <= body.limit <= MOST_OLD:
        raise BadRequest(reason=f"limit must be 1 to {MOST_OLD}", path="limit")
    deletions, now_ms = services().deletions, services().info.now_ms()
    which = EndedJobs(
        before_ms=now_ms - read_age(body.older_than), statuses=read_statuses(body.status or ())
    )
    looks = deletions.preview_old if body.preview else deletions.delete_old
    found = looks(which, limit=body.limit, after=_place(body.after))
    last = found.last
    return success(
        DeletedJobs(
            jobs=tuple(_deleted(one) for one in found.deleted),
            kept=tuple(RetainedJob(job_id=o.job_id, reason=o.reason) for o in found.refused),
            after="" if last is None else f"{last.created_ms}:{last.job_id}",
        )
    )


def _place(text: str) -> EndedJob | None:
    """Return where a request goes on. Raises: BadRequest."""
    if not text:
        return None
    created_ms, colon, job_id = text.partition(":")
    if not colon or not (created_ms.isascii() and created_ms.isdigit()) or len(created_ms) > 18:
        raise BadRequest(reason="it is not what an earlier answer gave", path="after")
    return EndedJob(created_ms=int(created_ms), job_id=job_id)


def _deleted(found: Deletion) -> DeletedJob:
    return DeletedJob(
        job_id=found.job_id,
        status=found.status.value if found.status is not None else "",
        ended=found.ended_ms,
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
