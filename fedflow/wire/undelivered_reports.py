"""The report of its end that a worker leaves in its work folder if its server stays away for too
long; the next server takes it from there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from fedflow.wire.task_report import EndReport, member_values

MOST_BYTES: Final = 32 * 2**20  #: what a server takes over HTTP, too


def leave_report(work_dir: Path, report: EndReport) -> None:
    """Write the report so that only this user can read it. Raises: OSError."""
    path = _path(work_dir, report.launch_id)
    part = path.with_suffix(".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(report, file, allow_nan=False, default=member_values)
    part.replace(path)


def left_report(work_dir: Path, launch_id: str) -> dict[str, Any] | None:
    """Return the report that a worker left, None if there is none that can be read."""
    path = _path(work_dir, launch_id)
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        body = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def _path(work_dir: Path, launch_id: str) -> Path:
    return work_dir / f"report-{launch_id}.json"
