"""The client's calls about jobs: submit, look, wait, stop, logs."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.errors import ServerNotReachable, StillRunning
from fedflow.client.archive import unpack
from fedflow.client.connection import Connection
from fedflow.client.results import JobPage, JobStatusView, Submitted

OnChange = Callable[[JobStatusView], None]

_POLL_S = 0.2  #: pause between two looks at a job, at first
_SLOW_POLL_S = 1.0  #: and when it has run for a minute
_OUTAGE_S = 60.0  #: for so long a server may be away while somebody waits: it may be restarting


class JobCalls:
    """What can be asked about jobs."""

    def __init__(self, connection: Connection, *, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock = clock or SystemClock()

    def submit(self, dsl: Mapping[str, Any], conf: Mapping[str, Any]) -> Submitted:
        """Submit a job, a DSL and a runtime conf as FATE writes them, and return its id.

        Raises: InvalidJobSpec: every mistake with its path. NoRoute. SubmitRefused.
        """
        envelope = self._connection.envelope(
            "/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf}, command="job/submit"
        )
        found: Submitted = self._connection.typed(
            submitted_members(envelope), Submitted, command="job/submit"
        )
        return found

    def job(self, job_id: str) -> JobStatusView:
        """Return how a job stands at this moment. Raises: JobNotFound."""
        found: JobStatusView = self._connection.ask(
            "/v1/job/status", {"job_id": job_id}, answer=JobStatusView, command="job/status"
        )
        return found

    def jobs(
        self, limit: int = 20, *, page: int = 1, status: str | None = None, role: str | None = None
    ) -> JobPage:
        """Return this server's shares of jobs, newest first; `limit` 0 means all."""
        body = {"limit": limit, "page": page, "status": status, "role": role}
        found: JobPage = self._connection.ask(
            "/v1/job/list/job",
            {name: value for name, value in body.items() if value is not None},
            answer=JobPage,
            command="job/list",
        )
        return found

    def stop(self, job_id: str) -> str:
        """Stop a job at all its sites and return its status. Raises: JobNotFound."""
        self._connection.envelope("/v1/job/stop", {"job_id": job_id}, command="job/stop")
        return self.job(job_id).status

    def wait(
        self, job_id: str, *, timeout_s: float | None = None, on_change: OnChange | None = None
    ) -> JobStatusView:
        """Wait until a job has ended and return how; `on_change` is told of every change.

        A server that goes away meanwhile has a minute to come back. Raises: JobNotFound;
        StillRunning: it has not ended after `timeout_s` seconds.
        """
        begin_s = heard_s = self._clock.monotonic_s()
        view: JobStatusView | None = None
        never = threading.Event()
        while True:
            now_s = self._clock.monotonic_s()
            try:
                seen = self.job(job_id)
                heard_s = now_s
            except ServerNotReachable:
                if view is None or now_s - heard_s > _OUTAGE_S:
                    raise
                seen = view
            if seen != view and on_change is not None:
                on_change(seen)
            view = seen
            if view.is_final:
                return view
            waited_s = now_s - begin_s
            if timeout_s is not None and waited_s >= timeout_s:
                raise StillRunning(job_id=job_id, status=view.status, seconds=timeout_s)
            rest_s = timeout_s - waited_s if timeout_s is not None else _SLOW_POLL_S
            pause(min(_POLL_S if waited_s < 60 else _SLOW_POLL_S, rest_s), never)

    def log_download(self, job_id: str, target: Path) -> list[Path]:
        """Unpack this server's logs of a job into the folder `target`; return the files.

        Their paths below `target` are `role/party/component/version/LEVEL.log`. Raises:
        JobNotFound; BadData: the archive is not acceptable.
        """
        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
            archive = Path(folder) / "log.tar.gz"
            with archive.open("wb") as file:
                self._connection.fetch(
                    "/v1/job/log/download", {"job_id": job_id}, file, command="job/log/download"
                )
            return unpack(archive, target)


def submitted_members(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of `Submitted` in the envelope of a job that was made."""
    data = envelope.get("data")
    data = data if isinstance(data, dict) else {}
    model = data.get("model_info")
    model = model if isinstance(model, dict) else {}
    members = {
        "job_id": envelope.get("jobId") or data.get("job_id"),
        "model_id": model.get("model_id"),
        "model_version": model.get("model_version"),
        "logs_directory": data.get("logs_directory"),
        "warnings": data.get("warnings"),
    }
    return {name: value for name, value in members.items() if value is not None}
