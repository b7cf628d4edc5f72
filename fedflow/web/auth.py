"""Who may call: clients that sign, executors with a task token, parties through the relay.

Each blueprint names its own check as `before_request`. Source of the client signature:
`docs/reference/rest.md#client-signature`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import field
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from flask import current_app, request

from fedflow.base.clock import Clock
from fedflow.base.errors.parties import ForbiddenRoute, IncompatibleVersions
from fedflow.base.errors.requests import BadRequest, HostRefused, NotAuthenticated
from fedflow.base.values import dataclass
from fedflow.web.context import built
from fedflow.web.routes import declaration
from fedflow.web.settings import ClientKeys
from fedflow.wire import headers
from fedflow.wire.paths import fits
from fedflow.wire.versions import OURS, common, read_speaks

PARTY_FLAG: Final = "fedflow.party"  #: WSGI environ: the party whose call the relay passes on
MAX_NONCES: Final = 100_000

_REQUEST_ID = re.compile(r"[0-9A-Za-z._-]{1,64}")


# --- clients --------------------------------------------------------------------------------------


def require_client() -> None:
    """Check the signature of a client's request, if the server asks for one, else its name.

    Raises: NotAuthenticated: it is not signed well, or a web page of another site sent it.
    HostRefused.
    """
    _refuse_other_pages()
    clients = built().clients
    if clients is not None:
        clients.check(signed_request())
    else:
        refuse_foreign_name()


def _refuse_other_pages() -> None:
    """Refuse what a page of another site makes a browser send: bodies are read as JSON whatever
    their type, so the browser's own rules do not keep it from a server on the user's machine.

    Raises: NotAuthenticated.
    """
    origin = request.headers.get("Origin")
    if origin is None:
        return
    try:
        page = urlsplit(origin)
        own = page.netloc == request.host and is_address(page.hostname or "")
    except ValueError:
        own = False
    if not own:
        raise NotAuthenticated(reason=f"web pages of {origin[:100]} may not call this server")


def refuse_foreign_name() -> None:
    """Refuse names that somebody else may have pointed at this machine: a page of that name, opened
    in a browser here, could read everything, as browsers send no `Origin` with a GET.

    Raises: HostRefused: the request names neither an address nor a name of this server.
    """
    if has_foreign_name():
        raise HostRefused(host=request.host[:100])


def has_foreign_name() -> bool:
    """Tell whether the request names neither an address nor a name of this server."""
    host = host_of(f"//{request.host}")
    return not is_address(host) and host not in built().settings.host_names


def host_of(url: str) -> str:
    """Return the host in a URL, in small letters; empty if there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def is_address(host: str) -> bool:
    """Tell whether `host` is an address or localhost: a name could be pointed at this machine."""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """The parts of a request that a signature covers."""

    timestamp: str
    nonce: str
    app_key: str
    signature: str
    target: str  #: path and query exactly as sent
    body: bytes = b""  #: of a request that is no form
    form: tuple[tuple[str, str], ...] = field(default=())


def signed_request() -> SignedRequest:
    """Return the parts of the current request; the body of a declared form that is multipart is
    covered by its query only, as in FATE. Elsewhere a body counts, whatever type it says it has.
    """
    given = request.headers
    form: tuple[tuple[str, str], ...] = ()
    body = b""
    declared = declaration(current_app.view_functions.get(request.endpoint or ""))
    is_form = declared is not None and declared.form
    if not is_form or request.mimetype != "multipart/form-data":
        body = request.get_data(cache=True)  # before `form`, which would consume it
    if request.mimetype == "application/x-www-form-urlencoded":
        form, body = tuple(request.form.items(multi=True)), b""
    return SignedRequest(
        timestamp=given.get(headers.TIMESTAMP, ""),
        nonce=given.get(headers.NONCE, ""),
        app_key=given.get(headers.APP_KEY, ""),
        signature=given.get(headers.SIGNATURE, ""),
        target=_target(),
        body=body,
        form=form,
    )


