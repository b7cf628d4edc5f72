"""The servers of one party, the database's time, and the claim of the one that leads."""
# the transaction is what raises, at its end too

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from fedflow.domain.administration.servers import Instance, InstanceState
from fedflow.domain.records import Handle, JobKey
from fedflow.domain.states import TaskEvent, TaskStatus
from tests.unit.app.fakes import ARBITER, CORES, ENGINE, HOST, conf, create_body, dsl, participant


def _instance(instance_id="a", **more):
    values = {
        "host": "here", "http": "127.0.0.1:9380", "grpc": "[::1]:9360", "version": "1",
        "shared_mark": "mark", "secret": "s3cret",
    }  # fmt: skip
    return Instance(instance_id=instance_id, **{**values, **more})


def test_a_server_comes_back_with_the_databases_time_as_its_beat(store):
    with store.transaction() as tx:
        before_ms = tx.instances.now_ms()
        beat_ms = tx.instances.renew(_instance())
        (found,) = tx.instances.all()
    assert before_ms <= beat_ms
    assert found == replace(_instance(), started_ms=beat_ms, beat_ms=beat_ms)


def test_a_later_beat_replaces_everything_and_keeps_the_start_that_is_named(store):
    with store.transaction() as tx:
        started_ms = tx.instances.renew(_instance())
    with store.transaction() as tx:
        later = _instance(started_ms=started_ms, state=InstanceState.DRAINING, http="h:1")
        beat_ms = tx.instances.renew(later)
        assert tx.instances.all() == [replace(later, beat_ms=beat_ms)]


def test_servers_are_listed_by_their_start(store):
    with store.transaction() as tx:
        tx.instances.renew(_instance("late", started_ms=20))
        tx.instances.renew(_instance("b", started_ms=10))
        tx.instances.renew(_instance("a", started_ms=10))
        assert [i.instance_id for i in tx.instances.all()] == ["a", "b", "late"]


def test_servers_that_did_not_beat_for_long_are_forgotten(store):
    with store.transaction() as tx:
        beat_ms = tx.instances.renew(_instance())
        assert tx.instances.prune(beat_ms) == 0
        assert tx.instances.prune(beat_ms + 1) == 1
        assert tx.instances.all() == []


def test_a_claim_is_held_by_its_token_until_another_owner_takes_it(store):
    with store.transaction() as tx:
        assert not tx.leases.holds("scheduler", 1)
        first = tx.leases.renew("scheduler", "a", expires_ms=100, now_ms=0)
        again = tx.leases.renew("scheduler", "a", expires_ms=200, now_ms=50)
        assert first.token == again.token
        assert tx.leases.holds("scheduler", first.token)
        second = tx.leases.renew("scheduler", "b", expires_ms=400, now_ms=201)
        assert second.token > first.token
        assert not tx.leases.holds("scheduler", first.token)
        tx.leases.release("scheduler", "b")
        assert not tx.leases.holds("scheduler", second.token)


def test_reading_transactions_cannot_beat(store):
    with pytest.raises(RuntimeError), store.read() as tx:
        tx.instances.renew(_instance())


def test_placed_tells_which_server_runs_an_attempt_while_it_lives(store, make):
    key = make.task().key
    with store.transaction() as tx:
        tx.tasks.add([make.task()])
        assert tx.tasks.placed() == {}
        tx.tasks.set_launch(key, "l", "t", seen=None, now_ms=5, instance_id="a")
        assert tx.tasks.get(key).instance_id == "a"
        assert tx.tasks.placed() == {(key.session, key.site): "a"}
        tx.tasks.set_handle(key, "l", Handle(pid=1, start_time=2, host="h"))
        tx.tasks.move_party(key, TaskEvent.FAILED, seen=TaskStatus.WAITING, now_ms=6)
        assert tx.tasks.placed() == {(key.session, key.site): "a"}
        tx.tasks.clear_handle(key, "l")
        assert tx.tasks.placed() == {}


@pytest.mark.mysql
def test_nobody_takes_a_claim_over_while_a_transaction_relies_on_it(mysql_store):
    with mysql_store.transaction() as tx:
        mine = tx.leases.renew("scheduler", "a", expires_ms=100, now_ms=0)
    taken = threading.Event()

    def take() -> None:
        with mysql_store.transaction() as tx:
            assert tx.leases.renew("scheduler", "b", expires_ms=900, now_ms=500) is not None
        taken.set()

    thread = threading.Thread(target=take)
    with mysql_store.transaction() as tx:
        assert tx.leases.holds("scheduler", mine.token)
        thread.start()
        assert not taken.wait(0.5)
        tx.reply_cache.prune(0)
    thread.join(20)
    assert taken.is_set()
    with mysql_store.transaction() as tx:
        assert not tx.leases.holds("scheduler", mine.token)


@pytest.mark.mysql
def test_transactions_do_not_wait_for_each_other_to_rely_on_a_claim(mysql_store):
    with mysql_store.transaction() as tx:
        mine = tx.leases.renew("another claim", "a", expires_ms=100, now_ms=0)
    relied = threading.Event()

    def rely() -> None:
        with mysql_store.transaction() as tx:
            assert tx.leases.holds("another claim", mine.token)
        relied.set()

    with mysql_store.transaction() as tx:
        assert tx.leases.holds("another claim", mine.token)
        thread = threading.Thread(target=rely)
        thread.start()
        thread.join(8)
        assert relied.is_set()


@pytest.mark.mysql
def test_the_database_undoes_a_transaction_whose_server_stands_still(mysql):
    store = mysql.open()
    try:
        with store.read() as tx:
            found = dict(tx.instances._session.rows("SHOW SESSION VARIABLES"))
    finally:
        store.close()
    limit = "idle_transaction_timeout" if "MariaDB" in found["version"] else "wait_timeout"
    assert found[limit] == "8"


def test_of_two_sites_of_a_job_that_end_at_once_the_later_one_drops_its_lease(
    store, tmp_path, monkeypatch
):
    server = participant(tmp_path)
    server.store = store
    server.boot()
    with store.transaction() as tx:
        tx.engines.put(ENGINE, CORES, now_ms=server.clock.ms)
    roles = {"guest": [9999], "host": [10000], "arbiter": [10000]}
    body = create_body(dsl_=dsl(k="Keys"), conf_=conf(**roles))
    for site in (HOST, ARBITER):
        server.ask("job_create", JobKey(job_id="1", site=site), body=body)
    both = threading.Barrier(2)
    jobs = server.core.detector._jobs
    returns = jobs.return_if_still

    def wait_for_the_other(*args):  # neither sees that the other one has ended, if both get here
        with suppress(threading.BrokenBarrierError):
            both.wait(1.0)
        returns(*args)

    monkeypatch.setattr(jobs, "return_if_still", wait_for_the_other)

    def end(site):
        server.ask("job_stop", JobKey(job_id="1", site=site), status="canceled")

    threads = [threading.Thread(target=end, args=(site,)) for site in (HOST, ARBITER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with store.read() as tx:
        assert {tx.jobs.status(JobKey(job_id="1", site=s)).value for s in (HOST, ARBITER)} == {
            "canceled"
        }
        assert tx.leases.get("initiator/1") is None
