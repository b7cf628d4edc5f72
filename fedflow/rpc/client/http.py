"""Calls other programs of this party over HTTP: no redirects, no proxies, bounded in all ways."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fedflow.app.administration.registry import Forwarded
from fedflow.base.errors.requests import ServerCallFailed
from fedflow.base.messages import Message
from fedflow.domain.administration.records import RegisteredServer

if TYPE_CHECKING:
    import requests

TIMEOUT_S: Final = 10.0  #: to connect, and between two bytes of the answer
MAX_ANSWER: Final = 8 * 1024 * 1024  #: bytes of an answer
_REACH_S: Final = 2.0
_BLOCK: Final = 65_536


class HttpServers:
    """The `ServerCaller` of a server."""

    def call(
        self, server: RegisteredServer, method: str, endpoint: str, body: Mapping[str, Any]
    ) -> Forwarded:
        """Send JSON and return the answer. Raises: ServerCallFailed."""
        import requests  # few servers call others, and it would slow the start of all

        host = f"[{server.host}]" if ":" in server.host else server.host
        url = f"{server.protocol}://{host}:{server.port}{endpoint}"
        try:
            with requests.Session() as session:
                session.trust_env = False  # proxies and passwords of the environment are not meant
                with session.request(
                    method, url, json=dict(body), timeout=TIMEOUT_S, allow_redirects=False,
                    stream=True,
                ) as answer:  # fmt: skip
                    return Forwarded(
                        status=answer.status_code,
                        content=_content(answer, server),
                        content_type=answer.headers.get("Content-Type", "application/json"),
                    )
        except requests.RequestException as exc:
            raise ServerCallFailed(name=server.name, reason=_why(exc)) from exc

    def reach(self, server: RegisteredServer) -> None:
        """Open a connection and close it. Raises: ServerCallFailed."""
        try:
            socket.create_connection((server.host, server.port), timeout=_REACH_S).close()
        except OSError as exc:
            raise ServerCallFailed(name=server.name, reason=exc.strerror or "no answer") from exc


def _content(answer: requests.Response, server: RegisteredServer) -> bytes:
    """Return the body. Raises: ServerCallFailed: it is too long."""
    content = bytearray()
    for block in answer.iter_content(_BLOCK):
        content += block
        if len(content) > MAX_ANSWER:
            raise ServerCallFailed(
                name=server.name, reason=f"its answer is longer than {MAX_ANSWER} bytes"
            )
    return bytes(content)


def _why(exc: requests.RequestException) -> str:
    """Return in a few words why a call failed, without addresses."""
    import requests

    if isinstance(exc, requests.Timeout):
        return Message("no answer within {seconds:g} s", TIMEOUT_S)
    if isinstance(exc, requests.ConnectionError):
        return "it cannot be reached, or it closed the connection"
    return type(exc).__name__
