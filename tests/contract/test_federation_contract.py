"""What every `Federation` keeps to: the in-process one of the tests and the real data plane."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import (
    CodecError,
    DuplicateValue,
    NothingSent,
    PeerFailed,
    ValueTooLate,
)
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.settings import FederationSettings
from fedflow.sdk import Arrival, Departure
from fedflow.sdk.context import Federation
from fedflow.testing.federation import LocalFederation
from tests.support.data_plane import DataPlaneServer, Party

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("9999"))
SITES = (GUEST, HOST, ARBITER)

At = Callable[[Site], Federation]
Fail = Callable[[Site, str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """One implementation: its handles, and how to end a site's run and launch it again."""

    at: At
    fail: Fail
    again: Callable[[Site], None]


@pytest.fixture(params=["local", "data plane"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    if request.param == "local":
        local = LocalFederation(SITES)
        yield Made(at=local.at, fail=local.fail, again=local.again)
        return
    settings = FederationSettings(receive_timeout_s=60, send_timeout_s=60, watch_interval_s=0.1)
    servers = {}
    for party in ("9999", "10000"):
        (tmp_path / party).mkdir()
        servers[party] = DataPlaneServer(
            Party(party_id=party, home=tmp_path / party), settings=settings
        )
    with servers["9999"], servers["10000"]:
        servers["9999"].route_to({"10000": servers["10000"].port})
        servers["10000"].route_to({"9999": servers["9999"].port})
        for server in servers.values():
            server.open("s_0", SITES, token="t")
        handles = {s: servers[s.party_id].handle("s_0", s, token="t") for s in SITES}
        launches = Counter[Site]()

        def again(site: Site) -> None:
            launches[site] += 1
            server, incarnation = servers[site.party_id], launches[site]
            server.plane.open_session("s_0", site, token="t", sites=SITES, incarnation=incarnation)
            handles[site].close()
            handles[site] = server.handle("s_0", site, token="t", incarnation=incarnation)

        yield Made(
            at=handles.__getitem__,
            fail=lambda site, reason: servers[site.party_id].plane.fail_site("s_0", site, reason),
            again=again,
        )
        for handle in handles.values():
            handle.close()


@pytest.fixture
def world(made: Made) -> tuple[At, Fail]:
    return made.at, made.fail


def test_values_keep_their_type_and_content(world: tuple[At, Fail]) -> None:
    at, _ = world
    table = pa.table({"id": ["a", "b"], "x": [1.5, None]})
    values = {
        "json": {"a": [1, 2.5, None, True, "é"], "b": {}},
        "text": "x",
        "none": None,
        "bytes": bytes(range(256)),
        "array": np.arange(12, dtype=np.float32).reshape(3, 4),
        "fixed": np.array([b"abc", b"de"], dtype="S3"),
    }
    for name, value in values.items():
        at(GUEST).send(name, value, to=HOST)
    at(GUEST).send("table", table, to=HOST)
    for name, value in values.items():
        found = at(HOST).recv(name, from_=GUEST)
        assert type(found) is type(value)
        if isinstance(value, np.ndarray):
            assert found.dtype == value.dtype
            assert np.array_equal(found, value)
            assert not found.flags.writeable
        else:
            assert found == value
    assert at(HOST).recv("table", from_=GUEST).equals(table)


def test_tags_and_directions_are_values_of_their_own(world: tuple[At, Fail]) -> None:
    at, _ = world
    at(GUEST).send("x", 1, to=[HOST, ARBITER], tag="a")
    at(GUEST).send("x", 2, to=[HOST], tag="b")
    at(HOST).send("x", 3, to=GUEST, tag="a")
    at(ARBITER).send("x", 4, to=GUEST, tag="a")
    assert at(HOST).recv("x", from_=GUEST, tag="b") == 2
    assert at(HOST).recv("x", from_=GUEST, tag="a") == 1
    assert at(ARBITER).recv("x", from_=GUEST, tag="a") == 1
    assert at(GUEST).recv_all("x", from_=[ARBITER, HOST], tag="a") == [4, 3]


def test_a_value_is_sent_and_read_once(world: tuple[At, Fail]) -> None:
    at, _ = world
    at(GUEST).send("x", 1, to=HOST)
    with pytest.raises(DuplicateValue):
        at(GUEST).send("x", 1, to=HOST)
    at(HOST).recv("x", from_=GUEST)
    with pytest.raises(DuplicateValue):
        at(HOST).recv("x", from_=GUEST)


def test_a_receive_waits_for_its_value_and_no_longer_than_it_may(world: tuple[At, Fail]) -> None:
    at, _ = world
    with pytest.raises(ValueTooLate):
        at(HOST).recv("x", from_=GUEST, timeout_s=0.05)
    later = threading.Timer(0.05, lambda: at(GUEST).send("x", "there", to=HOST))
    later.start()
    assert at(HOST).recv("x", from_=GUEST, timeout_s=60) == "there"
    later.join()


def test_a_failed_site_is_told_to_who_waits_and_its_values_stay(world: tuple[At, Fail]) -> None:
    at, fail = world
    at(HOST).send("kept", 1, to=GUEST)
    assert at(HOST).send("other", 2, to=GUEST) is None
    at(GUEST).recv("other", from_=HOST)
    failing = threading.Timer(0.05, lambda: fail(HOST, "killed by signal 9"))
    failing.start()
    with pytest.raises(PeerFailed, match="killed by signal 9"):
        at(GUEST).recv("never", from_=HOST, timeout_s=60)
    failing.join()
    assert at(GUEST).recv("kept", from_=HOST) == 1
    with pytest.raises(PeerFailed):
        at(GUEST).send("x", 1, to=HOST)


def test_tuples_and_keys_become_what_json_makes_of_them(world: tuple[At, Fail]) -> None:
    at, _ = world
    at(GUEST).send("x", {1: (2, 3), None: True}, to=HOST)
    assert at(HOST).recv("x", from_=GUEST) == {"1": [2, 3], "null": True}


def test_what_may_not_travel_is_refused(world: tuple[At, Fail]) -> None:
    at, _ = world
    for value in (object(), {(1, 2): 3}, np.array([object()])):
        with pytest.raises(CodecError):
            at(GUEST).send("x", value, to=HOST)


def test_the_next_value_is_the_one_that_arrived_first_whoever_sent_it(
    world: tuple[At, Fail],
) -> None:
    at, _ = world
    sent = [(ARBITER, "3.b"), (GUEST, "1.a"), (ARBITER, "2.a"), (GUEST, "")]
    for number, (site, tag) in enumerate(sent):
        at(site).send("x", number, to=HOST, tag=tag)
        at(site).send("other", number, to=HOST, tag=tag)
    found = [at(HOST).recv_any("x", from_=[GUEST, ARBITER], timeout_s=60) for _ in sent]
    expected = [
        Arrival(site=site, tag=tag, value=number) for number, (site, tag) in enumerate(sent)
    ]
    assert found == expected
    assert at(HOST).recv_any("x", from_=[GUEST, ARBITER], timeout_s=0) is None
    for site, tag in sent:
        with pytest.raises(DuplicateValue):
            at(HOST).recv("x", from_=site, tag=tag)
        at(HOST).recv("other", from_=site, tag=tag)


def test_the_next_value_may_be_asked_for_by_how_its_tag_begins(world: tuple[At, Fail]) -> None:
    at, _ = world
    for tag in ("1.x", "12.y", "2.z"):
        at(GUEST).send("x", tag, to=HOST, tag=tag)
    at(HOST).recv("x", from_=GUEST, tag="2.z")
    for tags, expected in (("12.", "12.y"), ("1", "1.x"), ("1", None), ("", None)):
        found = at(HOST).recv_any("x", from_=[GUEST], timeout_s=0, tags=tags)
        assert (found.tag if isinstance(found, Arrival) else None) == expected


def test_a_value_of_a_site_that_is_not_asked_stays_for_who_asks(world: tuple[At, Fail]) -> None:
    at, _ = world
    at(ARBITER).send("x", 1, to=HOST)
    assert at(HOST).recv_any("x", from_=[GUEST], timeout_s=0.05) is None
    assert at(HOST).recv("x", from_=ARBITER) == 1


def test_who_waits_for_the_next_value_gets_it_when_it_comes(world: tuple[At, Fail]) -> None:
    at, _ = world
    later = threading.Timer(0.05, lambda: at(ARBITER).send("x", "there", to=HOST, tag="t"))
    later.start()
    found = at(HOST).recv_any("x", from_=[GUEST, ARBITER], timeout_s=60)
    assert found == Arrival(site=ARBITER, tag="t", value="there")
    later.join()
    assert at(HOST).recv_any("x", from_=[GUEST, ARBITER], timeout_s=0.05) is None


def test_a_large_array_may_be_the_next_value(world: tuple[At, Fail]) -> None:
    at, _ = world
    array = np.arange(400_000, dtype=np.float64)
    at(GUEST).send("x", array, to=HOST)
    found = at(HOST).recv_any("x", from_=[GUEST], timeout_s=60)
    assert isinstance(found, Arrival)
    assert np.array_equal(found.value, array)
    assert not found.value.flags.writeable


def test_a_departure_comes_once_and_after_what_had_arrived(world: tuple[At, Fail]) -> None:
    at, fail = world
    at(HOST).send("x", 1, to=GUEST)
    at(HOST).send("seen", 1, to=GUEST)
    at(GUEST).recv("seen", from_=HOST)
    fail(HOST, "killed by signal 9")
    both = [HOST, ARBITER]
    assert at(GUEST).recv_any("x", from_=both, timeout_s=60) == Arrival(site=HOST, tag="", value=1)
    gone = at(GUEST).recv_any("x", from_=both, timeout_s=60)
    assert isinstance(gone, Departure)
    assert (gone.site, gone.reason) == (HOST, "killed by signal 9")
    assert at(GUEST).recv_any("x", from_=both, timeout_s=0.05) is None
    at(ARBITER).send("x", 2, to=GUEST)
    assert at(GUEST).recv_any("x", from_=both, timeout_s=60) == Arrival(
        site=ARBITER, tag="", value=2
    )


def test_a_departure_ends_the_wait_for_the_next_value(world: tuple[At, Fail]) -> None:
    at, fail = world
    failing = threading.Timer(0.05, lambda: fail(HOST, "killed by signal 9"))
    failing.start()
    gone = at(GUEST).recv_any("x", from_=[ARBITER, HOST], timeout_s=60)
    assert isinstance(gone, Departure)
    failing.join()


def test_a_value_that_is_not_required_reaches_who_is_left(world: tuple[At, Fail]) -> None:
    at, fail = world
    fail(HOST, "killed by signal 9")
    with pytest.raises(PeerFailed):
        at(GUEST).recv("never", from_=HOST)
    at(GUEST).send("model", 1, to=[HOST, ARBITER], required=False)
    at(GUEST).send("more", 2, to=HOST, required=False)
    assert at(ARBITER).recv("model", from_=GUEST) == 1
    at(ARBITER).send("answer", 3, to=GUEST)
    assert at(GUEST).recv("answer", from_=ARBITER) == 3


def test_a_site_that_was_launched_again_takes_part_again(made: Made) -> None:
    both = [HOST, ARBITER]
    made.at(HOST).send("x", "first", to=GUEST, tag="1")
    assert isinstance(made.at(GUEST).recv_any("x", from_=both, timeout_s=60), Arrival)
    made.at(GUEST).send("y", "for the first", to=HOST, required=False)
    made.fail(HOST, "killed by signal 9")
    gone = made.at(GUEST).recv_any("x", from_=both, timeout_s=60)
    assert isinstance(gone, Departure)
    made.again(HOST)
    made.at(HOST).send("x", "second", to=GUEST, tag="1")
    found = made.at(GUEST).recv_any("x", from_=both, timeout_s=60)
    assert found == Arrival(site=HOST, tag="1", value="second")
    made.at(GUEST).send("y", "for the second", to=HOST)
    assert made.at(HOST).recv("y", from_=GUEST) == "for the second"
    made.at(HOST).send("z", 1, to=[GUEST, ARBITER])
    assert made.at(GUEST).recv("z", from_=HOST) == 1
    assert made.at(ARBITER).recv("z", from_=HOST) == 1


def test_a_departure_is_seen_although_the_site_has_returned_meanwhile(made: Made) -> None:
    both = [HOST, ARBITER]
    assert made.at(GUEST).recv_any("x", from_=both, timeout_s=0) is None
    made.at(HOST).send("x", "unread", to=GUEST, tag="1")
    made.at(HOST).send("seen", 1, to=GUEST)
    made.at(GUEST).recv("seen", from_=HOST)
    made.fail(HOST, "killed by signal 9")
    made.again(HOST)
    made.at(HOST).send("x", "second", to=GUEST, tag="2")
    made.at(HOST).send("seen", 2, to=GUEST, tag="2")
    arrived = made.at(GUEST).recv_any("seen", from_=[HOST], timeout_s=60)
    if isinstance(arrived, Departure):  # the guest has not heard of the return yet
        arrived = made.at(GUEST).recv_any("seen", from_=[HOST], timeout_s=60)
    assert arrived == Arrival(site=HOST, tag="2", value=2)
    assert isinstance(made.at(GUEST).recv_any("x", from_=both, timeout_s=0), Departure)
    found = made.at(GUEST).recv_any("x", from_=both, timeout_s=60)
    assert found == Arrival(site=HOST, tag="2", value="second")
    assert made.at(GUEST).recv_any("x", from_=both, timeout_s=0) is None


def test_those_who_wait_for_others_are_not_disturbed_by_a_launch(made: Made) -> None:
    waiting = ThreadPoolExecutor(1)
    found = waiting.submit(made.at(ARBITER).recv, "x", from_=GUEST)
    made.fail(HOST, "killed by signal 9")
    made.again(HOST)
    made.at(HOST).send("here", 1, to=ARBITER)
    made.at(GUEST).send("x", "there", to=ARBITER)
    assert found.result(60) == "there"
    waiting.shutdown()


def test_a_value_of_which_there_is_none_ends_the_receives_at_once(world: tuple[At, Fail]) -> None:
    at, _ = world
    waiting = ThreadPoolExecutor(1)
    found = waiting.submit(at(ARBITER).recv, "x", from_=GUEST, tag="t")
    at(GUEST).send_nothing("x", to=[HOST, ARBITER], tag="t")
    with pytest.raises(NothingSent, match=r"guest.*9999.*'x'"):
        found.result(60)
    waiting.shutdown()
    assert at(HOST).recv_any("x", from_=[GUEST], timeout_s=60) == Arrival(
        site=GUEST, tag="t", value=None, is_nothing=True
    )
    with pytest.raises(DuplicateValue):
        at(GUEST).send("x", 1, to=HOST, tag="t")
    at(GUEST).send("y", None, to=HOST)
    assert at(HOST).recv_any("y", from_=[GUEST], timeout_s=60) == Arrival(
        site=GUEST, tag="", value=None
    )


def test_what_a_step_left_is_dropped_with_what_comes_later(world: tuple[At, Fail]) -> None:
    at, _ = world
    at(GUEST).send("x", 1, to=HOST, tag="3.a")
    at(GUEST).send("seen", 1, to=HOST)
    at(HOST).recv("seen", from_=GUEST)
    at(HOST).drop("3.")
    at(GUEST).send("x", 2, to=HOST, tag="3.b")
    at(GUEST).send("x", 3, to=HOST, tag="30.a")
    assert at(HOST).recv_any("x", from_=[GUEST], timeout_s=60) == Arrival(
        site=GUEST, tag="30.a", value=3
    )
    assert at(HOST).recv_any("x", from_=[GUEST], timeout_s=0) is None
    with pytest.raises(DuplicateValue):
        at(HOST).recv("x", from_=GUEST, tag="3.a")


def test_a_failed_site_ends_all_that_waits_for_it_with_the_first_reason(
    world: tuple[At, Fail],
) -> None:
    at, fail = world
    with ThreadPoolExecutor(4) as pool:
        waiting = [
            pool.submit(at(site).recv, "x", from_=HOST, tag=tag)
            for site in (GUEST, ARBITER)
            for tag in ("1", "2")
        ]
        fail(HOST, "killed by signal 9")
        fail(HOST, "and a later reason")
        for one in waiting:
            with pytest.raises(PeerFailed, match="killed by signal 9"):
                one.result(60)
