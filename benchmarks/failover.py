"""How long a party with two servers has no leader: one is killed, stands still, is drained, stops.

    .venv/bin/python benchmarks/failover.py [--rounds 5] [--json]

Two servers of the guest on MySQL (at FEDFLOW_TEST_MYSQL, or 127.0.0.1:3306), one of the host; real
processes, mutual TLS, loopback.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from figures import Figure, Machine, arguments, show

sys.path.insert(0, str(Path(__file__).parents[1]))  # the servers of the tests

from tests.e2e.jobs import empty_job
from tests.e2e.servers import Party
from tests.e2e.test_several_servers import Trio, own, trio

BUDGET_S = 15.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    machine = Machine()
    times: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder,
        trio(Path(folder)) as three,
    ):
        for _ in range(options.rounds):
            for what, leave, again in (
                ("leader killed", Party.kill, _start),
                ("leader stands still", _freeze, _thaw),
                ("leader drained", lambda p: p.client.servers.drain(), _restart),
                ("leader stopped (SIGTERM)", Party.stop, _start),
            ):
                lead_s, job_s = _measure(three, leave, again)
                times.setdefault(f"{what}: another leads after", []).append(lead_s)
                times.setdefault(f"{what}: a job submitted then has ended after", []).append(job_s)
    figures = [
        Figure(what=what, unit="s", values=values, budget=BUDGET_S if "leads" in what else None)
        for what, values in times.items()
    ]
    worst = ", ".join(f"{f.what.partition(':')[0]} {max(f.values):.1f} s" for f in figures[::2])
    note = f"Worst until another leads: {worst}."
    show("Two servers of one party", figures, as_json=options.json, machine=machine, note=note)


def _measure(
    three: Trio, leave: Callable[[Party], object], again: Callable[[Party], object]
) -> tuple[float, float]:
    """Return the seconds until the other server leads, and until a small job has ended there."""
    leader, follower = three.leader(), three.follower()
    began_s = time.monotonic()
    leave(leader)
    while not own(follower).leads:
        time.sleep(0.02)
    lead_s = time.monotonic() - began_s
    job_id = follower.client.submit(*empty_job({})).job_id
    if three.ends(job_id, asked=follower) != "success":
        raise RuntimeError(f"job {job_id} failed")
    job_s = time.monotonic() - began_s
    again(leader)
    return lead_s, job_s


def _start(party: Party) -> None:
    party.start().wait_ready()


def _restart(party: Party) -> None:
    party.stop()
    _start(party)


def _freeze(party: Party) -> None:
    assert party.process is not None
    party.process.send_signal(signal.SIGSTOP)


def _thaw(party: Party) -> None:
    assert party.process is not None
    party.process.send_signal(signal.SIGCONT)
    while own(party).leads:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
