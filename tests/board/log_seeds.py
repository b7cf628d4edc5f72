"""Logs for tests of the board, in the folders where workers and the server write them."""

from __future__ import annotations

from pathlib import Path

from fedflow.app.protocol.folders import Folders
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobRecord, TaskKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.board.places import Place
from tests.board.seeds import GUEST, job, put, task

TRACEBACK = """Traceback (most recent call last):
  File "<fedflow>/fedflow/worker/run.py", line 240, in _run
    raise ValueError("no column <b>age</b>")
ValueError: no column <b>age</b>
"""


def record(level: str, text: str, second: int = 0) -> str:
    """Return a record as workers write it."""
    return (
        f"[{level}] [2026-11-22 06:{second // 60 % 60:02d}:{second % 60:02d},123] [4711:139872]"
        f" - [fit.step] [line:12]: {text}\n"
    )


def put_log(
    place: Place, of: JobRecord, text: str | bytes, *, component: str = "", attempt: int = 0,
    name: str = "INFO.log", site: Site = GUEST,
) -> Path:  # fmt: skip
    """Append to a log of a site, or of an attempt there, and return its file."""
    folders = Folders(place.home)
    if component:
        key = TaskKey(job_id=of.key.job_id, component=component, version=attempt, site=site)
        folder = folders.logs(key)
    else:
        folder = folders.party_logs(of.key)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return folder / name


def seed_failed_then_good(place: Place, number: int) -> JobRecord:
    """Put a job whose component failed in its first attempt and ran well in the second."""
    of = job(number)
    bad = task(
        of, "lr_0", "HeteroLR",
        status=TaskStatus.FAILED, party_status=TaskStatus.FAILED,
        reason=Reason(code="ComponentFailed", message="lr_0 failed: ValueError", site=GUEST),
    )  # fmt: skip
    good = task(
        of, "lr_0", "HeteroLR",
        key=TaskKey(job_id=of.key.job_id, component="lr_0", version=1, site=GUEST),
    )  # fmt: skip
    put(place.store, of, bad, good)
    first = record("INFO", "attempt zero begins") * 40 + record("ERROR", "lr_0 failed: ValueError")
    put_log(place, of, first + TRACEBACK, component="lr_0")
    errors = record("ERROR", "lr_0 failed: ValueError") + TRACEBACK
    put_log(place, of, errors, component="lr_0", name="ERROR.log")
    put_log(place, of, record("INFO", "attempt one ends well"), component="lr_0", attempt=1)
    return of


def seed_running(place: Place, number: int) -> JobRecord:
    """Put a job that runs, with one component."""
    of = job(number, status=JobStatus.RUNNING, ended_ms=None, progress=0)
    running = task(
        of, "lr_0", "HeteroLR",
        status=TaskStatus.RUNNING, party_status=TaskStatus.RUNNING, ended_ms=None,
    )  # fmt: skip
    put(place.store, of, running)
    return of


def logs_path(of: JobRecord, tail: str = "") -> str:
    """Return the address of a job's logs at its own site."""
    site = of.key.site
    return f"/board/jobs/{of.key.job_id}/{site.role.value}/{site.party_id}/logs{tail}"


def component_logs_path(of: JobRecord, component: str, tail: str = "") -> str:
    """Return the address of a component's logs."""
    return logs_path(of).removesuffix("logs") + f"components/{component}/logs{tail}"
