"""Calls whose answer is a new job: submit, and the jobs that move tables and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedflow.client.connection import Connection
from fedflow.client.results import Submitted


def make_job(connection: Connection, command: str, body: Mapping[str, Any]) -> Submitted:
    """Make the call and return the job. Raises: what the server says went wrong."""
    envelope = connection.envelope(f"/v1/{command}", body, command=command)
    found: Submitted = connection.typed(_members(envelope), Submitted, command=command)
    return found


def _members(envelope: Mapping[str, Any]) -> dict[str, Any]:
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
