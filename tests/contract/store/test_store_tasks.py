"""Task attempts of this party, over every store."""

from __future__ import annotations

import pytest

from fedflow.base.errors.jobs import IllegalMove
from fedflow.domain.job.ledger import Messages, PeerLedger
from fedflow.domain.records import Handle, Moved, Stale, TaskFilter
from fedflow.domain.site import Role
from fedflow.domain.states import TaskEvent, TaskStatus

HANDLE = Handle(pid=4711, start_time=2**40, host="worker-1")


def test_a_full_record_comes_back_equal(store, make):
    task = make.task(
        make.task_key("a-b_c", 3, site=make.host), status=TaskStatus.RUNNING,
        party_status=TaskStatus.PASS, reason=make.reason(), launch_id="l", token="t",
        requested_ms=3, handle=HANDLE, progress=0.25, started_ms=4, ended_ms=9, traceback="T\n",
        absent=("a", "b"),
    )  # fmt: skip
    with store.transaction() as tx:
        tx.tasks.add([task])
        tx.tasks.add([])
    with store.read() as tx:
        assert tx.tasks.get(task.key) == task
        assert tx.tasks.get(make.task_key("a-b_c", 3)) is None


def test_adding_attempts_again_keeps_the_first(store, make):
    first = make.task(make.task_key("a"))
    with store.transaction() as tx:
        tx.tasks.add([first])
        tx.tasks.add([make.task(make.task_key("a"), module="Other"), make.task(make.task_key("b"))])
        assert tx.tasks.get(first.key) == first
        assert tx.tasks.get(make.task_key("b")) is not None


