"""The board's forms: who may send them, which are this server's own, which are kept for later.

What changes something is a POST with a token that is bound to a cookie (a MAC, with a fresh random
part in every page, so that compressed pages do not tell it), from a page of this server. See
`docs/security.md#the-board`.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from flask import Blueprint, Response, after_this_request, g, request
from markupsafe import Markup

from fedflow.base.decoding import decode_as
from fedflow.base.errors.requests import BadRequest, FormRefused, NotSignedIn
from fedflow.base.values import dataclass
from fedflow.board.access import (
    VISIT,
    cookie,
    has_own_name,
    need,
    session_token,
    set_cookie,
    viewer,
)
from fedflow.domain.administration.accounts import AccountRole

CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "X-CSRF-Token"

_LONGEST_KEPT: Final = 1_000_000  #: characters of a form that is kept
_SECRETS: Final = frozenset({"password", "old", "new", "again"})  #: fields of forms
_LONGEST_URL: Final = 4000


# --- who may send one -----------------------------------------------------------------------------


def act(
    blueprint: Blueprint, rule: str, *, role: AccountRole = AccountRole.OPERATOR, **options: Any
) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """Register a view that changes something: a POST with the CSRF token, by who may do that."""

    def register(view: Callable[..., Response]) -> Callable[..., Response]:
        @functools.wraps(view)
        def checked(*args: Any, **kwargs: Any) -> Response:
            check_act(role)
            return view(*args, **kwargs)

        blueprint.post(rule, **options)(checked)
        return checked

    return register


def check_act(role: AccountRole) -> None:
    """Check that the viewer made this request, and may do what needs `role`.

    Raises: FormRefused, RoleNeeded, NotSignedIn.
    """
    check_form()
    if not viewer().is_known:
        raise NotSignedIn
    need(role)


def check_form(token: str | None = None) -> None:
    """Check that a form of this server's pages, in this browser, made the request. `token` is given
    by who has read the form's fields already.

    Raises: FormRefused.
    """
    if not is_own_page():
        raise FormRefused(reason="a page of another site sent it")
    given = request.headers.get(CSRF_HEADER) or (
        request.form.get(CSRF_FIELD, "") if token is None else token
    )
    fresh, _, code = given.partition(".")
    secret = _secret()
    if not secret or not hmac.compare_digest(code.encode(), _code(secret, fresh).encode()):
        raise FormRefused(reason="the page that it came from is too old")


def is_own_page() -> bool:
    """Tell whether a page of this server sent the request, as far as the browser says."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    try:
        own = urlsplit(origin).netloc == request.host
    except ValueError:
        return False
    return own or has_own_name(origin)


def may_send_again() -> bool:
    """Tell whether a form that was refused for its old token is surely one of this server's pages:
    its sender may then confirm it, as after signing in again in another window.
    """
    return viewer().is_known and "Origin" in request.headers and is_own_page()


def csrf_token() -> str:
    """Return a token for forms of this page."""
    secret = _secret() or _new_visit()
    known: tuple[str, str] | None = g.get("board_csrf")
    if known is None or known[0] != secret:
        fresh = secrets.token_urlsafe(9)
        known = g.board_csrf = secret, f"{fresh}.{_code(secret, fresh)}"
    return known[1]


def csrf_field() -> Markup:
    """Return the hidden field that every form needs."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, csrf_token())


def seen_as() -> str:
    """Return what pages of this visitor depend on: the role, and what their tokens are bound to."""
    bound = hashlib.sha256(b"seen" + _secret().encode()).hexdigest()[:16]
    return f"{viewer().name}\0{viewer().role.value}\0{bound}"


def _secret() -> str:
    """Return what only this browser and this server know; empty if there is nothing yet."""
    if viewer().session is not None:
        return session_token()
    return g.get("board_visit") or cookie(VISIT)


def _new_visit() -> str:
    """Return the secret of a browser that nobody signed in with, and have it kept there."""
    made = g.board_visit = secrets.token_urlsafe(32)

    @after_this_request
    def _remember(answer: Response) -> Response:
        set_cookie(answer, VISIT, made, same_site="Strict")
        return answer

    return made


def _code(secret: str, fresh: str) -> str:
    text = f"fedflow board form {fresh}".encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


# --- forms that are kept until somebody has signed in ---------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredForm:
    """A form that was sent when nobody was signed in any more."""

    path: str  #: where it goes
    back: str  #: the page that it came from
    fields: str  #: names and values as JSON
    has_files: bool  #: that came with it, and are not kept

    def pairs(self) -> list[tuple[str, str]]:
        """Return names and values. Raises: BadRequest."""
        try:
            return decode_as(self.fields, list[tuple[str, str]])
        except msgspec.DecodeError as exc:
            raise BadRequest(reason="that is no form of the board") from exc


def keep_form(back: str) -> StoredForm | None:
    """Return the form of this request, for when somebody has signed in.

    None: it is too large, or holds a password.
    """
    if not _SECRETS.isdisjoint(request.form):
        return None
    fields = tuple((k, v) for k, v in request.form.items(multi=True) if k != CSRF_FIELD)
    if sum(len(k) + len(v) for k, v in fields) > _LONGEST_KEPT:
        return None
    path = request.full_path.removesuffix("?")
    has_files = any(file.filename for file in request.files.values())  # a field may be left empty
    return StoredForm(path=path, back=back, fields=json.dumps(fields), has_files=has_files)


def kept_form() -> StoredForm | None:
    """Return the form that came with the sign-in page's own, if there is one.

    Raises: BadRequest: it is none.
    """
    fields = request.form.get("kept_fields", "")
    if not fields:
        return None
    path, back = request.form.get("kept_path", ""), request.form.get("kept_back", "")
    form = StoredForm(
        path=path, back=local_url(back), fields=fields,
        has_files=bool(request.form.get("kept_files")),
    )  # fmt: skip
    if local_url(path, default="") != path:
        raise BadRequest(reason="that is no form of the board")
    form.pairs()
    return form


def local_url(url: str, *, default: str = "/board/") -> str:
    """Return an address of the board if `url` is one, else `default`: nobody is led elsewhere."""
    path = url.partition("?")[0]
    is_plain = url.isprintable() and "\\" not in url and ".." not in path and "//" not in path
    is_own = path == "/board" or path.startswith("/board/")
    if is_plain and is_own and len(url) <= _LONGEST_URL and not path.startswith("/board/sign-"):
        return url
    return default
