"""Two servers of the guest on one MySQL database, one of the host: who leads, who follows, and what
becomes of jobs when either is killed, stands still, is drained or started again.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import ServerNotReachable
from fedflow.cli.flow.toy import toy_job
from fedflow.wire.api.administration import PartyServer
from tests.e2e.jobs import empty_job
from tests.e2e.servers import (
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    Pair,
    Party,
    Place,
    environment,
    free_ports,
    make_certificates,
    mysql_database,
    running,
    wait_for,
)
from tests.support.proxy import FaultyProxy

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

FAIL_OVER_S = 60.0


@dataclass(frozen=True)
class Trio:
    """Two servers of the guest and one of the host."""

    one: Party
    two: Party
    host: Party
    shared: Path

    @property
    def guests(self) -> tuple[Party, Party]:
        return self.one, self.two

    def leader(self) -> Party:
        """Return the guest's server that leads."""
        return wait_for(self._leader, "a leader", within_s=FAIL_OVER_S)

    def _leader(self) -> Party | None:
        leading = [party for party in self.guests if party.process and own(party).leads]
        return leading[0] if len(leading) == 1 else None

    def follower(self) -> Party:
        leader = self.leader()
        return self.two if leader is self.one else self.one

    def pair(self, guest: Party) -> Pair:
        return Pair(guest, self.host)

    def ends(self, job_id: str, *, asked: Party | None = None, within_s: float = 120.0) -> str:
        """Return how a job ended, the same at all sites."""
        ends = self.pair(asked or self.one).ends(job_id, within_s=within_s)
        assert len(ends) == 2, ends
        return next(iter(ends.values()))


def own(party: Party) -> PartyServer:
    """Return what a server says of itself; one that does not answer says that it is lost."""
    return listed(party)[0]


def listed(party: Party) -> list[PartyServer]:
    return party.client.servers.party_servers()


@contextmanager
def trio(folder: Path, *, way: Callable[[int], int] = lambda port: port) -> Iterator[Trio]:
    """Start the servers; `way` returns the port where the first one finds the database."""
    tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID)
    http = free_ports(6)
    grpc = http[3:]
    shared = folder / "shared"
    with mysql_database() as database:
        settings = {**QUICK, **database, "FEDFLOW__SHARED_HOME": str(shared)}
        here = {"FEDFLOW__DATABASE__PORT": str(way(int(database["FEDFLOW__DATABASE__PORT"])))}
        one, two = (
            Place(
                home=folder / f"guest{n}",
                party_id=GUEST_ID,
                http_port=http[n],
                grpc_port=grpc[n],
                routes={HOST_ID: f"127.0.0.1:{grpc[2]}"},
                tls=tls,
                settings=settings | (here if n == 0 else {}),
            )
            for n in (0, 1)
        )
        host = Place(
            home=folder / "host",
            party_id=HOST_ID,
            http_port=http[2],
            grpc_port=grpc[2],
            routes={GUEST_ID: f"127.0.0.1:{grpc[0]},127.0.0.1:{grpc[1]}"},
            tls=tls,
            settings=QUICK,
        )
        with running(one, two, host) as (first, second, third):
            yield Trio(first, second, third, shared)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with trio(tmp_path_factory.mktemp("several")) as three:
        yield three


@pytest.fixture
def three(servers: Trio) -> Iterator[Trio]:
    """All servers, up and connected before and after each test."""
    yield servers
    for party in (*servers.guests, servers.host):
        if party.process is None:
            party.start().wait_ready()
        party.process.send_signal(signal.SIGCONT)
    for party in servers.guests:
        if own(party).state == "draining":
            party.stop()
            party.start().wait_ready()
    for party in servers.guests:
        servers.pair(party).wait_connected()
    servers.host.wait_idle()


def test_one_leads_and_both_answer(three: Trio) -> None:
    leader, follower = three.leader(), three.follower()
    rows = listed(leader)
    assert [(r.state, r.leads, r.is_this) for r in rows] == [
        ("up", True, True), ("up", False, False),
    ]  # fmt: skip
    assert {r.http for r in rows} == {p.url.removeprefix("http://") for p in three.guests}
    shown = fedflow("server", "list", "--server", follower.url).splitlines()
    assert [line.split()[0] for line in shown] == ["id", *(r.instance_id for r in rows[::-1])]
    assert [" yes " in line for line in shown] == [False, False, True]
    for party in (leader, follower):
        job_id = party.client.submit(*empty_job({}, {})).job_id
        assert three.ends(job_id, asked=party) == "success"
        for other in three.guests:
            assert other.client.job(job_id).status == "success"


def test_a_follower_stops_a_job_that_the_leader_runs(three: Trio) -> None:
    job_id = three.leader().client.submit(*empty_job({"sleep_s": 60.0})).job_id
    three.host.wait_executor(job_id, component="empty_0", site=HOST)
    three.follower().client.stop(job_id)
    assert three.ends(job_id) == "canceled"


@pytest.mark.parametrize("numbers", [1000, 500_000], ids=["small values", "big values"])
def test_values_reach_the_executor_whichever_server_they_arrive_at(
    three: Trio, numbers: int
) -> None:
    lead(three, three.two)  # the host calls the first one
    dsl, conf = toy_job(GUEST_ID, HOST_ID, cores=1)
    conf["component_parameters"]["common"]["secure_add_example_0"]["data_num"] = numbers
    job_id = three.one.client.submit(dsl, conf).job_id
    assert three.ends(job_id) == "success"


