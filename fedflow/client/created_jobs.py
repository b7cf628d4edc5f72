"""Calls whose answer is a new job: submit, and the jobs that move tables and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedflow.base.ids import new_request_id
from fedflow.client.connection import Connection
from fedflow.domain.scheduling.submits import key_in_conf
from fedflow.wire.api.jobs import Submitted


def submit_job(
    connection: Connection, dsl: Any, conf: Any, *, idempotency_key: str | None = None,
    strict: bool = False,
) -> Submitted:  # fmt: skip
    """Submit a job under a key, by default a new one, so that a call whose answer was lost may be
    made again without making a second job. Raises: what the server says went wrong.
    """
    key = key_in_conf(conf) if idempotency_key is None else idempotency_key
    key = new_request_id() if key is None else key
    body = {"job_dsl": dsl, "job_runtime_conf": conf, "idempotency_key": key}
    if strict:
        body["strict"] = True
    return make_job(connection, "job/submit", body, safe=True)


def called(conf: Any, name: str | None) -> Any:
    """Return a conf with another job parameter `name`; None leaves it as it is."""
    if name is None or not isinstance(conf, dict):
        return conf
    parameters = conf.get("job_parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    common = parameters.get("common")
    common = common if isinstance(common, dict) else {}
    return {**conf, "job_parameters": {**parameters, "common": {**common, "name": name}}}


def make_job(
    connection: Connection, command: str, body: Mapping[str, Any], *, safe: bool = False
) -> Submitted:
    """Make the call and return the job; a `safe` one is made again if the connection broke.

    Raises: what the server says went wrong.
    """
    envelope = connection.envelope(f"/v1/{command}", body, command=command, safe=safe)
    members = {"job_id": envelope.get("jobId"), **(envelope.get("data") or {})}
    found: Submitted = connection.typed(members, Submitted, command=command)
    return found
