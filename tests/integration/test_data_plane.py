"""Three data planes with real gRPC servers, mutual TLS, unix sockets and executors' handles."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import (
    CodecError,
    DuplicateValue,
    PeerFailed,
    SessionUnknown,
    UndeclaredMessage,
    ValueTooLate,
)
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.handle import FederationHandle
from fedflow.federation.settings import FederationSettings
from tests.support.certificates import Authority, make_ca
from tests.support.data_plane import DataPlaneServer, Party, credentials_of

GUEST = Site(Role.GUEST, PartyId("9999"))
ARBITER = Site(Role.ARBITER, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
OTHER = Site(Role.HOST, PartyId("10001"))
SITES = [GUEST, ARBITER, HOST, OTHER]
SETTINGS = FederationSettings(
    receive_timeout_s=100, send_timeout_s=60, progress_timeout_s=2, watch_interval_s=0.2
)


class World:
    """Three parties, one session that is open everywhere, one handle per site."""

    def __init__(self, home: Path, authority: Authority) -> None:
        self.servers: dict[str, DataPlaneServer] = {}
        self.handles: dict[Site, FederationHandle] = {}
        for party in ("9999", "10000", "10001"):
            folder = home / party
            folder.mkdir()
            server = DataPlaneServer(
                Party(party_id=party, home=folder, credentials=credentials_of(party, authority)),
                settings=SETTINGS,
            )
            server.start()
            self.servers[party] = server
        ports = {party: server.port for party, server in self.servers.items()}
        for party, server in self.servers.items():
            server.route_to({p: n for p, n in ports.items() if p != party})

    def open(self, session: str, *, sites: list[Site] = SITES) -> dict[Site, FederationHandle]:
        found = {}
        for site in sites:
            server = self.servers[site.party_id]
            server.open(session, sites, token=f"token-{site.party_id}")
            found[site] = server.handle(session, site, token=f"token-{site.party_id}")
            self.handles[Site(site.role, PartyId(f"{site.party_id}-{session}"))] = found[site]
        return found

    def plane(self, site: Site):  # type: ignore[no-untyped-def]
        return self.servers[site.party_id].plane

    def close(self) -> None:
        for handle in self.handles.values():
            handle.close()
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_ca()


@pytest.fixture
def world(tmp_path: Path, authority: Authority) -> Iterator[World]:
    made = World(tmp_path, authority)
    yield made
    made.close()


def until(condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        threading.Event().wait(0.005)


def test_values_travel_both_ways_and_to_a_site_of_the_same_server(world: World) -> None:
    at = world.open("both_0")
    at[GUEST].send("x", {"n": [1, 2.5, None], "a": np.arange(5)}, to=HOST)
    at[HOST].send("x", "answer", to=[GUEST])
    at[ARBITER].send("x", b"key", to=GUEST)
    found = at[HOST].recv("x", from_=GUEST)
    assert found["n"] == [1, 2.5, None]
    assert found["a"].tolist() == [0, 1, 2, 3, 4]
    assert at[GUEST].recv_all("x", from_=[HOST, ARBITER]) == ["answer", b"key"]
    for handle in at.values():
        handle.flush(20)


def test_fate_s_words_are_the_same_calls(world: World) -> None:
    at = world.open("fate_0")
    at[GUEST].remote("x", 1, to=HOST, tag="a")
    assert at[HOST].get("x", from_=GUEST, tag="a") == 1


def test_a_64_mib_array_arrives_as_a_read_only_view(world: World) -> None:
    at = world.open("big_0")
    array = np.random.default_rng(1).standard_normal(8 * 1024 * 1024)
    at[GUEST].send("big", array, to=HOST)
    found = at[HOST].recv("big", from_=GUEST)
    assert np.array_equal(found, array)
    assert not found.flags.writeable
    at[GUEST].flush(20)
    until(lambda: world.plane(GUEST).stats().spool_bytes == 0)
    until(lambda: world.plane(HOST).stats().spool_bytes == 0)
    until(lambda: not list(Path(world.servers["10000"].party.home / "spool").iterdir()))


def test_a_big_arrow_table_arrives_at_several_sites_at_once(world: World) -> None:
    at = world.open("table_0")
    rows = 200_000
    table = pa.table(
        {"id": pa.array([f"id{i}" for i in range(rows)]), "x": pa.array(np.arange(rows) / 7)}
    )
    at[GUEST].send("t", table, to=[HOST, OTHER, ARBITER])
    for site in (HOST, OTHER, ARBITER):
        assert at[site].recv("t", from_=GUEST).equals(table)
    at[GUEST].flush(20)
    until(lambda: all(world.plane(s).stats().spool_bytes == 0 for s in SITES))


def test_many_tags_in_any_order_from_several_threads(world: World) -> None:
    at = world.open("tags_0")
    count = 300

    def send(offset: int) -> None:
        for i in range(offset, count, 3):
            at[GUEST].send("n", [i] * 10, to=HOST, tag=str(i))

    threads = [threading.Thread(target=send, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    found: dict[int, list[int]] = {}

    def receive(offset: int) -> None:
        for i in range(count - 1 - offset, -1, -2):
            found[i] = at[HOST].recv("n", from_=GUEST, tag=str(i))

    readers = [threading.Thread(target=receive, args=(i,)) for i in range(2)]
    for thread in readers:
        thread.start()
    for thread in threads + readers:
        thread.join(10)
    assert found == {i: [i] * 10 for i in range(count)}


def test_a_value_is_sent_once_and_read_once(world: World) -> None:
    at = world.open("once_0")
    at[GUEST].send("x", 1, to=[HOST, OTHER])
    with pytest.raises(DuplicateValue):
        at[GUEST].send("x", 2, to=HOST)
    with pytest.raises(DuplicateValue):
        at[GUEST].send("y", 2, to=[HOST, HOST])
    assert at[HOST].recv("x", from_=GUEST) == 1
    with pytest.raises(DuplicateValue):
        at[HOST].recv("x", from_=GUEST)


def test_what_is_not_declared_is_not_sent(world: World) -> None:
    at = world.open("declared_0")
    at[GUEST].declare({"x"})
    with pytest.raises(UndeclaredMessage, match="'y'"):
        at[GUEST].send("y", 1, to=HOST)
    with pytest.raises(UndeclaredMessage):
        at[GUEST].send_nothing("y", to=HOST)
    at[GUEST].send("x", 1, to=HOST)
    assert at[HOST].recv("x", from_=GUEST) == 1


def test_a_receive_ends_at_its_deadline(world: World) -> None:
    at = world.open("late_0")
    start = time.monotonic()
    with pytest.raises(ValueTooLate):
        at[HOST].recv("never", from_=GUEST, timeout_s=0.1)
    assert time.monotonic() - start < 60


def test_closing_the_handle_wakes_who_waits(world: World) -> None:
    at = world.open("close_0")
    errors: list[Exception] = []

    def receive(tag: str) -> None:
        try:
            at[HOST].recv("never", from_=GUEST, tag=tag)
        except SessionUnknown as exc:
            errors.append(exc)

    waiting = [threading.Thread(target=receive, args=(tag,)) for tag in "ab"]
    for thread in waiting:
        thread.start()
    until(lambda: world.plane(HOST).stats().waiting == 2)
    at[HOST].close()
    for thread in waiting:
        thread.join(3)
        assert not thread.is_alive()
    assert len(errors) == 2
    until(lambda: world.plane(HOST).stats().executors == 0)


def test_sites_outside_the_task_cannot_be_named(world: World) -> None:
    at = world.open("outside_0", sites=[GUEST, HOST])
    with pytest.raises(BadRequest):
        at[GUEST].send("x", 1, to=OTHER)
    with pytest.raises(BadRequest):
        at[GUEST].recv("x", from_=OTHER)
    with pytest.raises(BadRequest):
        at[GUEST].send("x", 1, to=GUEST)
    with pytest.raises(CodecError):
        at[GUEST].send("x", object(), to=HOST)


def test_a_wrong_token_or_session_is_refused(world: World) -> None:
    world.open("token_0")
    server = world.servers["9999"]
    with server.handle("token_0", GUEST, token="wrong") as handle:
        with pytest.raises(NotAuthenticated):
            handle.send("x", 1, to=HOST)
    with server.handle("unknown_0", GUEST, token="token-9999") as handle:
        with pytest.raises(SessionUnknown):
            handle.recv("x", from_=HOST)


def test_a_value_that_comes_before_the_receiver_has_opened_is_not_lost(world: World) -> None:
    sites = [GUEST, HOST]
    server = world.servers["9999"]
    server.open("early_0", sites, token="t")
    big = np.ones(500_000)
    with server.handle("early_0", GUEST, token="t") as sender:
        sender.send("small", 1, to=HOST)
        sender.send("big", big, to=HOST)
        until(lambda: world.plane(HOST).stats().held_bytes > 0)
        with pytest.raises(ValueTooLate):
            sender.flush(0.2)
        world.servers["10000"].open("early_0", sites, token="t")
        with world.servers["10000"].handle("early_0", HOST, token="t") as receiver:
            assert receiver.recv("small", from_=GUEST) == 1
            assert np.array_equal(receiver.recv("big", from_=GUEST), big)
        sender.flush(20)


@pytest.mark.parametrize("peer", [HOST, ARBITER])
def test_a_failed_peer_wakes_a_waiting_receive(world: World, peer: Site) -> None:
    session = f"fail-{peer.role.value}_0"
    at = world.open(session)
    at[peer].send("before", "kept", to=GUEST)
    at[peer].flush(20)
    until(lambda: world.plane(GUEST).stats().unread >= 1)
    failed_at: list[float] = []

    def fail() -> None:
        until(lambda: world.plane(GUEST).stats().waiting == 1)
        failed_at.append(time.monotonic())
        world.plane(peer).fail_site(session, peer, "exit code 137")

    failing = threading.Thread(target=fail)
    failing.start()
    with pytest.raises(PeerFailed, match="exit code 137"):
        at[GUEST].recv("never", from_=peer)
    took = time.monotonic() - failed_at[0]
    failing.join()
    assert took < 60  # not at a deadline; benchmarks/data_plane.py measures it
    with pytest.raises(PeerFailed):
        at[GUEST].recv("also never", from_=peer)
    with pytest.raises(PeerFailed):
        at[GUEST].send("x", 1, to=peer)
    assert at[GUEST].recv("before", from_=peer) == "kept"


def test_a_peer_that_failed_before_the_session_was_open_is_known_to_have_failed(
    world: World,
) -> None:
    sites = [GUEST, HOST]
    world.servers["10000"].open("unborn_0", sites, token="t")
    world.plane(HOST).fail_site("unborn_0", HOST, "could not start")
    world.servers["9999"].open("unborn_0", sites, token="t")
    with world.servers["9999"].handle("unborn_0", GUEST, token="t") as handle:
        with pytest.raises(PeerFailed, match="could not start"):
            handle.recv("x", from_=HOST, timeout_s=60)


@pytest.mark.parametrize("peer", [HOST, ARBITER])
def test_a_peer_that_ended_without_a_word_wakes_who_waits(world: World, peer: Site) -> None:
    session = f"silent-{peer.role.value}_0"
    at = world.open(session)
    world.plane(peer).close_session(session, peer)
    with pytest.raises(PeerFailed, match="without sending"):
        at[GUEST].recv("x", from_=peer, timeout_s=60)


def test_values_for_a_site_that_ended_in_order_do_not_hold_up_the_sender(world: World) -> None:
    at = world.open("done_0")
    at[HOST].send("x", 1, to=GUEST)
    at[HOST].flush(20)
    world.plane(HOST).close_session("done_0", HOST)
    assert at[GUEST].recv("x", from_=HOST) == 1
    at[GUEST].send("unread", np.zeros(300_000), to=HOST)
    at[GUEST].send("unread", "small", to=HOST, tag="2")
    at[GUEST].flush(20)


def test_an_older_attempt_can_neither_send_nor_be_sent_to(world: World) -> None:
    old = world.open("task_0", sites=[GUEST, HOST])
    old[GUEST].send("x", "old", to=HOST)
    old[GUEST].flush(20)
    for site in (GUEST, HOST):
        world.plane(site).close_session("task_0", site)
    new = world.open("task_1", sites=[GUEST, HOST])
    new[GUEST].send("x", "new", to=HOST)
    assert new[HOST].recv("x", from_=GUEST) == "new"
    with world.servers["9999"].handle("task_0", GUEST, token="token-9999") as late:
        with pytest.raises(SessionUnknown):
            late.send("y", 1, to=HOST)


def test_a_session_that_sends_nothing_leaves_nothing(world: World) -> None:
    plane = world.plane(GUEST)
    before = plane.stats()
    for i in range(200):
        for _ in range(2):
            plane.open_session(f"empty-{i}_0", GUEST, token="t", sites=SITES)
        for _ in range(2):
            plane.close_session(f"empty-{i}_0", GUEST)
    until(lambda: plane.stats().open_sessions == before.open_sessions)
    assert plane.stats().active_sessions == before.active_sessions


EXECUTOR = """
import sys
from pathlib import Path
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.handle import FederationHandle
guest, host = Site(Role.GUEST, PartyId("9999")), Site(Role.HOST, PartyId("10000"))
handle = FederationHandle(Path(sys.argv[1]), session="process_0", site=host, token="token-10000")
value = handle.recv("x", from_=guest)
handle.send("y", value * 2, to=guest)
handle.flush(20)
handle.close()
assert "grpc" not in sys.modules and "asyncio" not in sys.modules
"""


def test_an_executor_in_a_process_of_its_own_needs_neither_grpc_nor_asyncio(world: World) -> None:
    at = world.open("process_0", sites=[GUEST, HOST])
    socket = str(world.servers["10000"].socket_path)
    process = subprocess.Popen([sys.executable, "-c", EXECUTOR, socket])
    at[GUEST].send("x", np.arange(200_000), to=HOST)
    found = at[GUEST].recv("y", from_=HOST)
    assert process.wait(5) == 0
    assert np.array_equal(found, np.arange(200_000) * 2)


def test_an_operator_sees_what_a_job_sends_and_waits_for_but_no_contents(world: World) -> None:
    sites = world.open("2026_lr_0_0", sites=[GUEST, HOST])
    guest, host = sites[GUEST], sites[HOST]
    secret = "s3cret" * 10
    guest.send("before", secret, to=HOST)
    host.recv("before", from_=GUEST)
    plane = world.plane(HOST)
    plane.trace_job("2026", is_on=True)
    until(lambda: plane.traces("2026")["2026_lr_0_0", HOST].is_on)
    later = threading.Timer(0.05, lambda: guest.send("weights", secret, to=HOST, tag="3"))
    later.start()
    host.recv("weights", from_=GUEST, tag="3")
    later.join()
    host.send("answer", [1], to=GUEST, tag="3")
    guest.recv("answer", from_=HOST, tag="3")
    trace = plane.traces("2026")["2026_lr_0_0", HOST]
    kinds = [(record.kind, record.site, record.name, record.tag) for record in trace.records]
    assert kinds == [
        ("arrived", GUEST, "weights", "3"),
        ("received", GUEST, "weights", "3"),
        ("sent", GUEST, "answer", "3"),
    ]
    assert trace.records[1].waited_s > 0.01
    assert trace.records[0].size > len(secret)
    assert secret not in repr(trace)
    counted = trace.peers[GUEST]
    assert (counted.arrived, counted.sent) == (2, 1)
    assert counted.arrived_bytes > 2 * len(secret)
    assert counted.receive_s > 0.01
    assert not world.plane(GUEST).traces("2026")["2026_lr_0_0", GUEST].records
    assert plane.traces("202") == {}
    (seen,) = plane.trace_of("2026").sessions
    assert (seen.component, seen.version, seen.site) == ("lr_0", 0, "host-10000")
    assert [value.kind for value in seen.values] == ["arrived", "received", "sent"]
    assert (seen.peers[0].site, seen.peers[0].arrived) == ("guest-9999", 2)
    (kept,) = plane.ledger_of("2026_lr_0_0", HOST)
    assert [(m.name, m.is_sent, m.calls) for m in kept.messages] == [
        ("answer", True, 1),
        ("before", False, 1),
        ("weights", False, 1),
    ]
    assert (kept.calls(sent=False), kept.size_bytes(sent=False)) == (2, counted.arrived_bytes)
    assert (kept.calls(sent=True), kept.size_bytes(sent=True)) == (1, counted.sent_bytes)
    assert kept.receive_s > 0.01
    assert plane.ledger_of("2026_lr_0_0", HOST, incarnation=1) == ()
    plane.close_session("2026_lr_0_0", HOST)
    until(lambda: plane.stats().active_sessions == 0)
    assert plane.traces("2026")["2026_lr_0_0", HOST] is trace
    plane.trace_job("2026", is_on=False)
    until(lambda: not trace.is_on)
