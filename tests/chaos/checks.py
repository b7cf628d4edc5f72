"""What must be true when everything has ended. Each check yields the anomalies that it finds."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

import psutil
import requests

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.store import StoreUnavailable
from fedflow.store.codec import reason_from_text
from tests.chaos.load import FINAL, Job
from tests.chaos.parties import LEASE_S, ChaosParty, World
from tests.chaos.watch import Process
from tests.e2e.servers import wait_for

SETTLE_S = LEASE_S + 60.0  #: how long after the last fault a job may take to end everywhere
IDLE_S = LEASE_S + 30.0  #: and how long everything else may take to be given back
MAX_FILES = 160  #: open files of an idle server, connections included
NO_CAUSE = frozenset({"", "InternalError", "FedflowError"})

_STARTS = re.compile(r"\[(\d+):\d+\] - \[run\._compute\].* starts at ")
_TRACEBACK = "Traceback (most recent call last):"
_FOLLOWED = ("During handling of the above exception", "The above exception was the direct cause")

EXPLAINED: Mapping[str, tuple[str, ...]] = {
    "disk_full": ("No space left on device", "the disk is full", "StoreUnavailable", "DiskFull"),
    "database_kill": ("StoreUnavailable",),
    "database_pause": ("StoreUnavailable",),
}
"""By fault: what the errors in the log of its party may say."""


@dataclass(frozen=True, kw_only=True)
class Anomaly:
    """Something that must never be."""

    what: str  #: the kind, a few words
    where: str  #: party, job, task
    detail: str
    job_id: str = ""  #: if it is about one job's tasks

    def __str__(self) -> str:
        return f"{self.what}: {self.where}: {self.detail}"


def find_anomalies(
    world: World, jobs: Sequence[Job], faults: Mapping[str, Collection[str]]
) -> Iterator[Anomaly]:
    """Yield what is wrong after the last fault and the last job, while the servers run.

    `faults` are the kinds that were done to each party.
    """
    for party in world.all:
        yield from _left_over(party)
    yield from _jobs(world, jobs)
    whole = {job.job_id for job in jobs if not _forgot(world, job)}
    for party in world.all:
        for found in (*_reasons(party), *_double_starts(party)):
            if not world.put_back or found.job_id in whole:
                yield found
        yield from _tracebacks(party, faults.get(party.id, ()))


def _forgot(world: World, job: Job) -> set[str]:
    """Return the sites of a job that may not know it, as a database was put back."""
    until_s = inf if job.settled_s is None else job.settled_s
    return world.forgot(job.sites, since_s=job.submitted_s, until_s=until_s)


# --- jobs -----------------------------------------------------------------------------------------


def _jobs(world: World, jobs: Sequence[Job]) -> Iterator[Anomaly]:
    """Compare what users were told with what the databases say.

    Parties may differ where a database was put back, but then they say so.
    """
    stored: dict[str, dict[str, str]] = {}
    warned: set[str] = set()
    for party in world.all:
        warned |= {
            job_id
            for (job_id,) in party.rows(
                "SELECT f_job_id FROM t_job WHERE f_warnings LIKE '%PartiesDisagree%'"
            )
        }
        for job_id, role, own, status in party.rows(
            "SELECT f_job_id, f_role, f_party_id, f_status FROM t_job"
        ):
            stored.setdefault(job_id, {})[f"{role}-{own}"] = status
    for job in jobs:
        if not job.job_id:
            continue
        shares = stored.pop(job.job_id, {})
        forgot = _forgot(world, job)
        what = {
            site: shares.get(site, "unknown")
            for site in job.sites
            if site in shares or site not in forgot
        }
        where = f"{job.job_id} ({job.kind})"
        if "unknown" in what.values():
            yield Anomaly(what="lost job", where=where, detail=json.dumps(what))
        elif not set(what.values()) <= FINAL:
            yield Anomaly(what="frozen job", where=where, detail=json.dumps(what))
        elif len(set(what.values())) > 1 and not (forgot and job.job_id in warned):
            yield Anomaly(what="different ends", where=where, detail=json.dumps(what))
    for job_id, shares in stored.items():  # their submit was not answered, or refused
        if not set(shares.values()) <= FINAL:
            yield Anomaly(what="frozen job", where=f"{job_id} (refused)", detail=json.dumps(shares))
        elif len(set(shares.values())) > 1 and not (world.put_back and job_id in warned):
            yield Anomaly(
                what="different ends", where=f"{job_id} (refused)", detail=json.dumps(shares)
            )


def _reasons(party: ChaosParty) -> Iterator[Anomaly]:
    """Yield the jobs and tasks that failed without a cause, and tasks that outlived their job."""
    failed = "f_status IN ('failed', 'canceled', 'timeout')"
    for job_id, role, status, reason in party.rows(
        f"SELECT f_job_id, f_role, f_status, f_reason FROM t_job WHERE {failed}"
    ):
        if not _has_cause(reason):
            yield Anomaly(
                what="no reason", where=f"{party.id} {job_id} {role}",
                detail=f"{status}: {reason}", job_id=job_id,
            )  # fmt: skip
    ended = "'success', 'failed', 'canceled', 'timeout', 'pass'"
    for row in party.rows(
        "SELECT t.f_job_id, t.f_role, t.f_component_name, t.f_task_version, t.f_party_status,"
        " j.f_status FROM t_task t JOIN t_job j ON j.f_job_id = t.f_job_id"
        " AND j.f_role = t.f_role AND j.f_party_id = t.f_party_id"
        f" WHERE j.f_status IN ({ended}) AND t.f_party_status NOT IN ({ended})"
    ):
        yield Anomaly(what="task outlived its job", where=party.id, detail=str(row), job_id=row[0])
    for row in party.rows(
        "SELECT j.f_job_id, j.f_role, t.f_component_name, t.f_party_status FROM t_task t"
        " JOIN t_job j ON j.f_job_id = t.f_job_id AND j.f_role = t.f_role"
        " AND j.f_party_id = t.f_party_id WHERE j.f_status = 'success' AND t.f_latest = 1"
        " AND t.f_party_status NOT IN ('success', 'pass')"
    ):
        yield Anomaly(
            what="success of a failed task", where=party.id, detail=str(row), job_id=row[0]
        )


def _has_cause(reason: str | None) -> bool:
    try:
        found = reason_from_text(reason)
    except StoreUnavailable:
        return False  # it is damaged
    return found is not None and found.code not in NO_CAUSE and len(found.message) > 10


def _double_starts(party: ChaosParty) -> Iterator[Anomaly]:
    """Yield the attempts whose own log shows that two processes ran the component."""
    for log in (party.shared / "logs").glob("*/*/*/*/*/INFO.log"):
        pids = _pids_that_ran(log)
        if len(pids) > 1:
            where = f"{party.id} {log.parent.relative_to(party.shared / 'logs')}"
            job_id = log.relative_to(party.shared / "logs").parts[0]
            yield Anomaly(what="ran twice", where=where, detail=f"processes {pids}", job_id=job_id)


def ran_at_once(pairs: Iterable[tuple[Process, Process]]) -> Iterator[Anomaly]:
    """Yield those of the pairs that were seen of which both have run their component."""
    for one, other in sorted(pairs):
        if _ran(one) and _ran(other):
            yield Anomaly(
                what="two processes at once", where=str(one.folder), detail=f"{one}, {other}"
            )


def _ran(process: Process) -> bool:
    """Tell whether a process passed the server's check and began with its component."""
    job_id, attempt = process.folder.parts[-2:]
    role, party_id, rest = attempt.split("-", 2)
    component, _, version = rest.rpartition("-")
    logs = process.folder.parents[2] / "logs" / job_id / role / party_id
    return process.pid in _pids_that_ran(logs / component / version / "INFO.log")


