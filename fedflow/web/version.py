"""`/v1/version`, `/v1/info`, `/v1/server`: what this server is. Source: reference section 2.8."""

from __future__ import annotations

import msgspec
from flask import Blueprint, Response

from fedflow.base.errors.requests import NotSupportedYet
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, Text
from fedflow.web.responses import status_refusal, success
from fedflow.web.routes import Style, route
from fedflow.wire.api.parties import PartyInfo
from fedflow.wire.headers import API_VERSION

version = Blueprint("version", __name__)
version.before_request(require_client)


class ModuleBody(Body, frozen=True):
    """Which software."""

    module: Text | None = None


class FederatedBody(Body, frozen=True):
    """A federation's id."""

    federated_id: Text | None = msgspec.field(name="federatedId", default=None)


@route(version, "/version/get", body=ModuleBody, data=dict[str, str])
@route(version, "/info/version", body=ModuleBody, data=dict[str, str])
def version_get(body: ModuleBody) -> Response:
    """Return the version of one module, `FATE` unless the body names another."""
    return _version_of(body.module or "FATE")


@route(version, "/server/version/get", body=ModuleBody, data=dict[str, str])
def server_version_get(body: ModuleBody) -> Response:
    """Return the version of one module, or of all."""
    if body.module is not None:
        return _version_of(body.module)
    return success({**services().info.versions(), "API": API_VERSION})


@route(version, "/version/set", body=FederatedBody, data=str)
def version_set(body: FederatedBody) -> Response:
    """Return what was sent: a federation has no version of its own."""
    return success(body.federated_id)


@route(version, "/info/common", data=PartyInfo)
def info_common(_body: NoBody) -> Response:
    """Return where this server listens and which party it is."""
    return success(services().info.common())


@route(version, "/info/party/<party_id>", data=PartyInfo)
def info_party(_body: NoBody, party_id: str) -> Response:
    """Ask the server of a party who it is: a test of both directions."""
    return success(services().administration.neighbours.ask(party_id))


@route(version, "/info/party/<proxy_party_id>/<party_id>", data=PartyInfo)
def info_party_through(_body: NoBody, proxy_party_id: str, party_id: str) -> Response:
    """Refuse to choose the way to a party: the conf's routes say which one is used."""
    raise NotSupportedYet(what=f"Going through party {proxy_party_id[:32]} to {party_id[:32]}")


@route(version, "/info/fateboard", data=dict[str, str | int], style=Style.STATUS)
def info_board(_body: NoBody) -> Response:
    """Return where the server FATEBOARD listens, if it is in the conf or was registered."""
    board = services().administration.registry.server("FATEBOARD")
    if board is None:
        return status_refusal(404)
    return success({"host": board.host, "port": board.port})


@route(version, "/info/eggroll", style=Style.STATUS)
def info_eggroll(_body: NoBody) -> Response:
    """Answer HTTP 503: this server has no Eggroll."""
    return status_refusal(503)


def _version_of(module: str) -> Response:
    known = services().info.versions()
    if module not in known:
        return status_refusal(404, f"unknown module {module[:100]}")
    return success({module: known[module], "API": API_VERSION})
