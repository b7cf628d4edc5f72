"""`/v1/key`: public keys of parties. Source: reference section 2.7."""

from __future__ import annotations

from flask import Blueprint, Response

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, PartyBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route

key = Blueprint("key", __name__, url_prefix="/key")
key.before_request(require_client)


class SaveKeyBody(Body, frozen=True):
    """Another party and its RSA public key, PEM."""

    party_id: Text
    key: Text


class KeyQueryBody(Body, frozen=True):
    """A party; `key_name` is `public`."""

    party_id: Text
    key_name: Text = Text("public")


@route(key, "/public/save", body=SaveKeyBody, data=str)
def save(body: SaveKeyBody) -> Response:
    """Store the public key of another party."""
    known = services().administration.keys.save(body.party_id, body.key)
    return success("update success" if known else "save success")


@route(key, "/query", body=KeyQueryBody, data=str)
def query(body: KeyQueryBody) -> Response:
    """Return a party's public key, this server's own too; no data if it is not known."""
    return success(services().administration.keys.query(body.party_id, body.key_name))


@route(key, "/public/delete", body=PartyBody)
def delete(body: PartyBody) -> Response:
    """Delete the public key of another party."""
    services().administration.keys.delete(body.party_id)
    return success()
