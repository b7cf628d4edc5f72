"""What the board costs: pages in a browser, and a server whose pages are open.

    .venv/bin/python benchmarks/board.py [--runs 7] [--jobs 10000] [--json]

A standalone server on SQLite with 10,000 jobs; Chromium (FEDFLOW_TEST_BROWSER, or on the PATH)
without a window. A first view has an empty cache; its bytes are what came over the wire. Open pages
are pollers in a process of their own, which ask for what the page of a running job asks for, as
often, and keep the tags that a browser keeps.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests
from figures import Figure, Machine, arguments, show
from parties import Party, chain, wait_for
from playwright.sync_api import Browser, Page, sync_playwright
from queries import _chain_s, _fill, _start

from fedflow.store.connect import open_sqlite

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.board import seeds
from tests.board.component_seeds import evaluation, losses
from tests.board.places import WIDE, browser_program

COMPONENTS = 300
COMPARED = 5
VIEWERS = 20
LOOK_S = 20.0
KIB = 1024.0
LIVE = re.compile(r'data-live[^>]*?hx-get="([^"]+)"[^>]*?hx-trigger="every (\d+)s"')


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=10_000)
    options = parser.parse_args()
    machine = Machine()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedflow-bench-")))
        _fill(home, {}, options.jobs)
        compared = _put_compared(home)
        party = _start(home, {})
        stack.callback(party.close)
        party.wait_ready()
        browser = stack.enter_context(_browser())
        done = party.client.submit(*chain(10)).job_id
        wait_for(lambda: party.client.job(done).is_final, what=done, pause_s=0.05)
        wide = party.client.submit(*_wide()).job_id
        wait_for(lambda: party.client.job(wide).is_final, what=wide, pause_s=0.2)
        figures = [
            *_first_view(browser, party, done, runs=options.runs),
            *_drawing(browser, party, wide, runs=options.runs),
            _list(browser, party, runs=options.runs),
            _compare(party, compared, runs=options.runs),
            *_open_pages(party),
            *_scheduling(party),
        ]
    show(f"Board, {options.jobs} jobs", figures, as_json=options.json, machine=machine)


# --- pages in a browser ---------------------------------------------------------------------------


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=browser_program(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


def _first_view(browser: Browser, party: Party, job_id: str, *, runs: int) -> list[Figure]:
    """Return how long the page of a job takes with an empty cache, graph drawn, and its bytes."""
    took, size = [], []
    for _ in range(runs):
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
        page = context.new_page()
        bytes_: list[float] = []
        wire = context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.loadingFinished", lambda e, to=bytes_: to.append(e["encodedDataLength"]))
        began_s = time.perf_counter()
        page.goto(f"{party.client.address}/board/jobs/{job_id}")
        _wait_drawn(page)
        took.append(time.perf_counter() - began_s)
        page.wait_for_load_state("networkidle")
        size.append(sum(bytes_) / KIB)
        context.close()
    return [
        Figure(what="first view of a job, graph drawn", unit="s", values=took, budget=1.0),
        Figure(what="... transferred", unit="KiB", values=size, budget=300.0),
    ]


def _wait_drawn(page: Page) -> None:
    """Wait until the page has drawn its graph: it notes that as a measure."""
    while not page.evaluate("performance.getEntriesByName('ff-dag').length"):
        page.wait_for_timeout(5)


def _drawing(browser: Browser, party: Party, job_id: str, *, runs: int) -> list[Figure]:
    """Return how long the graph of 300 components takes to draw, and its page to be there."""
    drawn, took = [], []
    for _ in range(runs):
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
        page = context.new_page()
        began_s = time.perf_counter()
        page.goto(f"{party.client.address}/board/jobs/{job_id}")
        _wait_drawn(page)
        took.append(time.perf_counter() - began_s)
        drawn.append(page.evaluate("performance.getEntriesByName('ff-dag')[0].duration"))
        context.close()
    what = f"graph of {COMPONENTS} components"
    return [
        Figure(what=f"{what}, drawn", unit="ms", values=drawn, budget=500.0),
        Figure(what=f"{what}, first view of its page", unit="s", values=took),
    ]


def _list(browser: Browser, party: Party, *, runs: int) -> Figure:
    """Return how long the list of all jobs takes, until it is loaded."""
    took = []
    context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
    page = context.new_page()
    for _ in range(runs):
        began_s = time.perf_counter()
        page.goto(f"{party.client.address}/board/jobs")
        took.append(time.perf_counter() - began_s)
    context.close()
    return Figure(what="list of jobs", unit="s", values=took)


def _compare(party: Party, path: str, *, runs: int) -> Figure:
    """Return how long the page that compares five jobs takes, over HTTP."""
    took = []
    for _ in range(runs):
        began_s = time.perf_counter()
        requests.get(party.client.address + path, timeout=60).raise_for_status()
        took.append(time.perf_counter() - began_s)
    what = f"compare {COMPARED} jobs of {COMPONENTS} components"
    return Figure(what=what, unit="s", values=took, budget=1.0)


def _put_compared(home: Path) -> str:
    """Put jobs of which a third of the components trained a model and a third evaluated one;
    return the path that compares them.
    """
    store = open_sqlite(home / "fedflow.sqlite")
    modules = ("HeteroLR", "Evaluation", "Empty")
    components = {f"c_{i}": (modules[i % 3], [f"c_{i - 1}"][: i % 3]) for i in range(COMPONENTS)}
    made = []
    for number in range(COMPARED):
        job = seeds.job(number, dsl=seeds.dsl(components))
        tasks = [seeds.task(job, name, module) for name, (module, _) in components.items()]
        seeds.put(store, job, *tasks)
        for task in tasks:
            if task.module == "HeteroLR":
                seeds.put_metrics(store, task, losses())
            elif task.module == "Evaluation":
                seeds.put_metrics(store, task, *evaluation(2.0 + number / 10))
        made.append(f"job={job.key.job_id}")
    store.close()
    return f"/board/compare?{'&'.join(made)}"


# --- a server whose pages are open ----------------------------------------------------------------


def _open_pages(party: Party) -> list[Figure]:
    """Return the server's CPU per open page of a running job that does not change, and the same
    of one that changes all the time, percent of a core.
    """
    still = party.client.submit(*chain(10, sleep_s=4 * LOOK_S)).job_id
    wait_for(lambda: party.client.job(still).status == "running", what=still, pause_s=0.05)
    rest = _cpu_share(party)
    with _viewers(party, still):
        beside = _cpu_share(party)
    party.client.stop(still)
    share = 100 * max(0.0, beside - rest) / VIEWERS
    return [
        Figure(
            what="open page of a running job, CPU", unit="% of a core", values=[share], budget=1.0
        )
    ]


def _scheduling(party: Party) -> list[Figure]:
    """Return how long a chain of ten empty tasks takes alone, and beside 20 open pages of it."""
    running = party.client.submit(*chain(10, sleep_s=600)).job_id
    wait_for(lambda: party.client.job(running).status == "running", what=running, pause_s=0.05)
    alone, beside = [], []
    for _ in range(5):
        alone.append(_chain_s(party))
        with _viewers(party, running):
            beside.append(_chain_s(party))
    party.client.stop(running)
    ratio = statistics.median(beside) / statistics.median(alone)
    return [
        Figure(what="chain of ten, alone", unit="s", values=alone),
        Figure(what=f"... beside {VIEWERS} open pages", unit="s", values=beside),
        Figure(what="... ratio", unit="", values=[ratio]),
    ]


_VIEWER = """
import json, sys, threading, time
import requests
address, asks, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
def look(number):
    tags = {}
    time.sleep(2.0 * number / count)
    with requests.Session() as session:
        while True:
            for path, _ in asks:
                given = {"HX-Request": "true", "If-None-Match": tags.get(path, "")}
                answer = session.get(address + path, headers=given, timeout=60)
                answer.content
                tags[path] = answer.headers.get("ETag", "")
            time.sleep(2.0)
