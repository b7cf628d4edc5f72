"""A small HTTP server with the admin API of a serving process, which can be told to refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]


@dataclass
class ServingAdmin:
    """What the server was told; `refuses` are steps that it answers with code 107."""

    address: str = ""
    token: str | None = None
    refuses: set[str] = field(default_factory=set)
    garbage: set[str] = field(default_factory=set)  #: steps that it answers with no JSON
    prepared: dict[str, Json] = field(default_factory=dict)  #: load id -> share
    loaded: dict[tuple[str, str], Json] = field(default_factory=dict)  #: by model id and version
    bound: dict[str, tuple[str, str]] = field(default_factory=dict)  #: by service id
    steps: list[str] = field(default_factory=list)
    binds: list[Json] = field(default_factory=list)  #: bodies
    salt: str = "0" * 32  #: of its services

    def answer(self, method: str, path: str, body: Json, header: str | None) -> tuple[int, bytes]:
        if self.token is not None and header != f"Bearer {self.token}":
            return 401, _said(121, "the token is wrong")
        parts = urlsplit(path)
        names = [unquote(part) for part in parts.path.removeprefix("/admin/v1/").split("/")]
        step = self._step(method, names)
        self.steps.append(step)
        if step in self.garbage:
            return 200, b"<html>"
        if step in self.refuses:
            return 400, _said(107, f"{step} is refused")
        match step:
            case "prepare":
                share = self.prepared.setdefault(body["load_id"], body["share"])
                if share != body["share"]:
                    return 409, _said(107, "the load id was used before")
            case "commit":
                share = self.prepared.pop(names[1], None)
                if share is not None:
                    self.loaded[share["model_id"], share["model_version"]] = share
            case "abort":
                self.prepared.pop(names[1], None)
            case "unload":
                key = parse_qs(parts.query)["model_id"][0], names[1]
                if self.loaded.pop(key, None) is None:
                    return 404, _said(104, "the version is not loaded")
            case "bind":
                key = body["model_id"], body["model_version"]
                if key not in self.loaded:
                    return 404, _said(104, "the version is not loaded")
                self.bound[body["service_id"]] = key
                self.binds.append(body)
                return 200, _said(0, "success", {"salt": body.get("salt", self.salt)})
            case "unbind":
                self.bound.pop(names[1], None)
        return 200, _said(0, "success")

    @staticmethod
    def _step(method: str, names: list[str]) -> str:
        kind, end = names[0], names[-1]
        if kind == "loads":
            return end if len(names) == 3 else "prepare"
        if kind == "models":
            return "unload"
        return "bind" if method == "POST" else "unbind"


def _said(retcode: int, retmsg: str, data: Json | None = None) -> bytes:
    return json.dumps({"retcode": retcode, "retmsg": retmsg, "data": data}).encode()


@contextmanager
def serving_admin(token: str | None = None) -> Iterator[ServingAdmin]:
    """Run one on a free loopback port."""
    admin = ServingAdmin(token=token)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            given = json.loads(self.rfile.read(length)) if length else {}
            authorization = self.headers.get("Authorization")
            status, content = admin.answer(self.command, self.path, given, authorization)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_DELETE(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    admin.address = f"127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield admin
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