def _pids_that_ran(log: Path) -> list[int]:
    try:
        return [int(pid) for pid in _STARTS.findall(log.read_text(errors="replace"))]
    except OSError:
        return []


# --- what is left over ----------------------------------------------------------------------------


def _left_over(party: ChaosParty) -> Iterator[Anomaly]:
    """Yield what was not given back, once it had time for that."""

    def found() -> list[tuple[str, str]]:
        return list(_not_given_back(party))

    with suppress(AssertionError):
        wait_for(lambda: not found(), "everything to be given back", within_s=IDLE_S)
    for what, detail in found():
        yield Anomaly(what=what, where=party.id, detail=detail)


def _not_given_back(party: ChaosParty) -> Iterator[tuple[str, str]]:
    try:
        ready = party.client.readiness()
    except FedflowError as exc:
        yield "no answer", str(exc)
        return
    if not ready.get("ready"):
        yield "not ready", json.dumps(ready)
    for free, total in party.rows("SELECT f_remaining_cores, f_cores FROM t_engine_registry"):
        if free != total:
            yield "cores not returned", f"{free} of {total} are free"
    for statement, what in (
        ("SELECT f_job_id, f_role FROM t_job WHERE f_resource_in_use = 1", "job holds cores"),
        ("SELECT f_kind, f_job_id, f_attempts, f_error FROM t_outbox", "command not delivered"),
        ("SELECT f_name FROM t_lease WHERE f_name LIKE 'initiator/%'", "lease of an ended job"),
    ):
        for row in party.rows(statement):
            yield what, str(row)
    assert party.process is not None
    extra = len(party.processes()) - 2
    if extra:
        yield "processes", f"{[(p.pid, p.cwd()) for p in party.processes()]}"
    elif executors := party.executors():
        yield "processes", f"executors {executors}"
    for file in (party.home / "spool").iterdir():
        if not _may_be_resumed(file, since_s=psutil.Process(party.process.pid).create_time()):
            yield "spool file", file.name
    files = open_files(party.process.pid)
    below = [f for f in files if "/home/jobs/" in f or "/home/spool/" in f or "(deleted)" in f]
    if below:
        yield "open files", ", ".join(below[:5])
    if len(files) > MAX_FILES:
        kinds = Counter(re.sub(r"\d+", "N", file) for file in files)
        yield "open files", f"{len(files)}: {kinds.most_common(5)}"


