"""Commands of other parties: every entry of the table in `wire/paths.py` goes to
`app/protocol/commands.py`.

Two blueprints, because FATE's paths have two prefixes; both are open to the relay only, unless the
settings allow plain HTTP.
"""

from __future__ import annotations

import logging
from typing import Final

from flask import Blueprint, Response, request

from fedflow.app.protocol.commands import Incoming
from fedflow.base.errors.parties import ForbiddenRoute
from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.web.auth import request_id, source_party
from fedflow.web.context import services
from fedflow.web.requests import OpenBody
from fedflow.web.responses import answer
from fedflow.web.routes import Access, route
from fedflow.wire import envelope
from fedflow.wire.paths import PARTY_COMMANDS, Match, parse_party_path, site_of, task_of

MATCH: Final = "fedflow.match"  #: WSGI environ: the path as the relay has parsed it

logger = logging.getLogger(__name__)

party = Blueprint("party", __name__)
initiator = Blueprint("initiator", __name__)


def _require_party() -> None:
    source_party()


party.before_request(_require_party)
initiator.before_request(_require_party)


def command(body: OpenBody, **_params: str) -> Response:
    """Serve the party command that the path names."""
    match: Match | None = request.environ.get(MATCH) or parse_party_path(request.path)
    if match is None:
        raise ForbiddenRoute(path=request.path[:200])
    try:
        reply = services().commands.handle(_incoming(match, body))
    except StoreUnavailable as exc:  # its reason names files or addresses of this company
        logger.error("%s", exc.message, extra={"action": "store_unavailable"})
        raise StoreUnavailable(reason="its server's log says why") from exc
    return answer(envelope.of_reply(reply))


def _incoming(match: Match, body: OpenBody) -> Incoming:
    params = match.params
    version = params.get("version")
    if version is not None:
        task_of(params)  # the task id must be that of the job and component
    return Incoming(
        name=match.name,
        job_id=params.get("job_id", ""),
        site=site_of(params),
        body=body.given,
        component=params.get("component"),
        version=int(version) if version is not None else None,
        status=_status(params.get("status"), of_task=version is not None),
        source_party=source_party(),
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


for _pattern in PARTY_COMMANDS.values():
    _blueprint = initiator if _pattern.startswith("/initiator/") else party
    route(_blueprint, _pattern, body=OpenBody, access=Access.PARTY, strict=True)(command)
