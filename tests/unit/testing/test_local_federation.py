"""The in-process federation behaves as a data plane between parties."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.data_plane import CodecError, DuplicateValue, PeerFailed, ValueTooLate
from fedflow.base.errors.jobs import WrongSite
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.testing.federation import LocalFederation

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10000"))


@pytest.fixture
def fed() -> LocalFederation:
    return LocalFederation((GUEST, HOST, ARBITER), receive_timeout_s=60.0)


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    seen: list[Any] = []

    def run() -> None:
        try:
            seen.append(call())
        except Exception as exc:
            seen.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, seen


def test_a_value_reaches_every_destination_once(fed: LocalFederation) -> None:
    fed.at(GUEST).send("w", {"a": [1, 2.5, None]}, to=[HOST, ARBITER], tag="1")
    assert fed.at(HOST).recv("w", from_=GUEST, tag="1") == {"a": [1, 2.5, None]}
    assert fed.at(ARBITER).get("w", from_=GUEST, tag="1") == {"a": [1, 2.5, None]}
    with pytest.raises(DuplicateValue):
        fed.at(HOST).recv("w", from_=GUEST, tag="1")
    assert fed.unread() == []


def test_a_second_send_of_one_name_and_tag_is_refused(fed: LocalFederation) -> None:
    fed.at(GUEST).remote("w", 1, to=HOST)
    with pytest.raises(DuplicateValue):
        fed.at(GUEST).send("w", 2, to=HOST)
    fed.at(GUEST).send("w", 2, to=HOST, tag="next")
    assert fed.at(HOST).recv("w", from_=GUEST) == 1


def test_a_received_array_is_read_only_and_apart_from_the_senders(fed: LocalFederation) -> None:
    mine = np.arange(4.0)
    fed.at(GUEST).send("x", mine, to=HOST)
    mine[0] = 99
    got = fed.at(HOST).recv("x", from_=GUEST)
    assert got.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        got[0] = 1


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([None]), float("nan")])
def test_what_cannot_travel_is_refused_at_the_sender(fed: LocalFederation, value: Any) -> None:
    with pytest.raises(CodecError):
        fed.at(GUEST).send("x", value, to=HOST)


def test_a_failed_site_wakes_those_who_wait_for_it(fed: LocalFederation) -> None:
    thread, seen = in_thread(lambda: fed.at(HOST).recv("w", from_=GUEST))
    fed.fail(GUEST, "out of memory")
    thread.join(5)
    assert isinstance(seen[0], PeerFailed)
    assert "out of memory" in str(seen[0])
    with pytest.raises(PeerFailed):
        fed.at(ARBITER).recv("other", from_=GUEST)
    with pytest.raises(PeerFailed):
        fed.at(HOST).send("w", 1, to=GUEST)


def test_values_that_arrived_before_a_failure_stay_readable(fed: LocalFederation) -> None:
    fed.at(GUEST).send("w", b"abc", to=HOST)
    fed.fail(GUEST, "gone")
    assert fed.at(HOST).recv("w", from_=GUEST) == b"abc"


def test_a_site_that_ended_sends_nothing_more_but_may_be_sent_to(fed: LocalFederation) -> None:
    fed.finish(GUEST)
    with pytest.raises(PeerFailed, match="without sending"):
        fed.at(HOST).recv("w", from_=GUEST)
    fed.at(HOST).send("w", 1, to=GUEST)


def test_a_wait_has_a_deadline(fed: LocalFederation) -> None:
    with pytest.raises(ValueTooLate):
        fed.at(HOST).recv("w", from_=GUEST, timeout_s=0.01)


def test_recv_all_keeps_the_order_of_the_sites(fed: LocalFederation) -> None:
    fed.at(ARBITER).send("w", "a", to=GUEST)
    fed.at(HOST).send("w", "h", to=GUEST)
    assert fed.at(GUEST).recv_all("w", from_=[HOST, ARBITER]) == ["h", "a"]


def test_a_stranger_takes_no_part(fed: LocalFederation) -> None:
    stranger = Site(Role.HOST, PartyId("1"))
    with pytest.raises(WrongSite):
        fed.at(stranger)
    with pytest.raises(WrongSite):
        fed.at(GUEST).send("w", 1, to=stranger)
