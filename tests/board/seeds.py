"""Records for tests of the board, put straight into a server's store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final

from fedflow.app.ports.store import Store
from fedflow.base.ids import PartyId
from fedflow.domain.records import (
    JobKey,
    JobRecord,
    Metric,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
DAY: Final = date.fromordinal(datetime.now(UTC).toordinal() - 2)
"""Two days ago: the board's first page shows what failed within a week."""
START_MS: Final = int(datetime.combine(DAY, time(10), UTC).timestamp() * 1000)
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); //",
    "{{ 7 * 7 }} ${7 * 7} {% raw %}",
    "javascript:alert(1)",
    "</script><script>alert(1)</script>",
    "\u202egpj.exe\u2066",
    "x" * 3000,
)
"""Texts that must be shown as texts wherever a name, note, parameter, metric or log line is."""


def job_id(number: int) -> str:
    """Return the id of the job with this number."""
    return f"2026112010{number:014d}"


def dsl(components: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, Any]:
    """Return a DSL (version 2): component -> (module, names of the components it reads from)."""
    return {
        "components": {
            name: {
                "module": module,
                "input": {"data": {"data": [f"{up}.data" for up in upstream]}} if upstream else {},
                "output": {"data": ["data"]},
            }
            for name, (module, upstream) in components.items()
        }
    }


CHAIN = {"reader_0": ("Reader", ()), "dataio_0": ("DataTransform", ("reader_0",))}


def job(number: int = 1, **changes: Any) -> JobRecord:
    """Return a job of the guest that ended well."""
    made = {
        "key": JobKey(job_id=job_id(number), site=GUEST),
        "initiator": GUEST,
        "status": JobStatus.SUCCESS,
        "epoch": 0,
        "dsl": dsl(CHAIN),
        "conf": {"dsl_version": 2},
        "roles": {"guest": ["9999"], "host": ["10000"]},
        "cores": 4,
        "created_ms": START_MS + 1000 * number,
        "updated_ms": START_MS + 1000 * number + 60_000,
        "started_ms": START_MS + 1000 * number + 500,
        "ended_ms": START_MS + 1000 * number + 60_000,
        "progress": 100,
    }
    return JobRecord(**{**made, **changes})


def task(of: JobRecord, component: str, module: str, **changes: Any) -> TaskRecord:
    """Return the first attempt of a component at the job's own site, ended well."""
    made = {
        "key": TaskKey(
            job_id=of.key.job_id, component=component, version=0, site=of.key.site
        ),
        "module": module,
        "initiator": of.initiator,
        "status": TaskStatus.SUCCESS,
        "party_status": TaskStatus.SUCCESS,
        "parameters": {},
        "created_ms": of.created_ms,
        "updated_ms": of.updated_ms,
        "started_ms": of.started_ms,
        "ended_ms": of.ended_ms,
        "progress": 1.0,
    }  # fmt: skip
    return TaskRecord(**{**made, **changes})


def put(store: Store, *records: JobRecord | TaskRecord) -> None:
    """Put jobs and tasks into a store."""
    with store.transaction() as tx:
        for record in records:
            if isinstance(record, JobRecord):
                tx.jobs.add(record)
        tx.tasks.add([record for record in records if isinstance(record, TaskRecord)])


def put_metrics(store: Store, of: TaskRecord, *metrics: Metric) -> None:
    """Put metrics of one task into a store."""
    with store.transaction() as tx:
        for metric in metrics:
            tx.tracking.add_metric(of.key, metric, now_ms=of.updated_ms)
