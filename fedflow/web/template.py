"""`/v1/template`: examples to start from. Source: reference section 2.7."""

from __future__ import annotations

import tempfile

from flask import Blueprint, Response

from fedflow.base.errors import FedflowError
from fedflow.web.answers import download
from fedflow.web.auth import require_client
from fedflow.web.bodies import Body, Flag
from fedflow.web.current import services
from fedflow.web.routes import Style, route

template = Blueprint("template", __name__, url_prefix="/template")
template.before_request(require_client)


class TemplateBody(Body, frozen=True):
    """Nothing that counts: the data sets of the examples are small, they are always in."""

    min_data: Flag | None = None


@route(template, "/download", body=TemplateBody, style=Style.STATUS, produces="application/gzip")
def templates(_body: TemplateBody) -> Response:
    """Return examples of jobs with their data, and of conf files, as tar.gz."""
    content = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it was sent
    try:
        services().administration.templates.write(content)
    except (FedflowError, OSError):
        content.close()
        raise
    return download(content, "template.tar.gz")
