"""`flow test toy`: adds two secret numbers between two parties, to see whether they can work.

Source: docs/reference/rest.md#the-flow-command.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedflow.base.errors.jobs import StillRunning
from fedflow.client.client import Client

_MODULE = "SecureAddExample"
_NAME = "secure_add_example_0"
_SAID = "secure_add_guest"  #: in the lines of the log that tell what came out


def toy_job(guest: str, host: str, *, cores: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of the job."""
    dsl = {"components": {_NAME: {"module": _MODULE}}}
    data: dict[str, Any] = {"seed": 123}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": guest},
        "role": {"guest": [guest], "host": [host]},
        "job_parameters": {"common": {"task_cores": cores}},
        "component_parameters": {
            "role": {"guest": {"0": {_NAME: data}}, "host": {"0": {_NAME: data}}},
            "common": {_NAME: {"partition": 4, "data_num": 1000}},
        },
    }
    return dsl, conf


def run_toy(
    client: Client,
    guest: str,
    host: str,
    *,
    timeout_s: float,
    cores: int,
    say: Callable[[str], None],
) -> bool:
    """Run the trial, say how it goes, and tell whether it succeeded.

    A job that does not end in time is stopped. Raises: ServerNotReachable, SubmitRefused, ...
    """
    job_id = client.submit(*toy_job(guest, host, cores=cores)).job_id
    say(f"toy test job {job_id} is {client.job(job_id).status}")
    try:
        view = client.wait(job_id, timeout_s=timeout_s)
    except StillRunning:
        client.stop(job_id)
        say(f"timeout: toy test job {job_id} did not end within {timeout_s:g} seconds")
        return False
    word = {"success": "success", "canceled": "canceled"}.get(view.status, "failed")
    say(f"toy test job {job_id} is {word}")
    for line in toy_lines(client, job_id, guest, failed=word == "failed"):
        say(line)
    return view.succeeded


def toy_lines(client: Client, job_id: str, guest: str, *, failed: bool = False) -> list[str]:
    """Return the lines of the guest's log that tell what came out; of a failure its errors."""
    with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
        client.log_download(job_id, Path(folder))
        log = Path(folder) / "guest" / guest / ("ERROR.log" if failed else "INFO.log")
        if not log.is_file():
            return []
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines if failed else [line for line in lines if _SAID in line]