for number in range(count):
    threading.Thread(target=look, args=(number,), daemon=True).start()
print("looking", flush=True)
sys.stdin.read()
"""


@contextmanager
def _viewers(party: Party, job_id: str) -> Iterator[None]:
    """Let 20 viewers in a process of their own have the page of a job open."""
    page = requests.get(f"{party.client.address}/board/jobs/{job_id}", timeout=30).text
    asks = [(path.replace("&amp;", "&"), int(every)) for path, every in LIVE.findall(page)]
    if not asks:
        raise RuntimeError("the page of a running job asks for nothing")
    words = [party.client.address, json.dumps(asks), str(VIEWERS)]
    with subprocess.Popen(
        [sys.executable, "-c", _VIEWER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as viewers:
        assert viewers.stdout is not None
        viewers.stdout.readline()
        time.sleep(2.0)
        try:
            yield
        finally:
            viewers.kill()


def _cpu_share(party: Party) -> float:
    """Return which share of a core the server's own process uses."""
    began_s, before_s = time.perf_counter(), _cpu_s(party)
    time.sleep(LOOK_S)
    return (_cpu_s(party) - before_s) / (time.perf_counter() - began_s)


def _cpu_s(party: Party) -> float:
    fields = Path(f"/proc/{party.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wide() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a job of 300 empty components: thirty rows of ten, each of them after two others."""
    _, conf = chain(1)
    components: dict[str, Any] = {}
    for number in range(COMPONENTS):
        row, column = divmod(number, 10)
        before = {column, (column + 1) % 10} if row else set()
        inputs = [f"empty_{10 * (row - 1) + up}.data" for up in sorted(before)]
        components[f"empty_{number}"] = {
            "module": "Empty",
            **({"input": {"data": {"data": inputs}}} if inputs else {}),
            "output": {"data": ["data"]},
        }
    return {"components": components}, conf


if __name__ == "__main__":
    main()
