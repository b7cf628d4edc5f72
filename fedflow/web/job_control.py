"""`/v1/job`: running a job again, changing its parameters, tidying up, a job's report and page.

Source: `docs/reference/rest.md#jobs`.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec
from flask import Blueprint, Response

from fedflow.app.initiator.parameter_updates import Sections
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobFilter
from fedflow.domain.site import Role
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Alternatives, Body, Flag, NoBody, Text, Whole, site_of
from fedflow.web.responses import answer, board_url, refusal, success
from fedflow.web.routes import route
from fedflow.wire import envelope
from fedflow.wire.api.jobs import ChangedParameters, CleanedUp, ComponentReport

job_control = Blueprint("job_control", __name__, url_prefix="/job")
job_control.before_request(require_client)


class RerunBody(Body, frozen=True):
    """Which job, and which of its components: all that did not succeed, if none is named."""

    job_id: Text
    component_name: Alternatives | None = None
    force: Flag = Flag(0)  #: also what succeeded
    failed_only: Flag = Flag(0)  #: only what failed or timed out, not what never ran
    job_parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    """Section of a runtime conf (`common`, `role`), laid over the job's own for the rerun."""
    component_parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    """The same of component parameters."""


class PauseBody(Body, frozen=True):
    """Which job."""

    job_id: Text


class ContinueBody(Body, frozen=True):
    """Which job, and how many of its components may begin; a pause just ends by default."""

    job_id: Text
    steps: Whole | None = None  #: from 1 to 1000000
    all: Flag = Flag(0)


class ParametersBody(Body, frozen=True):
    """Sections of a runtime conf (`common`, `role`), which are laid over the job's own."""

    job_id: Text
    job_parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    component_parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class CleanBody(Body, frozen=True):
    """Which job, and at which site."""

    job_id: Text
    role: Text | None = None
    party_id: Text | None = None
    component_name: Text | None = None


class ReportBody(Body, frozen=True):
    """Which job, at which site, which component; the initiator's by default."""

    job_id: Text
    role: Text | None = None
    party_id: Text | None = None
    component_name: Text | None = None


class SitePageBody(Body, frozen=True):
    """One party job."""

    job_id: Text
    role: Text
    party_id: Text


class JobPages(TypedDict):
    """Where people can look at a job."""

    board_url: list[str]


@route(job_control, "/rerun", body=RerunBody)
def rerun(body: RerunBody) -> Response:
    """Run an ended job again: what did not succeed, and everything that depends on it.

    Answers when all sites have agreed. New parameters take effect with the rerun or not at all.
    """
    services().reruns.rerun(
        body.job_id,
        components=body.component_name,
        force=bool(body.force),
        failed_only=bool(body.failed_only),
        sections=Sections(
            job_parameters=body.job_parameters, component_parameters=body.component_parameters
        ),
    )
    return answer(envelope.envelope(0, "rerun job success"))


@route(job_control, "/pause", body=PauseBody)
def pause(body: PauseBody) -> Response:
    """Start no further task of a job; what runs ends, then the job returns its cores."""
    services().control.pause(body.job_id)
    return answer(envelope.envelope(0, "pause job success"))


@route(job_control, "/continue", body=ContinueBody)
def proceed(body: ContinueBody) -> Response:
    """Continue a job that is paused, or that waits for its next step."""
    services().control.proceed(body.job_id, steps=body.steps, all_=bool(body.all))
    return answer(envelope.envelope(0, "continue job success"))


@route(job_control, "/parameter/update", body=ParametersBody, data=ChangedParameters)
def parameter_update(body: ParametersBody) -> Response:
    """Change parameters of an ended job, for its next rerun; all sites must accept them."""
    if not body.job_parameters and not body.component_parameters:
        raise BadRequest(reason="give job_parameters or component_parameters")
    changed = services().parameter_updates.update(
        body.job_id,
        job_parameters=body.job_parameters,
        component_parameters=body.component_parameters,
    )
    return success(changed)


@route(job_control, "/clean", body=CleanBody, data=CleanedUp)
def clean(body: CleanBody) -> Response:
    """Delete the output tables and metrics that an ended job left at this server.

    Outputs that other jobs inherited are kept.
    """
    done = services().cleaning.clean(
        body.job_id, role=_role(body.role), party_id=body.party_id, component=body.component_name
    )
    return success(done)


@route(job_control, "/clean/queue", data=dict[str, int])
def clean_queue(_: NoBody) -> Response:
    """Cancel the jobs that wait for cores; returns 0 for each that is canceled."""
    return success(services().cleaning.clean_queue())


@route(job_control, "/report", body=ReportBody, data=list[ComponentReport])
def report(body: ReportBody) -> Response:
    """Return how the components of a job ended, in topological order."""
    rows = services().jobs.report(
        body.job_id, role=_role(body.role), party_id=body.party_id, component=body.component_name
    )
    if not rows:
        return refusal(envelope.ARGUMENT_ERROR, "no task could be found")
    return success(rows)


@route(job_control, "/url/get", body=SitePageBody, data=JobPages)
def url_get(body: SitePageBody) -> Response:
    """Return the address of a job's page."""
    site = site_of(body.role, body.party_id)
    which = JobFilter(
        job_id=body.job_id, roles=(Role(site.role),), party_id=PartyId(site.party_id), limit=1
    )
    if not services().jobs.find(which):
        missing = JobNotFound(job_id=body.job_id)
        return refusal(envelope.ARGUMENT_ERROR, missing.advice, error=missing)
    return success({"board_url": [board_url(body.job_id, site)]})


def _role(name: str | None) -> Role | None:
    """Return the role that a body names, if any. Raises: BadRequest."""
    return None if name is None else site_of(name, "0").role
