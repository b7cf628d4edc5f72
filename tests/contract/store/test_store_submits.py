"""Idempotency keys, and results found by cache key, over every store."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.job.warning import JobWarning
from fedflow.domain.scheduling.submits import SubmitKey
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus


def used(key="k", job_id="j1", **fields):
    values = {
        "digest": "d" * 64,
        "warnings": (JobWarning(code="c", path="$.conf", message="x", hint="h"),),
        "created_ms": 1000,
    }
    return SubmitKey(key=key, job_id=job_id, **{**values, **fields})


def test_a_key_is_stored_once(store):
    with store.transaction() as tx:
        assert tx.submits.put(used())
        assert not tx.submits.put(used(job_id="j2"))
    with store.read() as tx:
        assert tx.submits.get("k") == used()
        assert tx.submits.get("K") is None


def test_a_key_is_replaced_only_for_the_job_that_was_seen(store):
    with store.transaction() as tx:
        tx.submits.put(used())
        assert not tx.submits.put(used(job_id="j3"), instead_of="j2")
        assert tx.submits.put(used(job_id="j2"), instead_of="j1")
    with store.transaction() as tx:
        assert not tx.submits.put(used(job_id="j3"), instead_of="j1")
        assert tx.submits.get("k") == used(job_id="j2")


def test_the_key_of_a_job_is_forgotten_with_it(store):
    with store.transaction() as tx:
        tx.submits.put(used())
        tx.submits.put(used("other", "j2"))
        tx.submits.drop("j1", created_ms=1005)
    with store.read() as tx:
        assert tx.submits.get("k") is None
        assert tx.submits.get("other") is not None


def test_old_keys_are_forgotten(store):
    with store.transaction() as tx:
        for n in range(3):
            tx.submits.put(used(f"k{n}", created_ms=n))
        assert tx.submits.prune(2) == 2
        assert [tx.submits.get(f"k{n}") is None for n in range(3)] == [True, True, False]


def test_a_transaction_that_fails_stores_no_key(store):
    class Undo(Exception):
        pass

    try:
        with store.transaction() as tx:
            tx.submits.put(used())
            raise Undo
    except Undo:
        pass
    with store.read() as tx:
        assert tx.submits.get("k") is None


def keyed(make, job_id, status=TaskStatus.SUCCESS, **keys):
    tasks = tuple(
        replace(make.scheduled_task(name, 0, status), cache_key=key) for name, key in keys.items()
    )
    return make.schedule(job_id, components=tuple(keys), tasks=tasks)


def test_tasks_that_succeeded_are_found_by_cache_key_newest_job_first(store, make):
    with store.transaction() as tx:
        tx.schedules.add(keyed(make, "j1", a="1", b="2"))
        tx.schedules.add(keyed(make, "j2", b="2", a="1", c="3"))
        tx.schedules.add(keyed(make, "j3", TaskStatus.FAILED, a="1"))
        made = tx.schedules.reusable(["1", "2", "9"], limit=9)
        assert made == [("j2", "a", "1"), ("j2", "b", "2"), ("j1", "a", "1"), ("j1", "b", "2")]
        assert tx.schedules.reusable(["1", "2"], limit=1) == [("j2", "a", "1")]
        assert tx.schedules.reusable([], limit=9) == []


def test_a_replaced_attempt_is_not_found(store, make):
    with store.transaction() as tx:
        tx.schedules.add(keyed(make, "j1", a="1"))
        tx.schedules.add_attempt("j1", make.scheduled_task("a", 1), now_ms=5)
        assert tx.schedules.reusable(["1"], limit=9) == []


def test_what_a_task_took_over_is_kept(store, make):
    taken = replace(keyed(make, "j1", a="1").tasks[0], inherited_from="j0")
    with store.transaction() as tx:
        tx.schedules.add(make.schedule("j1", components=("a",), tasks=(taken,)))
        tx.schedules.move("j1", JobEvent.QUEUED, seen=JobStatus.READY, now_ms=2)
    with store.read() as tx:
        (task,) = tx.schedules.get("j1").tasks
    assert (task.cache_key, task.inherited_from) == ("1", "j0")
