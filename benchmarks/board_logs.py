"""What the board's page of a 100 MB log costs, over HTTP: opening it, reading it, watching it.

    .venv/bin/python benchmarks/board_logs.py [--mb 100] [--runs 5] [--watch 30] [--json]

Each run opens the log of a job that the server has not looked at before. Then twenty pages watch a
log that has been silent for a while, as browsers do: how much of a core the server uses more.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import requests
from figures import Figure, Machine, arguments, show
from parties import Party, chain

from fedflow.app.protocol.folders import Folders
from fedflow.base.ids import PartyId
from fedflow.cli.demo_servers import free_ports
from fedflow.domain.records import JobKey, JobRecord
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus
from fedflow.store.connect import open_sqlite

GUEST = Site(Role.GUEST, PartyId("9999"))
OPEN_MS = 500.0
PAGES = 20
PAUSE_S, SILENT_S, SILENT_AFTER = 2.0, 5.0, 5  #: as in static/log.js
SETTLE_S = 40.0
CORE_PERCENT = 1.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--watch", type=float, default=30.0, help="seconds, twice")
    options = parser.parse_args()
    machine = Machine()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedflow-bench-")))
        jobs = [_job(number) for number in range(options.runs)]
        lines = max(_write(home, job.key, options.mb) for job in jobs)
        store = open_sqlite(home / "fedflow.sqlite")
        with store.transaction() as tx:
            for job in jobs:
                tx.jobs.add(job)
        store.close()
        http, grpc = free_ports(2)
        party = Party("server", home=home, port=http, arguments=["--grpc", f"127.0.0.1:{grpc}"])
        stack.callback(party.close)
        party.wait_ready()
        session = stack.enter_context(requests.Session())
        session.get(f"{party.client.address}/board/jobs", timeout=60)
        urls = [_url(party, job.key) for job in jobs]
        figures = _look(session, urls, lines)
        figures.append(_watch(party, urls[0], options.watch))
        title = f"Page of a log of {options.mb} MB, {lines:,} lines"
        show(title, figures, as_json=options.json, machine=machine)


def _look(session: requests.Session, urls: list[str], lines: int) -> list[Figure]:
    """Return how long looking at logs takes that nobody looked at before, milliseconds."""

    def each(what: str, ask: Callable[[str], Any], budget: float | None = None) -> Figure:
        values = []
        for url in urls:
            began_s = time.perf_counter()
            ask(url)
            values.append(1000 * (time.perf_counter() - began_s))
        return Figure(what=what, unit="ms", values=values, budget=budget)

    def get(url: str, path: str = "") -> requests.Response:
        answer = session.get(url + path, timeout=60, headers={"X-Requested-With": "board"})
        answer.raise_for_status()
        return answer

    def search(url: str, query: str) -> None:
        cursor, is_done = "", False
        while not is_done:
            found = get(url, f"/search?{query}&cursor={cursor}").json()
            cursor, is_done = found["cursor"], found["done"]

    def levels(url: str) -> None:
        while get(url, "/levels").json()["levels"] is None:
            pass

    def opened(url: str) -> None:
        if f"of {lines:,}" not in get(url).text:
            raise RuntimeError("the page does not tell how many lines there are")

    return [
        each("open the page: its end, and how many lines", opened, OPEN_MS),
        each("open it again", opened),
        each("lines for the viewer, the end", lambda url: get(url, "/lines?count=200")),
        each("the middle", lambda url: get(url, f"/lines?begin={lines // 2}&count=200")),
        each("how many records of each level there are", levels),
        each("the first 500 lines of one level", lambda url: get(url, "/search?level=WARNING")),
        each("search all of it for what is not there", lambda url: search(url, "q=no+such+thing")),
        each("search all of it for a level it has not", lambda url: search(url, "level=ERROR")),
    ]


def _watch(party: Party, url: str, seconds: float) -> Figure:
    """Return how much of a core twenty pages cost that ask every two seconds, percent."""
    alone = _cpu_percent(party, seconds)
    stop = threading.Event()
    watchers = [
        threading.Thread(target=_watcher, args=(url, stop, n * PAUSE_S / PAGES))
        for n in range(PAGES)
    ]
    for watcher in watchers:
        watcher.start()
    stop.wait(SETTLE_S)
    beside = _cpu_percent(party, seconds)
    stop.set()
    for watcher in watchers:
        watcher.join()
    what = f"{PAGES} pages that watch a silent log: of a core"
    return Figure(what=what, unit="%", values=[max(0.0, beside - alone)], budget=CORE_PERCENT)


def _watcher(url: str, stop: threading.Event, delay_s: float) -> None:
    stop.wait(delay_s)
    with requests.Session() as session:
        headers = {"X-Requested-With": "board"}
        polls = 0
        while not stop.wait(min(SILENT_S, PAUSE_S + 0.5 * max(0, polls - SILENT_AFTER))):
            polls += 1
            answer = session.get(f"{url}/lines?begin=1&count=1", headers=headers, timeout=60)
            if answer.status_code == 200:
                headers["If-None-Match"] = answer.headers["ETag"]


def _cpu_percent(party: Party, seconds: float) -> float:
    """Return how much of a core the server's own process uses for a while."""
    server = psutil.Process(party.process.pid)
    before, began_s = server.cpu_times(), time.perf_counter()
    time.sleep(seconds)
    after = server.cpu_times()
    used_s = after.user + after.system - before.user - before.system
    return 100 * used_s / (time.perf_counter() - began_s)


def _job(number: int) -> JobRecord:
    dsl, conf = chain(2)
    at_ms = 1_793_000_000_000 + number
    return JobRecord(
        key=JobKey(job_id=f"20261101{number:012d}0", site=GUEST), initiator=GUEST,
        status=JobStatus.SUCCESS, epoch=0, dsl=dsl, conf=conf, roles={"guest": ["9999"]}, cores=4,
        created_ms=at_ms, updated_ms=at_ms, progress=100, started_ms=at_ms, ended_ms=at_ms + 900,
    )  # fmt: skip


def _write(home: Path, key: JobKey, mb: int) -> int:
    """Write a site's log and return how many lines it has."""
    rows = [
        f"[{'WARNING' if n % 50 == 0 else 'INFO'}] [2026-11-22 06:{n // 60 % 60:02d}:{n % 60:02d},"
        f"123] [4711:139872] - [fit.step] [line:{n % 400}]: iteration {n}, loss 0.69{n:06d}\n"
        for n in range(5000)
    ]
    block = "".join(rows).encode()
    repeats = -(-mb * 1_000_000 // len(block))
    folder = Folders(home).party_logs(key)
    folder.mkdir(parents=True)
    with (folder / "INFO.log").open("wb") as file:
        for _ in range(repeats):
            file.write(block)
    return len(rows) * repeats


def _url(party: Party, key: JobKey) -> str:
    site = key.site
    return f"{party.client.address}/board/jobs/{key.job_id}/{site.role.value}/{site.party_id}/logs"


if __name__ == "__main__":
    main()
