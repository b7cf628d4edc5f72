"""`/v1/job/tag`: words that people of this server give to jobs. fedflow's own."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import JobBody, NoBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.jobs import JobTag, JobTags, TagsOfJob

job_tag = Blueprint("job_tag", __name__, url_prefix="/job/tag")
job_tag.before_request(require_client)


class JobTagBody(JobBody, frozen=True):
    """A job and a tag of 1 to 50 characters."""

    tag_name: Text


@route(job_tag, "/add", body=JobTagBody, data=TagsOfJob, own=True)
def add(body: JobTagBody) -> Response:
    """Give a job a tag, and return all that it has; a tag that it already has stays."""
    return success(TagsOfJob(tags=tuple(services().job_tags.add(body.job_id, body.tag_name))))


@route(job_tag, "/remove", body=JobTagBody, data=TagsOfJob, own=True)
def remove(body: JobTagBody) -> Response:
    """Remove a tag from a job, and return the tags that it has."""
    return success(TagsOfJob(tags=tuple(services().job_tags.remove(body.job_id, body.tag_name))))


@route(job_tag, "/query", body=JobBody, data=TagsOfJob, own=True, read_only=True)
def query(body: JobBody) -> Response:
    """Return the tags of a job."""
    return success(TagsOfJob(tags=tuple(services().job_tags.of(body.job_id))))


@route(job_tag, "/list", data=JobTags, own=True, read_only=True)
def list_tags(_: NoBody) -> Response:
    """Return the tags of this server's jobs."""
    found = services().job_tags.all()
    return success(JobTags(tags=tuple(JobTag(name=name, job_count=count) for name, count in found)))
