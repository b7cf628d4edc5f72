"""Who looks at the board, and what they may do.

The cookie of somebody who signed in holds the session's token: HttpOnly, and Secure behind a proxy
with TLS. It is SameSite=Lax: links in mails and notebooks lead to pages, and
no GET changes anything. What changes something is a POST with a token that is bound to the cookie
(a MAC, with a fresh random part in every page, so that compressed pages do not tell it), from a
page of this server. Docs: security.md, "The board".
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from flask import Blueprint, Flask, Response, after_this_request, g, request
from markupsafe import Markup

from fedflow.app.administration.accounts import Accounts, NewSession
from fedflow.base.errors import (
    BadRequest,
    FedflowError,
    FormRefused,
    HostRefused,
    NotAuthenticated,
    NotSignedIn,
    RoleNeeded,
)
from fedflow.base.reading import decode_as
from fedflow.domain.accounts import AccountRole, AccountSession
from fedflow.web.auth import is_address
from fedflow.web.current import built, built_of, services
from fedflow.web.settings import BoardSettings

REFUSALS: Final[tuple[type[FedflowError], ...]] = (
    NotAuthenticated,
    NotSignedIn,
    RoleNeeded,
    FormRefused,
    HostRefused,
)
"""Errors that are shown as pages of their own, since the page before may not be seen either."""

CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "X-CSRF-Token"

_PATH: Final = "/"  #: of cookies; the prefix __Host- asks for it, and nothing else reads them
_LONGEST_KEPT: Final = 1_000_000  #: characters of a form that is kept
_SECRETS: Final = frozenset({"password", "old", "new", "again"})  #: fields of forms
_LONGEST_URL: Final = 4000
_LONGEST_TOKEN: Final = 200  #: characters of a cookie that are looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """Who looks at a page; the name is empty if nobody needs to sign in."""

    name: str
    role: AccountRole
    is_known: bool = True  #: False: somebody who should sign in, and may see nothing
    session: AccountSession | None = None  #: of who signed in


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptForm:
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


EVERYBODY: Final = Viewer(name="", role=AccountRole.ADMIN)
NOBODY: Final = Viewer(name="", role=AccountRole.VIEWER, is_known=False)


# --- who looks ------------------------------------------------------------------------------------


def require_viewer() -> None:
    """Find out who looks. Raises: NotSignedIn: nobody that may. HostRefused."""
    check_host()
    if not viewer().is_known:
        raise NotSignedIn


def viewer() -> Viewer:
    """Return who looks at this page."""
    known: Viewer | None = g.get("board_viewer")
    if known is None:
        known = g.board_viewer = _find_viewer()
    return known


def may(role: str) -> bool:
    """Tell whether the viewer may do what needs this role."""
    who = viewer()
    return who.is_known and who.role.may(AccountRole(role))


def need(role: AccountRole) -> None:
    """Let a page be seen by who has a role. Raises: RoleNeeded."""
    if not may(role.value):
        raise RoleNeeded(needed=role.value, role=viewer().role.value)


def check_host() -> None:
    """Without sign-in, refuse names that somebody else may have pointed at this machine: a page of
    that name, opened in a browser here, could read everything.

    Raises: HostRefused.
    """
    if not _settings().asks:
        refuse_foreign_name()


def refuse_foreign_name() -> None:
    """Raises: HostRefused: the request names neither an address nor a name of this server."""
    host = _host_of(f"//{request.host}")
    if not is_address(host) and host not in _settings().host_names:
        raise HostRefused(host=request.host[:100])


def accounts() -> Accounts:
    """Return the use cases of accounts."""
    return services().administration.accounts


def asks() -> bool:
    """Tell whether people sign in here."""
    return _settings().asks


def has_tls(app: Flask) -> bool:
    """Tell whether browsers reach an application through a proxy with TLS."""
    settings = built_of(app).settings.board
    return settings is not None and settings.has_tls


def address() -> str | None:
    """Return where the browser is; None: all come from the proxy, so it says nothing."""
    return None if _settings().has_tls else (request.remote_addr or "")[:64]


def _find_viewer() -> Viewer:
    if not _settings().asks:
        return EVERYBODY
    token = _token()
    found = accounts().session(token) if token else None
    if found is None:
        return NOBODY
    return Viewer(name=found.account.name, role=found.account.role, session=found.session)


# --- signing in -----------------------------------------------------------------------------------


def to_sign_in(
    *, next_url: str = "", name: str = "", error: FedflowError | None = None,
    kept: KeptForm | None = None, has_ended: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return what the sign-in page shows."""
    return {
        "has_accounts": accounts().exist(),
        "next_url": next_url,
        "name": name[:100],
        "error": error,
        "kept": kept,
        "has_ended": has_ended,
    }


