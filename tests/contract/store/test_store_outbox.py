"""Commands that go out, requests that came in, and leases, over every store."""
# ruff: noqa: PT012  # the transaction is what raises, at its end too

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import CommandKind, Reply

NONE = frozenset()
LONG = 10**9


def _heads(tx, make, *, now_ms=5000, skip=NONE, limit=10):
    return [
        (c.job_id, c.body)
        for c in tx.outbox.heads(make.host.party_id, now_ms=now_ms, skip=skip, limit=limit)
    ]


def test_a_command_comes_back_equal_with_a_number(store, make):
    command = make.command(attempts=3, error="why", body={"x": [1]}, due_ms=77)
    with store.transaction() as tx:
        tx.outbox.put([command])
        tx.outbox.put([])
    with store.read() as tx:
        (head,) = tx.outbox.heads("10000", now_ms=77, skip=NONE, limit=1)
    assert head.number > 0
    assert replace(head, number=0) == command


def test_heads_are_the_oldest_command_of_each_job_in_order(store, make):
    with store.transaction() as tx:
        tx.outbox.put([make.command("b", body=1), make.command("a", body=2)])
        tx.outbox.put([make.command("b", body=3), make.command("c", to=make.guest, body=4)])
        assert _heads(tx, make) == [("b", 1), ("a", 2)]
        assert _heads(tx, make, limit=1) == [("b", 1)]
        assert _heads(tx, make, skip=frozenset({"b"})) == [("a", 2)]
        assert _heads(tx, make, skip=frozenset({"b"}), limit=1) == [("a", 2)]
        assert _heads(tx, make, skip=frozenset({"a", "b"})) == []
        assert tx.outbox.destinations() == ["10000", "9999"]
        assert tx.outbox.size() == 4


def test_all_sites_of_a_party_share_the_order_of_their_job(store, make):
    with store.transaction() as tx:
        tx.outbox.put([make.command(to=make.arbiter, body=1), make.command(to=make.host, body=2)])
        assert _heads(tx, make) == [("j1", 1)]


def test_a_command_that_waits_for_its_retry_holds_back_the_later_ones_of_its_job(store, make):
    with store.transaction() as tx:
        tx.outbox.put(
            [make.command("a", body=1), make.command("a", body=2), make.command("b", body=3)]
        )
        first = tx.outbox.heads("10000", now_ms=5000, skip=NONE, limit=1)[0]
        tx.outbox.retry(first.number, due_ms=6000, error="no answer")
        assert _heads(tx, make) == [("b", 3)]
        assert tx.outbox.next_due_ms("10000") == 1000
        assert _heads(tx, make, now_ms=6000) == [("a", 1), ("b", 3)]
        again = tx.outbox.heads("10000", now_ms=6000, skip=NONE, limit=1)[0]
        assert (again.attempts, again.error, again.due_ms) == (1, "no answer", 6000)
        tx.outbox.remove(first.number)
        assert _heads(tx, make) == [("a", 2), ("b", 3)]


def test_the_next_due_time_is_that_of_the_heads(store, make):
    with store.transaction() as tx:
        assert tx.outbox.next_due_ms("10000") is None
        tx.outbox.put([make.command("a", due_ms=300), make.command("a", due_ms=100)])
        assert tx.outbox.next_due_ms("10000") == 300
        tx.outbox.put([make.command("b", due_ms=200)])
        assert tx.outbox.next_due_ms("10000") == 200
        assert tx.outbox.next_due_ms("9999") is None
        assert tx.outbox.next_due_ms("10000", skip=frozenset({"b"})) == 300
        assert tx.outbox.next_due_ms("10000", skip=frozenset({"a", "b"})) is None


def test_a_number_is_never_used_twice(store, make):
    numbers = []
    for _ in range(3):
        with store.transaction() as tx:
            tx.outbox.put([make.command()])
        with store.transaction() as tx:
            (head,) = tx.outbox.heads("10000", now_ms=5000, skip=NONE, limit=5)
            tx.outbox.remove(head.number)
            tx.outbox.remove(head.number)
            tx.outbox.retry(head.number, due_ms=1, error="")
            assert tx.outbox.size() == 0
        numbers.append(head.number)
    assert numbers == sorted(set(numbers))


def test_an_empty_outbox_has_no_destinations(store, make):
    with store.transaction() as tx:
        tx.outbox.put([make.command()])
        tx.outbox.remove(tx.outbox.heads("10000", now_ms=5000, skip=NONE, limit=5)[0].number)
        assert tx.outbox.destinations() == []
        assert _heads(tx, make) == []


def test_commands_of_threads_keep_their_order_within_each_job(store, make):
    def work(i):
        for n in range(10):
            with store.transaction() as tx:
                tx.outbox.put([make.command(f"j{i}", body=n)])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    sent = {f"j{i}": [] for i in range(4)}
    with store.transaction() as tx:
        while heads := tx.outbox.heads("10000", now_ms=5000, skip=NONE, limit=3):
            for head in heads:
                sent[head.job_id].append(head.body)
                tx.outbox.remove(head.number)
    assert all(bodies == list(range(10)) for bodies in sent.values())


