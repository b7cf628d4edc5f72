"""`/v1/resource`: the cores of this server's engines.

Source: `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.domain.job.engines import SECTIONS
from fedflow.domain.records import Engine, JobRecord
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, JobBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.administration import EngineCores, JobCores, Resources, ReturnedCores

resource = Blueprint("resource", __name__, url_prefix="/resource")
resource.before_request(require_client)


class ResourceBody(Body, frozen=True):
    """Which engine, and whether to list the jobs that hold cores or those that wait for them."""

    resource_in_use: Flag = Flag(1)
    engine_name: Text | None = None


@route(resource, "/query", body=ResourceBody, data=Resources)
def query(body: ResourceBody) -> Response:
    """Return the computing engines, and the jobs that hold cores of the one that is asked for, by
    default of all.
    """
    found = services().resources.query(
        in_use=bool(body.resource_in_use), engine_name=body.engine_name
    )
    return success(
        Resources(
            jobs=tuple(map(_held, found.jobs)),
            engine=_engine(found.engine),
            engines=tuple(map(_engine, found.engines)),
        )
    )


@route(resource, "/return", body=JobBody, data=list[ReturnedCores])
def give_back(body: JobBody) -> Response:
    """Return the cores of an ended job that none of its processes uses any more."""
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


def _engine(engine: Engine) -> EngineCores:
    return EngineCores(
        name=engine.name,
        entrance=SECTIONS[engine.name].partition(".")[0],
        cores=engine.cores,
        free=engine.remaining_cores,
        memory=engine.memory,
        free_memory=engine.remaining_memory if engine.memory else 0,
    )