class ClientSignatures:
    """Checks signatures with one key pair, and that no nonce comes twice."""

    def __init__(self, keys: ClientKeys, *, clock: Clock, skew_s: float) -> None:
        self._keys = keys
        self._clock = clock
        self._skew_ms = int(skew_s * 1000)
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}  # nonce -> when it may be forgotten, oldest first

    def check(self, signed: SignedRequest) -> None:
        """Raises: NotAuthenticated: the signature is missing, wrong, too old, or used before."""
        now_ms = self._clock.now_ms()
        self._verify(signed, now_ms)
        self._use(signed.nonce, now_ms)

    def may_upload(self, given: Mapping[str, str], target: str) -> bool:
        """Tell by the headers (names in capitals, with hyphens) whether a large body is worth
        receiving: `check` looks at the request when it is complete, this one at what came first.
        """
        signed = SignedRequest(
            timestamp=given.get(headers.TIMESTAMP, ""),
            nonce=given.get(headers.NONCE, ""),
            app_key=given.get(headers.APP_KEY, ""),
            signature=given.get(headers.SIGNATURE, ""),
            target=target.removesuffix("?"),
        )
        try:
            self._verify(signed, self._clock.now_ms())
        except NotAuthenticated:
            return False
        return True

    def _verify(self, signed: SignedRequest, now_ms: int) -> None:
        if not (signed.timestamp and signed.nonce and signed.app_key and signed.signature):
            raise NotAuthenticated(reason="it needs TIMESTAMP, NONCE, APP_KEY and SIGNATURE")
        if abs(now_ms - _milliseconds(signed.timestamp)) > self._skew_ms:
            raise NotAuthenticated(
                reason=f"its time is more than {self._skew_ms // 1000} s away from ours"
            )
        known = _same(signed.app_key.encode(), self._keys.app_key.encode())
        if not self._signature_fits(signed) or not known:
            raise NotAuthenticated(reason="the app key or the signature is wrong")

    def _signature_fits(self, signed: SignedRequest) -> bool:
        """Compare with every signature that a client may have made; an empty body has two."""
        bodies = {signed.body}
        if signed.body.strip() in (b"", b"{}"):
            bodies = {b"", b"{}", signed.body}
        given = signed.signature.encode()
        fits = [_same(given, signature(self._keys, signed, body)) for body in bodies]
        return any(fits)

    def _use(self, nonce: str, now_ms: int) -> None:
        nonce = hashlib.sha256(nonce.encode()).hexdigest()
        with self._lock:
            self._forget(now_ms)
            if nonce in self._seen:
                raise NotAuthenticated(reason="its nonce was used before")
            if len(self._seen) >= MAX_NONCES:
                raise NotAuthenticated(reason="too many signed requests at once")
            self._seen[nonce] = now_ms + 2 * self._skew_ms

    def _forget(self, now_ms: int) -> None:
        while self._seen:
            oldest = next(iter(self._seen))
            if self._seen[oldest] >= now_ms:
                return
            del self._seen[oldest]


def signature(keys: ClientKeys, signed: SignedRequest, body: bytes) -> bytes:
    """Return base64(HMAC-SHA1(secret, message)) of the six parts that FATE signs."""
    parts = (
        signed.timestamp.encode(),
        signed.nonce.encode(),
        keys.app_key.encode(),
        signed.target.encode("latin-1", errors="replace"),
        body,
        _form_text(signed.form),
    )
    digest = hmac.new(keys.secret.encode(), b"\n".join(parts), hashlib.sha1)
    return base64.b64encode(digest.digest())


def _form_text(form: Iterable[tuple[str, str]]) -> bytes:
    fields = sorted(form)
    return "&".join(f"{quote(k, safe='-._~')}={quote(v, safe='-._~')}" for k, v in fields).encode()


def _milliseconds(timestamp: str) -> int:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20):
        raise NotAuthenticated(reason="its TIMESTAMP is not a number of milliseconds")
    return int(timestamp)


def _same(given: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(given, expected)


def _target() -> str:
    """Return path and query as sent; without the server's help from their decoded form."""
    raw = request.environ.get("REQUEST_URI")
    if isinstance(raw, str) and raw.startswith("/"):
        return raw.removesuffix("?")
    query = request.query_string.decode("latin-1")
    return f"{request.path}?{query}" if query else request.path


# --- executors ------------------------------------------------------------------------------------


def task_token() -> str:
    """Return the secret that an executor sends. Raises: NotAuthenticated: there is none."""
    token = request.headers.get(headers.TASK_TOKEN, "")
    if not token:
        raise NotAuthenticated(reason=f"the header {headers.TASK_TOKEN} is missing")
    return token


# --- parties --------------------------------------------------------------------------------------


def source_party() -> str | None:
    """Return the party that calls, proven by the relay; None if nobody proved it.

    Raises: ForbiddenRoute: the call came over plain HTTP and the settings do not allow that.
    BadRequest: what it says is no party id. IncompatibleVersions: over HTTP; gRPC's door checks.
    """
    party: str | None = request.environ.get(PARTY_FLAG)
    if party is None:
        if not built().settings.allow_party_http:
            raise ForbiddenRoute(path=request.path[:200])
        party = request.headers.get(headers.SOURCE_PARTY)
        _check_version(party)
    if party is not None and not fits("party_id", party):
        raise BadRequest(reason=f"{party[:100]!r} is not a party id")
    return party


def _check_version(party: str | None) -> None:
    """Raises: IncompatibleVersions."""
    theirs = read_speaks(request.headers.get(headers.PROTOCOL))
    if common(OURS, theirs) is None:
        raise IncompatibleVersions(party_id=(party or "?")[:100], theirs=theirs, ours=OURS)


def request_id() -> str | None:
    """Return the id that tells a repeat of a call. Raises: BadRequest: it is malformed."""
    given = request.headers.get(headers.REQUEST_ID)
    if given is not None and not _REQUEST_ID.fullmatch(given):
        raise BadRequest(reason=f"{headers.REQUEST_ID} must be 1 to 64 letters or digits")
    return given
