"""How views of the board answer: whole pages, parts of pages, and where to go next."""

from __future__ import annotations

import gzip
import hashlib
import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

from flask import Blueprint, Flask, Request, Response, flash, redirect, render_template, request
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import (
    BadRequest,
    FormRefused,
    HostRefused,
    NotAuthenticated,
    NotSignedIn,
    RoleNeeded,
    RouteNotFound,
)
from fedflow.board import access, forms, statuses
from fedflow.board.assets import asset_url
from fedflow.board.formats import FILTERS
from fedflow.board.language import LANGUAGES, catalogue, language, t
from fedflow.board.message_catalog import hint_of, message_of, told
from fedflow.board.navigation import entries
from fedflow.board.trees import tree
from fedflow.wire import envelope

logger = logging.getLogger(__name__)

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
STOP_POLLING: Final = 286  #: htmx polls no more after an answer with this status
THEME_COOKIE: Final = "ff_theme"
THEMES: Final = ("auto", "light", "dark")

_PACKED_FROM: Final = 1024  #: smaller answers are sent as they are, bytes
_REFUSALS: Final = (NotAuthenticated, NotSignedIn, RoleNeeded, FormRefused, HostRefused)
"""Errors that are shown as pages of their own, since the page before may not be seen either."""


def board_blueprint(name: str, prefix: str = "", *, is_open: bool = False) -> Blueprint:
    """Return a blueprint below `/board`: it knows who looks, and answers errors as pages.

    `is_open` is for what visitors see before they are known, such as the sign-in page.
    """
    made = Blueprint(
        name, __name__, url_prefix=f"/board{prefix}", template_folder="templates",
    )  # fmt: skip
    if not is_open:
        made.before_request(access.require_viewer)
    made.register_error_handler(FedflowError, _refused)
    made.register_error_handler(Exception, _unexpected)
    made.after_request(finish)
    return made


def prepare(app: Flask) -> None:
    """Give the application what the board's templates use, and what messages of a redirect need."""
    app.secret_key = secrets.token_bytes(32)  # they live until the next page, at this server
    app.session_interface = _BoardSessions()
    app.config.update(
        SESSION_COOKIE_NAME="ff_message",
        SESSION_COOKIE_PATH="/board",
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SECURE=access.has_tls(app),
    )
    app.jinja_env.filters.update(FILTERS, tree=tree, told=told)
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        asset=asset_url, t=t, may=access.may, csrf=forms.csrf_field, languages=LANGUAGES,
        with_query=with_query, with_choices=with_choices, query_but=query_but,
        status_kind=statuses.kind, status_shape=statuses.SHAPES.__getitem__,
        status_word=statuses.word,
    )  # fmt: skip


class _BoardSessions(SecureCookieSessionInterface):
    """Sessions of the board's pages only: making the signer would cost every REST request."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        return super().open_session(app, request) if request.path.startswith("/board") else None


def with_query(name: str, value: object) -> str:
    """Return the address of this page with one member of its query changed; None: without it."""
    query = [(k, v) for k, v in request.args.items(multi=True) if k != name]
    if value is not None:
        query.append((name, str(value)))
    return f"{request.path}?{urlencode(query)}" if query else request.path


def with_choices(changes: Mapping[str, str], anchor: str = "", path: str = "") -> str:
    """Return the address of this page, or of `path` below it, with other members of its query."""
    query = urlencode({**request.args.to_dict(), **changes})
    return f"{request.path}{path}?{query}" + (f"#{anchor}" if anchor else "")


def query_but(*changed: str) -> list[tuple[str, str]]:
    """Return the members of the query that a form must keep, but those that it sends itself."""
    return [(k, v) for k, v in request.args.to_dict().items() if k not in changed]


# --- answers --------------------------------------------------------------------------------------


def page(template: str, *, title: str, nav: str = "", status: int = 200, **values: Any) -> Response:
    """Return a whole page; `nav` names the entry of the navigation that it belongs to."""
    theme = request.cookies.get(THEME_COOKIE, "")
    text = render_template(
        f"board/{template}",
        title=title,
        nav=nav,
        entries=entries(),
        viewer=access.viewer(),
        language=language(),
        texts=catalogue(language()),
        theme=theme if theme in THEMES else "auto",
        **values,
    )
    return Response(text, status=status, mimetype="text/html")


def fragment(
    template: str, *, tag: str | None = None, final: bool = False, **values: Any
) -> Response:
    """Return a part of a page for htmx. `tag` names its content: a browser that has it gets 304.
    `final`: it will not change any more, so polling ends.
    """
    known = unchanged(tag) if tag is not None and not final else None
    if known is not None:
        return known
    text = render_template(
        f"board/{template}", viewer=access.viewer(), language=language(), **values
    )
    answer = Response(text, status=STOP_POLLING if final else 200, mimetype="text/html")
    return _tagged(answer, tag)


def json_answer(value: Any, tag: str | None = None) -> Response:
    """Return JSON for the board's own scripts."""
    known = unchanged(tag) if tag is not None else None
    if known is not None:
        return known
    return _tagged(Response(envelope.encode(value), mimetype="application/json"), tag)


def unchanged(tag: str) -> Response | None:
    """Return the answer for a browser that has the content `tag` names, None for any other."""
    etag = _etag(tag)
    if etag not in request.if_none_match:
        return None
    answer = Response(status=304)
    answer.set_etag(etag)
    return answer


def redirect_to(url: str, *, message: str = "", kind: str = "ok") -> Response:
    """Return the way to another page, where `message` is shown; `kind` is `ok` or `bad`."""
    if message:
        flash(message[:400], kind)  # the cookie that carries it has 4 KB
    return cast(Response, redirect(url, code=303))


