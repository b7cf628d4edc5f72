"""What looking costs with 10,000 jobs and 100,000 tasks in the store, over HTTP, one client.

    .venv/bin/python benchmarks/queries.py [--jobs 10000] [--asks 200] [--engine mysql] [--json]

SQLite, and MySQL at FEDFLOW_TEST_MYSQL or 127.0.0.1:3306 if one answers. Then 50 readers ask
without a pause while a chain of ten empty tasks runs: how much longer it takes than alone, at
worst.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import requests
from figures import Figure, Machine, arguments, show
from parties import Party, chain, wait_for

from fedflow.base.ids import PartyId
from fedflow.cli.demo_servers import free_ports
from fedflow.domain.records import JobKey, JobRecord, TaskKey, TaskRecord
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.store.connect import open_mysql, open_sqlite

GUEST = Site(Role.GUEST, PartyId("9999"))
ENGINES = ("sqlite", "mysql")
TASKS = 10
READERS = 50
BUDGET_MS = 20.0
TICK_S = 2.0
Ask = tuple[str, dict[str, Any]]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--asks", type=int, default=200, help="of each question")
    parser.add_argument("--engine", choices=ENGINES, help="only this one")
    options = parser.parse_args()
    for engine in (options.engine,) if options.engine else ENGINES:
        machine = Machine()
        with filled_server(engine, lambda home, login: _fill(home, login, options.jobs)) as party:
            if party is None:
                return
            figures = [_ask(party, name, ask, options.asks) for name, ask in _asks(options.jobs)]
            alone = [_chain_s(party) for _ in range(5)]
            with _readers(party, options.jobs):
                beside = [_chain_s(party) for _ in range(5)]
            figures.append(Figure(what="chain of ten, alone", unit="s", values=alone))
            late = [max(0.0, b - statistics.median(alone)) for b in beside]
            what = f"chain of ten beside {READERS} readers: longer by, at worst"
            figures.append(Figure(what=what, unit="s", values=[max(late)], budget=TICK_S))
            title = f"Queries, {options.jobs} jobs, {options.jobs * TASKS} tasks, {engine}"
            show(title, figures, as_json=options.json, machine=machine)


# --- questions ------------------------------------------------------------------------------------


def _asks(jobs: int) -> list[tuple[str, Callable[[int], Ask]]]:
    """Return the questions: name, and path and body of the n-th asking."""

    def one(n: int) -> str:
        return _job_id((n * 7919) % jobs)

    return [
        ("job/query one job", lambda n: ("job/query", {"job_id": one(n)})),
        (
            "job/query a site's running jobs",
            lambda n: ("job/query", {"role": "guest", "party_id": 9999, "status": "running"}),
        ),
        ("job/task/query one job", lambda n: ("job/task/query", {"job_id": one(n)})),
        ("job/list/job newest 10", lambda n: ("job/list/job", {"limit": 10})),
        ("job/list/job page 500", lambda n: ("job/list/job", {"limit": 10, "page": 500})),
        (
            "job/list/job failed, by end time",
            lambda n: (
                "job/list/job",
                {"limit": 10, "status": "failed", "order_by": "end_time", "order": "desc"},
            ),
        ),
        (
            "job/list/job part of an id",
            lambda n: ("job/list/job", {"limit": 10, "job_id": one(n)[-6:]}),
        ),
        (
            "job/list/job of a partner",
            lambda n: ("job/list/job", {"limit": 10, "partner": 10000 + n % 50}),
        ),
        ("job/list/task newest 10", lambda n: ("job/list/task", {"limit": 10})),
        ("job/list/task of a job", lambda n: ("job/list/task", {"limit": 10, "job_id": one(n)})),
    ]


def _ask(party: Party, name: str, ask: Callable[[int], Ask], asks: int) -> Figure:
    """Return the 95th percentile of how long one question takes, milliseconds; three rounds."""
    rounds = []
    with requests.Session() as session:
        for _ in range(3):
            took = []
            for n in range(asks):
                path, body = ask(n)
                began_s = time.perf_counter()
                answer = session.post(f"{party.client.address}/v1/{path}", json=body, timeout=60)
                took.append(1000 * (time.perf_counter() - began_s))
                if answer.json()["retcode"] != 0:
                    raise RuntimeError(f"{name}: {answer.text[:300]}")
            rounds.append(statistics.quantiles(took, n=20)[-1])
    return Figure(what=f"{name}, p95", unit="ms", values=rounds, budget=BUDGET_MS)


def _chain_s(party: Party) -> float:
    """Return how long a chain of ten empty tasks takes, seconds."""
    began_s = time.perf_counter()
    job_id = party.client.submit(*chain(10)).job_id
    wait_for(lambda: party.client.job(job_id).is_final, what=job_id, pause_s=0.05)
    return time.perf_counter() - began_s


_READER = """
import itertools, json, sys, threading
import requests
address, asks = sys.argv[1], json.loads(sys.argv[2])
def read():
    with requests.Session() as session:
        for path, body in itertools.cycle(asks):
            session.post(f"{address}/v1/{path}", json=body, timeout=60).content
