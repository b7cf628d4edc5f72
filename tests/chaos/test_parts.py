"""The parts of the chaos harness: what it misses is missed by every run."""

from __future__ import annotations

import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.checks import (
    Anomaly,
    _double_starts,
    _has_cause,
    is_explained,
    ran_at_once,
    tracebacks,
)
from tests.chaos.database import Database
from tests.chaos.faults import ALL, KINDS, plan, possible
from tests.chaos.links import CLEAR, Condition, Network
from tests.chaos.load import is_settled, make, sites_of
from tests.chaos.namespaces import NamespaceNetwork, permitted
from tests.chaos.parties import CLOCK
from tests.chaos.proxy import ProxyNetwork
from tests.chaos.report import to_json, to_text
from tests.chaos.run import Done, Options, Outcome
from tests.chaos.watch import Watch
from tests.e2e.servers import wait_for

PARTIES = ("9999", "10000")
HELD_S = 0.3  #: so long nothing may arrive over a cut link

# --- the plan -------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_faults_again() -> None:
    one, again = (list(islice(plan(7, kinds=ALL, parties=PARTIES), 100)) for _ in range(2))
    other = list(islice(plan(8, kinds=ALL, parties=PARTIES), 100))
    assert one == again
    assert one != other


def test_each_round_has_every_kind_as_often_as_it_should() -> None:
    length = sum(ALL.values())
    faults = list(islice(plan(1, kinds=ALL, parties=PARTIES), 2 * length))
    for one_round in (faults[:length], faults[length:]):
        assert Counter(fault.kind for fault in one_round) == ALL


def test_durations_lie_between_the_bounds_of_the_kind_and_of_the_plan() -> None:
    for fault in islice(plan(1, kinds=ALL, parties=PARTIES, longest_s=10), 500):
        kind = KINDS[fault.kind]
        assert kind.shortest_s <= fault.duration_s <= min(kind.longest_s, 10)
        assert fault.party != fault.other


def test_faults_of_a_database_need_one() -> None:
    here = possible(ALL, mysql=False, small_disks=False, second_server=False)
    missing = {"database_kill", "database_pause", "database_lost_by_one", "disk_full"}
    assert ALL.keys() - here.keys() == missing
    two = possible(ALL, mysql=True, small_disks=True, second_server=True)
    assert ALL.keys() - two.keys() == {"database_away", "database_put_back"}


# --- jobs -----------------------------------------------------------------------------------------


def test_a_job_is_settled_when_all_its_sites_show_the_same_end() -> None:
    sites = ("guest-9999", "host-10000")
    assert is_settled({"guest-9999": "failed", "host-10000": "failed"}, sites)
    assert not is_settled({"guest-9999": "failed", "host-10000": "success"}, sites)
    assert not is_settled({"guest-9999": "running", "host-10000": "running"}, sites)
    assert not is_settled({"guest-9999": "failed"}, sites)


def test_a_toy_job_has_one_host_and_the_others_have_all() -> None:
    others = ["10000", "10001"]
    _, toy = make("toy", initiator="9999", others=others, rng=Random(1))
    _, chain = make("chain", initiator="9999", others=others, rng=Random(1))
    assert len(sites_of(toy)) == 2
    assert sites_of(chain) == ("guest-9999", "host-10000", "host-10001")


# --- checks ---------------------------------------------------------------------------------------

STARTS = "[INFO] [2026] [{}:1] - [run._compute] [line:9]: empty (Empty) starts at guest 9999\n"
CHAIN = """\
2026-11-21 21:20:03,212 ERROR   fedflow.server.threads: scheduler
Traceback (most recent call last):
  File "/x/site-packages/pymysql/connections.py", line 6, in connect
    sock.connect()
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/fedflow/store/mysql.py", line 100, in fail
    raise error
fedflow.base.errors.store.StoreUnavailable: The store cannot be used.
2026-11-21 21:20:03,212 INFO    fedflow.server.threads: goes on
Traceback (most recent call last):
  File "/x/fedflow/app/core.py", line 7, in tick
    None.x
AttributeError: 'NoneType' object has no attribute 'x'
"""


