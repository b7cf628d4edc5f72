"""Two servers of one party over one store: who leads, who is lost, what a late one may write."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fedflow.app.administration.leadership import LEASE, Leadership
from fedflow.app.administration.servers import Servers
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.start import NoOtherServer, NotLeading, SharedHomeDiffers
from fedflow.domain.administration.servers import Instance
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeClock

LEASE_MS = 10_000


@dataclass
class Party:
    """A store, a clock for all, and the servers that were made."""

    clock: FakeClock = field(default_factory=FakeClock)
    looked: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)

    def scan_now(self, to: Instance) -> None:
        self.looked.append(to.instance_id)

    def server(self, name: str, *, joins: bool = True, shared: bool = True, mark="m") -> Servers:
        own = Instance(
            instance_id=name, host="here", http="", grpc="", version="1",
            shared_mark=mark, secret=f"secret of {name}",
        )  # fmt: skip
        made = Servers(
            own, store=self.store, leadership=Leadership(self.clock), clock=self.clock,
            shared=shared, calls=self, on_change=lambda: self.changes.append(name),
        )  # fmt: skip
        if joins:
            made.join(http=f"{name}:80", grpc=f"{name}:90")
        return made

    def write(self, server: Servers) -> None:
        with server.leadership.guarded(self.store).transaction() as tx:
            tx.reply_cache.prune(0)

    def token(self) -> int:
        """Return the token of the lease as it is stored."""
        with self.store.read() as tx:
            return tx.leases.get(LEASE).token


@pytest.fixture
def party() -> Party:
    return Party()


def test_the_first_server_leads_and_the_second_follows(party):
    first, second = party.server("a"), party.server("b")
    assert (first.leads, second.leads) == (True, False)
    assert second.leader().instance_id == "a"
    assert party.changes == ["a"]
    with pytest.raises(NotLeading):
        party.write(second)


def test_a_leader_that_beats_keeps_its_token(party):
    first, second = party.server("a"), party.server("b")
    token = party.token()
    for _ in range(20):
        party.clock.ms += 2000
        first.renew()
        second.renew()
    assert party.token() == token
    assert not second.leads


def test_the_second_leads_as_soon_as_the_lease_of_a_silent_first_has_ended(party):
    party.server("a")
    second = party.server("b")
    waited_ms = 0
    while not second.leads:
        pause_ms = int(second.renew() * 1000)
        waited_ms += pause_ms
        party.clock.ms += pause_ms
    assert waited_ms <= LEASE_MS + 2100
    with pytest.raises(NotLeading):
        second.leader()


def test_a_leader_that_stood_still_writes_nothing_with_its_old_token(party):
    first, second = party.server("a"), party.server("b")
    first.renew()  # it knows of the second now
    party.clock.ms += LEASE_MS + 1
    second.renew()
    assert second.leads
    assert first.leads  # it did not notice yet
    with pytest.raises(NotLeading), first.leadership.guarded(party.store).transaction() as tx:
        tx.engines.put("stale", 1, now_ms=0)
    assert not first.leads
    with party.store.read() as tx:
        assert tx.engines.get("stale") is None


def test_a_leader_whose_own_write_was_fenced_off_ceases_with_its_next_beat(party):
    first, second = party.server("a"), party.server("b")
    first.renew()
    party.clock.ms += LEASE_MS + 1
    second.renew()
    with pytest.raises(NotLeading):
        party.write(first)
    first.renew()
    assert party.changes == ["a", "b", "a"]  # its threads must end


def test_a_lone_leader_asks_the_database_only_after_its_own_time_was_up(party):
    class Counting:
        asked = 0

        def holds(self, name, token):
            self.asked += 1
            return True

    class Tx:
        leases = Counting()

    first = party.server("a")
    first.leadership.fence(Tx)
    assert Tx.leases.asked == 0
    party.clock.ms += LEASE_MS - 1000
    first.leadership.fence(Tx)
    assert Tx.leases.asked == 1
    party.server("b")
    first.renew()
    first.leadership.fence(Tx)
    assert Tx.leases.asked == 2


def test_a_lone_leader_that_stood_still_is_fenced_though_it_never_saw_the_second(party):
    first = party.server("a")
    party.clock.ms += LEASE_MS + 1
    second = party.server("b")
    assert second.leads
    with pytest.raises(NotLeading):
        party.write(first)


def test_a_server_that_is_started_again_goes_on_leading(party):
    party.server("a")
    party.server("b")
    token = party.token()
    party.clock.ms += 3000
    again = party.server("a")
    assert again.leads
    assert party.token() == token
    party.write(again)


def test_a_leader_that_stops_hands_over_at_once(party):
    first, second = party.server("a"), party.server("b")
    first.renew()
    first.leave()
    assert party.looked == ["b"]
    second.renew()
    assert second.leads
    assert not first.leads
    assert [(r.instance_id, r.state, r.leads) for r in second.listed()] == [
        ("b", "up", True), ("a", "stopped", False),
    ]  # fmt: skip


def test_draining_hands_over_and_never_leads_again(party):
    first, second = party.server("a"), party.server("b")
    first.drain()
    second.renew()
    assert second.leads
    party.clock.ms += LEASE_MS + 1
    first.renew()
    assert not first.leads
    assert {r.instance_id: r.state for r in first.listed()} == {"a": "draining", "b": "lost"}


def test_draining_without_another_server_is_refused_and_changes_nothing(party):
    first = party.server("a")
    with pytest.raises(NoOtherServer):
        first.drain()
    assert first.leads
    assert first.listed()[0].state == "up"


def test_draining_the_last_server_that_is_not_draining_is_refused(party):
    first, second = party.server("a"), party.server("b")
    first.drain()
    with pytest.raises(NoOtherServer):
        second.drain()


def test_a_server_with_other_shared_folders_is_refused_while_the_first_lives(party):
    party.server("a")
    with pytest.raises(SharedHomeDiffers):
        party.server("b", mark="another")
    party.clock.ms += LEASE_MS + 1
    assert party.server("b", mark="another").leads


def test_executors_of_a_silent_server_are_lost_after_ten_seconds_never_ones_own(party):
    first = party.server("a")
    party.server("b")
    for _ in range(5):
        assert first.lost_for_s("b") is None
        party.clock.ms += 2000
        first.renew()
    assert first.lost_for_s("b") is None
    party.clock.ms += 2000
    first.renew()
    assert first.lost_for_s("b") == 12
    assert first.lost_for_s("a") is None
    assert first.lost_for_s("") is None
    assert first.lost_for_s("never heard of") == 86_400


def test_nobody_is_lost_because_the_database_was_away_from_all(party):
    first, second = party.server("a"), party.server("b")
    party.clock.ms += 60_000
    first.renew()
    assert first.lost_for_s("b") is None
    party.clock.ms += 2000
    second.renew()
    for _ in range(6):
        party.clock.ms += 2000
        second.renew()
        first.renew()
        assert first.lost_for_s("b") is None


def test_a_server_whose_store_nobody_shares_leads_and_beats_without_the_store(party):
    alone = party.server("a", shared=False)
    writes = party.store.writes
    alone.renew()
    party.write(alone)
    alone.leave()
    assert alone.leads
    assert alone.is_local("whoever")
    assert party.store.writes == writes
    (row,) = alone.listed()
    assert (row.state, row.leads, row.is_this) == ("up", True, True)


def test_a_sibling_that_does_not_answer_does_not_stop_the_hand_over(party):
    first, second = party.server("a"), party.server("b")

    class Deaf:
        def scan_now(self, to):
            raise PartyUnreachable(party_id="own", address=to.grpc, reason="refused")

    first._calls = Deaf()
    first.drain()
    second.renew()
    assert second.leads


def test_secrets_are_not_part_of_what_people_see(party):
    (row,) = party.server("a").listed()
    assert "secret" not in repr(row)