def came_from(default: str) -> str:
    """Return the path of the board's page on which a form was sent."""
    try:
        back = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return default
    if back.netloc == request.host and back.path.startswith("/board"):
        return f"{back.path}?{back.query}" if back.query else back.path
    return default


def is_scripted() -> bool:
    """Tell whether a script asked: it shows errors itself."""
    asked = request.headers
    return asked.get("HX-Request") == "true" or asked.get("X-Requested-With") == "board"


# --- errors ---------------------------------------------------------------------------------------


def _refused(exc: FedflowError) -> Response:
    """Return an error as its page; on an action, as a message on the page it came from."""
    if is_scripted():
        return error_json(exc)
    if isinstance(exc, NotSignedIn):
        return _sign_in_first()
    if isinstance(exc, FormRefused) and forms.may_send_again():
        kept = forms.keep_form(came_from("/board/"))
        if kept is not None:
            return send_again(kept, status=403)
    if request.method == "POST" and not isinstance(exc, _REFUSALS):
        url = came_from("/board/")
        return redirect_to(url, message=f"{message_of(exc)} {hint_of(exc)}", kind="bad")
    return error_page(exc)


def _sign_in_first() -> Response:
    """Return the way to the sign-in page, and from there back; a form is kept until then."""
    if request.method == "POST" and forms.is_own_page():
        kept = forms.keep_form(came_from("/board/"))
        return sign_in_page(status=401, kept=kept, has_ended=True)
    here = request.full_path.removesuffix("?") if request.method == "GET" else "/board/"
    return redirect_to(f"/board/sign-in?{urlencode({'next': here})}")


def sign_in_page(
    *, status: int = 200, next_url: str = "", name: str = "", error: FedflowError | None = None,
    kept: forms.StoredForm | None = None, has_ended: bool = False,
) -> Response:  # fmt: skip
    """Return the page on which people sign in; a form that is `kept` is sent after that."""
    return page(
        "sign_in.html", title=t("Sign in"), status=status, has_accounts=access.accounts().exist(),
        next_url=next_url, name=name, error=error, kept=kept, has_ended=has_ended,
    )  # fmt: skip


def send_again(kept: forms.StoredForm, *, status: int = 200) -> Response:
    """Return the page that shows a form that was not done, and asks whether to send it now; 403: it
    came with the token of an earlier session.
    """
    title = t("Send it again?")
    return page("send_again.html", title=title, status=status, kept=kept, is_old=status == 403)


def error_page(exc: FedflowError) -> Response:
    """Return an error as a page of its own."""
    return page(
        "error.html", title=t("Error {code}", code=exc.code), status=_status(exc), error=exc,
        name=type(exc).__name__,
    )  # fmt: skip


def error_json(exc: FedflowError) -> Response:
    """Return an error for a script."""
    member = {**envelope.error_member(exc), "hint": hint_of(exc)}
    answer = json_answer({"error": member, "message": message_of(exc)})
    answer.status_code = _status(exc)
    return answer


def not_found() -> Response:
    """Return the page of an address below `/board` that is none."""
    return finish(error_page(RouteNotFound(method=request.method, path=request.path[:200])))


def _unexpected(exc: Exception) -> Response:
    """Return the page of a defect, or of what HTTP itself refuses; it tells no details."""
    if isinstance(exc, HTTPException):
        return error_page(BadRequest(reason=f"HTTP {exc.code}: {exc.description}"))
    logger.error(
        "%s %s failed", request.method, request.path,
        exc_info=exc, extra={"action": "page_failed"},
    )  # fmt: skip
    if is_scripted():
        return Response(status=500)
    return page("defect.html", title=t("A defect of the server"), status=500)


def _status(exc: FedflowError) -> int:
    """Return the HTTP status of an error; FATE's clients read 210 as "no data"."""
    return exc.http if exc.http >= 400 else 404


# --- what every answer has ------------------------------------------------------------------------


def finish(answer: Response) -> Response:
    """Add the headers that keep pages safe, and pack what is worth it."""
    given = answer.headers
    given.setdefault("Content-Security-Policy", POLICY)
    given["X-Content-Type-Options"] = "nosniff"
    given["X-Frame-Options"] = "DENY"
    given["Referrer-Policy"] = "same-origin"
    given["Cross-Origin-Opener-Policy"] = "same-origin"
    given["Cross-Origin-Resource-Policy"] = "same-origin"
    if given.get("Cache-Control", "no-cache") == "no-cache":  # which files have that are sent
        given["Cache-Control"] = "no-store" if "ETag" not in given else "private, no-cache"
    if _may_pack(answer):
        answer.set_data(gzip.compress(answer.get_data(), 5, mtime=0))
        given["Content-Encoding"] = "gzip"
        given.add("Vary", "Accept-Encoding")
    return answer


def _may_pack(answer: Response) -> bool:
    return (
        not answer.direct_passthrough
        and not answer.is_streamed
        and "Content-Encoding" not in answer.headers
        and request.accept_encodings.quality("gzip") > 0
        and (answer.content_length or 0) > _PACKED_FROM
    )


def _etag(tag: str) -> str:
    """Return the tag in the form of the header; who looks and how belongs to the content."""
    seen = f"{tag}\0{language()}\0{forms.seen_as()}\0{asset_url('board.js')}"
    return hashlib.sha256(seen.encode()).hexdigest()[:24]


def _tagged(answer: Response, tag: str | None) -> Response:
    if tag is not None:
        answer.set_etag(_etag(tag))
    return answer
