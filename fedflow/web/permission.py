"""`/v1/permission`: what other parties may use here. Source: reference sections 1.5 and 2.7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from flask import Blueprint, Response

from fedflow.app.administration.permissions import ALL_TABLES, Permissions
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.administration.records import ANY, GrantKind
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Alternatives, Body, PartyBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.administration import GrantedTable, Grants, Privileges

permission = Blueprint("permission", __name__, url_prefix="/permission")
permission.before_request(require_client)

_ALL: Final = "all"  #: the older form's word for `ANY`; also for tables, which it did not have


class Dataset(msgspec.Struct, frozen=True):
    """A table."""

    name: Text
    namespace: Text


class GrantBody(Body, frozen=True):
    """A party, and what it may use: components `a,b` or `*`, tables or `all` of them.

    In `delete`, `*` is all tables too.
    """

    party_id: Text
    component: Alternatives | None = None
    dataset: Dataset | list[Dataset] | str | None = None


class PrivilegeBody(Body, frozen=True):
    """A party in a role, and what it may use then: `a,b`, or `all`."""

    src_party_id: Text
    src_role: Text
    privilege_role: Alternatives | None = None
    privilege_command: Alternatives | None = None
    privilege_component: Alternatives | None = None


# --- grants ---------------------------------------------------------------------------------------


@route(permission, "/grant", body=GrantBody)
def grant(body: GrantBody) -> Response:
    """Let another party's jobs use components and tables of this server."""
    if body.dataset == ANY:
        reason = "`*` is for `permission/delete`; `all` grants every table of this server"
        raise BadRequest(reason=reason)
    _permissions().grant(body.party_id, components=_names(body.component), datasets=_datasets(body))
    return success()


@route(permission, "/delete", body=GrantBody)
def delete(body: GrantBody) -> Response:
    """Revoke what was granted."""
    everything = body.dataset in (ANY, _ALL)
    _permissions().delete(
        body.party_id,
        components=_names(body.component),
        datasets=[] if everything else _datasets(body),
        all_datasets=everything,
    )
    return success()


@route(permission, "/query", body=PartyBody, data=Grants)
def query(body: PartyBody) -> Response:
    """Return what was granted to a party."""
    components, datasets = _permissions().query(body.party_id)
    return success(
        Grants(
            component=tuple(components),
            dataset=tuple(GrantedTable(name=name, namespace=space) for space, name in datasets),
        )
    )


# --- the form of clients of FATE 1.5 to 1.8 -------------------------------------------------------


@route(permission, "/grant/privilege", body=PrivilegeBody)
def grant_privilege(body: PrivilegeBody) -> Response:
    """Let another party in a role use roles, commands and components of this server."""
    _permissions().grant_privileges(body.src_party_id, body.src_role, _privileges(body))
    return success()


@route(permission, "/delete/privilege", body=PrivilegeBody)
def delete_privilege(body: PrivilegeBody) -> Response:
    """Revoke privileges."""
    _permissions().delete_privileges(body.src_party_id, body.src_role, _privileges(body))
    return success()


@route(permission, "/query/privilege", body=PrivilegeBody, data=Privileges)
def query_privilege(body: PrivilegeBody) -> Response:
    """Return the privileges of a party in a role."""
    found = _permissions().privileges(body.src_party_id, body.src_role)
    return success(
        Privileges(
            src_party_id=body.src_party_id,
            role=body.src_role,
            privilege_role=tuple(found[GrantKind.ROLE]),
            privilege_command=tuple(found[GrantKind.COMMAND]),
            privilege_component=tuple(found[GrantKind.COMPONENT]),
        )
    )


def _permissions() -> Permissions:
    return services().administration.permissions


def _names(given: Alternatives | None) -> list[str]:
    """Return the names of `a,b` or of a list."""
    parts = (part.strip() for word in given or () for part in word.split(","))
    return [part for part in parts if part]


def _datasets(body: GrantBody) -> list[tuple[str, str]]:
    """Return namespace and name of each table. Raises: BadRequest: a text other than `all`."""
    given = body.dataset
    if given is None:
        return []
    if given == _ALL:
        return [ALL_TABLES]
    if isinstance(given, str):
        raise BadRequest(reason="dataset must be {name, namespace}, a list of them, or `all`")
    tables = given if isinstance(given, list) else [given]
    return [(table.namespace, table.name) for table in tables]


def _privileges(body: PrivilegeBody) -> Iterator[tuple[GrantKind, str]]:
    for kind, given in (
        (GrantKind.ROLE, body.privilege_role),
        (GrantKind.COMMAND, body.privilege_command),
        (GrantKind.COMPONENT, body.privilege_component),
    ):
        for name in _names(given):
            yield kind, ANY if name == _ALL else name
