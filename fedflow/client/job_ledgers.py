"""The client's calls about what a job sent to each party."""

from __future__ import annotations

from typing import Any

from fedflow.client.connection import Connection
from fedflow.wire.api.ledgers import JobLedger, SignedLedger


class JobLedgerCalls:
    """The ledger of a job at one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, job_id: str, component: str | None = None) -> JobLedger:
        """Return what a job sent, received and waited for, by message. Raises: JobNotFound."""
        found: JobLedger = self._connection.look_up(
            "job/ledger/query", _which(job_id, component), JobLedger
        )
        return found

    def export(self, job_id: str, component: str | None = None) -> SignedLedger:
        """Return the same as CSV, signed with the site key. Raises: JobNotFound."""
        found: SignedLedger = self._connection.look_up(
            "job/ledger/export", _which(job_id, component), SignedLedger
        )
        return found


def _which(job_id: str, component: str | None) -> dict[str, Any]:
    return {"job_id": job_id} | ({} if component is None else {"component_name": component})
