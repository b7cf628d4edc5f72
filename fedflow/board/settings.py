"""`/board/settings`: health, versions and servers; for admins also settings and accounts."""

from __future__ import annotations

from flask import Response, request

from fedflow.base.errors.requests import BadAccount
from fedflow.board import access, roles
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, fragment, page, redirect_to
from fedflow.board.presenters.health import parts_of
from fedflow.domain.administration.accounts import SHORTEST_PASSWORD, Account, AccountRole, role_of
from fedflow.web.context import services

board_settings = board_blueprint("board_settings", "/settings")

_HERE = "/board/settings"


@board_settings.get("")
def show() -> Response:
    """Show the server, and to admins its settings and accounts."""
    info, administration = services().info, services().administration
    is_admin = access.may(AccountRole.ADMIN)
    ready, found = info.ready()
    return page(
        "settings.html",
        title=t("Settings and health"),
        nav="settings",
        ready=ready,
        health=parts_of(found),
        versions=info.versions(),
        place=info.place,
        servers=services().servers.listed(),
        engines=services().resources.query().engines,
        now_ms=info.now_ms(),
        settings=administration.settings() if is_admin else (),
        can_reload=administration.read_again is not None,
        accounts=_accounts() if is_admin else (),
        asks=access.asks(),
        all_roles=tuple(AccountRole),
        role_word=roles.word,
        role_text=roles.text,
        shortest=SHORTEST_PASSWORD,
    )


@board_settings.get("/health")
def health() -> Response:
    """Return the health part alone, for the page that is open."""
    ready, found = services().info.ready()
    parts = parts_of(found)
    tag = "\0".join((str(ready), *(f"{one.kind}{one.text}" for one in parts)))
    return fragment("settings_health.html", tag=tag, ready=ready, health=parts)


@act(board_settings, "/reload", role=AccountRole.ADMIN)
def reload() -> Response:
    """Read the conf again."""
    services().administration.reload()
    message = t("The conf was read again. Routes, permissions and servers are in force.")
    return redirect_to(_HERE, message=message)


# --- accounts -------------------------------------------------------------------------------------


@act(board_settings, "/accounts/add", role=AccountRole.ADMIN)
def add_account() -> Response:
    """Make an account."""
    name = request.form.get("name", "").strip()
    role = role_of(request.form.get("role", ""))
    access.accounts().add(name, role, _new_password(), by=_by())
    return _done(t("{name} has an account now.", name=name))


@act(board_settings, "/accounts/role", role=AccountRole.ADMIN)
def set_role() -> Response:
    """Give another account another role."""
    name = _other(t("An admin cannot change the own role: another one does that."))
    role = role_of(request.form.get("role", ""))
    access.accounts().set_role(name, role, by=_by())
    return _done(t("{name} has the role {role} now.", name=name, role=roles.word(role)))


@act(board_settings, "/accounts/password", role=AccountRole.ADMIN)
def set_password() -> Response:
    """Set the password of another account."""
    name = _other(t("Change your own password on the page of your account."))
    access.accounts().set_password(name, _new_password(), by=_by())
    return _done(t("{name} has a new password, and was signed out everywhere.", name=name))


@act(board_settings, "/accounts/sign-out", role=AccountRole.ADMIN)
def sign_out_account() -> Response:
    """End all sessions of an account."""
    name = request.form.get("name", "")
    ended = access.accounts().sign_out_all(name, by=_by())
    return _done(t("{name} was signed out: {n} sessions ended.", name=name, n=ended))


@act(board_settings, "/accounts/remove", role=AccountRole.ADMIN)
def remove_account() -> Response:
    """Remove another account."""
    name = _other(t("An admin cannot remove the own account: another one does that."))
    access.accounts().remove(name, by=_by())
    return _done(t("{name} has no account any more.", name=name))


def _accounts() -> list[tuple[Account, int]]:
    found = access.accounts()
    return [(one, len(found.sessions(one.name))) for one in found.all()]


def _other(refusal: str) -> str:
    """Return the account that is meant, if it is not the viewer's: so one admin stays.

    Raises: BadAccount.
    """
    name = request.form.get("name", "")
    if name == access.viewer().name:
        raise BadAccount(what=name, reason=refusal)
    return name


def _new_password() -> str:
    """Return the password, typed twice. Raises: BadAccount."""
    given = request.form.get("new", "")
    if given != request.form.get("again", ""):
        raise BadAccount(what=t("The new password"), reason=t("it was typed in two ways"))
    return given


def _by() -> str:
    return access.viewer().name or "somebody without sign-in"


def _done(message: str) -> Response:
    return redirect_to(f"{_HERE}#accounts", message=message)
