"""A server that has just started has not imported what it may never need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STARTED = """
import json, os, sys, urllib.request
from pathlib import Path

import fedflow.cli.main
import fedflow.cli.server
from fedflow.app.protocol.folders import Folders
from fedflow.server.build import FedflowServer
from fedflow.server.configuration import load_settings
import fedflow.server.run

home = Path(sys.argv[1])
for folder in Folders(home).all():
    folder.mkdir(parents=True, exist_ok=True)
ports = {"fateflow": {"http_port": 0, "grpc_port": 0}}
server = FedflowServer(load_settings(None, environment={}, overrides=ports), home)
server.open()
try:
    url = f"http://127.0.0.1:{server.place.http_port}"
    seen = {}
    for path in ("/healthz", "/v1/none", "/v1/job/query", "/board/jobs"):
        body = b"{}" if path.startswith("/v1") else None
        with urllib.request.urlopen(url + path, data=body, timeout=30) as answer:
            answer.read()
        seen[path] = sorted(sys.modules)
    print(json.dumps(seen))
finally:
    server.close()
"""

ABSENT = (
    # web: what people and clients ask for
    "fedflow.board", "fedflow.board.fate_board", "fedflow.web.openapi", "fedflow.web.model",
    "fedflow.web.table", "fedflow.web.tracking", "fedflow.web.account", "fedflow.web.job",
    # use cases that no job needs
    "fedflow.server.administration", "fedflow.server.data", "fedflow.server.models",
    "fedflow.app.administration.accounts", "fedflow.app.administration.registry",
    "fedflow.app.administration.providers", "fedflow.app.administration.templates",
    "fedflow.app.data.connectors", "fedflow.app.logs.search",
    "fedflow.app.models.model_exchange", "fedflow.app.local_jobs.model_store",
    "fedflow.blobs.external", "fedflow.tables.storages", "fedflow.tables.storage_probe",
    "fedflow.app.administration.rendezvous", "fedflow.domain.administration.rendezvous",
    "fedflow.elastic", "fedflow.rpc.server.rendezvous", "fedflow.store.sql.rendezvous",
    "fedflow.wire.rendezvous",
    # what other processes do
    "fedflow.sdk", "fedflow.components", "fedflow.cores", "fedflow.worker", "fedflow.client",
    "fedflow.testing", "numpy", "pyarrow", "pyspark", "requests", "rich",
    # what only some servers use
    "fedflow.store.mysql", "pymysql", "cryptography", "yaml", "tomllib", "platformdirs",
)  # fmt: skip


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules of a server in a process of its own, after each of some requests."""
    home: Path = tmp_path_factory.mktemp("modules") / "home"
    done = subprocess.run(
        [sys.executable, "-c", STARTED, str(home)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return {path: set(names) for path, names in found.items()}


@pytest.mark.parametrize("path", ["/healthz", "/v1/none"])
def test_a_server_that_was_only_started_lacks_what_jobs_do_not_need(
    seen: dict[str, set[str]], path: str
) -> None:
    assert [name for name in ABSENT if name in seen[path]] == []


def test_a_request_brings_what_it_needs_and_no_more(seen: dict[str, set[str]]) -> None:
    assert "fedflow.web.job" in seen["/v1/job/query"]
    assert "fedflow.board" not in seen["/v1/job/query"]
    assert "fedflow.web.model" not in seen["/v1/job/query"]
    assert "fedflow.board.jobs" in seen["/board/jobs"]
    assert "fedflow.web.openapi" not in seen["/board/jobs"]