def test_a_party_that_can_be_reached_again_gets_what_waits_for_it_at_once(store, make):
    with store.transaction() as tx:
        tx.outbox.put(
            [make.command("a", body=1, due_ms=9000), make.command("b", body=2, due_ms=50)]
        )
        tx.outbox.put([make.command("c", to=make.guest, body=3, due_ms=9000)])
        tx.outbox.release("10000", now_ms=100)
        assert _heads(tx, make, now_ms=100) == [("a", 1), ("b", 2)]
        assert tx.outbox.next_due_ms("10000") == 50
        assert tx.outbox.next_due_ms("9999") == 9000
        tx.outbox.release(None, now_ms=200)
        assert tx.outbox.next_due_ms("9999") == 200


def test_commands_whose_deadline_passed_are_found_whenever_they_are_due(store, make):
    with store.transaction() as tx:
        assert tx.outbox.next_deadline_ms("10000", create_within_ms=LONG) is None
        tx.outbox.put(
            [
                make.command("a", body=1, due_ms=9000, deadline_ms=500),
                make.command("a", body=2, deadline_ms=100),
                make.command("b", body=3, deadline_ms=800),
                make.command("c", to=make.guest, body=4, deadline_ms=1),
            ]
        )

        def overdue(now_ms, **more):
            given = {"skip": NONE, "limit": 10, "create_within_ms": LONG, **more}
            return [c.body for c in tx.outbox.overdue("10000", now_ms=now_ms, **given)]

        assert tx.outbox.next_deadline_ms("10000", create_within_ms=LONG) == 500
        after_a = {"create_within_ms": LONG, "skip": frozenset({"a"})}
        assert tx.outbox.next_deadline_ms("10000", **after_a) == 800
        assert overdue(499) == []
        assert overdue(500) == [1]
        assert overdue(800) == [1, 3]
        assert overdue(800, limit=1) == [1]
        assert overdue(800, skip=frozenset({"a"})) == [3]


def test_a_command_to_create_a_job_may_be_overdue_before_its_deadline(store, make):
    create, other = CommandKind.CREATE_JOB, CommandKind.END_JOB
    with store.transaction() as tx:
        tx.outbox.put(
            [
                make.command("a", body=1, kind=create, created_ms=100, deadline_ms=900),
                make.command("b", body=2, kind=create, created_ms=100, deadline_ms=150),
                make.command("c", body=3, kind=other, created_ms=100, deadline_ms=900),
            ]
        )
        late = {"skip": NONE, "limit": 10, "create_within_ms": 300}
        assert [c.body for c in tx.outbox.overdue("10000", now_ms=399, **late)] == [2]
        assert [c.body for c in tx.outbox.overdue("10000", now_ms=400, **late)] == [1, 2]
        soon = {"create_within_ms": 300, "skip": frozenset({"b"})}
        assert tx.outbox.next_deadline_ms("10000", **soon) == 400


def test_commands_are_counted_by_party(store, make):
    with store.transaction() as tx:
        assert tx.outbox.sizes() == {}
        tx.outbox.put([make.command("a"), make.command("b"), make.command("a", to=make.guest)])
        assert tx.outbox.sizes() == {"10000": 2, "9999": 1}


# --- requests that came in -----------------------------------------------------------------------


def test_a_reply_is_kept_until_it_is_pruned(store):
    reply = Reply(retcode=103, retmsg="no", data={"a": [1, None]})
    with store.transaction() as tx:
        assert tx.reply_cache.get("r1") is None
        tx.reply_cache.put("r1", reply, now_ms=100)
        tx.reply_cache.put("r2", Reply(retcode=0), now_ms=200)
    with store.transaction() as tx:
        assert tx.reply_cache.get("r1") == reply
        assert tx.reply_cache.prune(100) == 0
        assert tx.reply_cache.prune(101) == 1
        assert tx.reply_cache.get("r1") is None
        assert tx.reply_cache.get("r2") == Reply(retcode=0)


def test_named_replies_are_forgotten(store):
    with store.transaction() as tx:
        for name in ("r1", "r2", "r3"):
            tx.reply_cache.put(name, Reply(retcode=0), now_ms=1)
        tx.reply_cache.forget(())
        tx.reply_cache.forget(["r1", "r3", "unknown"])
    with store.read() as tx:
        left = [name for name in ("r1", "r2", "r3") if tx.reply_cache.get(name) is not None]
    assert left == ["r2"]


def test_replies_about_a_job_go_with_it(store):
    names = ["j1/9999/r", "j1//r", "j10/9999/r", "j1", "9999/r", "J1/9999/r2"]
    with store.transaction() as tx:
        for name in names[:5]:
            tx.reply_cache.put(name, Reply(retcode=0), now_ms=1)
        tx.reply_cache.drop("j1")
    with store.read() as tx:
        left = [name for name in names if tx.reply_cache.get(name) is not None]
    assert left == ["j10/9999/r", "j1", "9999/r"]


