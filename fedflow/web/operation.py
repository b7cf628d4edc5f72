"""`/v1/operation` and `/v1/worker/config`: a job's configuration, for programs beside this server.

FATE reads any file of its server here. Source: reference sections 2.7 and 2.11, trap 17.
"""

from __future__ import annotations

from typing import Any, TypedDict

from flask import Blueprint, Response

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.job import PartyJobBody
from fedflow.web.requests import Body, Text
from fedflow.web.responses import success
from fedflow.web.routes import Style, route
from fedflow.wire.api.job_lists import JobQueryRow
from fedflow.wire.fields import job_row

operation = Blueprint("operation", __name__)
operation.before_request(require_client)


class PathBody(Body, frozen=True):
    """A file that a submit wrote below the server's folder `jobs`."""

    config_path: Text


class JobConfigRow(TypedDict):
    dsl: dict[str, Any]
    runtime_conf: dict[str, Any]
    runtime_conf_on_party: dict[str, Any]
    train_runtime_conf: dict[str, Any]


@route(operation, "/operation/json_conf/load", body=PathBody, data=dict[str, Any])
@route(operation, "/worker/config/load", body=PathBody, data=dict[str, Any])
def load(body: PathBody) -> Response:
    """Return what was submitted with a job, by the path that the submit answered."""
    return success(services().administration.job_files.load(body.config_path))


@route(
    operation, "/operation/job_config/get", body=PartyJobBody, data=JobConfigRow, style=Style.STATUS
)  # fmt: skip
def job_config(body: PartyJobBody) -> Response:
    """Return DSL and configuration of one party job."""
    site = body.site
    row = job_row(services().administration.job_files.job(body.job_id, site), JobQueryRow)
    names = ("dsl", "runtime_conf", "runtime_conf_on_party", "train_runtime_conf")
    return success({name: getattr(row, name) for name in names})
