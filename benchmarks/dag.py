"""What one DAG of 1,000 tasks costs: parse, decide, a scheduler's pass, and the whole run.

    .venv/bin/python benchmarks/dag.py [--tasks 1000] [--width 10] [--runs 9] [--json]

CPU time. Layers of `width` components, each of which takes from two of the layer before. The last
figure runs the first tasks over a real store (SQLite) in this process, eight at once: commands are
calls, and a task ends as soon as its process would have been started. No process is started, so it
is what the server alone costs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import Figure, Machine, arguments, show

sys.path.insert(0, str(Path(__file__).parents[1]))  # the fakes of the tests

from waiting import _server

from fedflow.app.protocol.snapshot import view_of
from fedflow.domain.job.spec import parse_job
from fedflow.domain.records import Handle
from fedflow.domain.scheduling.decide import decide
from fedflow.domain.states import JobStatus
from tests.unit.app import fakes
from tests.unit.app.fakes import OneServer

PARSE_MS = 200.0
DECIDE_MS = 5.0
ENDED = 60  #: tasks that are run


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--runs", type=int, default=9, help="of each step")
    options = parser.parse_args()
    machine = Machine()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedflow-bench-")))
        server = _server(stack, home / "alone", "9999", engine="sqlite")
        figures = _measure(server, _dsl(options.tasks, options.width), runs=options.runs)
    title = f"One DAG of {options.tasks} tasks"
    show(title, figures, as_json=options.json, machine=machine)


def _dsl(tasks: int, width: int) -> dict[str, Any]:
    components: dict[str, Any] = {}
    for n in range(tasks):
        layer = n // width
        component: dict[str, Any] = {"module": "Step", "output": {"data": ["data"]}}
        if layer:
            first = (layer - 1) * width
            above = sorted({first + n % width, first + (n + 1) % width})
            component["input"] = {"data": {"data": [f"c{up:04d}.data" for up in above]}}
        components[f"c{n:04d}"] = component
    return {"components": components}


def _measure(server: OneServer, dsl: dict[str, Any], *, runs: int) -> list[Figure]:
    conf = fakes.conf(cores=1, guest=[9999])
    conf["job_parameters"]["common"]["task_parallelism"] = 8
    modules = server.catalog.modules()
    figures = [
        _figure("parse and check", lambda: parse_job(dsl, conf, modules=modules), runs, PARSE_MS)
    ]
    began_s = time.process_time()
    job_id, spec = server.core.submissions.begin(dsl, conf)
    took_ms = 1000 * (time.process_time() - began_s)
    figures.append(Figure(what="check and store a submit", unit="ms", values=[took_ms]))
    server.work()
    costs = _run(server, job_id, until=min(ENDED, len(spec.components)))
    with server.store.read() as tx:
        job = tx.schedules.get(job_id)
    assert job is not None
    heard = {s.site.party_id: server.clock.ms for s in job.sites}

    def view() -> Any:
        return view_of(job, spec, timing=server.timing, heard_ms=heard, may_request=False)

    now = view()
    figures += [
        _figure("make the view", view, runs, None),
        _figure("decide", lambda: decide(now, server.clock.ms), runs, DECIDE_MS),
        _figure("pass without news", lambda: server.core.scheduler.look_at([job_id]), runs, None),
    ]
    if server.scheduled(job_id).status is not JobStatus.RUNNING:
        raise RuntimeError(f"the job is {server.scheduled(job_id).status.value}")
    figures.append(Figure(what="per task, one site", unit="ms", values=costs))
    return figures


def _run(server: OneServer, job_id: str, *, until: int) -> list[float]:
    """Let tasks end until so many have; return what each cost, milliseconds."""
    costs: list[float] = []
    executor = server.executor
    while len(server.executor.adopted) < until:
        began_s = time.process_time()
        launches = executor.started[len(executor.adopted) : until]
        if not launches:
            raise RuntimeError("no task was started")
        for launch in launches:
            pid = len(executor.adopted) + 1
            executor.adopted.append(pid)
            executor.alive.add(pid)
            server.processes.started(launch.launch_id, Handle(pid=pid, start_time=pid, host="here"))
            server.report(launch.task, "running")
            server.report(launch.task, "success")
            executor.alive.discard(pid)
            server.processes.exited(launch.launch_id, 0, None)
            _turn(server, job_id)
        costs.append(1000 * (time.process_time() - began_s) / len(launches))
    return costs


def _turn(server: OneServer, job_id: str) -> None:
    """Deliver commands and look at the job until nothing is left to do."""
    while server._send("9999"):
        server.core.scheduler.look_at([job_id])


def _figure(what: str, act: Callable[[], object], runs: int, budget: float | None) -> Figure:
    values = []
    for _ in range(runs):
        began_s = time.process_time()
        act()
        values.append(1000 * (time.process_time() - began_s))
    return Figure(what=what, unit="ms", values=values, budget=budget)


if __name__ == "__main__":
    main()
