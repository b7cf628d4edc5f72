"""Who looks at the board, and which role they have.

The cookie of somebody who signed in holds the session's token: HttpOnly, and Secure behind a proxy
with TLS. It is SameSite=Lax: links in mails and notebooks lead to pages, and no GET changes
anything; what does is in `forms`. See `docs/security.md#the-board`.
"""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from fedflow.app.administration.accounts import Accounts, NewSession
from fedflow.base.errors.requests import NotSignedIn, RoleNeeded
from fedflow.base.values import dataclass
from fedflow.domain.administration.accounts import AccountRole, AccountSession
from fedflow.web.auth import host_of, refuse_foreign_name
from fedflow.web.context import built, built_of, services
from fedflow.web.settings import BoardSettings

VISIT: Final = "visit"  #: the cookie of a browser in which nobody signed in, see `forms`

_SESSION: Final = "session"
_PATH: Final = "/"  #: of cookies; the prefix __Host- asks for it, and nothing else reads them
_LONGEST_TOKEN: Final = 200  #: characters of a cookie that are looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """Who looks at a page; the name is empty if nobody needs to sign in."""

    name: str
    role: AccountRole
    is_known: bool = True  #: False: somebody who should sign in, and may see nothing
    session: AccountSession | None = None  #: of who signed in


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
    """Without sign-in, refuse names that are not this server's. Raises: HostRefused."""
    if not _settings().asks:
        refuse_foreign_name()


def has_own_name(url: str) -> bool:
    """Tell whether an address has a name that this server was given."""
    return host_of(url) in _settings().host_names


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
    token = session_token()
    found = accounts().session(token) if token else None
    if found is None:
        return NOBODY
    return Viewer(name=found.account.name, role=found.account.role, session=found.session)


# --- sessions -------------------------------------------------------------------------------------


def begin(answer: Response, new: NewSession) -> Response:
    """Give the browser a new session's cookie, which replaces the one it had."""
    set_cookie(answer, _SESSION, new.token, same_site="Lax")
    return _forget(answer, VISIT)


def become(new: NewSession) -> None:
    """Make the rest of this request, such as the tokens of its forms, that of a new session."""
    signed_in = new.signed_in
    g.board_viewer = Viewer(
        name=signed_in.account.name, role=signed_in.account.role, session=signed_in.session
    )
    g.board_token = new.token


def end(answer: Response) -> Response:
    """End this browser's session and take its cookie away."""
    token = session_token()
    if token:
        accounts().sign_out(token)
    return _forget(answer, _SESSION)


def session_token() -> str:
    """Return the token of this browser's session, which may have ended; empty if it has none."""
    return g.get("board_token") or cookie(_SESSION)


# --- cookies --------------------------------------------------------------------------------------


def cookie(what: str) -> str:
    """Return what the browser keeps of this server; empty if it keeps nothing."""
    given = request.cookies.get(_cookie_name(what), "")
    return given if len(given) <= _LONGEST_TOKEN else ""


def set_cookie(
    answer: Response, what: str, value: str, *, same_site: Literal["Lax", "Strict"]
) -> None:
    """Have the browser keep something that no script can read, until it is closed."""
    answer.set_cookie(
        _cookie_name(what), value, path=_PATH, httponly=True, samesite=same_site,
        secure=_settings().has_tls,
    )  # fmt: skip


def _forget(answer: Response, what: str) -> Response:
    answer.delete_cookie(_cookie_name(what), path=_PATH, httponly=True, secure=_settings().has_tls)
    return answer


def _cookie_name(what: str) -> str:
    """Return a cookie's name: browsers tell servers on one host by it alone."""
    settings = _settings()
    mark = settings.cookie_mark or str(_port())
    return f"{'__Host-' if settings.has_tls else ''}fedflow-{what}-{mark}"


def _port() -> int:
    try:
        return urlsplit(f"//{request.host}").port or 80
    except ValueError:
        return 80


def _settings() -> BoardSettings:
    return built().settings.board or BoardSettings()
