"""Rounds of HomoLR with ten hosts: what one costs beyond the local training, and a frozen member.

    .venv/bin/python benchmarks/horizontal.py [--hosts 10] [--rounds 30] [--frozen] [--json]
    .venv/bin/python benchmarks/horizontal.py --all      # one table of all budgets, some minutes

One standalone server, a process per party: a guest, the hosts, an arbiter. The rows of breast_homo
are cut into as many parts as there are members. Training is full batch, less than a millisecond of
a round. The time of a round is what the arbiter sees, from its start to the sum, without the first.

With `--frozen` the same job with elastic settings follows, in which one host is stopped (SIGSTOP)
in mid-training and goes on later. Printed: how long the round takes that it is missing from, beyond
the deadline; and in which round it takes part, of those that begin after it is back.

With `--all` the other benchmarks of horizontal training run too, each in a process of its own.
"""

from __future__ import annotations

import csv
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import requests
from figures import Figure, Machine, arguments, show

from fedflow.cli.demo_servers import demo_servers
from fedflow.client.client import Client
from fedflow.domain.site import Site

DATA = Path(__file__).parents[1] / "examples" / "data"
ARBITER = Site.from_key("arbiter-9000")
FROZEN = Site.from_key("host-10001")
DEADLINE_S = 3.0
AWAY_S = DEADLINE_S + 2
FROZEN_ROUNDS = 200  #: beyond those of the other job: the host is back before the last
OTHERS: dict[str, tuple[str, ...]] = {
    "flower.py": (),
    "party_sums.py": (),
    "secure_sum.py": ("--model",),
    "rendezvous.py": (),
    "exchange.py": (),
}  #: further benchmarks of horizontal training, with their arguments


def upload(client: Client, folder: Path, members: int) -> None:
    """Cut the rows of both parties into parts, and upload one for each member."""
    rows: list[list[str]] = []
    for party in ("guest", "host"):
        with (DATA / f"breast_homo_{party}.csv").open(encoding="utf-8") as file:
            header, *found = csv.reader(file)
            rows += found
    for number in range(members):
        path = folder / f"part_{number}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows[number::members]])
        job = client.upload(path, namespace="horizontal", table_name=f"part_{number}")
        client.wait(job.job_id)


