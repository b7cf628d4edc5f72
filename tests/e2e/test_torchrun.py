"""Unmodified torchrun over a fedflow server: agents die, come back and come anew; so does the
server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.servers import ROOT, Party, standalone, wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed (extra nn)"),
]

WAIT_S = 90.0
CONF = "last_call_timeout=1,keep_alive_interval=0.5,keep_alive_max_attempt=4,join_timeout=90"


@dataclass
class Training:
    """A run of torchrun with agents of several names."""

    party: Party
    folder: Path
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start an agent."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.agents[name] = subprocess.Popen(
                [
                    sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=fedflow",
                    f"--rdzv-endpoint=127.0.0.1:{self.party.place.http_port}", "--rdzv-id=run",
                    "--nnodes=1:3", "--nproc-per-node=1", "--max-restarts=9",
                    "--local-addr=127.0.0.1", f"--rdzv-conf={CONF}",
                    str(ROOT / "tests/e2e/torchrun_training.py"), str(self.folder),
                ],
                env={**os.environ, "MEMBER": name, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """kill -9 of an agent and its worker, as when a machine is lost."""
        agent = self.agents.pop(name)
        for process in [psutil.Process(agent.pid), *_children(agent.pid)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        agent.wait(10)

    def told(self) -> list[dict[str, Any]]:
        """Return what workers have said."""
        path = self.folder / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait(self, *names: str) -> int:
        """Wait until these train together, in processes that have not done so before; return the
        step.
        """
        before, found = len(self.told()), 0

        def together() -> bool:
            nonlocal found
            for name, agent in self.agents.items():
                assert agent.poll() is None, f"{name} ended:\n{self.tail(name)}"
            steps: dict[int, set[str]] = {}
            for one in self.told()[before:]:
                if one["size"] == len(names):
                    steps.setdefault(one["step"], set()).add(one["name"])
            found = max((s for s, who in steps.items() if who == set(names)), default=0)
            return found > 0

        wait_for(together, f"a step of {', '.join(names)}", within_s=WAIT_S)
        return found

    def finish(self) -> None:
        """Let the training end once it has learnt, and check that all agents end well."""
        wait_for(lambda: self.told()[-1]["loss"] < 0.01, "a small loss", within_s=WAIT_S)
        (self.folder / "stop").touch()
        for name, agent in self.agents.items():
            assert agent.wait(WAIT_S) == 0, self.tail(name)

    def tail(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-4_000:]

    def close(self) -> None:
        for name in list(self.agents):
            with suppress(psutil.NoSuchProcess):
                self.kill(name)


def _children(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    (tmp_path / "training").mkdir()
    with standalone(tmp_path / "home") as pair:
        one = Training(pair.guest, tmp_path / "training")
        try:
            yield one
        finally:
            one.close()


def one_of_each(told: list[dict[str, Any]]) -> None:
    """Check that no two workers of a step had one rank, and that ranks are those below the size."""
    rounds: dict[tuple[int, int], list[int]] = {}
    for one in told:
        assert one["rank"] < one["size"]
        rounds.setdefault((one["step"], one["size"]), []).append(one["rank"])
    assert all(len(ranks) <= size for (_, size), ranks in rounds.items())


def test_an_agent_that_is_killed_comes_back_while_the_server_is_restarted(
    training: Training,
) -> None:
    training.start("a")
    training.start("b")
    first = training.wait("a", "b")
    training.kill("b")
    training.start("b")
    training.party.restart(after_s=0.5)
    assert training.wait("a", "b") > first
    training.finish()
    one_of_each(training.told())


@pytest.mark.heavy
def test_three_agents_come_and_go_and_nothing_is_lost(training: Training) -> None:
    training.start("a")
    alone = training.wait("a")
    training.start("b")
    two = training.wait("a", "b")
    training.party.restart(after_s=5.0)
    training.start("c")
    three = training.wait("a", "b", "c")
    training.kill("a")  # it may have had rank 0 and the store
    left = training.wait("b", "c")
    training.party.kill()
    training.start("a")
    training.party.start().wait_ready()
    back = training.wait("a", "b", "c")
    assert alone < two < three < left < back
    training.finish()
    one_of_each(training.told())
