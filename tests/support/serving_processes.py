"""Serving processes of two parties on this machine, and what tests ask of them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import yaml

from fedflow.base.errors.start import ServerNotStarted
from fedflow.cli.server_process import ServerState, end, wait_until_up
from fedflow.cli.tls import create_files
from tests.support.linear_model import GUEST, HOST, MODEL_ID, share_of

ROWS = {
    "u1": {"y0": 1.5, "y1": -2.0},
    "u2": {"y0": 0.25, "y1": 8.0},
}
"""The host's features."""
LINEAR = ("-m", "tests.support.serving_program", "{home}", "{conf}")
"""A serving process with linear models of the tests."""
SHIPPED = ("-m", "fedflow.cli.main", "serving", "run", "--home", "{home}", "--conf", "{conf}")


class ServingPlace:
    """One party's serving process: started, killed and started again."""

    def __init__(
        self, home: Path, settings: Mapping[str, Any], *, words: Sequence[str] = LINEAR
    ) -> None:
        """`words` are what Python runs, with `{home}` and `{conf}` in them."""
        self.words = words
        self.home = home
        self.settings = dict(settings)
        self.process: subprocess.Popen[bytes] | None = None
        self.state: ServerState | None = None

    def start(self) -> None:
        """Start it; the first time on ports of the kernel, then on the same ones.

        Meanwhile the kernel may have given one of these to a connection: that ends soon.
        """
        for _ in range(100):
            try:
                return self._start()
            except ServerNotStarted as exc:
                if "PortInUse" not in str(exc):
                    raise
                time.sleep(0.3)
        return self._start()

    def _start(self) -> None:
        log = self.home / "server-logs" / "server.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        conf = self.home / "serving_conf.yaml"
        conf.write_text(yaml.safe_dump(self.settings))
        offset = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, *(w.format(home=self.home, conf=conf) for w in self.words)],
                stdout=output, stderr=output, cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )  # fmt: skip
        self.state = wait_until_up(self.process, self.home, log_offset=offset)
        for name, address in (
            ("callers", self.state.http), ("partners", self.state.grpc),
            ("admin", self.state.admin or ""),
        ):  # fmt: skip
            port = int(address.rpartition(":")[2])
            self.settings[name] = {**self.settings.get(name, {}), "port": port}

    def kill(self) -> None:
        """End it as a machine without power would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it gently."""
        if self.process is not None:
            end(self.process)

    def log(self) -> str:
        return (self.home / "server-logs" / "server.log").read_text()

    def call(
        self, port: str, method: str, path: str, body: object = None, *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:  # fmt: skip
        """Return HTTP status and JSON of an answer; a body of bytes is sent as it is."""
        number = self.settings[port]["port"]
        raw = body if isinstance(body, bytes) else json.dumps(body) if body is not None else None
        with closing(http.client.HTTPConnection("127.0.0.1", number, timeout=60)) as link:
            with suppress(BrokenPipeError):  # it may answer before it has read all
                link.request(
                    method, path, raw, {"Content-Type": "application/json", **(headers or {})}
                )
            answer = link.getresponse()
            text = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text.decode()

    def admin(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Call the admin port; a POST has a body."""
        return self.call("admin", method, f"/admin/v1/{path}", {} if body is None else body)

    def load(self, load_id: str, share: Mapping[str, Any]) -> None:
        """Prepare and commit a share."""
        status, answer = self.admin("POST", "loads", {"load_id": load_id, "share": share})
        assert (status, answer["retcode"]) == (200, 0), answer
        status, answer = self.admin("POST", f"loads/{load_id}/commit")
        assert (status, answer["retcode"]) == (200, 0), answer

    def bind(self, version: str = "v1", service: str = "credit") -> Any:
        body = {"service_id": service, "model_id": MODEL_ID, "model_version": version}
        status, answer = self.admin("POST", "bindings", body)
        assert (status, answer["retcode"]) == (200, 0), answer
        return answer["data"]

    def infer(
        self, features: Mapping[str, Any], user: object = "u1", *, head: object = None,
        case_id: str = "",
    ) -> Any:  # fmt: skip
        """Return the answer to a single request of the service `credit`."""
        body = {"featureData": features, "sendToRemoteFeatureData": {"device_id": user}}
        request = {"head": head or {"serviceId": "credit"}, "body": body}
        headers = {"caseId": case_id} if case_id else {}
        status, answer = self.call(
            "callers", "POST", "/federation/v1/inference", request, headers=headers
        )
        assert status == 200, answer
        return answer

    def batch(self, items: object, service: str = "credit") -> Any:
        """Return the answer to a batch."""
        request = {"head": {"serviceId": service}, "body": {"batchDataList": items}}
        status, answer = self.call("callers", "POST", "/federation/v1/batchInference", request)
        assert status == 200, answer
        return answer


def serving_pair(folder: Path, **guest_settings: Any) -> tuple[ServingPlace, ServingPlace]:
    """Start a guest's and a host's process with mutual TLS; v1 is loaded at both and bound."""
    files = create_files(folder / "tls", (GUEST, HOST))
    tls = {
        one.party_id: {"ca": str(one.ca), "certificate": str(one.certificate), "key": str(one.key)}
        for one in files
    }
    table = folder / "features.csv"
    lines = [f"{user},{row['y0']},{row['y1']}" for user, row in ROWS.items()]
    table.write_text("\n".join(["device_id,y0,y1", *lines, "u3,,", ""]))
    free = {"callers": {"port": 0}, "admin": {"port": 0}}
    host = ServingPlace(
        folder / "host",
        {
            "party_id": HOST, **free,
            "partners": {"port": 0, "tls": tls[HOST], "allowed": [GUEST]},
            "features": {"source": "table", "options": {"path": str(table), "ids": ["device_id"]}},
        },
    )  # fmt: skip
    host.start()
    guest = ServingPlace(
        folder / "guest",
        {
            "party_id": GUEST, **free,
            "partners": {"port": 0, "tls": tls[GUEST]},
            "routes": {HOST: f"127.0.0.1:{host.settings['partners']['port']}"},
            **guest_settings,
        },
    )  # fmt: skip
    try:
        guest.start()
        host.load("load-v1", share_of("host"))
        guest.load("load-v1", share_of("guest"))
        guest.bind("v1")
    except BaseException:
        guest.stop()
        host.stop()
        raise
    return guest, host
