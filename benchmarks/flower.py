"""Flower apps as jobs: round overhead, and a job of ten rounds from submit to result.

    .venv/bin/python benchmarks/flower.py [--runs 5] [--python .flower/bin/python]

The app is in the manner of Flower's `quickstart-numpy`: a model of few numbers, FedAvg, training
and evaluation, and no work to speak of. Two ClientApps, at guest and host, and the ServerApp at the
arbiter, who is on the host's server. Servers have TLS. `--python` is the interpreter of the
provider, which bin/flower makes. The time of a round is what its ServerApp sees, from the
second round on. Also measured: what imports and the check of parameters cost.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from figures import Figure, Machine, arguments, show
from parties import Parties, two_parties

from fedflow.cli.demo_servers import GUEST, HOST
from fedflow.domain.site import Site

ROOT = Path(__file__).parent.parent
ROUNDS = 10
ARBITER = Site.from_key(f"arbiter-{HOST}")
MANIFEST = """
name = "flower"
version = "1.0"
components = "offered:COMPONENTS"
python = "{python}"
"""
PYPROJECT = """
[project]
name = "quick"
version = "1.0"
[tool.flwr.app.components]
serverapp = "quick.server_app:app"
clientapp = "quick.client_app:app"
[tool.flwr.app.config]
num-server-rounds = 10
"""
SERVER_APP = """
import time
import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


def now(server_round, arrays):
    return MetricRecord({"at": time.time()})


@app.main()
def main(grid, context):
    FedAvg().start(
        grid=grid,
        initial_arrays=ArrayRecord([np.ones((1, 1)), np.ones(10)]),
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=now,
    )
"""
CLIENT_APP = """
import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg, context):
    model = [part + 0.1 for part in msg.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"train_loss": 0.1, "num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(model), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg, context):
    metrics = MetricRecord({"eval_loss": 0.1, "num-examples": 1})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
"""


def register(parties: Parties, python: Path) -> None:
    """Give both servers a provider with the app."""
    for party in parties.all:
        folder = party.home / "providers" / "flower"
        package = folder / "projects" / "quick" / "quick"
        package.mkdir(parents=True)
        (folder / "provider.toml").write_text(MANIFEST.format(python=python))
        offered = ROOT / "examples" / "flower" / "offered.py"
        (folder / "offered.py").write_text(offered.read_text())
        (package.parent / "pyproject.toml").write_text(PYPROJECT)
        (package / "__init__.py").write_text("")
        (package / "server_app.py").write_text(SERVER_APP)
        (package / "client_app.py").write_text(CLIENT_APP)
        party.client.providers.register(str(folder))


def job(rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of the app alone."""
    step = {"module": "FlowerApp", "output": {"model": ["model"]}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST},
        "role": {"guest": [GUEST], "host": [HOST], "arbiter": [HOST]},
        "component_parameters": {
            "common": {"flower_0": {"app": "quick", "run_config": {"num-server-rounds": rounds}}}
        },
    }
    return {"components": {"flower_0": step}}, conf


def round_ms(parties: Parties, job_id: str) -> list[float]:
    """Return the milliseconds of each round but the first, as the ServerApp saw them."""
    metrics = parties.host.client.metrics(job_id, "flower_0", site=ARBITER)
    (found,) = (metric for metric in metrics if metric.name == "at")
    times = [value for _, value in sorted(found.points)]
    return [1000 * (after - before) for before, after in pairwise(times[1:])]


def imports_ms(python: Path, modules: str) -> float:
    """Return how long an interpreter takes for imports, the best of three."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([python, "-c", f"import {modules}"], check=True)
        taken.append(1000 * (time.perf_counter() - began))
    return min(taken)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--python", type=Path, default=ROOT / ".flower" / "bin" / "python")
    chosen = parser.parse_args()
    python = chosen.python.absolute()
    worker, apps = "fedflow.worker.run", "flwr.serverapp, flwr.clientapp"
    parts = [
        Figure(what="imports of a worker", unit="ms", values=[imports_ms(python, worker)]),
        Figure(
            what="imports of a worker with flwr",
            unit="ms",
            values=[imports_ms(python, f"{worker}, {apps}")],
        ),
        Figure(
            what="imports of a check of parameters",
            unit="ms",
            values=[imports_ms(python, "fedflow.worker.provider, fedflow.flower.component")],
        ),
    ]
    machine = Machine()
    with two_parties() as parties:
        register(parties, python)
        seconds, rounds, first = [], [], []
        for run in range(chosen.runs + 1):
            parties.settle()
            began = time.perf_counter()
            job_id = parties.guest.client.submit(*job(ROUNDS)).job_id
            submitted = time.perf_counter()
            parties.wait(job_id, pause_s=0.01)
            taken = time.perf_counter() - began
            if run == 0:
                first.append(taken)  # parameters are checked once, and files are read first
                continue
            seconds.append(taken)
            rounds.append(statistics.median(round_ms(parties, job_id)))
            print(f"submit {submitted - began:.2f} s, job {taken:.2f} s, round {rounds[-1]:.1f} ms")
    figures = [
        Figure(what="round after the first", unit="ms", values=rounds, budget=25.0),
        Figure(what="job of 10 rounds, submit to result", unit="s", values=seconds, budget=2.0),
        Figure(what="the first such job of a server", unit="s", values=first),
        *parts,
    ]
    show("Flower apps", figures, as_json=chosen.json, machine=machine)


if __name__ == "__main__":
    main()
