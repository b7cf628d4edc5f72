"""`/v1/board/account`: accounts of people who sign in to the board."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from fedflow.app.administration.accounts import Accounts
from fedflow.domain.administration.accounts import Account, role_of
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.administration import BoardAccount, EndedSessions

account = Blueprint("account", __name__, url_prefix="/board/account")
account.before_request(require_client)

_CLIENT: Final = "a client of the REST API"


class AddBody(Body, frozen=True):
    """A new account; the role is viewer, operator or admin."""

    name: Text
    role: Text
    password: Text


class NameBody(Body, frozen=True):
    """An account."""

    name: Text


class RoleBody(Body, frozen=True):
    """An account and its new role: viewer, operator or admin."""

    name: Text
    role: Text


class PasswordBody(Body, frozen=True):
    """An account and its new password."""

    name: Text
    password: Text


@route(account, "/add", body=AddBody, data=BoardAccount, own=True)
def add(body: AddBody) -> Response:
    """Create an account for the board."""
    made = _accounts().add(body.name, role_of(body.role), body.password, by=_CLIENT)
    return success(_row(made))


@route(account, "/list", data=list[BoardAccount], own=True)
def list_(_body: NoBody) -> Response:
    """Return the accounts by name, with how many sessions each has."""
    return success([_row(one) for one in _accounts().all()])


@route(account, "/role", body=RoleBody, own=True)
def role(body: RoleBody) -> Response:
    """Give an account another role; its sessions have it at once."""
    _accounts().set_role(body.name, role_of(body.role), by=_CLIENT)
    return success()


@route(account, "/password", body=PasswordBody, own=True)
def password(body: PasswordBody) -> Response:
    """Set another password; all sessions of the account end."""
    _accounts().set_password(body.name, body.password, by=_CLIENT)
    return success()


@route(account, "/sign-out", body=NameBody, data=EndedSessions, own=True)
def sign_out(body: NameBody) -> Response:
    """End all sessions of an account."""
    return success(EndedSessions(ended=_accounts().sign_out_all(body.name, by=_CLIENT)))


@route(account, "/remove", body=NameBody, own=True)
def remove(body: NameBody) -> Response:
    """Remove an account; its sessions end."""
    _accounts().remove(body.name, by=_CLIENT)
    return success()


def _accounts() -> Accounts:
    return services().administration.accounts


def _row(one: Account) -> BoardAccount:
    return BoardAccount(
        name=one.name,
        role=one.role.value,
        create_time=one.created_ms,
        update_time=one.updated_ms,
        sessions=len(_accounts().sessions(one.name)),
    )
