"""A secure sum beside the plain one: members in one process, the aggregator in another.

    python benchmarks/secure_sum.py [--numbers N] [--members N] [--lost N] [--ring 32|64] [--json]
    python benchmarks/secure_sum.py --model      # 25,000,000 numbers of 20 members, 100 MB each

The lost members send their keys and shares, and no input: their masks are removed by recovery. All
members compute one after the other here, so `wall` is that of one machine with the work of all.
`one member` is what each would need on a machine of its own. Vectors go through a pipe: floats of
32 bits in the plain sum, integers of the ring in the secure one.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np
from figures import Figure, Machine, arguments, show

from fedflow.components.secure_aggregation.aggregator import SecureSum
from fedflow.components.secure_aggregation.fixed_point import decode, encode
from fedflow.components.secure_aggregation.member import SecureMember
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage, choose_plan

T = TypeVar("T")
MODEL_BUDGETS = {"plain sum": 10.0, "secure sum": 40.0, "aggregator: peak": 450.0}
PIECE = 1 << 20  #: bytes of a vector that go through the pipe at a time


class Watch:
    """Seconds of the wall and of the processor, by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.cpu_s = 0.0

    def __call__(self, name: str, act: Callable[..., T], *args: Any, **more: Any) -> T:
        begun, cpu = time.perf_counter(), time.process_time()
        try:
            return act(*args, **more)
        finally:
            self.seconds[name] += time.perf_counter() - begun
            self.cpu_s += time.process_time() - cpu


def send(pipe: Connection, value: dict[str, Any]) -> None:
    """Send a message; its vector goes as raw bytes."""
    vector = value.get("vector")
    pipe.send({**value, "vector": None if vector is None else (str(vector.dtype), vector.size)})
    if vector is not None:
        content = vector.data.cast("B")
        for at in range(0, len(content), PIECE):
            pipe.send_bytes(content[at : at + PIECE])


def receive(pipe: Connection) -> dict[str, Any]:
    """Return a message as it was sent."""
    value: dict[str, Any] = pipe.recv()
    if value["vector"] is None:
        del value["vector"]
        return value
    kind, size = value["vector"]
    vector = np.empty(size, kind)
    content = vector.data.cast("B")
    for at in range(0, len(content), PIECE):
        pipe.recv_bytes_into(content, at)
    return {**value, "vector": vector}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def aggregate(pipe: Connection, plan: SumPlan, lost: list[str], threads: int) -> None:
    """The aggregator's process: a plain sum, then a secure one."""
    watch = Watch()
    start_mib = peak_mib()
    pipe.send(None)
    total = receive(pipe)["vector"].astype(np.float64)
    for _ in plan.members[1 + len(lost) :]:
        vector = receive(pipe)["vector"]
        watch("plain", np.add, total, vector, out=total)
        del vector
    plain_mib, plain_cpu_s = peak_mib(), watch.cpu_s
    total = total[:1000].copy()
    pipe.send(None)
    aggregator = SecureSum(plan, threads=threads)
    for stage in plan.stages:
        for name in aggregator.due:
            if name in lost and stage in (SumStage.INPUTS, SumStage.UNMASKING):
                continue
            message = receive(pipe)
            watch(f"receive {stage.value}", aggregator.receive, name, message)
            del message
        pipe.send(watch(f"close {stage.value}", aggregator.close_stage))
    found = aggregator.sum()
    exact = float(np.abs(decode(found[:1000], plan) - total).max())
    pipe.send(
        {
            "seconds": dict(watch.seconds),
            "cpu_s": watch.cpu_s - plain_cpu_s,
            "start_mib": start_mib,
            "plain_mib": plain_mib,
            "peak_mib": peak_mib(),
            "difference": exact,
        }
    )


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("--numbers", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--lost", type=int, default=1)
    parser.add_argument("--ring", type=int, default=64, choices=(32, 64))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args()
    if given.model:
        given.numbers, given.members = 25_000_000, 20
    names = [f"host-{10_000 + i}" for i in range(given.members)]
    bits = 24 if given.ring == 64 else 20
    plan = choose_plan(
        names, given.numbers, session="benchmark", round=0, ring_bits=given.ring, fraction_bits=bits
    )
    lost = list(plan.members[: given.lost])
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=aggregate, args=(there, plan, lost, given.threads)
    )
    process.start()
    machine = Machine()
    found = run(here, plan, lost, threads=given.threads)
    process.join()
    note = (
        f"{plan.length:,} numbers, {len(plan.members)} members, {len(lost)} lost, ring"
        f" 2^{plan.ring_bits}, neighbours {plan.neighbours or 'all'}, {given.threads} threads"
    )
    budgets = MODEL_BUDGETS if given.model else {}
    figures = [
        Figure(what=name, unit=unit, values=[value], budget=budgets.get(name))
        for (name, unit), value in found.items()
    ]
    title = "Model of 100 MB" if given.model else "Sum in one process"
    show(title, figures, as_json=given.json, machine=machine, note=note)


def run(
    pipe: Connection, plan: SumPlan, lost: list[str], *, threads: int
) -> dict[tuple[str, str], float]:
    """The members: a plain sum, then a secure one. Return values by name and unit."""
    values = np.random.default_rng(1).normal(size=plan.length).astype(np.float32)
    pipe.recv()
    begun = time.perf_counter()
    for _ in plan.members[len(lost) :]:
        send(pipe, {"vector": values})
    pipe.recv()
    plain_s = time.perf_counter() - begun
    watch = Watch()
    begun = time.perf_counter()
    members = {name: SecureMember(plan, name, threads=threads) for name in plan.members}
    questions: dict[str, Any] = {}
    for stage in plan.stages:
        for name in questions or plan.members:
            if name in lost and stage in (SumStage.INPUTS, SumStage.UNMASKING):
                continue
            member, question = members[name], questions.get(name)
            match stage:
                case SumStage.KEYS:
                    message = watch("keys", member.keys)
                case SumStage.SHARES:
                    message = watch("shares", member.shares, question)
                case SumStage.INPUTS:
                    vector = watch("encode", encode, values, plan)
                    message = watch("mask", member.masked, question, vector)
                case _:
                    message = watch("unmask", member.unmask, question)
            send(pipe, message)
        questions = pipe.recv()
    wall_s = time.perf_counter() - begun
    found = pipe.recv()
    seconds = found["seconds"]
    count = len(plan.members) - len(lost)
    return {
        ("plain sum", "s"): plain_s,
        ("secure sum", "s"): wall_s,
        ("secure over plain", "x"): wall_s / plain_s,
        ("one member", "s"): sum(watch.seconds.values()) / count,
        ("one member: CPU", "s"): watch.cpu_s / count,
        ("of which encode", "s"): watch.seconds["encode"] / count,
        ("of which mask", "s"): watch.seconds["mask"] / count,
        ("aggregator", "s"): sum(v for k, v in seconds.items() if k != "plain"),
        ("aggregator: CPU", "s"): found["cpu_s"],
        ("of which add inputs", "s"): seconds["receive inputs"],
        ("of which remove masks", "s"): seconds["close unmasking"],
        ("aggregator: memory at its start", "MiB"): found["start_mib"],
        ("aggregator: peak of the plain sum", "MiB"): found["plain_mib"],
        ("aggregator: peak", "MiB"): found["peak_mib"],
        ("difference of 1,000 numbers", ""): found["difference"],
    }


if __name__ == "__main__":
    main()
