"""The main job: vertical logistic regression on the breast-cancer data, two parties, three roles.

    .venv/bin/python benchmarks/main_job.py [--runs 3] [--no-parts] [--json]

Two variants, with Paillier keys of 1024 bits: (a) 10 iterations over all rows at once; (b) 30
iterations in batches of 320 rows in stored order, without decoys. Tables were uploaded before. The
time runs from the submit to the job's end; CPU is that of both servers, both zygotes and all
executors. Memory is the highest sum seen while a further run is sampled: PSS is what the machine
has to hold, RSS counts a shared page once for every process that has it. The parts of hetero_lr are
the CPU seconds of the same training with all three roles in one process
(`hetero_lr_arithmetic.py`); what a component's time has beyond them is messages and waiting.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from figures import Figure, Machine, arguments, show
from parties import Parties, PeakMemory, two_parties

EXAMPLES = Path(__file__).parent.parent / "examples"
VARIANTS: dict[str, dict[str, Any]] = {
    "a: 10 full-batch epochs": {"max_iter": 10, "batch_size": -1},
    "b: 30 iterations, batch 320": {"max_iter": 30, "batch_size": 320},
}
BUDGETS = {"a": (4.0, 6.0, 350.0), "b": (10.0, 14.0, 350.0)}  #: wall s, CPU s, MiB
COMMON = {"shuffle": False, "masked_rate": 0, "early_stop": "diff", "tol": 0.0}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-parts", action="store_true", help="leave hetero_lr's parts out")
    options = parser.parse_args()
    for name, learner in VARIANTS.items():
        machine = Machine()
        with two_parties() as parties:
            upload(parties)
            figures = measure(parties, *job({**COMMON, **learner}), runs=options.runs, name=name)
        note = "" if options.no_parts else parts(learner)
        show(f"Main job {name}", figures, as_json=options.json, machine=machine, note=note)


def job(learner: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the example's DSL and conf with these parameters of hetero_lr."""
    dsl = json.loads((EXAMPLES / "hetero_lr" / "dsl.json").read_text(encoding="utf-8"))
    conf = json.loads((EXAMPLES / "hetero_lr" / "conf.json").read_text(encoding="utf-8"))
    conf = copy.deepcopy(conf)
    parameters = conf["component_parameters"]["common"]["hetero_lr_0"]
    parameters.update(learner)
    parameters["encrypt_param"]["key_length"] = 1024
    return dsl, conf


def upload(parties: Parties) -> None:
    """Upload each party's data to its own server."""
    for party, role in ((parties.guest, "guest"), (parties.host, "host")):
        table = f"breast_hetero_{role}"
        sent = party.client.upload(
            EXAMPLES / "data" / f"{table}.csv", namespace="experiment", table_name=table, drop=True
        )
        view = party.client.wait(sent.job_id, timeout_s=60)
        if not view.succeeded:
            raise RuntimeError(f"the upload of {table} ended: {view.reason}")


def measure(
    parties: Parties, dsl: dict[str, Any], conf: dict[str, Any], *, runs: int, name: str
) -> list[Figure]:
    """Return the figures of one variant."""
    wall_s, cpu_s, servers_s, executors_s = [], [], [], []
    components: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        parties.settle()
        before, began_ms = parties.cpu(), time.time() * 1000
        view = parties.run(dsl, conf)
        parties.settle()
        used = parties.cpu() - before
        wall_s.append(((view.ended_ms or 0) - began_ms) / 1000)
        cpu_s.append(used.total)
        servers_s.append(used.servers + used.zygotes)
        executors_s.append(used.executors)
        for component in view.components:
            tasks = [t for t in view.tasks if t.component == component]
            first = min(t.started_ms or 0 for t in tasks)
            last = max(t.ended_ms or 0 for t in tasks)
            components[component].append((last - first) / 1000)
    with PeakMemory(parties) as sampler:
        parties.run(dsl, conf)
    wall, cpu, mib = BUDGETS[name[0]]
    peak = sampler.peak
    return [
        Figure(what="wall", unit="s", values=wall_s, budget=wall),
        Figure(what="CPU, all processes", unit="s", values=cpu_s, budget=cpu),
        Figure(what="... of it servers and zygotes", unit="s", values=servers_s),
        Figure(what="... of it executors", unit="s", values=executors_s),
        Figure(what="peak memory, sum of PSS", unit="MiB", values=[peak.pss], budget=mib),
        Figure(what="peak memory, sum of RSS", unit="MiB", values=[peak.rss], budget=mib),
        *(Figure(what=f"time of {c}", unit="s", values=v) for c, v in components.items()),
    ]


def parts(learner: dict[str, Any]) -> str:
    """Return where the CPU time of the training goes, as the script of the arithmetic prints it."""
    rows = learner["batch_size"] if learner["batch_size"] > 0 else 569
    script = Path(__file__).parent / "hetero_lr_arithmetic.py"
    command = [
        sys.executable, str(script), "--bits", "1024",
        "--iterations", str(learner["max_iter"]), "--batch-size", str(rows),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"hetero_lr by parts, all roles in one process, CPU s:\n\n```\n{done.stdout}```\n"


if __name__ == "__main__":
    main()
