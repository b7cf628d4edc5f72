"""Commands of other sites: once per request id, all or nothing, effects after the commit."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Commands, Incoming, incoming_of, serve
from fedflow.base.errors.data import TableNotFound
from fedflow.base.errors.jobs import JobNotFound, WrongSite
from fedflow.base.errors.requests import BadRequest, RouteNotFound
from fedflow.base.ids import PartyId
from fedflow.base.messages import verbatim
from fedflow.domain.records import JobFilter, JobKey, Reply
from fedflow.domain.site import Role, Site
from fedflow.wire.envelope import encode, failure
from fedflow.wire.paths import parse_party_path
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import GUEST, HOST, FakeClock, OneServer, create_body, incoming, table

KEY = JobKey(job_id="1", site=HOST)


class Counter:
    """A handler that counts its effects, with a table of its own for each call."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.calls = 0
        self.effects: list[int] = []
        self.fails = False

    def __call__(self, tx: Tx, incoming: Incoming, effects: AfterCommit) -> Reply:
        self.calls += 1
        number = self.calls
        tx.tables.put(table("n", str(number)))
        effects.add(lambda: self.effects.append(number))
        if self.fails:
            raise JobNotFound(job_id=incoming.job_id)
        return Reply(retcode=0, data={"call": number})

    def tables(self) -> int:
        with self.store.read() as tx:
            return len(tx.tables.find())


def commands_over(store: MemoryStore) -> Commands:
    """Return the table of a server that hosts party 10000."""
    return Commands(store=store, clock=FakeClock(), hosts=lambda party: party == HOST.party_id)


@pytest.fixture
def counter() -> Counter:
    return Counter(MemoryStore())


@pytest.fixture
def commands(counter: Counter) -> Commands:
    commands = commands_over(counter.store)
    commands.add("job_start", counter)
    return commands


def test_of_what_may_be_repeated_no_reply_is_kept(commands: Commands, counter: Counter) -> None:
    commands.add("heartbeat", counter, repeatable=True)
    ask = incoming("heartbeat", None, request_id="r1")
    assert [commands.handle(ask).data["call"] for _ in range(2)] == [1, 2]
    with counter.store.transaction() as tx:
        assert tx.reply_cache.prune(2**60) == 0


def test_a_repeat_gets_the_same_reply_and_has_one_effect(
    commands: Commands, counter: Counter
) -> None:
    ask = incoming("job_start", KEY, request_id="r1")
    replies = [commands.handle(ask) for _ in range(3)]
    assert replies == [Reply(retcode=0, data={"call": 1})] * 3
    assert (counter.calls, counter.effects, counter.tables()) == (1, [1], 1)


def test_two_request_ids_are_two_requests(commands: Commands, counter: Counter) -> None:
    commands.handle(incoming("job_start", KEY, request_id="r1"))
    assert commands.handle(incoming("job_start", KEY, request_id="r2")).data == {"call": 2}
    commands.handle(incoming("job_start", KEY))
    commands.handle(incoming("job_start", KEY))
    assert counter.effects == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ("9999", "No table ….… at party 10000."),
        (None, "No table ….… at party 10000."),
        ("10000", "No table n.patients at party 10000."),
    ],
)
def test_another_party_is_refused_without_names_and_the_log_has_them(
    commands: Commands,
    caplog: pytest.LogCaptureFixture,
    asks: str | None,
    says: str,
) -> None:
    def refuses(_tx: Tx, _incoming: Incoming, _effects: AfterCommit) -> Reply:
        raise TableNotFound(namespace="n", name="patients", party_id="10000")

    commands.add("job_apply", refuses)
    ask = replace(incoming("job_apply", KEY), source_party=asks)
    with caplog.at_level(logging.INFO), pytest.raises(TableNotFound) as refused:
        serve(commands, ask)
    assert refused.value.message == says
    assert "patients" in (caplog.text if asks != "10000" else says)
    assert commands.answer(ask).retmsg == says
    assert encode(failure(refused.value)).count(b"patients") == (2 if asks == "10000" else 0)


@pytest.mark.parametrize("named", ["9999", "10000"])
@pytest.mark.parametrize(
    ("asks", "says"),
    [("9999", "No table ….… at party 10000."), ("10000", "No table n.patients at party 10000.")],
)
def test_who_is_hosted_here_counts_and_not_whom_the_path_names(
    commands: Commands, asks: str, says: str, named: str
) -> None:
    """What another site asks of a job's initiator has that site in its path."""

    def refuses(_tx: Tx, _incoming: Incoming, _effects: AfterCommit) -> Reply:
        raise TableNotFound(namespace="n", name="patients", party_id="10000")

    commands.add("initiator_stop", refuses)
    key = JobKey(job_id="1", site=Site(Role.HOST, PartyId(named)))
    ask = replace(incoming("initiator_stop", key, status="failed"), source_party=asks)
    assert commands.answer(ask).retmsg == says


def test_details_stay_with_who_is_asked_though_the_path_names_who_asks(commands: Commands) -> None:
    no = Reply(retcode=103, retmsg=verbatim("job 7 of hospital h"), error="Reserved")
    commands.add("initiator_stop", lambda _tx, _incoming, _effects: no)
    told = serve(commands, incoming("initiator_stop", JobKey(job_id="1", site=GUEST)))
    assert told.retmsg == "Reserved; the details stay at the party that was asked"


def test_an_answer_that_is_an_error_is_cut_for_another_party_too(commands: Commands) -> None:
    no = Reply(retcode=103, retmsg=verbatim("job 7 of hospital h"), error="Reserved")
    commands.add("job_apply", lambda _tx, _incoming, _effects: no)
    ask = incoming("job_apply", KEY)
    told = serve(commands, replace(ask, source_party="9999"))
    assert (told.retmsg, told.error) == ("Reserved; the details stay at host 10000", "Reserved")
    assert serve(commands, replace(ask, source_party="10000")) == no