def test_the_party_status_moves_by_compare_and_set(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        tx.tasks.add([make.task(key)])
        move = tx.tasks.move_party
        assert move(key, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=2000) == Moved(
            TaskStatus.RUNNING
        )
        assert move(key, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=2001) == Stale()
        failed = move(
            key, TaskEvent.FAILED, seen=TaskStatus.RUNNING, now_ms=3000,
            reason=make.reason("bad"), traceback="Traceback ...",
        )  # fmt: skip
        assert failed == Moved(TaskStatus.FAILED)
        assert (
            move(make.task_key("no"), TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=1)
            == Stale()
        )
        with pytest.raises(IllegalMove):
            move(key, TaskEvent.STARTED, seen=TaskStatus.FAILED, now_ms=1)
    with store.read() as tx:
        task = tx.tasks.get(key)
    assert (task.party_status, task.status) == (TaskStatus.FAILED, TaskStatus.WAITING)
    assert (task.started_ms, task.ended_ms, task.updated_ms) == (2000, 3000, 3000)
    assert (task.reason, task.traceback) == (make.reason("bad"), "Traceback ...")


def test_a_newer_launch_replaces_an_older_one_that_has_no_process(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        tx.tasks.add([make.task(key)])
        assert not tx.tasks.set_handle(key, "one", HANDLE)
        assert not tx.tasks.set_launch(key, "one", "secret1", seen="none", now_ms=10)
        assert tx.tasks.set_launch(key, "one", "secret1", seen=None, now_ms=10)
        assert not tx.tasks.set_launch(key, "two", "secret2", seen=None, now_ms=11)
        assert tx.tasks.set_handle(key, "one", HANDLE)
        assert tx.tasks.get(key).handle == HANDLE
        # it has begun: another process beside it would run the task twice
        assert not tx.tasks.set_launch(key, "two", "secret2", seen="one", now_ms=12)
        assert tx.tasks.clear_handle(key, "one")
        assert tx.tasks.set_launch(key, "two", "secret2", seen="one", now_ms=20)
        task = tx.tasks.get(key)
        assert (task.launch_id, task.token, task.requested_ms, task.handle, task.status) == (
            "two", "secret2", 20, None, TaskStatus.RUNNING,
        )  # fmt: skip
        assert not tx.tasks.set_handle(key, "one", HANDLE)
        assert tx.tasks.set_handle(key, "two", HANDLE)
        assert not tx.tasks.clear_handle(key, "one")
        assert tx.tasks.get(key).handle == HANDLE
        assert tx.tasks.clear_handle(key, "two")
        assert tx.tasks.get(key).handle is None
        assert tx.tasks.clear_handle(key, "two")


def test_status_and_progress_are_stored_as_told(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        tx.tasks.add([make.task(key)])
        tx.tasks.set_status(key, TaskStatus.FAILED, now_ms=5)
        tx.tasks.set_status(key, TaskStatus.SUCCESS, now_ms=6)
        tx.tasks.set_progress(key, 0.75, now_ms=7)
        tx.tasks.set_status(make.task_key("none"), TaskStatus.FAILED, now_ms=5)
        task = tx.tasks.get(key)
    assert (task.status, task.progress, task.updated_ms) == (TaskStatus.SUCCESS, 0.75, 7)


def test_what_succeeded_has_made_its_whole_progress(store, make):
    good, bad = make.task_key("good"), make.task_key("bad")
    with store.transaction() as tx:
        tx.tasks.add([make.task(good), make.task(bad)])
        for key, end in ((good, TaskEvent.SUCCEEDED), (bad, TaskEvent.FAILED)):
            tx.tasks.move_party(key, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=5)
            tx.tasks.set_progress(key, 0.5, now_ms=6)
            tx.tasks.move_party(key, end, seen=TaskStatus.RUNNING, now_ms=7)
        assert [tx.tasks.get(key).progress for key in (good, bad)] == [1.0, 0.5]


def test_live_attempts_have_a_process_or_were_asked_for_and_have_not_ended(store, make):
    k = {name: make.task_key(name) for name in ("idle", "asked", "runs", "ended", "ended_alive")}
    with store.transaction() as tx:
        tx.tasks.add([make.task(key) for key in k.values()])
        for name in ("ended_alive", "ended", "runs", "asked"):
            tx.tasks.set_launch(k[name], name, "t", seen=None, now_ms=5)
        for name in ("ended_alive", "ended", "runs"):
            tx.tasks.set_handle(k[name], name, HANDLE)
        for name in ("ended_alive", "ended"):
            tx.tasks.move_party(k[name], TaskEvent.FAILED, seen=TaskStatus.WAITING, now_ms=6)
        tx.tasks.clear_handle(k["ended"], "ended")
    with store.read() as tx:
        assert [t.key.component for t in tx.tasks.live()] == ["asked", "runs", "ended_alive"]


def test_attempts_are_found_in_the_order_in_which_they_were_added(store, make):
    names = ["z", "a", "m", "b"]
    with store.transaction() as tx:
        tx.tasks.add([make.task(make.task_key(n), created_ms=9 - i) for i, n in enumerate(names)])
    with store.transaction() as tx:
        tx.tasks.add([make.task(make.task_key("0", job_id="j0"), created_ms=1)])
        tx.tasks.add([make.task(make.task_key("a", 1))])
    with store.read() as tx:
        find = tx.tasks.find
        assert [t.key.component for t in find(TaskFilter())] == ["z", "m", "b", "0", "a"]
        assert [t.key.version for t in find(TaskFilter(component="a"))] == [1]
        every = find(TaskFilter(job_id="j1", all_versions=True))
        assert [(t.key.component, t.key.version) for t in every] == [
            ("z", 0), ("a", 0), ("m", 0), ("b", 0), ("a", 1),
        ]  # fmt: skip
        assert [t.key.component for t in find(TaskFilter(limit=2))] == ["z", "m"]


def test_filters_choose_by_site_and_by_the_latest_attempts_federated_status(store, make):
    with store.transaction() as tx:
        for site in (make.guest, make.host):
            tx.tasks.add(
                [
                    make.task(make.task_key("a", 0, site=site), status=TaskStatus.FAILED),
                    make.task(make.task_key("a", 1, site=site), status=TaskStatus.RUNNING),
                    make.task(make.task_key("b", 0, site=site), status=TaskStatus.FAILED),
                ]
            )
    with store.read() as tx:
        find = tx.tasks.find

        def found(**which):
            return [(t.key.component, t.key.version) for t in find(TaskFilter(**which))]

        assert found(roles=(Role.GUEST,)) == [("a", 1), ("b", 0)]
        assert found(party_id="10000", roles=(Role.HOST, Role.ARBITER)) == [("a", 1), ("b", 0)]
        assert found(roles=(Role.GUEST,), statuses=(TaskStatus.FAILED,)) == [("b", 0)]
        assert found(roles=(Role.GUEST,), statuses=(TaskStatus.FAILED,), all_versions=True) == [
            ("a", 0), ("b", 0),
        ]  # fmt: skip
        assert found(statuses=()) == []
        assert found(job_id="none") == []


def test_a_thousand_attempts_are_added_at_once(store, make):
    tasks = [make.task(make.task_key(f"c_{i}")) for i in range(1000)]
    with store.transaction() as tx:
        tx.tasks.add(tasks)
    with store.read() as tx:
        assert tx.tasks.find(TaskFilter(job_id="j1")) == tasks


def test_which_inputs_are_absent_is_kept_over_another_launch(store, make):
    task = make.task(make.task_key("a"))
    with store.transaction() as tx:
        tx.tasks.add([task])
        tx.tasks.set_absent(task.key, ["b", "c"])
        tx.tasks.set_launch(task.key, "l2", "t2", seen=task.launch_id, now_ms=9)
        assert tx.tasks.get(task.key).absent == ("b", "c")
        tx.tasks.set_absent(make.task_key("none"), ["b"])


def test_a_relaunched_attempt_waits_for_its_start_as_if_it_had_never_begun(store, make):
    key = make.task_key()
    with store.transaction() as tx:
        tx.tasks.add([make.task(key)])
        tx.tasks.set_launch(key, "one", "secret1", seen=None, now_ms=10)
        tx.tasks.set_handle(key, "one", HANDLE)
        tx.tasks.move_party(key, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=11)
        tx.tasks.move_party(
            key, TaskEvent.FAILED, seen=TaskStatus.RUNNING, now_ms=12, reason=make.reason("dead"),
            traceback="Traceback ...",
        )  # fmt: skip
        assert not tx.tasks.relaunch(key, 1, seen=TaskStatus.FAILED, now_ms=13)  # its process lives
        tx.tasks.clear_handle(key, "one")
        assert not tx.tasks.relaunch(key, 1, seen=TaskStatus.PASS, now_ms=13)
        assert tx.tasks.relaunch(key, 1, seen=TaskStatus.FAILED, now_ms=13)
        task = tx.tasks.get(key)
        assert (task.party_status, task.launch) == (TaskStatus.WAITING, 1)
        assert (task.requested_ms, task.started_ms, task.ended_ms) == (None, None, None)
        assert (task.reason, task.traceback, task.progress) == (None, "", 0.0)
        assert tx.tasks.set_launch(key, "two", "secret2", seen="one", now_ms=20)
        tx.tasks.move_party(key, TaskEvent.EXCUSED, seen=TaskStatus.WAITING, now_ms=21)
        assert not tx.tasks.relaunch(key, 0, seen=TaskStatus.PASS, now_ms=22)  # it is a later one
        assert tx.tasks.relaunch(key, 2, seen=TaskStatus.PASS, now_ms=22)


def test_what_an_attempt_exchanged_is_kept_with_its_end_and_goes_with_the_job(store, make):
    key, other = make.task_key("a", site=make.host), make.task_key("b")
    sent = Messages(name="w", is_sent=True, calls=2, size_bytes=2**40, first_ms=1, last_ms=9)
    ledger = (PeerLedger(peer=other.site, receives=1, receive_s=1.5, messages=(sent,)),)
    with store.transaction() as tx:
        tx.tasks.add([make.task(key), make.task(other)])
        for one in (key, other):
            tx.tasks.move_party(one, TaskEvent.STARTED, seen=TaskStatus.WAITING, now_ms=2)
        tx.tasks.move_party(
            key, TaskEvent.SUCCEEDED, seen=TaskStatus.RUNNING, now_ms=3, ledger=ledger
        )
        tx.tasks.move_party(other, TaskEvent.SUCCEEDED, seen=TaskStatus.RUNNING, now_ms=3)
    with store.read() as tx:
        assert tx.tasks.ledgers(key.job_id) == {key: ledger}
        assert tx.tasks.ledgers("none") == {}
    with store.transaction() as tx:
        tx.tasks.drop(key.job_id)
        assert tx.tasks.ledgers(key.job_id) == {}
