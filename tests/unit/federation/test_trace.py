"""What a session counts of each peer."""

from __future__ import annotations

import dataclasses

from fedflow.base.ids import PartyId
from fedflow.domain.job.ledger import MOST_NAMES, OTHERS, both_launches
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.trace import Trace

GUEST, HOST = Site(Role.GUEST, PartyId("9999")), Site(Role.HOST, PartyId("10000"))


def key(name: str, tag: str = "", *, source: Site = GUEST) -> ValueKey:
    destination = HOST if source == GUEST else GUEST
    return ValueKey(session="1_lr_0_0", name=name, tag=tag, source=source, destination=destination)


def test_names_are_counted_apart_by_direction_and_their_sums_are_the_peers_counters() -> None:
    trace = Trace()
    for step in range(3):
        trace.sent(key("w", str(step)), 10)
        trace.arrived(key("w", str(step), source=HOST), 7)
    trace.sent(key("hello"), 1)
    (found,) = trace.ledger()
    assert {(m.name, m.is_sent): (m.calls, m.size_bytes) for m in found.messages} == {
        ("w", True): (3, 30),
        ("hello", True): (1, 1),
        ("w", False): (3, 21),
    }
    peer = trace.peers[HOST]
    assert (found.calls(sent=True), found.size_bytes(sent=True)) == (peer.sent, peer.sent_bytes)
    assert found.size_bytes(sent=False) == peer.arrived_bytes
    assert all(0 < m.first_ms <= m.last_ms for m in found.messages)


def test_a_peer_that_invents_names_fills_no_memory_and_hides_nothing_that_was_sent() -> None:
    trace = Trace()
    for number in range(3 * MOST_NAMES):
        trace.arrived(key(f"n{number}", source=HOST), 2)
    trace.sent(key("own"), 5)
    (found,) = trace.ledger()
    assert len(found.messages) == MOST_NAMES + 2
    by_name = {(m.name, m.is_sent): m.calls for m in found.messages}
    assert by_name[OTHERS, False] == 2 * MOST_NAMES
    assert by_name["own", True] == 1
    assert found.calls(sent=False) == 3 * MOST_NAMES


def test_time_in_which_several_receives_wait_for_a_site_counts_once() -> None:
    trace = Trace()
    trace.waits(HOST)
    trace.waits(HOST)
    trace.waits_no_more(HOST)
    assert (trace.of(HOST).receives, trace.of(HOST).receive_s) == (1, 0.0)
    assert trace.ledger()[0].receive_s > 0  # one still waits
    trace.waits_no_more(HOST)
    assert trace.of(HOST).receives == 2
    assert trace.of(HOST).receive_s == trace.of(HOST).blocked_s() > 0


def test_launches_of_an_attempt_are_added_by_peer_name_and_direction() -> None:
    trace = Trace()
    trace.sent(key("w"), 10)
    first = trace.ledger()
    trace.sent(key("w", "2"), 5)
    both = both_launches(first, trace.ledger())
    assert [(m.name, m.calls, m.size_bytes) for m in both[0].messages] == [("w", 3, 25)]
    assert both_launches((), both) == both
    assert both_launches(both, ()) == both
    other = dataclasses.replace(both[0], peer=GUEST)
    assert both_launches(both, [other]) == (both[0], other)
