"""Signing in and out, and one's own account."""

from __future__ import annotations

from flask import Response, request

from fedflow.app.administration.accounts import NewSession
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadAccount, RouteNotFound, SignInLater, SignInRefused
from fedflow.board import access, forms, roles
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, page, redirect_to, send_again, sign_in_page
from fedflow.domain.administration.accounts import SHORTEST_PASSWORD, AccountRole

board_sign_in = board_blueprint("board_sign_in", "/sign-in", is_open=True)
board_account = board_blueprint("board_account", "/account")


@board_sign_in.get("")
def show() -> Response:
    """Show the form; who is signed in, or need not be, goes on."""
    access.check_host()
    next_url = forms.local_url(request.args.get("next", ""))
    if access.viewer().is_known:
        return redirect_to(next_url)
    return sign_in_page(next_url=next_url)


@board_sign_in.post("")
def sign_in() -> Response:
    """Begin a session and go on to the page that was wanted, or send the form that was kept."""
    forms.check_form()
    if not access.asks():
        return redirect_to("/board/")
    name, next_url = request.form.get("name", ""), forms.local_url(request.form.get("next", ""))
    kept = forms.kept_form()
    try:
        new = access.accounts().sign_in(
            name, request.form.get("password", ""), address=access.address()
        )
    except (SignInRefused, SignInLater) as exc:
        return sign_in_page(
            status=exc.http, next_url=next_url, name=name[:100], error=exc, kept=kept
        )
    if kept is None:
        return access.begin(redirect_to(next_url), new)
    access.become(new)
    return access.begin(send_again(kept), new)


# --- one's own account ----------------------------------------------------------------------------


@board_account.get("")
def account() -> Response:
    """Show who is signed in, where, and how to change the password."""
    return _account()


@forms.act(board_account, "/sign-out", role=AccountRole.VIEWER)
def sign_out() -> Response:
    """End this session."""
    return access.end(redirect_to("/board/sign-in", message=t("You are signed out.")))


@forms.act(board_account, "/sign-out-everywhere", role=AccountRole.VIEWER)
def sign_out_everywhere() -> Response:
    """End all sessions of the viewer."""
    name = _own_name()
    access.accounts().sign_out_all(name, by=name)
    message = t("You are signed out in all browsers.")
    return access.end(redirect_to("/board/sign-in", message=message))


@forms.act(board_account, "/password", role=AccountRole.VIEWER)
def change_password() -> Response:
    """Change the viewer's password; all sessions end but this one, which begins anew."""
    name, given = _own_name(), request.form
    try:
        if given.get("new", "") != given.get("again", ""):
            raise BadAccount(what=t("The new password"), reason=t("it was typed in two ways"))
        new: NewSession = access.accounts().change_password(
            name, given.get("old", ""), given.get("new", ""), address=access.address()
        )
    except (BadAccount, SignInRefused, SignInLater) as exc:
        return _account(error=exc, status=exc.http)
    message = t("Your password was changed. Other browsers were signed out.")
    return access.begin(redirect_to("/board/account", message=message), new)


def _account(*, error: FedflowError | None = None, status: int = 200) -> Response:
    name = _own_name()
    return page(
        "account.html", title=t("Account"), nav="account", status=status, error=error,
        sessions=access.accounts().sessions(name), shortest=SHORTEST_PASSWORD,
        role_word=roles.word, role_text=roles.text,
    )  # fmt: skip


def _own_name() -> str:
    """Return the viewer's name. Raises: RouteNotFound: there is no account without sign-in."""
    name = access.viewer().name
    if not name:
        raise RouteNotFound(method=request.method, path=request.path[:200])
    return name
