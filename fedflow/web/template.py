"""`/v1/template`: examples to start from. Source: reference section 2.7."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web import downloads
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag
from fedflow.web.routes import Style, route

template = Blueprint("template", __name__, url_prefix="/template")
template.before_request(require_client)


class TemplateBody(Body, frozen=True):
    """Nothing that counts: the data sets of the examples are small, they are always in."""

    min_data: Flag | None = None


@route(template, "/download", body=TemplateBody, style=Style.STATUS, produces="application/gzip")
def templates(_body: TemplateBody) -> Response:
    """Return examples of jobs with their data, and of conf files, as tar.gz."""
    return downloads.made(services().administration.templates.write, "template.tar.gz")
