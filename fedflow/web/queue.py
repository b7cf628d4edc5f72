"""`/v1/job/queue`: the jobs of this server that wait, in the order in which they go."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.app.protocol.queue import RankedJob
from fedflow.base.errors.requests import BadRequest
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Whole
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.jobs import Reason
from fedflow.wire.api.queue import Queue, QueuedJob

queue = Blueprint("queue", __name__, url_prefix="/job")
queue.before_request(require_client)

_MOST = 10_000


class QueueBody(Body, frozen=True):
    """Which part of the queue."""

    limit: Whole = Whole(100)  #: at most 10,000
    offset: Whole = Whole(0)


@route(queue, "/queue", body=QueueBody, data=Queue, read_only=True)
def list_queue(body: QueueBody) -> Response:
    """Return the jobs that wait, in their order, and what each waits for."""
    if not 1 <= body.limit <= _MOST:
        raise BadRequest(reason=f"`limit` must be from 1 to {_MOST}, not {body.limit}")
    if body.offset < 0:
        raise BadRequest(reason=f"`offset` must not be negative, and is {body.offset}")
    places, count = services().queue.page(limit=body.limit, offset=body.offset)
    return success(Queue(jobs=tuple(_queued(place) for place in places), count=count))


def _queued(place: RankedJob) -> QueuedJob:
    job = place.job
    return QueuedJob(
        position=place.position,
        job_id=job.job_id,
        role=job.initiator.role.value,
        party_id=job.initiator.party_id,
        priority=job.priority,
        since=job.queued_ms,
        starving=place.starves,
        cores=job.need.cores,
        memory=job.need.memory,
        spark_cores=job.need.spark,
        reason=Reason.of(place.reason),
    )
