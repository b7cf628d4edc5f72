"""A small real HTTP server that answers as it is told, for tests of clients.

Answers are given by path; every request is kept with its headers and body.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """A request as it came over the wire."""

    method: str
    target: str  #: path and query, raw
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the server says: by default an envelope of a success with `data`."""

    data: Any = None
    retcode: int = 0
    retmsg: str = "success"
    status: int = 200
    members: Mapping[str, Any] = field(default_factory=dict)  #: more of the envelope
    raw: bytes | None = None  #: instead of an envelope
    content_type: str = "application/json"

    @property
    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        envelope = {"retcode": self.retcode, "retmsg": self.retmsg, **self.members}
        if self.data is not None:
            envelope["data"] = self.data
        return msgspec.json.encode(envelope)


Told = Answer | Callable[[Received], Answer]


class RestServer:
    """Serves `answers` on a free port of the loopback address while it is entered."""

    def __init__(self, answers: Mapping[str, Told] | None = None) -> None:
        self.answers: dict[str, Told] = dict(answers or {})
        self.received: list[Received] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="rest-server"
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def bodies(self, path: str) -> list[Any]:
        """Return the JSON bodies that `path` got, in order."""
        return [one.json for one in self.received if one.path == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: Received) -> Answer:
        self.received.append(request)
        told = self.answers.get(request.path)
        if told is None:
            return Answer(retcode=100, retmsg=f"No route {request.method} {request.path}.")
        return told if isinstance(told, Answer) else told(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                given = answer(
                    Received(
                        method=self.command,
                        target=self.path,
                        headers=dict(self.headers.items()),
                        body=self.rfile.read(size),
                    )
                )
                body = given.body
                self.send_response(given.status)
                self.send_header("Content-Type", given.content_type)
                self.send_header("Content-Length", str(len(body)))
                with suppress(ConnectionError):  # who asked may have been interrupted
                    self.end_headers()
                    self.wfile.write(body)

            do_GET = do_POST = _serve  # noqa: N815  the names that http.server calls

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing on stderr."""

        return Handler