def keep_form(back: str) -> KeptForm | None:
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
    return KeptForm(path=path, back=back, fields=json.dumps(fields), has_files=has_files)


def kept_form() -> KeptForm | None:
    """Return the form that came with the sign-in page's own, if there is one.

    Raises: BadRequest: it is none.
    """
    fields = request.form.get("kept_fields", "")
    if not fields:
        return None
    path, back = request.form.get("kept_path", ""), request.form.get("kept_back", "")
    form = KeptForm(
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


# --- cookies --------------------------------------------------------------------------------------


def begin(answer: Response, new: NewSession) -> Response:
    """Give the browser a new session's cookie, which replaces the one it had."""
    answer.set_cookie(
        _cookie("session"), new.token, path=_PATH, httponly=True, samesite="Lax",
        secure=_settings().has_tls,
    )  # fmt: skip
    _forget(answer, "visit")
    return answer


def become(new: NewSession) -> None:
    """Make the rest of this request, such as the tokens of its forms, that of a new session."""
    signed_in = new.signed_in
    g.board_viewer = Viewer(
        name=signed_in.account.name, role=signed_in.account.role, session=signed_in.session
    )
    g.board_token = new.token
    g.pop("board_csrf", None)


def end(answer: Response) -> Response:
    """End this browser's session and take its cookie away."""
    token = _token()
    if token:
        accounts().sign_out(token)
    return _forget(answer, "session")


def _forget(answer: Response, what: str) -> Response:
    answer.delete_cookie(_cookie(what), path=_PATH, httponly=True, secure=_settings().has_tls)
    return answer


def _token() -> str:
    token: str = g.get("board_token") or request.cookies.get(_cookie("session"), "")
    return token if len(token) <= _LONGEST_TOKEN else ""


def _cookie(what: str) -> str:
    """Return a cookie's name: browsers tell servers on one host by it alone."""
    settings = _settings()
    mark = settings.cookie_mark or str(_port())
    return f"{'__Host-' if settings.has_tls else ''}fedflow-{what}-{mark}"


def _port() -> int:
    try:
        return urlsplit(f"//{request.host}").port or 80
    except ValueError:
        return 80


# --- who acts -------------------------------------------------------------------------------------


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
    return own or _host_of(origin) in _settings().host_names


def may_send_again() -> bool:
    """Tell whether a form that was refused for its old token is surely one of this server's pages:
    its sender may then confirm it, as after signing in again in another window.
    """
    return viewer().is_known and "Origin" in request.headers and is_own_page()


def csrf_token() -> str:
    """Return a token for forms of this page."""
    known: str | None = g.get("board_csrf")
    if known is None:
        fresh = secrets.token_urlsafe(9)
        known = g.board_csrf = f"{fresh}.{_code(_secret() or _new_visit(), fresh)}"
    return known


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
        return _token()
    return str(g.get("board_visit") or request.cookies.get(_cookie("visit"), "")[:_LONGEST_TOKEN])


def _new_visit() -> str:
    """Return the secret of a browser that nobody signed in with, and have it kept there."""
    made = g.board_visit = secrets.token_urlsafe(32)

    @after_this_request
    def _remember(answer: Response) -> Response:
        answer.set_cookie(
            _cookie("visit"), made, path=_PATH, httponly=True, samesite="Strict",
            secure=_settings().has_tls,
        )  # fmt: skip
        return answer

    return made


def _code(secret: str, fresh: str) -> str:
    text = f"fedflow board form {fresh}".encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _settings() -> BoardSettings:
    return built().settings.board or BoardSettings()
