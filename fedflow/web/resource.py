"""`/v1/resource`: the cores of this server's engines.

Source: `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

from typing import Any, TypedDict

from flask import Blueprint, Response

from fedflow.domain.records import JobRecord
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire import fields
from fedflow.wire.api.administration import JobCores, ReturnedCores

resource = Blueprint("resource", __name__, url_prefix="/resource")
resource.before_request(require_client)


class ResourceBody(Body, frozen=True):
    """Which engine, and whether to list the jobs that hold cores or those that wait for them."""

    resource_in_use: Flag = Flag(1)
    engine_name: Text | None = None


class JobBody(Body, frozen=True):
    """Which job."""

    job_id: Text


class EngineRow(TypedDict):
    """A computing engine and its free cores."""

    f_engine_name: str
    f_engine_type: str
    f_engine_entrance: str
    f_engine_config: dict[str, Any]
    f_cores: int
    f_remaining_cores: int
    f_memory: int
    f_remaining_memory: int
    f_nodes: int


class ResourceView(TypedDict):
    """Who holds the cores of this server."""

    use_resource_job: list[JobCores]
    computing_engine_resource: EngineRow  #: of the engine that was asked for
    engines: list[EngineRow]  #: all of this server


@route(resource, "/query", body=ResourceBody, data=ResourceView)
def query(body: ResourceBody) -> Response:
    """Return the computing engines, and the jobs that hold cores of the one that is asked for, by
    default of all.
    """
    found = services().resources.query(
        in_use=bool(body.resource_in_use), engine_name=body.engine_name
    )
    return success(
        {
            "use_resource_job": [_held(job) for job in found.jobs],
            "computing_engine_resource": fields.engine_row(found.engine),
            "engines": [fields.engine_row(engine) for engine in found.engines],
        }
    )


@route(resource, "/return", body=JobBody, data=list[ReturnedCores])
def give_back(body: JobBody) -> Response:
    """Give back the cores of an ended job that none of its processes uses any more."""
    rows = [
        ReturnedCores(
            job_id=one.job.key.job_id,
            role=one.job.key.site.role.value,
            party_id=one.job.key.site.party_id,
            resource_in_use=one.job.in_use,
            resource_return_status=one.returned,
        )
        for one in services().resources.give_back(body.job_id)
    ]
    return success(rows)


def _held(job: JobRecord) -> JobCores:
    site = job.key.site
    return JobCores(
        job_id=job.key.job_id, role=site.role.value, party_id=site.party_id,
        core=job.cores, memory=job.memory, engine=job.engine,
    )  # fmt: skip
