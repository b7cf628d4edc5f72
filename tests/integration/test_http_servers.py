"""Calls to other programs of this party, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedflow.base.errors.requests import ServerCallFailed
from fedflow.domain.administration.records import RegisteredServer
from fedflow.rpc.client import http
from fedflow.rpc.client.http import HttpServers


class Handler(BaseHTTPRequestHandler):
    """Echoes; `/away` sends elsewhere, `/long` never ends, `/cut` breaks off."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.path == "/long":
            size = http.MAX_ANSWER + 1
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(b"x" * size)
            return
        self.send_header("Content-Length", str(len(body) + (5 if self.path == "/cut" else 0)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815  the base class's name

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[RegisteredServer]:
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield RegisteredServer(name="ECHO", host="127.0.0.1", port=listening.server_address[1])
    listening.shutdown()
    thread.join(10)
    listening.server_close()


@pytest.fixture
def nobody() -> Iterator[RegisteredServer]:
    """An address at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield RegisteredServer(name="NOBODY", host="127.0.0.1", port=bound.getsockname()[1])


def test_json_goes_there_and_the_answer_comes_back(server: RegisteredServer) -> None:
    answer = HttpServers().call(server, "POST", "/x?a=b", {"a": [1, "ü"]})
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.content == b'{"a": [1, "\\u00fc"]}'
    HttpServers().reach(server)


def test_a_redirect_is_not_followed(server: RegisteredServer) -> None:
    assert HttpServers().call(server, "GET", "/away", {}).status == 302


@pytest.mark.parametrize("path", ["/long", "/cut"])
def test_an_answer_without_end_is_an_error(server: RegisteredServer, path: str) -> None:
    with pytest.raises(ServerCallFailed):
        HttpServers().call(server, "POST", path, {})


def test_a_proxy_of_the_environment_is_not_used(
    server: RegisteredServer, nobody: RegisteredServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{nobody.port}")
    assert HttpServers().call(server, "POST", "/x", {}).status == 200


def test_a_server_that_is_down_is_named_without_its_address(nobody: RegisteredServer) -> None:
    for call in (
        lambda: HttpServers().call(nobody, "POST", "/", {}),
        lambda: HttpServers().reach(nobody),
    ):
        with pytest.raises(ServerCallFailed) as info:
            call()
        assert "NOBODY" in info.value.message
        assert str(nobody.port) not in info.value.message
