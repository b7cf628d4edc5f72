"""What 10,000 waiting jobs cost: passes of scheduler and detector, heartbeats, the queue's view.

    .venv/bin/python benchmarks/waiting.py [--jobs 10000] [--runs 15] [--engine mysql] [--json]

CPU time. The use cases of two servers, over real stores, in this process; commands between them are
calls. Party 9999 initiated all jobs, each needs party 10000 too; one job runs and holds all cores.
SQLite unless MySQL is asked for (at FEDFLOW_TEST_MYSQL, or 127.0.0.1:3306).
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import Figure, Machine, arguments, show
from queries import ENGINES, _database

sys.path.insert(0, str(Path(__file__).parents[1]))  # the fakes of the tests

from fedflow.app.ports.store import Store
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import (
    JobKey,
    JobRecord,
    Reply,
    ScheduledJob,
    ScheduledPartyTask,
    ScheduledSite,
    ScheduledTask,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.store.connect import open_mysql, open_sqlite
from fedflow.wire import paths
from tests.unit.app import fakes
from tests.unit.app.fakes import CORES, GUEST, HOST, NOW_MS, OneServer

PASS_MS = 50.0
WAIT_MS = 3_600_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=15, help="of each pass")
    parser.add_argument("--engine", choices=ENGINES, default="sqlite")
    options = parser.parse_args()
    machine = Machine()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedflow-bench-")))
        guest = _server(stack, home / "guest", "9999", engine=options.engine)
        host = _server(stack, home / "host", "10000", engine=options.engine)
        guest.parties.answer = lambda path, body: (
            host.core.commands.answer(fakes.incoming("heartbeat", body=body))
            if path == paths.PARTY_COMMANDS["heartbeat"]
            else Reply(retcode=0)
        )
        _fill(guest, host, options.jobs)
        figures = _measure(guest, host, options.jobs, options.runs)
        title = f"{options.jobs} waiting jobs, {options.engine}"
        show(title, figures, as_json=options.json, machine=machine)


def _measure(guest: OneServer, host: OneServer, jobs: int, runs: int) -> list[Figure]:
    core = guest.core
    before = _rss_mib()

    def beat() -> None:
        if not core.heartbeats.send("10000"):
            raise RuntimeError("the host did not answer")

    def view() -> None:
        places, count = core.queue.page(limit=100)
        if (len(places), count) != (min(100, jobs), jobs):
            raise RuntimeError(f"{len(places)} of {count} jobs wait")

    passes: list[tuple[str, Callable[[], object], float | None]] = [
        ("initiator: pass of the queue, nothing fits", core.scheduler.look_at_queue, PASS_MS),
        ("initiator: repair pass", core.scheduler.tick, PASS_MS),
        ("initiator: detector pass", core.detector.tick, None),
        ("initiator: parties to beat for", core.heartbeats.remote_parties, None),
        ("heartbeat with the host's part", beat, None),
        ("host: detector pass", host.core.detector.tick, None),
        ("queue: first 100 places", view, None),
    ]
    figures = []
    for what, act, budget in passes:
        act()
        figures.append(_figure(what, act, guest, host, runs=runs, budget=budget))
    grown = _rss_mib() - before
    figures.append(Figure(what="memory that this added", unit="MiB", values=[grown]))
    core.scheduler.tick()
    began_s = time.process_time()
    canceled = _cleaning(guest).clean_queue()
    took_s = time.process_time() - began_s
    if len(canceled) != jobs:
        raise RuntimeError(f"{len(canceled)} jobs were canceled")
    figures.append(
        Figure(what="clean the whole queue, until it answers", unit="s", values=[took_s])
    )
    what = "initiator: pass of the queue that ends 16 stopped jobs"
    act = core.scheduler.look_at_queue
    figures.append(_figure(what, act, guest, host, runs=runs, budget=None))
    return figures


def _figure(
    what: str, act: Callable[[], object], guest: OneServer, host: OneServer, *, runs: int,
    budget: float | None,
) -> Figure:  # fmt: skip
    values = []
    for _ in range(runs):
        for server in (guest, host):
            server.clock.ms += 1_000
        began_s = time.process_time()
        act()
        values.append(1000 * (time.process_time() - began_s))
        guest._send("9999")  # the guest's commands to itself, not measured
    return Figure(what=what, unit="ms", values=values, budget=budget)


def _cleaning(server: OneServer) -> Any:
    from fedflow.app.data.tables import Tables
    from fedflow.app.queries.cleaning import Cleaning

    tables: Tables = None  # type: ignore[assignment]  # the queue has none
    return Cleaning(store=server.store, tables=tables, wakeup=server.wakeup, clock=server.clock)


def _rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- full stores ----------------------------------------------------------------------------------


def _server(stack: ExitStack, home: Path, party_id: str, *, engine: str) -> OneServer:
    home.mkdir()
    if engine == "mysql":
        login = stack.enter_context(_database())
        if login is None:
            raise SystemExit("No MySQL answers.")
        store: Store = open_mysql(**login)
    else:
        store = open_sqlite(home / "fedflow.sqlite")
    stack.callback(store.close)
    other = "10000" if party_id == "9999" else "9999"
    parties = fakes.FakeParties(local=frozenset({party_id}), known=frozenset({other}))
    return OneServer(home=home, party_id=party_id, parties=parties, store=store)  # type: ignore[arg-type]


def _fill(guest: OneServer, host: OneServer, jobs: int) -> None:
    """Store one job that runs at the guest with all its cores, and `jobs` that wait."""
    guest.core.submissions.begin(fakes.dsl(), fakes.conf(cores=CORES))
    guest.work()
    for first in range(0, jobs, 500):
        numbers = range(first, min(first + 500, jobs))
        with guest.store.transaction() as tx:
            for number in numbers:
                job = _scheduled(number)
                tx.schedules.add(job)
                tx.queue.enter(
                    job.job_id,
                    ComputeResources(cores=2 + number % 7),
                    queued_ms=job.created_ms,
                    deadline_ms=job.created_ms + 259_200_000,
                    look_ms=job.created_ms + 259_200_000,
                )
                _add_share(tx, job, GUEST)
        with host.store.transaction() as tx:
            for number in numbers:
                _add_share(tx, _scheduled(number), HOST)


def _scheduled(number: int) -> ScheduledJob:
    waiting = TaskStatus.WAITING
    return ScheduledJob(
        job_id=f"20270101{number:012d}0",
        initiator=GUEST,
        status=JobStatus.WAITING,
        epoch=0,
        dsl=fakes.dsl(),
        conf=fakes.conf(cores=2 + number % 7),
        priority=number % 5,
        created_ms=NOW_MS - WAIT_MS * (number % 2) + number,  # half of them starve
        updated_ms=NOW_MS,
        sites=tuple(ScheduledSite(site=s, phase=SitePhase.CREATED) for s in (GUEST, HOST)),
        tasks=tuple(
            ScheduledTask(
                component=name,
                version=0,
                status=waiting,
                parties=tuple(ScheduledPartyTask(site=s, status=waiting) for s in (GUEST, HOST)),
            )
            for name in ("a", "b")
        ),
    )


def _add_share(tx: Any, job: ScheduledJob, site: Site) -> None:
    tx.jobs.add(
        JobRecord(
            key=JobKey(job_id=job.job_id, site=site),
            initiator=GUEST,
            status=JobStatus.WAITING,
            epoch=0,
            dsl=job.dsl,
            conf=job.conf,
            roles={"guest": ["9999"], "host": ["10000"]},
            cores=2,
            created_ms=job.created_ms,
            queued_ms=job.created_ms,
            updated_ms=job.created_ms,
            parameters={"timeout": 259_200},
        )
    )
    tx.tasks.add(
        [
            TaskRecord(
                key=TaskKey(job_id=job.job_id, component=task.component, version=0, site=site),
                module="Step",
                initiator=GUEST,
                status=TaskStatus.WAITING,
                party_status=TaskStatus.WAITING,
                parameters={},
                created_ms=job.created_ms,
                updated_ms=job.created_ms,
            )
            for task in job.tasks
        ]
    )


if __name__ == "__main__":
    main()