threads = [threading.Thread(target=read, daemon=True) for _ in range(int(sys.argv[3]))]
for thread in threads:
    thread.start()
print("reading", flush=True)
sys.stdin.read()
"""


@contextmanager
def _readers(party: Party, jobs: int) -> Iterator[None]:
    """Let 50 clients in a process of their own ask without a pause."""
    asks = [ask(n) for n in range(3) for _, ask in _asks(jobs)]
    words = [party.client.address, json.dumps(asks), str(READERS)]
    with subprocess.Popen(
        [sys.executable, "-c", _READER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as readers:
        assert readers.stdout is not None
        readers.stdout.readline()
        try:
            yield
        finally:
            readers.kill()


# --- a full store ---------------------------------------------------------------------------------


def _job_id(number: int) -> str:
    return f"20261101{number:012d}0"


def _fill(home: Path, login: dict[str, Any], jobs: int) -> None:
    """Store jobs with ten tasks each: of a hundred, one failed, the others succeeded."""
    store = open_mysql(**login) if login else open_sqlite(home / "fedflow.sqlite")
    dsl, conf = chain(TASKS)
    for first in range(0, jobs, 500):
        with store.transaction() as tx:
            for number in range(first, min(first + 500, jobs)):
                job, tasks = _records(number, dsl, conf)
                tx.jobs.add(job)
                tx.tasks.add(tasks)
    store.close()


def _records(number: int, dsl: Any, conf: Any) -> tuple[JobRecord, list[TaskRecord]]:
    failed = number % 100 == 0
    at_ms = 1_793_000_000_000 + 1000 * number
    host = str(10000 + number % 50)
    roles = {"guest": ["9999"], "host": [host]}
    job = JobRecord(
        key=JobKey(job_id=_job_id(number), site=GUEST), initiator=GUEST,
        status=JobStatus.FAILED if failed else JobStatus.SUCCESS, epoch=0, dsl=dsl,
        conf={**conf, "role": {"guest": [9999], "host": [int(host)]}}, roles=roles, cores=4,
        created_ms=at_ms, updated_ms=at_ms + 900, progress=100, started_ms=at_ms + 10,
        ended_ms=at_ms + 900,
    )  # fmt: skip
    status = TaskStatus.FAILED if failed else TaskStatus.SUCCESS
    tasks = [
        TaskRecord(
            key=TaskKey(job_id=_job_id(number), component=name, version=0, site=GUEST),
            module="Empty", initiator=GUEST, status=status, party_status=status, parameters={},
            created_ms=at_ms, updated_ms=at_ms + 900, started_ms=at_ms + 20, ended_ms=at_ms + 800,
        )
        for name in dsl["components"]
    ]  # fmt: skip
    return job, tasks


@contextmanager
def filled_server(
    engine: str, fill: Callable[[Path, dict[str, Any]], None]
) -> Iterator[Party | None]:
    """Start a server over a database that `fill` has filled; None, and said: there is no MySQL."""
    with ExitStack() as stack:
        login = stack.enter_context(_database()) if engine == "mysql" else {}
        if login is None:
            print("No MySQL answers: only SQLite was measured.", file=sys.stderr)
            yield None
            return
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedflow-bench-")))
        fill(home, login)
        party = _start(home, login)
        stack.callback(party.close)
        party.wait_ready()
        yield party


def _start(home: Path, login: dict[str, Any]) -> Party:
    """Start a standalone server on the store."""
    for name in [name for name in os.environ if name.startswith("FEDFLOW__DATABASE__")]:
        del os.environ[name]
    if login:
        settings = {
            "ENGINE": "mysql", "HOST": login["host"], "PORT": login["port"], "USER": login["user"],
            "PASSWD": f'"{login["password"]}"', "NAME": login["database"],
        }  # fmt: skip
        os.environ |= {f"FEDFLOW__DATABASE__{k}": str(v) for k, v in settings.items()}
    http, grpc = free_ports(2)
    return Party("server", home=home, port=http, arguments=["--grpc", f"127.0.0.1:{grpc}"])


@contextmanager
def _database() -> Iterator[dict[str, Any] | None]:
    """Give the login of a new database, dropped at the end; None if no server answers."""
    parts = urlsplit(os.environ.get("FEDFLOW_TEST_MYSQL", "mysql://root@127.0.0.1:3306/"))
    login = {
        "host": parts.hostname or "127.0.0.1", "port": parts.port or 3306,
        "user": unquote(parts.username or "root"), "password": unquote(parts.password or ""),
    }  # fmt: skip
    try:
        pymysql.connect(**login, connect_timeout=3).close()
    except pymysql.err.OperationalError:
        yield None
        return
    name = f"fedflow_bench_{secrets.token_hex(5)}"
    try:
        yield {**login, "database": name}
    finally:
        with pymysql.connect(**login) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


if __name__ == "__main__":
    main()
