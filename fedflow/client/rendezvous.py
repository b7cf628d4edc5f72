"""The client's calls about rendezvous: runs that the server stores for members."""

from __future__ import annotations

from fedflow.base.errors.rendezvous import RendezvousUnreachable
from fedflow.base.errors.requests import ClientError
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.errors.store import StoreUnavailable
from fedflow.client.connection import Connection
from fedflow.domain.administration.rendezvous import RunReply
from fedflow.wire.api.rendezvous import RunState, StoredRun


class RendezvousCalls:
    """Runs at one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(self, run_id: str, *, job_id: str | None = None) -> HttpRun:
        """Return the way to a run of this party, or of a job that it takes part in."""
        return HttpRun(self._connection, run_id, job_id)

    def all(self) -> list[StoredRun]:
        """Return the runs that were written to last, at most 1,000."""
        found: list[StoredRun] = self._connection.look_up("rendezvous/list", {}, list[StoredRun])
        return found

    def remove(self, scope: str, run_id: str) -> bool:
        """Delete a run; tell whether there was one."""
        sent = {"scope": scope, "run_id": run_id}
        gone: bool = self._connection.do("rendezvous/remove", sent, bool)
        return gone


class HttpRun:
    """One run, over HTTP; see `elastic.run_backend.RunAccess`."""

    def __init__(self, connection: Connection, run_id: str, job_id: str | None) -> None:
        self._connection = connection
        self._named = {"run_id": run_id, "job_id": job_id}

    def read(self, known: str | None) -> RunReply:
        """Return what the run holds. Raises: RendezvousUnreachable, or what the server says."""
        return self._call("read", {"token": known})

    def write(self, text: str, token: str | None) -> RunReply:
        """Write by compare-and-set. Raises: as `read`, and RendezvousNotAllowed."""
        return self._call("write", {"state": text, "token": token})

    def _call(self, verb: str, body: dict[str, str | None]) -> RunReply:
        try:
            found: RunState = self._connection.do(
                f"rendezvous/{verb}", {**self._named, **body}, RunState
            )
        except (ServerNotReachable, ClientError, StoreUnavailable) as exc:
            raise RendezvousUnreachable(
                address=self._connection.address, reason=exc.message.removesuffix(".")
            ) from exc
        return RunReply(
            now_ms=found.now_ms,
            token=found.token,
            text=found.state,
            was_set=found.was_set,
            since_ms=found.since_ms,
        )
