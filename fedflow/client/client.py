"""The client: everything that a user can ask of a server, in one object.

    with Client("http://127.0.0.1:9380") as client:
        job = client.submit(dsl, conf)
        client.wait(job.job_id, on_change=print)
        print(client.metrics(job.job_id, "evaluation_0"))

Every method raises `ServerNotReachable` if no server answers, the server's own error (a class of
`base/errors.py`) if it refuses, and `ClientError` if its answer makes no sense.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from fedflow.client.connection import Connection
from fedflow.client.data import DataCalls
from fedflow.client.jobs import JobCalls
from fedflow.client.results import ModuleInfo
from fedflow.client.tracking import TrackingCalls

DEFAULT_ADDRESS = "http://127.0.0.1:9380"


class Client(JobCalls, DataCalls, TrackingCalls):
    """A fedflow server. Not for several threads at once."""

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        app_key: str | None = None,
        secret: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Remember how to reach the server at `address`, a URL or `host:port`; nothing is sent yet.

        With `app_key` and `secret` every request is signed. Raises: BadSetting: no such address.
        """
        super().__init__(Connection(address, app_key=app_key, secret=secret, timeout_s=timeout_s))

    @property
    def address(self) -> str:
        """Return the server's URL."""
        return self._connection.address

    def versions(self) -> dict[str, str]:
        """Return the server's version by module: FATE, FATEFlow, fedflow, API."""
        found: dict[str, str] = self._connection.ask(
            "/v1/server/version/get", {}, answer=dict[str, str], command="server/version/get"
        )
        return found

    def components(self) -> list[ModuleInfo]:
        """Return the component modules of this server, with a JSON schema of their parameters."""
        found: list[ModuleInfo] = self._connection.ask(
            "/v1/component/describe",
            None,
            method="GET",
            answer=list[ModuleInfo],
            command="component/describe",
        )
        return found

    def is_healthy(self) -> bool:
        """Tell whether a server answers and can serve requests."""
        return self._connection.answers("/healthz")

    def readiness(self) -> dict[str, Any]:
        """Return how each part of the server stands: store, executor, outbox, cores."""
        return self._connection.look("/readyz")

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self.address}>"
