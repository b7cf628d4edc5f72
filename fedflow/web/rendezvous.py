"""`/v1/rendezvous`: runs of rendezvous that this server stores for members. fedflow's own."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.app.administration.rendezvous import RunCaller, RunLink
from fedflow.domain.administration.rendezvous import RunKey, RunReply
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.rendezvous import RunState, StoredRun

rendezvous = Blueprint("rendezvous", __name__, url_prefix="/rendezvous")
rendezvous.before_request(require_client)


class RunBody(Body, frozen=True):
    """A run of this party, or of a job that it takes part in."""

    run_id: Text
    job_id: Text | None = None


class ReadBody(RunBody, frozen=True):
    """A run, and the token of the state that the caller has already."""

    token: Text | None = None


class WriteBody(RunBody, frozen=True, kw_only=True):
    """A state, and the token of the one that it replaces; none if it is the first."""

    state: Text
    token: Text | None = None


class RemoveBody(Body, frozen=True):
    """A run, as `list` shows it."""

    scope: Text
    run_id: Text


@route(rendezvous, "/read", body=ReadBody, data=RunState, own=True)
def read(body: ReadBody) -> Response:
    """Return what a run holds; without the state if the caller has it."""
    return success(_state(_run(body).read(body.token)))


@route(rendezvous, "/write", body=WriteBody, data=RunState, own=True)
def write(body: WriteBody) -> Response:
    """Replace what a run holds if the token is that of the last write; tell whether it was."""
    return success(_state(_run(body).write(body.state, body.token)))


@route(rendezvous, "/list", data=list[StoredRun], own=True, read_only=True)
def list_all(_: NoBody) -> Response:
    """Return the runs that were written to last, at most 1,000."""
    found = services().rendezvous.all()
    return success(
        [
            StoredRun(
                scope=run.key.scope, run_id=run.key.run_id, caller=run.caller,
                created_ms=run.created_ms, updated_ms=run.updated_ms,
            )
            for run in found
        ]
    )  # fmt: skip


@route(rendezvous, "/remove", body=RemoveBody, data=bool, own=True)
def remove(body: RemoveBody) -> Response:
    """Delete a run; tell whether there was one."""
    return success(services().rendezvous.remove(RunKey(scope=body.scope, run_id=body.run_id)))


def _run(body: RunBody) -> RunLink:
    place = services().info.place
    caller = RunCaller(party_id=place.party_id or "0", counted="clients")
    return services().rendezvous.run(body.run_id, caller=caller, job_id=body.job_id)


def _state(reply: RunReply) -> RunState:
    return RunState(
        now_ms=reply.now_ms,
        token=reply.token,
        state=reply.text,
        was_set=reply.was_set,
        since_ms=reply.since_ms,
    )