def test_a_refusal_changes_nothing_and_may_be_asked_again(
    commands: Commands, counter: Counter
) -> None:
    counter.fails = True
    ask = incoming("job_start", KEY, request_id="r1")
    for _ in range(2):
        with pytest.raises(JobNotFound):
            commands.handle(ask)
    assert (counter.calls, counter.effects, counter.tables()) == (2, [], 0)
    counter.fails = False
    assert commands.handle(ask).retcode == 0
    assert counter.effects == [3]


def test_effects_happen_after_the_commit() -> None:
    store = MemoryStore()
    commands = commands_over(store)
    seen: list[bool] = []

    def look() -> None:
        with store.read() as tx:  # raises inside a transaction
            seen.append(tx.tables.get("n", "1") is not None)

    def handler(tx: Tx, _incoming: Incoming, effects: AfterCommit) -> Reply:
        effects.add(look)
        tx.tables.put(table("n", "1"))
        return Reply(retcode=0)

    commands.add("job_start", handler)
    commands.handle(incoming("job_start", KEY, request_id="r1"))
    assert seen == [True]


def test_preparations_are_made_outside_the_transaction_and_not_for_a_repeat() -> None:
    store = MemoryStore()
    commands = commands_over(store)
    prepared: list[str | None] = []

    def prepare(incoming: Incoming) -> None:
        with store.transaction():
            prepared.append(incoming.request_id)

    commands.add("job_create", lambda *_: Reply(retcode=0), prepare=prepare)
    for request_id in ("r1", "r1", "r2"):
        commands.handle(incoming("job_create", KEY, request_id=request_id))
    assert prepared == ["r1", "r2"]


def test_a_command_without_a_handler_is_refused(commands: Commands) -> None:
    with pytest.raises(RouteNotFound):
        commands.handle(incoming("no_such_command", KEY))
    reply = commands.answer(incoming("no_such_command", KEY))
    assert (reply.retcode, reply.error) == (100, "RouteNotFound")


def test_effects_run_in_order_and_one_that_fails_keeps_no_other_back() -> None:
    effects, done = AfterCommit(), []

    def fail() -> None:
        done.append("fail")
        raise OSError("disk full")

    effects.add(lambda: done.append("first"))
    effects.add(fail)
    effects.add(lambda: done.append("last"))
    with pytest.raises(OSError, match="disk full"):
        effects.run()
    assert done == ["first", "fail", "last"]
    effects.run()
    assert len(done) == 3


# --- the real handlers ----------------------------------------------------------------------------


def test_a_job_that_is_created_twice_is_there_once(host: OneServer) -> None:
    first = host.ask("job_create", KEY, body=create_body(), request_id="r1")
    checked = len(host.catalog.checked)
    assert host.ask("job_create", KEY, body=create_body(), request_id="r1") == first
    assert len(host.catalog.checked) == checked
    assert host.ask("job_create", KEY, body=create_body(), request_id="r2") == first
    with host.store.read() as tx:
        assert len(tx.jobs.find(JobFilter())) == 1


def test_a_task_that_is_started_twice_has_one_process(host: OneServer) -> None:
    host.create()
    key = host.run_task()
    host.ask("task_start", key, request_id="r1")
    host.ask("task_start", key, request_id="r1")
    assert [launch.task for launch in host.executor.started] == [key]


@pytest.mark.parametrize("name", ["job_apply", "job_return", "job_start", "job_stop"])
def test_only_the_initiator_commands_a_job(host: OneServer, name: str) -> None:
    host.create()
    with pytest.raises(WrongSite):
        host.ask(name, KEY, source="10001", status="canceled")
    assert not host.job("1").in_use


def test_the_replies_about_a_job_are_found_by_its_id(commands: Commands, counter: Counter) -> None:
    ask = incoming("job_start", KEY, request_id="r1")
    commands.handle(ask)
    with counter.store.transaction() as tx:
        tx.reply_cache.drop("2")
    commands.handle(ask)
    assert counter.calls == 1
    with counter.store.transaction() as tx:
        tx.reply_cache.drop("1")
    commands.handle(ask)
    assert counter.calls == 2


def test_a_reply_with_long_names_is_remembered(commands: Commands, counter: Counter) -> None:
    long = JobKey(job_id="9" * 64, site=HOST)
    for request_id in ("r" * 64, "r" * 63 + "s"):
        ask = incoming("job_start", long, request_id=request_id)
        assert commands.handle(ask) == commands.handle(ask)
    assert counter.calls == 2


@pytest.mark.parametrize("job_id", ["server", "1", "20261121_a", "2" * 19, "2" * 26])
@pytest.mark.parametrize(
    "path",
    [
        "{0}/host/10000/create", "{0}/host/10000/rerun", "{0}/a/{0}_a/0/host/10000/start",
        "{0}/a/{0}_a/0/host/10000/create",
    ],
)  # fmt: skip
def test_nothing_begins_under_an_id_that_has_not_the_form_of_jobs(path: str, job_id: str) -> None:
    match = parse_party_path(f"/v1/party/{path.format(job_id)}")
    assert match is not None
    with pytest.raises(BadRequest, match="20 to 25 digits"):
        incoming_of(match, create_body(), source_party="9999", request_id=None)


def test_fates_own_ids_are_ids_of_jobs() -> None:
    for job_id in ("202611201000000000000", "2026112010000000000000123"):
        match = parse_party_path(f"/v1/party/{job_id}/host/10000/create")
        assert match is not None
        assert incoming_of(match, {}, source_party="9999", request_id=None).job_id == job_id