def job(hosts: int, rounds: int, *, elastic: bool, batch_size: int) -> Any:
    """Return DSL and conf."""
    components = {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "DataTransform",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "homo_lr_0": {
            "module": "HomoLR",
            "input": {"data": {"train_data": ["data_transform_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    }
    tables = {
        str(n): {"reader_0": {"table": {"name": f"part_{n + 1}", "namespace": "horizontal"}}}
        for n in range(hosts)
    }
    own = {"reader_0": {"table": {"name": "part_0", "namespace": "horizontal"}}}
    conf: dict[str, Any] = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": "9999"},
        "role": {
            "guest": ["9999"],
            "host": [str(10000 + n) for n in range(hosts)],
            "arbiter": [ARBITER.party_id],
        },
        "component_parameters": {
            "common": {
                "data_transform_0": {"with_label": True, "output_format": "dense"},
                "homo_lr_0": {
                    "optimizer": "sgd",
                    "learning_rate": 0.15,
                    "alpha": 0.01,
                    "tol": 0,
                    "max_iter": rounds,
                    "batch_size": batch_size,
                    "init_param": {"init_method": "zeros"},
                },
            },
            "role": {"guest": {"0": own}, "host": tables},
        },
    }
    common: dict[str, Any] = {"task_cores": 1}
    if elastic:
        common["elastic"] = {"min_parties": 2, "round_deadline_s": DEADLINE_S, "last_call_s": 2}
    conf["job_parameters"] = {"common": common}
    return {"components": components}, conf


def seconds_of(client: Client, job_id: str) -> list[float]:
    """Return how long each round took, as the arbiter saw it."""
    metrics = client.metrics(job_id, "homo_lr_0", site=ARBITER)
    (found,) = (metric for metric in metrics if metric.name == "round_seconds")
    return [value for _, value in sorted(found.points)]


@contextmanager
def server() -> Iterator[Client]:
    """Start a server that hosts every party."""
    with tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder:
        with demo_servers(Path(folder), standalone=True) as servers:
            yield servers.guest.client


def freeze_a_host(client: Client, job_id: str) -> None:
    """Stop the process of one host once it is in the training, and let it go on later."""
    body = {
        "job_id": job_id,
        "component_name": "homo_lr_0",
        "role": FROZEN.role.value,
        "party_id": FROZEN.party_id,
    }
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s:
        found = requests.post(f"{client.address}/v1/job/task/query", json=body, timeout=10).json()
        pids = [one["f_run_pid"] for one in found.get("data") or [] if one.get("f_run_pid")]
        if pids:
            time.sleep(1.5)
            process = psutil.Process(pids[0])
            process.send_signal(signal.SIGSTOP)
            time.sleep(AWAY_S)
            with suppress(psutil.NoSuchProcess):  # the training ended, and its process with it
                process.send_signal(signal.SIGCONT)
            return
        time.sleep(0.05)
    raise TimeoutError("no process of a host in training")


def rounds_until_back(client: Client, job_id: str) -> int:
    """Return in which of the rounds that begin after the host is back it takes part, from 1."""
    lines = client.log_lines(job_id, "componentInfo", site=ARBITER, component="homo_lr_0")
    texts = [line.content for line in lines]
    back = next(i for i, text in enumerate(texts) if f"{FROZEN} is back" in text)
    rounds = [text for text in texts[back:] if " members with " in text]
    missed = len(list(itertools.takewhile(lambda text: f"{FROZEN} left out" in text, rounds)))
    assert missed < len(rounds), "the training ended without the host"
    return max(1, missed)  # one round was under way when it came


def frozen(client: Client, hosts: int, rounds: int) -> list[Figure]:
    """Return what a job shows in which a host stands still for a time."""
    found = job(hosts, rounds + FROZEN_ROUNDS, elastic=True, batch_size=-1)
    job_id = client.submit(*found).job_id
    freeze_a_host(client, job_id)
    client.wait(job_id)
    late_s = max(seconds_of(client, job_id)) - DEADLINE_S
    return [
        Figure(
            what="frozen host: the others go on after the deadline",
            unit="s",
            values=[late_s],
            budget=1.0,
        ),
        Figure(
            what="back again: takes part in the n-th round that begins",
            unit="",
            values=[rounds_until_back(client, job_id)],
            budget=1.0,
        ),
    ]


def others() -> list[Figure]:
    """Run the other benchmarks; return their figures."""
    figures = []
    for name, words in OTHERS.items():
        command = [sys.executable, str(Path(__file__).with_name(name)), *words, "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"{name} failed, see above", file=sys.stderr)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        for one in found["figures"]:
            kept = {key: one[key] for key in ("unit", "values", "budget", "at_least")}
            figures.append(Figure(what=f"{found['title']}: {one['what']}", **kept))
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--frozen", action="store_true", help="measure a frozen host, too")
    parser.add_argument("--all", action="store_true", help="all of horizontal training")
    options = parser.parse_args()
    machine = Machine()
    with server() as client, tempfile.TemporaryDirectory() as folder:
        upload(client, Path(folder), options.hosts + 1)
        found = job(options.hosts, options.rounds, elastic=False, batch_size=-1)
        job_id = client.submit(*found).job_id
        client.wait(job_id)
        rounds = [1000 * one for one in seconds_of(client, job_id)[1:]]
        figures = [
            Figure(
                what=f"round of HomoLR, {options.hosts} hosts, masked",
                unit="ms",
                values=rounds,
                budget=150.0,
            )
        ]
        if options.frozen or options.all:
            figures += frozen(client, options.hosts, options.rounds)
    if options.all:
        figures = [one for one in figures + others() if one.budget is not None]
    show("Horizontal training", figures, as_json=options.json, machine=machine)


if __name__ == "__main__":
    main()