def _may_be_resumed(file: Path, *, since_s: float) -> bool:
    """Tell whether it is a part of a value from before the server's start, kept for ten minutes."""
    try:
        return file.suffix == ".part" and file.stat().st_mtime < since_s
    except FileNotFoundError:
        return True


def open_files(pid: int) -> list[str]:
    """Return what the descriptors of a process lead to."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


# --- logs -----------------------------------------------------------------------------------------


def _tracebacks(party: ChaosParty, faults: Collection[str]) -> Iterator[Anomaly]:
    """Yield each kind of traceback in a server's log that no fault explains, and how often."""
    found = Counter(tracebacks(party.log))
    for (place, error), times in found.items():
        if not is_explained(error, faults):
            yield Anomaly(what="traceback", where=party.id, detail=f"{times} x {error} ({place})")


def is_explained(error: str, faults: Collection[str]) -> bool:
    """Tell whether an error says no more than what was done to the party: these faults."""
    return any(text in error for kind in faults for text in EXPLAINED.get(kind, ()))


def tracebacks(log: Path) -> Iterator[tuple[str, str]]:
    """Yield the innermost line of fedflow and the error of each traceback in a log.

    Of errors that followed from one another only the last one counts.
    """
    place, error, inside = "", "", False
    with log.open(errors="replace") as lines:
        for line in lines:
            if line.startswith(_TRACEBACK):
                place, inside = "", True
            elif inside and line.startswith("  File ") and "/fedflow/" in line:
                place = re.sub(r'.*/fedflow/([^"]*)", line (\d+).*', r"\1:\2", line.strip())
            elif inside and line.strip() and not line.startswith(" "):
                inside = False
                error = re.sub(r"\d{4,}", "N", line.strip())[:200]
            elif error and line.startswith(_FOLLOWED):
                error = ""
            elif error and line.strip():
                yield place, error
                error = ""
    if error:
        yield place, error


def answers(party: ChaosParty) -> bool:
    """Tell whether a party's server can take jobs."""
    try:
        return bool(party.client.readiness().get("ready", False))
    except (FedflowError, requests.RequestException):
        return False