def test_of_errors_that_follow_from_one_another_the_last_counts(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(CHAIN)
    assert list(tracebacks(log)) == [
        (
            "store/mysql.py:100",
            "fedflow.base.errors.store.StoreUnavailable: The store cannot be used.",
        ),
        ("app/core.py:7", "AttributeError: 'NoneType' object has no attribute 'x'"),
    ]


def test_an_error_is_explained_only_by_a_fault_of_its_party() -> None:
    error = "OSError: [Errno 28] No space left on device"
    assert is_explained(error, {"disk_full", "delay"})
    assert not is_explained(error, {"delay"})
    assert not is_explained("AttributeError: x", {"disk_full", "database_kill"})


@pytest.mark.parametrize("reason", [None, "", "{}", '{"code": "InternalError", "message": "no"}'])
def test_a_reason_must_name_a_cause(reason: str | None) -> None:
    assert not _has_cause(reason)
    assert _has_cause('{"code": "ExecutorDied", "message": "The process was killed."}')
    killed = '{"template": "{what} was killed.", "fields": {"what": "The process"}}'
    assert _has_cause(f'{{"code": "ExecutorDied", "message": {killed}}}')


def test_an_attempt_that_two_processes_ran_is_found_in_its_log(tmp_path: Path) -> None:
    once, twice = (tmp_path / f"logs/1/guest/9999/empty_{i}/0/INFO.log" for i in range(2))
    for log, pids in ((once, (5,)), (twice, (5, 6))):
        log.parent.mkdir(parents=True)
        log.write_text("".join(STARTS.format(pid) for pid in pids))
    party: Any = SimpleNamespace(id="9999", shared=tmp_path)
    assert ["empty_1" in one.where for one in _double_starts(party)] == [True]


def test_two_processes_that_run_one_task_at_once_are_seen(tmp_path: Path) -> None:
    job = tmp_path / "jobs" / "1"
    names = ("guest-9999-empty_0-0", "guest-9999-empty_0-1", "guest-9999-empty_0-2", "host-1-a-0")
    world: Any = SimpleNamespace(all=[SimpleNamespace(shared=tmp_path)], databases=[])
    watch = Watch(world)
    processes = []
    try:
        for name in names:
            (job / name).mkdir(parents=True)
            wait = [sys.executable, "-c", "input()"]
            processes.append(subprocess.Popen(wait, cwd=job / name, stdin=subprocess.PIPE))
        watch.start()
        wait_for(lambda: len(watch.pairs) == 3, "the three to be seen together")
    finally:
        watch.stop()
        for process in processes:
            process.kill()
            process.communicate()
    assert not list(ran_at_once(watch.pairs))
    for attempt in (0, 2):  # the second one was refused by the server
        log = tmp_path / f"logs/1/guest/9999/empty_0/{attempt}/INFO.log"
        log.parent.mkdir(parents=True)
        log.write_text(STARTS.format(processes[attempt].pid))
    (found,) = ran_at_once(watch.pairs)
    assert found.what == "two processes at once"


class _Sleeping(Database):
    """A database that only sleeps."""

    def __init__(self) -> None:
        self.process = None
        self.crashes = 0

    def start(self) -> None:
        self.process = subprocess.Popen(["sleep", "300"])


def test_a_database_that_crashes_is_started_again_and_one_that_was_killed_is_not() -> None:
    database = _Sleeping()
    database.start()
    try:
        assert database.process is not None
        database.process.kill()
        database.process.wait()
        database.revive()
        assert database.process.poll() is None
    finally:
        database.kill()
    database.revive()
    assert (database.process, database.crashes) == (None, 1)
    crashed = Outcome(options=Options(seed=1), database_crashes=1)
    assert "databases that crashed by themselves: 1" in to_text(crashed)


def test_a_report_tells_median_and_worst_of_each_fault_and_every_anomaly() -> None:
    one = next(plan(1, kinds={"reset": 1}, parties=PARTIES))
    times = ((1.0, 2.0), (3.0, 9.0), (2.0, None))
    faults = [
        Done(fault=one, began_s=9.0, ended_s=10.0, recovered_s=10 + recovered,
             settled_s=None if settled is None else 10 + settled)
        for recovered, settled in times
    ]  # fmt: skip
    outcome = Outcome(options=Options(seed=1), faults=faults)
    outcome.anomalies.append(Anomaly(what="lost job", where="1", detail="unknown"))
    (row,) = to_json(outcome)["recovery"]
    assert (row["times"], row["not_settled_in_time"]) == (3, 1)
    assert row["recovered_s"] == {"median": 2.0, "worst": 3.0}
    assert row["settled_s"] == {"median": 5.5, "worst": 9.0}
    assert "- lost job: 1: unknown" in to_text(outcome)


# --- networks -------------------------------------------------------------------------------------

ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print("listens", flush=True)
    while True:
        one = server.accept()[0]
        while data := one.recv(65536):
            one.sendall(data)
"""
CALL = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as one:
    print("connected", flush=True)
    for line in sys.stdin:
        one.sendall(line.encode())
        if not (answer := one.makefile().readline()):
            break
        print(answer, end="", flush=True)
"""


@pytest.fixture(params=["proxy", "netns"])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    if request.param == "netns" and not permitted():
        pytest.skip("network namespaces are not permitted here")
    kind = NamespaceNetwork if request.param == "netns" else ProxyNetwork
    made = kind(PARTIES, rng=Random(1))
    yield made
    made.close()


class Call:
    """A process at 9999 that is connected with an echo at 10000."""

    def __init__(self, network: Network) -> None:
        here, there = (network.address(party) for party in PARTIES)
        self.echo = _process(there.prefix, ECHO, there.grpc_host, str(there.grpc_port))
        assert self.echo.stdout is not None
        self.echo.stdout.readline()
        host, _, port = here.routes[PARTIES[1]].rpartition(":")
        self.caller = _process(here.prefix, CALL, host, port)
        assert self.caller.stdout is not None
        assert self.caller.stdin is not None
        assert self.caller.stdout.readline() == "connected\n"
        self._in, self._out = self.caller.stdin, self.caller.stdout

    def say(self, word: str) -> None:
        self._in.write(f"{word}\n")
        self._in.flush()

    def hear(self) -> str:
        return self._out.readline().strip()

    def is_quiet(self) -> bool:
        """Tell whether nothing comes back for a while."""
        return not select.select([self._out], [], [], HELD_S)[0]

    def end(self) -> None:
        for process in (self.caller, self.echo):
            process.kill()
            process.communicate()


@pytest.fixture
def call(network: Network) -> Iterator[Call]:
    made = Call(network)
    yield made
    made.end()


@pytest.mark.parametrize("way", [PARTIES, PARTIES[::-1]])
def test_a_cut_holds_one_direction_back_until_it_ends(
    network: Network, call: Call, way: tuple[str, str]
) -> None:
    call.say("before")
    assert call.hear() == "before"
    network.links.set(*way, Condition(cut=True))
    call.say("held")
    assert call.is_quiet()
    network.links.clear()
    assert call.hear() == "held"


def test_what_is_lost_arrives_all_the_same(network: Network, call: Call) -> None:
    network.links.set(*PARTIES, Condition(loss=0.5))
    for word in ("one", "two", "three"):
        call.say(word)
        assert call.hear() == word


def test_what_is_late_does_not_arrive_at_once(network: Network, call: Call) -> None:
    network.links.set(*PARTIES, Condition(delay_s=2 * HELD_S))
    call.say("late")
    assert call.is_quiet()
    assert call.hear() == "late"
    network.links.clear()
    assert network.links.get(*PARTIES) == CLEAR


def test_a_reset_breaks_connections_and_new_ones_can_be_made(network: Network, call: Call) -> None:
    call.say("before")
    assert call.hear() == "before"
    network.reset(*PARTIES)
    call.say("lost")
    assert call.hear() == ""
    call.end()
    again = Call(network)
    again.say("new")
    assert again.hear() == "new"
    again.end()


def _process(prefix: tuple[str, ...], code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", code, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def test_the_clock_of_a_party_is_off_by_what_its_file_says(tmp_path: Path) -> None:
    (tmp_path / CLOCK.name).write_bytes(CLOCK.read_bytes())
    (tmp_path / "offset_ns").write_bytes((300 * 10**9).to_bytes(8, "little", signed=True))
    code = "import time; print(time.time_ns() // 10**9)"
    shifted, real = (
        int(subprocess.check_output([sys.executable, "-c", code], env=env))
        for env in ({"PYTHONPATH": str(tmp_path)}, {})
    )
    assert 290 < shifted - real < 310
