"""`/v1/model/tag` and `/v1/model/model_tag`: names that people give to versions of models.

Source: `docs/reference/rest.md#models`.
"""

from __future__ import annotations

from flask import Blueprint, Response
from msgspec.structs import replace

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, Text, Whole
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.models import Tags
from fedflow.wire.model_fields import shown_tag, tagged_model

model_tag = Blueprint("model_tag", __name__, url_prefix="/model")
model_tag.before_request(require_client)


# --- tags of a version ----------------------------------------------------------------------------


class TaggedVersionBody(Body, frozen=True):
    """Which version: the job that trained it, or the id that a deploy gave."""

    job_id: Text


class VersionTagBody(TaggedVersionBody, frozen=True):
    """A version and a tag."""

    tag_name: Text


@route(model_tag, "/model_tag/create", body=VersionTagBody)
def model_tag_create(body: VersionTagBody) -> Response:
    """Give a tag to a model version; it is created if no tag has this name."""
    services().models.tags.attach(body.tag_name, body.job_id)
    return success()


@route(model_tag, "/model_tag/remove", body=VersionTagBody)
def model_tag_remove(body: VersionTagBody) -> Response:
    """Remove a tag from a model version."""
    services().models.tags.detach(body.tag_name, body.job_id)
    return success()


@route(model_tag, "/model_tag/retrieve", body=TaggedVersionBody, data=Tags)
def model_tag_retrieve(body: TaggedVersionBody) -> Response:
    """Return the tags of a model version."""
    tags = tuple(map(shown_tag, services().models.tags.of_version(body.job_id)))
    return success(Tags(tags=tags, count=len(tags)))


# --- tags -----------------------------------------------------------------------------------------


class CreateBody(Body, frozen=True):
    """A new tag."""

    tag_name: Text
    tag_desc: Text = Text("")


@route(model_tag, "/tag/create", body=CreateBody)
def tag_create(body: CreateBody) -> Response:
    """Create a tag; retcode 100 if one of this name exists."""
    services().models.tags.create(body.tag_name, body.tag_desc)
    return success()


class TagListBody(Body, frozen=True):
    """How many."""

    limit: Whole


@route(model_tag, "/tag/list", body=TagListBody, data=Tags)
def tag_list(body: TagListBody) -> Response:
    """Return tags, newest first."""
    found = services().models.tags.newest(max(0, min(body.limit, 10_000)))
    tags = (replace(shown_tag(one), model_count=one.model_count) for one in found)
    return success(Tags(tags=tuple(tags)))


class RetrieveBody(Body, frozen=True):
    """Which tags, or the models of which tag."""

    tag_name: Text
    with_model: Flag = Flag(0)


@route(model_tag, "/tag/retrieve", body=RetrieveBody, data=Tags)
def tag_retrieve(body: RetrieveBody) -> Response:
    """Return the tags whose name has this part, or with `with_model` the models of this tag."""
    if not body.with_model:
        return success(Tags(tags=tuple(map(shown_tag, services().models.tags.find(body.tag_name)))))
    models = tuple(map(tagged_model, services().models.tags.models(body.tag_name)))
    return success(Tags(models=models, count=len(models)))


class UpdateBody(Body, frozen=True):
    """A tag, and what to change of it."""

    tag_name: Text
    new_tag_name: Text | None = None
    new_tag_desc: Text | None = None


@route(model_tag, "/tag/update", body=UpdateBody)
def tag_update(body: UpdateBody) -> Response:
    """Rename or describe a tag."""
    services().models.tags.update(
        body.tag_name, new_name=body.new_tag_name or None, description=body.new_tag_desc
    )
    return success()


class TagBody(Body, frozen=True):
    """Which tag."""

    tag_name: Text


@route(model_tag, "/tag/destroy", body=TagBody)
def tag_destroy(body: TagBody) -> Response:
    """Delete a tag, also from the versions that have it."""
    services().models.tags.drop(body.tag_name)
    return success()
