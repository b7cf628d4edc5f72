"""The client: everything that a user can ask of a server, in one object.

    with Client("http://127.0.0.1:9380") as client:
        job = client.submit("dsl.json", "conf.json")
        for event in client.events(job.job_id):
            print(event)
        print(client.metrics(job.job_id, "evaluation_0"))

Jobs, uploads and results are methods of the client itself; other nouns have a group: `tables`,
`models`, `tags`, `checkpoints`, `keys`, `permissions`, `providers`, `resources`, `servers`,
`parties`, `accounts`.

Every method raises `ServerNotReachable` if no server answers, the server's own error (a class of
`base/errors/`) if it refuses, and `ClientError` if its answer makes no sense.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedflow.client.accounts import AccountCalls
from fedflow.client.administration import (
    KeyCalls,
    PartyCalls,
    PermissionCalls,
    ProviderCalls,
    ResourceCalls,
    ServerCalls,
)
from fedflow.client.archive import unpack
from fedflow.client.connection import Connection
from fedflow.client.data import DataCalls
from fedflow.client.job_ledgers import JobLedgerCalls
from fedflow.client.job_tags import JobTagCalls
from fedflow.client.job_traces import JobTraceCalls
from fedflow.client.jobs import JobCalls
from fedflow.client.model_history import CommitCalls
from fedflow.client.models import CheckpointCalls, ModelCalls, TagCalls
from fedflow.client.rendezvous import RendezvousCalls
from fedflow.client.tables import TableCalls
from fedflow.client.tracking import TrackingCalls
from fedflow.wire.api.administration import DescribedModule

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
        repeats: bool = True,
    ) -> None:
        """Remember how to reach the server at `address`, a URL or `host:port`; nothing is sent yet.

        With `app_key` and `secret` every request is signed. Unless it `repeats`, a call that did
        not reach the server is not made again. Raises: BadSetting: no such address.
        """
        connection = Connection(
            address, app_key=app_key, secret=secret, timeout_s=timeout_s, repeats=repeats
        )
        super().__init__(connection)
        self.tables = TableCalls(connection)
        self.models = ModelCalls(connection)
        self.tags = TagCalls(connection)
        self.commits = CommitCalls(connection)
        self.job_tags = JobTagCalls(connection)
        self.job_ledgers = JobLedgerCalls(connection)
        self.job_traces = JobTraceCalls(connection)
        self.checkpoints = CheckpointCalls(connection)
        self.keys = KeyCalls(connection)
        self.permissions = PermissionCalls(connection)
        self.providers = ProviderCalls(connection)
        self.resources = ResourceCalls(connection)
        self.servers = ServerCalls(connection)
        self.parties = PartyCalls(connection)
        self.accounts = AccountCalls(connection)
        self.rendezvous = RendezvousCalls(connection)

    @property
    def address(self) -> str:
        """Return the server's URL."""
        return self._connection.address

    @property
    def connection(self) -> Connection:
        """Return the connection, for calls that have no method here."""
        return self._connection

    def versions(self) -> dict[str, str]:
        """Return the server's version by module: FATE, FATEFlow, fedflow, API."""
        return self.servers.versions()

    def components(self) -> list[DescribedModule]:
        """Return the component modules of this server, with a JSON schema of their parameters."""
        found: list[DescribedModule] = self._connection.ask(
            "/v1/component/describe",
            None,
            method="GET",
            answer=list[DescribedModule],
            command="component/describe",
        )
        return found

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI 3.1 document of the server's API."""
        return self._connection.look("/v1/openapi.json")

    def template(self, target: Path) -> list[Path]:
        """Unpack examples of jobs, with their data, and of conf files into the folder `target`."""
        command = "template/download"
        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
            archive = Path(folder) / "template.tar.gz"
            with archive.open("wb") as file:
                self._connection.fetch(f"/v1/{command}", {}, file, command=command)
            return unpack(archive, target)

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
