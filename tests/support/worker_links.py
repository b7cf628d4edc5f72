"""A worker's way to its own server over a real unix socket, without a process behind either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fedflow.app.participant.worker_signatures import Signer, WorkerSignatures
from fedflow.app.services import Services
from fedflow.http.server import HttpServer, HttpSettings
from fedflow.web.app import create_app
from fedflow.web.settings import WebSettings
from fedflow.worker.report import ServerLink
from tests.unit.app.fakes import participant


@contextmanager
def linked(
    home: Path, *, token: str | None = None, signer: Signer | None = None
) -> Iterator[ServerLink]:
    """Give the link of a task that runs; `token` None: its own. `signer` has the certificate."""
    server = participant(home)
    server.ask("job_apply", server.create())
    key = server.run_task(pid=7)
    workers = server.core.workers
    signatures = WorkerSignatures(store=server.store, workers=workers, signer=lambda: signer)
    services: Any = SimpleNamespace(workers=workers, signatures=signatures)
    http = HttpServer(
        create_app(cast(Services, services), WebSettings()), HttpSettings(), name="fedflow-test"
    )
    http.listen_unix(home / "s")
    task = server.task(key)
    link = ServerLink(
        str(home / "s"), key=key, token=token or str(task.token), launch_id=str(task.launch_id)
    )
    try:
        yield link
    finally:
        link.close()
        http.stop()
