"""Commands of other parties: every entry of the table in `wire/paths.py` goes to `app/commands.py`.

Two blueprints, because FATE's paths have two prefixes; both are open to the relay only, unless the
settings allow plain HTTP.
"""

from __future__ import annotations

from flask import Blueprint, Response, request

from fedflow.app.commands import Incoming
from fedflow.base.errors import BadRequest, ForbiddenRoute
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.web.answers import answer
from fedflow.web.auth import request_id, source_party
from fedflow.web.current import services
from fedflow.web.requests import body_or_empty
from fedflow.wire import envelope
from fedflow.wire.paths import PARTY_COMMANDS, Match, parse_party_path, site_of, task_of

party = Blueprint("party", __name__)
initiator = Blueprint("initiator", __name__)


def command(**_params: str) -> Response:
    """Serve the party command that the path names."""
    source = source_party()
    match = parse_party_path(request.path)
    if match is None:
        raise ForbiddenRoute(path=request.path[:200])
    reply = services().commands.handle(_incoming(match, source))
    return answer(envelope.of_reply(reply))


def _incoming(match: Match, source: str | None) -> Incoming:
    params = match.params
    version = params.get("version")
    if version is not None:
        task_of(params)  # the task id must be that of the job and component
    return Incoming(
        name=match.name,
        job_id=params.get("job_id", ""),
        site=site_of(params),
        body=body_or_empty(),
        component=params.get("component"),
        version=int(version) if version is not None else None,
        status=_status(params.get("status"), of_task=version is not None),
        source_party=source,
        request_id=request_id(),
    )


def _status(word: str | None, *, of_task: bool) -> str | None:
    """Return the status in a path. Raises: BadRequest: jobs or tasks have no such status."""
    if word is None:
        return None
    known = [s.value for s in (TaskStatus if of_task else JobStatus)]
    if word not in known:
        raise BadRequest(reason=f"{word!r} is not a status; known are {', '.join(known)}")
    return word


for _name, _pattern in PARTY_COMMANDS.items():
    _blueprint = initiator if _pattern.startswith("/initiator/") else party
    _blueprint.add_url_rule(_pattern, endpoint=_name, view_func=command, methods=["POST"])
