"""Commands of other parties: every entry of the table in `wire/paths.py` goes to
`app/protocol/commands.py`.

Two blueprints, because FATE's paths have two prefixes; both are open to the relay only, unless the
settings allow plain HTTP.
"""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, g, request

from fedflow.app.protocol.commands import incoming_of, serve
from fedflow.base.errors.parties import ForbiddenRoute
from fedflow.web.auth import request_id, source_party
from fedflow.web.context import services
from fedflow.web.requests import OpenBody
from fedflow.web.responses import answer
from fedflow.web.routes import Access, route
from fedflow.wire import envelope
from fedflow.wire.paths import PARTY_COMMANDS, Match, parse_party_path

MATCH: Final = "fedflow.match"  #: WSGI environ: the path as the relay has parsed it

party = Blueprint("party", __name__)
initiator = Blueprint("initiator", __name__)


def _require_party() -> None:
    g.source_party = source_party()


party.before_request(_require_party)
initiator.before_request(_require_party)


def command(body: OpenBody, **_params: str) -> Response:
    """Serve the party command that the path names."""
    match: Match | None = request.environ.get(MATCH) or parse_party_path(request.path)
    if match is None:
        raise ForbiddenRoute(path=request.path[:200])
    incoming = incoming_of(match, body.given, source_party=g.source_party, request_id=request_id())
    return answer(envelope.of_reply(serve(services().commands, incoming)))


for _pattern in PARTY_COMMANDS.values():
    _blueprint = initiator if _pattern.startswith("/initiator/") else party
    route(_blueprint, _pattern, body=OpenBody, access=Access.PARTY, strict=True)(command)
