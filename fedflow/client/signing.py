"""Requests signed with an app key and a secret, as FATE's clients sign them."""

from __future__ import annotations

import base64
import hashlib
import hmac

from requests import PreparedRequest
from requests.auth import AuthBase

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.ids import new_request_id
from fedflow.wire import headers

_JSON = "application/json"


def signature(
    secret: str, *, app_key: str, timestamp: str, nonce: str, target: str, json_body: bytes = b""
) -> str:
    """Return the signature of a request: base64 of an HMAC-SHA1 over six lines.

    `target` is path and query exactly as sent. A multipart body is not signed; its parameters are
    in the query. Source: docs/reference/rest.md#client-signature.
    """
    lines = (
        timestamp.encode("ascii"),
        nonce.encode("ascii"),
        app_key.encode("utf-8"),
        target.encode("utf-8"),
        json_body,
        b"",  # the text fields of a form: this client sends none
    )
    digest = hmac.new(secret.encode("utf-8"), b"\n".join(lines), hashlib.sha1).digest()
    return base64.b64encode(digest).decode("ascii")


class Signed(AuthBase):
    """Adds the four headers of a signed request."""

    def __init__(self, app_key: str, secret: str, *, clock: Clock | None = None) -> None:
        self._app_key = app_key
        self._secret = secret
        self._clock = clock or SystemClock()

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        timestamp, nonce = str(self._clock.now_ms()), new_request_id()
        is_json = request.headers.get("Content-Type", "").startswith(_JSON)
        body = request.body if is_json else b""
        request.headers[headers.TIMESTAMP] = timestamp
        request.headers[headers.NONCE] = nonce
        request.headers[headers.APP_KEY] = self._app_key
        request.headers[headers.SIGNATURE] = signature(
            self._secret,
            app_key=self._app_key,
            timestamp=timestamp,
            nonce=nonce,
            target=request.path_url,
            json_body=body.encode("utf-8") if isinstance(body, str) else body or b"",
        )
        return request
