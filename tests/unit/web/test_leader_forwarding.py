"""What a server of several does with a party's command, as it leads and as it follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.start import NotLeading
from fedflow.domain.administration.servers import Instance
from fedflow.web.leader_forwarding import LeaderForwarding
from fedflow.wire import envelope
from fedflow.wire.servers import Answer, PartyCommand, ScanNow, Wake

PATH = "/v1/party/heartbeat"
COMMAND = PartyCommand(path=PATH, headers={"a": "b"}, body=b"12")
LEADER = Instance(
    instance_id="l", host="there", http="", grpc="", version="1", shared_mark="m", secret="s"
)


class OfSeveral:
    """A server among several; `calls` is everything that it does."""

    def __init__(self, *, leads: bool, leader: Instance | None = LEADER) -> None:
        self.leads = leads
        self.calls: list[object] = []
        self._leader = leader
        self.reachable = True
        self.forwarding = LeaderForwarding(
            self, self, self.relay, events=self, check_executors=lambda: self.calls.append("check")
        )

    def leader(self) -> Instance:
        if self._leader is None:
            raise NotLeading(reason="none does at the moment")
        return self._leader

    def command(self, server: Instance, command: PartyCommand) -> Answer:
        if not self.reachable:
            raise PartyUnreachable(party_id="9999", address="there:1", reason="refused")
        self.calls.append((server, command))
        return Answer(status=201, body=b"of the leader")

    def relay(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.calls.append((path, headers, body))
        return 200, b"of its own"

    def schedule(self, job_id: str) -> None:
        self.calls.append(job_id)

    def queue(self) -> None:
        self.calls.append("queue")

    def outbox(self, destinations: Sequence[str]) -> None:
        self.calls.append(destinations)


def error_of(status: int, body: bytes) -> tuple[int, int, str]:
    reply = envelope.parse_reply(body)
    return status, reply.retcode, reply.error


def test_the_leader_carries_a_command_out_itself() -> None:
    one = OfSeveral(leads=True)
    assert one.forwarding.dispatch(PATH, {"a": "b"}, b"12") == (200, b"of its own")
    assert one.calls == [(PATH, {"a": "b"}, b"12")]


def test_one_that_follows_lets_the_leader_do_it() -> None:
    one = OfSeveral(leads=False)
    assert one.forwarding.dispatch(PATH, {"a": "b"}, b"12") == (201, b"of the leader")
    assert one.calls == [(LEADER, COMMAND)]


@pytest.mark.parametrize("leader", [None, LEADER])
def test_without_a_leader_the_sender_is_asked_to_try_again(leader: Instance | None) -> None:
    one = OfSeveral(leads=False, leader=leader)
    one.reachable = False
    answer = one.forwarding.dispatch(PATH, {}, b"12")
    assert error_of(*answer) == (200, 105, "NotLeading")
    assert one.calls == []


def test_the_leader_serves_what_another_server_passes_on() -> None:
    one = OfSeveral(leads=True)
    assert one.forwarding.serve(COMMAND) == Answer(status=200, body=b"of its own")


def test_a_command_is_not_passed_on_twice() -> None:
    one = OfSeveral(leads=False)
    answer = one.forwarding.serve(COMMAND)
    assert error_of(answer.status, answer.body) == (200, 105, "NotLeading")
    assert one.calls == []


def test_events_of_others_wake_the_leader_only() -> None:
    wake = Wake(jobs=["1", "2"], queue=True, destinations=["7"])
    for leads, calls in ((True, ["1", "2", "queue", ["7"]]), (False, [])):
        one = OfSeveral(leads=leads)
        assert one.forwarding.serve(wake) == Answer()
        assert one.calls == calls


@pytest.mark.parametrize("leads", [True, False])
def test_any_server_checks_its_executors_when_asked_to(leads: bool) -> None:
    one = OfSeveral(leads=leads)
    assert one.forwarding.serve(ScanNow()) == Answer()
    assert one.calls == ["check"]
