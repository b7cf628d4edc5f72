"""Jobs for tests of the job's pages: small real ones, and large ones from records."""

from __future__ import annotations

import random
from typing import Any

from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    JobKey,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
)
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_FINAL, JobStatus, TaskStatus
from tests.board import seeds
from tests.board.places import Place
from tests.board.seeds import GUEST, HOST
from tests.support.executors import wait_until

END_S = 120.0
ROLES = {"guest": ["9999"], "host": ["10000"]}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"common": {"task_cores": 1}},
    "component_parameters": {"common": {}},
}


def submit(
    place: Place, *steps: dict[str, Any], host: dict[str, Any] | None = None, **common: Any
) -> str:
    """Start a real chain of `Empty` components at guest and host; a step is its parameters."""
    names = [f"empty_{number}" for number in range(len(steps))]
    components = {n: ("Empty", names[i - 1 : i] if i else ()) for i, n in enumerate(names)}
    sections: dict[str, Any] = {"common": dict(zip(names, steps, strict=True))}
    if host:
        sections["role"] = {"host": {"0": host}}
    of_job = {"common": {**CONF["job_parameters"]["common"], **common}}
    conf = {**CONF, "component_parameters": sections, "job_parameters": of_job}
    return place.services.submissions.submit(seeds.dsl(components), conf).job_id


def wait_for_end(place: Place, job_id: str) -> None:
    """Wait until a job has ended at all its sites here."""

    def has_ended() -> bool:
        with place.store.read() as tx:
            return all(j.ended_ms is not None for j in tx.jobs.shares(job_id))

    wait_until(has_ended, END_S)


def wait_for_rest(place: Place, job_id: str) -> None:
    """Wait until a job is held: nothing of it runs, and nothing may start."""

    def is_held() -> bool:
        with place.store.read() as tx:
            job = tx.schedules.get(job_id)
        assert job is not None
        return job.control.held_ms is not None

    wait_until(is_held, END_S)


def put_job(
    place: Place, number: int, components: dict[str, tuple[str, Any]], *,
    status: JobStatus = JobStatus.SUCCESS, task_status: TaskStatus = TaskStatus.SUCCESS,
    own_sites: tuple[Site, ...] = (GUEST,), reason: Reason | None = None, **fields: Any,
) -> str:  # fmt: skip
    """Put a job with both halves, and tasks that all stand the same, at guest and host."""
    of = seeds.job(
        number, status=status, dsl=seeds.dsl(components),
        **{"conf": CONF, "reason": reason, **fields},
    )  # fmt: skip
    is_over = task_status in TASK_FINAL
    times = {"started_ms": of.started_ms, "ended_ms": of.ended_ms if is_over else None}
    tasks = tuple(
        ScheduledTask(
            component=name,
            version=0,
            status=task_status,
            parties=tuple(
                ScheduledPartyTask(
                    site=s, status=task_status, since_ms=of.created_ms, reason=reason
                )
                for s in (GUEST, HOST)
            ),
            **times,
        )
        for name in components
    )
    scheduled = ScheduledJob(
        job_id=of.key.job_id, initiator=GUEST, status=status, epoch=0, dsl=of.dsl, conf=of.conf,
        priority=0, created_ms=of.created_ms, updated_ms=of.updated_ms, reason=reason,
        started_ms=of.started_ms, ended_ms=of.ended_ms, tasks=tasks,
        sites=tuple(ScheduledSite(site=s, phase=SitePhase.GRANTED) for s in (GUEST, HOST)),
    )  # fmt: skip
    with place.store.transaction() as tx:
        tx.schedules.add(scheduled)
    for site in own_sites:
        share = seeds.job(
            number, status=status, dsl=of.dsl, key=JobKey(job_id=of.key.job_id, site=site),
            **{"conf": CONF, "reason": reason, **fields},
        )  # fmt: skip
        seeds.put(
            place.store,
            share,
            *(
                seeds.task(
                    share, name, module, status=task_status, party_status=task_status,
                    progress=1.0 if is_over else 0.0, reason=reason, **times,
                )
                for name, (module, _) in components.items()
            ),
        )  # fmt: skip
    return of.key.job_id


def large(count: int) -> dict[str, tuple[str, Any]]:
    """Return a wide graph of `count` components, each of which takes from one to three others."""
    rng = random.Random(count)
    names = [f"step_{number}" for number in range(count)]
    return {
        name: (
            "Empty",
            sorted(
                {names[rng.randrange(max(0, i - 40), i)] for _ in range(rng.choice((1, 1, 2, 3)))}
            )
            if i
            else (),
        )
        for i, name in enumerate(names)
    }
