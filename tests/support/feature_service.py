"""A feature service over HTTP: gives what it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FeatureService(ThreadingHTTPServer):
    """Answers with `answer`, or with what `look_up` gives for each item."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, bytes] = (200, b"")
        self.look_up: Callable[[Any], Any] | None = None
        self.asked: list[tuple[str, Any]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/features"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked has gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FeatureService

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        status, raw = self.server.answer
        if self.server.look_up is not None:
            raw = json.dumps({"data": [self.server.look_up(one) for one in body["ids"]]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@contextmanager
def feature_service() -> Iterator[FeatureService]:
    """Run a service."""
    with FeatureService() as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()