def test_a_second_answer_to_one_request_undoes_its_effects(store, make):
    with store.transaction() as tx:
        tx.reply_cache.put("r1", Reply(retcode=0), now_ms=100)
    with pytest.raises(StoreUnavailable, match="answered elsewhere"), store.transaction() as tx:
        tx.jobs.add(make.job())
        tx.reply_cache.put("r1", Reply(retcode=1), now_ms=100)
    with store.read() as tx:
        assert tx.jobs.get(make.job_key()) is None
        assert tx.reply_cache.get("r1") == Reply(retcode=0)


def test_a_request_that_arrives_twice_at_once_has_one_effect(store, make):
    with store.transaction() as tx:
        tx.engines.put("count", 0, now_ms=1)
    barrier = threading.Barrier(4)
    answers = []

    def handle():
        barrier.wait(5)
        for _ in range(5):
            try:
                with store.transaction() as tx:
                    known = tx.reply_cache.get("r1")
                    if known is None:
                        count = tx.engines.get("count").cores
                        tx.engines.put("count", count + 1, now_ms=1)
                        known = Reply(retcode=0, data=count + 1)
                        tx.reply_cache.put("r1", known, now_ms=1)
                answers.append(known.data)
                return
            except StoreUnavailable:
                continue

    threads = [threading.Thread(target=handle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [1] * 4
    with store.read() as tx:
        assert tx.engines.get("count").cores == 1


# --- leases --------------------------------------------------------------------------------------


def test_a_lease_is_held_until_it_expires_and_tokens_grow_with_each_owner(store):
    with store.transaction() as tx:
        assert tx.leases.get("scheduler") is None
        first = tx.leases.renew("scheduler", "a", expires_ms=100, now_ms=0)
        assert tx.leases.renew("scheduler", "b", expires_ms=200, now_ms=99) is None
        longer = tx.leases.renew("scheduler", "a", expires_ms=150, now_ms=99)
        assert (longer.token, longer.expires_ms) == (first.token, 150)
        assert tx.leases.get("scheduler") == longer
        late = tx.leases.renew("scheduler", "a", expires_ms=180, now_ms=170)
        assert late.token == first.token
        taken = tx.leases.renew("scheduler", "b", expires_ms=300, now_ms=180)
        assert (taken.owner, taken.expires_ms) == ("b", 300)
        assert taken.token > first.token
        assert tx.leases.renew("scheduler", "a", expires_ms=400, now_ms=200) is None
        back = tx.leases.renew("scheduler", "a", expires_ms=400, now_ms=300)
        assert back.token > taken.token


def test_a_released_lease_is_free_and_its_next_token_is_greater(store):
    with store.transaction() as tx:
        first = tx.leases.renew("x", "a", expires_ms=100, now_ms=0)
        tx.leases.release("x", "b")
        assert tx.leases.get("x") == first
        tx.leases.release("x", "a")
        tx.leases.release("x", "a")
        assert tx.leases.get("x") is None
    with store.transaction() as tx:
        assert tx.leases.renew("x", "b", expires_ms=100, now_ms=0).token > first.token


def test_a_lease_is_extended_by_its_owner_while_it_is_there(store):
    with store.transaction() as tx:
        first = tx.leases.renew("x", "a", expires_ms=100, now_ms=0)
        assert tx.leases.extend("x", "a", expires_ms=300)
        assert not tx.leases.extend("x", "b", expires_ms=900)
        held = tx.leases.get("x")
        assert (held.token, held.owner, held.expires_ms) == (first.token, "a", 300)
        tx.leases.release("x", "a")
        assert not tx.leases.extend("x", "a", expires_ms=400)
        assert tx.leases.get("x") is None


def test_leases_do_not_touch_each_other(store):
    with store.transaction() as tx:
        tx.leases.renew("x", "a", expires_ms=100, now_ms=0)
        assert tx.leases.renew("y", "b", expires_ms=50, now_ms=0).name == "y"
        tx.leases.release("y", "b")
        assert tx.leases.get("x").owner == "a"


def test_of_threads_that_race_for_an_expired_lease_exactly_one_gets_it(store):
    names = [f"l{i}" for i in range(6)]
    with store.transaction() as tx:
        old = {n: tx.leases.renew(n, "old", expires_ms=10, now_ms=0) for n in names[:3]}
    barrier, won = threading.Barrier(4), []

    def work(i):
        barrier.wait(5)
        for name in names:
            with store.transaction() as tx:
                lease = tx.leases.renew(name, f"w{i}", expires_ms=100, now_ms=20)
            if lease is not None:
                won.append(lease)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(lease.name for lease in won) == names
    assert all(lease.token > old[lease.name].token for lease in won if lease.name in old)
