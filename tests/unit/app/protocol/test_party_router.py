"""The way of a command: to the handlers of an own party, to the leader, or over the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fedflow.app.administration.leadership import OnlyServer
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Commands, TypedCommand
from fedflow.app.protocol.party_router import PartyRouter
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import JobKey, Reply
from fedflow.domain.site import Site
from fedflow.wire import envelope
from fedflow.wire.commands import OfEpoch
from fedflow.wire.paths import job_path
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import GUEST, HOST, FakeClock

KEY = JobKey(job_id="202611201000000000000", site=HOST)
START = job_path("job_start", KEY)


class Follower(OnlyServer):
    """A server that does not lead."""

    leads = False


class Way:
    """A router of party 10000 with all that is behind it; `seen` is what arrived where."""

    def __init__(self, *, leads: bool = True) -> None:
        self.seen: list[Any] = []
        self.fail: Exception | None = None
        self.data: Any = {"when": (1, 2)}
        self.commands = Commands(store=MemoryStore(), clock=FakeClock(), hosts=self.is_local)
        self.commands.add("job_start", self.start)
        servers = OnlyServer() if leads else Follower()
        self.router = PartyRouter(self, remote=self, servers=servers, own_party="10000")
        self.router.connect(self.commands, forward=self.forward)

    def start(self, _tx: Tx, incoming: TypedCommand[OfEpoch], _effects: AfterCommit) -> Reply:
        self.seen.append(incoming)
        if self.fail is not None:
            raise self.fail
        return Reply(retcode=0, data=self.data)

    def forward(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.seen.append((path, dict(headers), body))
        return 200, envelope.encode(envelope.success("of the leader"))

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        self.seen.append((source, destination, path, body, request_id, job_id, deadline_s))
        return Reply(retcode=0, data="of another party")

    def knows(self, party_id: str) -> bool:
        return party_id in ("10000", "9999")

    def is_local(self, party_id: str) -> bool:
        return party_id == "10000"

    def send(self, body: Any = None, *, to: str = "10000", path: str = START) -> Reply:
        return self.router.call(
            GUEST, to, path, {"epoch": 3} if body is None else body,
            request_id="r-1", job_id=KEY.job_id, deadline_s=1,
        )  # fmt: skip


def test_a_command_to_an_own_party_arrives_as_one_of_another_would() -> None:
    way = Way()
    reply = way.send()
    assert reply == Reply(retcode=0, retmsg=reply.retmsg, data={"when": [1, 2]})  # as JSON has it
    [incoming] = way.seen
    assert (incoming.name, incoming.job, incoming.source_party) == ("job_start", KEY, "9999")
    assert (incoming.body, incoming.request_id) == (OfEpoch(epoch=3), "r-1")


def test_without_a_source_it_is_of_the_own_party() -> None:
    way = Way()
    way.router.call(None, "10000", START, {}, request_id="r", job_id="", deadline_s=1)
    assert way.seen[0].source_party == "10000"


def test_a_repeat_is_answered_from_the_store() -> None:
    way = Way()
    assert way.send() == way.send()
    assert len(way.seen) == 1


def test_a_refusal_is_a_reply_with_message_and_hint() -> None:
    way = Way()
    way.fail = JobNotFound(job_id=KEY.job_id)
    reply = way.send()
    assert (reply.retcode, reply.error) == (way.fail.retcode, "JobNotFound")
    assert reply.retmsg == f"{way.fail.message} {way.fail.hint}"


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        (START, {"epoch": "x"}, "BadRequest"),
        (START.replace("/start", "/stop/pass"), {}, "BadRequest"),
        ("/job/submit", {}, "ForbiddenRoute"),
        (job_path("job_apply", KEY), {}, "RouteNotFound"),
    ],
)
def test_what_is_malformed_is_refused(path: str, body: Any, error: str) -> None:
    way = Way()
    assert way.send(body, path=path).error == error
    assert way.seen == []


def test_a_defect_is_an_internal_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    way = Way()
    way.fail = RuntimeError("secret detail")
    reply = way.send()
    assert (reply.retcode, reply.retmsg, reply.error) == (100, "internal error", "InternalError")
    assert "secret detail" in caplog.text


def test_an_answer_that_is_no_json_is_an_internal_error() -> None:
    way = Way()
    way.data = object()
    assert way.send().error == "InternalError"


def test_an_answer_does_not_say_why_the_store_cannot_be_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    way = Way()
    way.fail = StoreUnavailable(reason="/srv/fedflow.sqlite: no such column")
    reply = way.send()
    assert reply.error == "StoreUnavailable"
    assert "/srv" not in reply.retmsg
    assert "/srv/fedflow.sqlite" in caplog.text


def test_a_server_that_follows_lets_the_leader_do_it() -> None:
    way = Way(leads=False)
    assert way.send().data == "of the leader"
    [(path, headers, body)] = way.seen
    assert (path, body) == ("/v1" + START, b'{"epoch":3}')
    assert (headers["SRC-PARTY-ID"], headers["DEST-PARTY-ID"]) == ("9999", "10000")
    assert (headers["SRC-ROLE"], headers["X-FEDFLOW-REQUEST-ID"]) == ("guest", "r-1")


@pytest.mark.parametrize("leads", [True, False])
def test_a_command_to_another_party_takes_the_network(leads: bool) -> None:
    way = Way(leads=leads)
    assert way.send(to="9999").data == "of another party"
    assert way.seen == [(GUEST, "9999", START, {"epoch": 3}, "r-1", KEY.job_id, 1)]
    assert (way.router.knows("9999"), way.router.is_local("9999")) == (True, False)


def test_nothing_is_carried_out_before_the_server_is_open() -> None:
    way = Way()
    closed = PartyRouter(way, remote=way, servers=OnlyServer(), own_party="10000")
    with pytest.raises(RuntimeError, match="not open"):
        closed.call(GUEST, "10000", START, {}, request_id="r", job_id="", deadline_s=1)