def test_a_drained_leader_keeps_its_tasks_and_another_one_starts_the_next(three: Trio) -> None:
    leader, follower = three.leader(), three.follower()
    dsl, conf = empty_job({"sleep_s": 4.0}, {})
    job_id = leader.client.submit(dsl, conf).job_id
    pid = begun(three, job_id, "empty_0")
    assert leader.client.servers.drain()[0].state == "draining"
    assert three.leader() is follower
    assert [r.executors for r in listed(leader)] == [1, 0]
    second = leader.client.submit(*empty_job({})).job_id  # it answers as before
    assert executors(three, job_id, "empty_0") == [pid]
    assert three.ends(job_id, asked=follower) == "success"
    assert three.ends(second, asked=follower) == "success"
    wait_for(lambda: own(leader).executors == 0, "the drained server to be idle")
    leader.stop()
    leader.start().wait_ready()
    assert own(leader).state == "up"


@pytest.mark.heavy
def test_a_rolling_restart_loses_no_job(three: Trio) -> None:
    stop, jobs, refused = threading.Event(), [], []

    def submit() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            try:
                client = three.guests[turn % 2].client
                jobs.append(client.submit(*empty_job({"sleep_s": 0.5}, {})).job_id)
            except FedflowError as exc:  # the server that is down refuses connections
                refused.append(exc)
            stop.wait(1.0)

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        for party in three.guests:
            done = fedflow("server", "drain", "--server", party.url, "--timeout", "60")
            assert "The server is drained" in done
            party.stop()
            party.start().wait_ready()
        wait_for(lambda: len(jobs) > 3, "some jobs")
    finally:
        stop.set()
        thread.join()
    assert {three.ends(job_id) for job_id in jobs} == {"success"}
    assert all(isinstance(exc, ServerNotReachable) for exc in refused), refused


def test_another_server_takes_over_within_15_s_when_the_leader_is_killed(three: Trio) -> None:
    leader, follower = three.leader(), three.follower()
    dsl, conf = empty_job({"sleep_s": 8.0}, {}, auto_retries=1)
    job_id = leader.client.submit(dsl, conf).job_id
    pid = begun(three, job_id, "empty_0")
    leader.kill()
    wait_for(lambda: own(follower).leads, "another leader", within_s=FAIL_OVER_S)
    after = follower.client.submit(*empty_job({})).job_id
    most = 0

    def ended() -> bool:
        nonlocal most
        most = max(most, len(executors(three, job_id, "empty_0")))
        return three.pair(follower).shares(job_id) and all(
            status in ("success", "failed")
            for status in three.pair(follower).shares(job_id).values()
        )

    wait_for(ended, "the end of the job", within_s=180)
    assert most == 1, "the task ran twice at once"
    assert three.ends(job_id, asked=follower) == "success"
    assert three.ends(after, asked=follower) == "success"
    assert not psutil.pid_exists(pid)
    assert {r.state for r in listed(follower)} == {"up", "lost"}


@pytest.mark.heavy
def test_a_leader_that_stood_still_writes_nothing_when_it_goes_on(three: Trio) -> None:
    leader, follower = three.leader(), three.follower()
    job_id = leader.client.submit(*empty_job({"sleep_s": 2.0}, {}, {}, auto_retries=2)).job_id
    assert leader.process is not None
    leader.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: own(follower).leads, "another leader", within_s=FAIL_OVER_S)
    second = follower.client.submit(*empty_job({}, {})).job_id
    assert three.ends(second, asked=follower) == "success"
    leader.process.send_signal(signal.SIGCONT)
    wait_for(lambda: not own(leader).leads, "the old leader to see it")
    assert own(follower).leads
    assert three.ends(job_id, asked=follower) == three.ends(job_id, asked=leader) == "success"
    for party in three.guests:
        assert party.client.job(second).status == "success"


def fedflow(*words: str) -> str:
    """Return what a command prints. Raises: subprocess.CalledProcessError: it failed."""
    return subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main", *words],
        env=environment({}),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def lead(three: Trio, party: Party) -> None:
    """Let a server lead, by starting the other one again."""
    if three.leader() is not party:
        other = three.leader()
        other.stop()
        other.start().wait_ready()
    assert three.leader() is party


def begun(three: Trio, job_id: str, component: str) -> int:
    """Return the guest's executor of a task once that runs, as its server knows."""
    client = three.leader().client

    def runs() -> bool:
        tasks = client.job(job_id).tasks
        return any(
            (t.component, t.site, t.status) == (component, GUEST.key, "running") for t in tasks
        )

    wait_for(runs, f"{component} to run")
    return executors(three, job_id, component)[0]


def executors(three: Trio, job_id: str, component: str) -> list[int]:
    """Return the guest's executors at work, of whichever server: their folders are shared."""
    return three.one.executors(job_id, component=component, site=GUEST, below=three.shared)


def test_others_turn_to_the_server_that_has_its_way_to_the_database(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The first one lives and answers, but the database refuses it: the host calls the second."""
    folder = tmp_path_factory.mktemp("ways")
    with ExitStack() as stack:
        proxies: list[FaultyProxy] = []

        def through(port: int) -> int:
            proxies.append(stack.enter_context(FaultyProxy(port)))
            return proxies[0].port

        three = stack.enter_context(trio(folder, way=through))
        lead(three, three.one)
        three.pair(three.one).wait_connected()
        proxies[0].close()
        wait_for(lambda: own(three.two).leads, "the second to lead", within_s=FAIL_OVER_S)
        ready = three.one.readiness()
        assert (ready["ready"], ready["store"]) == (False, False)
        dsl, conf = empty_job({"sleep_s": 1.0}, {})
        conf["initiator"] = {"role": "host", "party_id": int(HOST_ID)}
        job_id = three.host.client.submit(dsl, conf).job_id
        assert three.ends(job_id, asked=three.two) == "success"
        shown = three.host.client.parties.get(GUEST_ID)
        assert shown.state == "closed"
