"""The schedule half, over every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedflow.base.errors.jobs import IllegalMove
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.control import FREE, Control
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import StopRequest
from fedflow.domain.records import Moved, ScheduledSite, Stale
from fedflow.domain.states import JobEvent, JobStatus, TaskEvent, TaskStatus


def test_a_schedule_comes_back_equal_with_sites_and_tasks_in_their_order(store, make):
    job = make.schedule(
        components=("z", "a", "m_1"), priority=5, reason=make.reason(), epoch=2, started_ms=3,
        ended_ms=4, stop=StopRequest(status=JobStatus.CANCELED, reason=make.reason("user")),
        sites=(
            ScheduledSite(site=make.host, phase=SitePhase.DENIED, retry_ms=7, denials=2,
                          reason=make.reason()),
            ScheduledSite(site=make.arbiter, phase=SitePhase.GRANTED),
            ScheduledSite(site=make.guest, phase=SitePhase.CREATED),
        ),
    )  # fmt: skip
    with store.transaction() as tx:
        tx.schedules.add(job)
        tx.schedules.add(make.schedule("j1", components=("other",)))
    with store.read() as tx:
        assert tx.schedules.get("j1") == job
        assert tx.schedules.get("none") is None


def test_a_thousand_tasks_come_back_equal(store, make):
    job = make.schedule(components=tuple(f"c_{i}" for i in range(1000)))
    with store.transaction() as tx:
        tx.schedules.add(job)
    with store.read() as tx:
        assert tx.schedules.get("j1") == job


def test_a_read_after_a_write_of_the_same_transaction_is_new(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        assert tx.schedules.get("j1").tasks[0].status is TaskStatus.WAITING
        tx.schedules.start_task("j1", "b", 0, now_ms=5)
        assert tx.schedules.get("j1").tasks[0].status is TaskStatus.RUNNING
        tx.schedules.set_reason("j1", make.reason(), now_ms=6)
        assert tx.schedules.get("j1").reason == make.reason()


def test_active_jobs_are_oldest_first_and_end_when_the_job_ends(store, make):
    with store.transaction() as tx:
        for job_id, created_ms in (("c", 3), ("b", 1), ("a", 1)):
            tx.schedules.add(make.schedule(job_id, created_ms=created_ms))
        assert tx.schedules.active() == ["a", "b", "c"]
        tx.schedules.move("b", JobEvent.CANCELED, seen=JobStatus.READY, now_ms=9)
        assert tx.schedules.active() == ["a", "c"]


def test_ended_jobs_are_named_by_party_newest_first(store, make):
    never = ScheduledSite(site=make.host, phase=SitePhase.REFUSED)
    guest = ScheduledSite(site=make.guest, phase=SitePhase.GRANTED)
    host = ScheduledSite(site=make.host, phase=SitePhase.GONE)
    ends = {"old": 3, "a": 10, "b": 11, "c": 12}
    with store.transaction() as tx:
        for job_id, ended_ms in ends.items():
            tx.schedules.add(make.schedule(job_id, sites=(guest, host)))
            tx.schedules.move(job_id, JobEvent.CANCELED, seen=JobStatus.READY, now_ms=ended_ms)
        tx.schedules.add(make.schedule("runs", sites=(guest, host)))
        tx.schedules.add(make.schedule("refused", sites=(guest, never)))
        tx.schedules.move("refused", JobEvent.FAILED, seen=JobStatus.READY, now_ms=13)
        found = tx.queue.ended_with("10000", since_ms=10, limit=9)
        names = [(e.job_id, e.site) for e in found]
        assert names == [(i, make.host) for i in ("refused", "c", "b", "a")]
        assert {(e.status, e.epoch, e.initiator) for e in found[1:]} == {
            (JobStatus.CANCELED, 0, make.guest)
        }
        found = tx.queue.ended_with("10000", since_ms=0, limit=3)
        assert [e.job_id for e in found] == ["refused", "old", "c"]
        assert tx.queue.ended_with("9999", since_ms=13, limit=9)[0].job_id == "refused"
        assert tx.queue.ended_parties() == ["10000", "9999"]


@pytest.mark.parametrize("phase", [SitePhase.CREATING, SitePhase.REFUSED])
def test_of_a_site_that_did_not_agree_nobody_knows_whether_it_has_the_job(store, make, phase):
    guest = ScheduledSite(site=make.guest, phase=SitePhase.CREATED)
    unsure = ScheduledSite(site=make.host, phase=phase)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule("unsure", sites=(guest, unsure)))
        tx.schedules.move("unsure", JobEvent.FAILED, seen=JobStatus.READY, now_ms=13)
        (at_guest,) = tx.queue.ended_with("9999", since_ms=0, limit=9)
        (at_host,) = tx.queue.ended_with("10000", since_ms=0, limit=9)
        assert (at_guest.may_lack, at_host.may_lack) == (False, True)


def test_waiting_jobs_are_queued_by_priority_then_age_then_id(store, make):
    queue = [("late", 0, 9), ("b", 0, 5), ("a", 0, 5), ("urgent", 7, 8), ("lazy", -1, 1)]
    with store.transaction() as tx:
        for job_id, priority, created_ms in queue:
            tx.schedules.add(
                make.schedule(
                    job_id, priority=priority, created_ms=created_ms, status=JobStatus.WAITING
                )
            )
        tx.schedules.add(make.schedule("ready"))
        tx.schedules.set_reason("a", make.reason(), now_ms=1)
        waiting = tx.queue.page(starving_before_ms=0, limit=9)
    assert [w.job_id for w in waiting] == ["urgent", "a", "b", "late", "lazy"]
    assert waiting[1].reason == make.reason()
    assert (waiting[0].priority, waiting[0].created_ms, waiting[0].initiator) == (7, 8, make.guest)


def test_moves_are_compare_and_set_and_replace_the_reason(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(status=JobStatus.WAITING, reason=make.reason()))
        move = tx.schedules.move
        assert move("j1", JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=20) == Moved(
            JobStatus.RUNNING
        )
        assert move("j1", JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=21) == Stale()
        assert move("none", JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=21) == Stale()
        job = tx.schedules.get("j1")
        assert (job.started_ms, job.reason, job.updated_ms) == (20, None, 20)
        move("j1", JobEvent.FAILED, seen=JobStatus.RUNNING, now_ms=30, reason=make.reason("why"))
        job = tx.schedules.get("j1")
        assert (job.status, job.ended_ms, job.reason) == (JobStatus.FAILED, 30, make.reason("why"))
        with pytest.raises(IllegalMove):
            move("j1", JobEvent.QUEUED, seen=JobStatus.FAILED, now_ms=1)


def test_an_ended_job_keeps_why_it_ended(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        tx.schedules.move(
            "j1", JobEvent.FAILED, seen=JobStatus.READY, now_ms=30, reason=make.reason("why")
        )
        tx.schedules.set_reason("j1", make.reason("waits"), now_ms=31)
        assert tx.schedules.get("j1").reason == make.reason("why")


def test_a_site_changes_only_from_the_phase_that_was_seen(store, make):
    asked = ScheduledSite(
        site=make.host, phase=SitePhase.APPLYING, retry_ms=3, denials=1, reason=make.reason()
    )
    stranger = ScheduledSite(site=make.arbiter, phase=SitePhase.APPLYING)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        assert not tx.schedules.set_site("j1", asked, seen=SitePhase.CREATED, now_ms=9)
        assert tx.schedules.set_site("j1", asked, seen=SitePhase.CREATING, now_ms=9)
        assert not tx.schedules.set_site("j1", asked, seen=SitePhase.CREATING, now_ms=9)
        assert not tx.schedules.set_site("j1", stranger, seen=SitePhase.CREATING, now_ms=9)
        assert not tx.schedules.set_site("none", asked, seen=SitePhase.CREATING, now_ms=9)
        assert tx.schedules.get("j1").sites[0] == asked
        assert tx.schedules.get("j1").sites[1].phase is SitePhase.CREATING


def test_the_first_request_to_stop_counts(store, make):
    first = StopRequest(status=JobStatus.CANCELED, reason=make.reason("first"))
    second = StopRequest(status=JobStatus.FAILED, reason=make.reason("second"))
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        tx.schedules.add(make.schedule("ended", status=JobStatus.SUCCESS))
        assert tx.schedules.request_stop("j1", first, now_ms=5)
        assert not tx.schedules.request_stop("j1", second, now_ms=6)
        assert not tx.schedules.request_stop("ended", first, now_ms=6)
        assert not tx.schedules.request_stop("none", first, now_ms=6)
        assert tx.schedules.get("j1").stop == first
        assert tx.schedules.get("ended").stop is None


def test_a_task_starts_and_ends_once(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        start, end = tx.schedules.start_task, tx.schedules.end_task
        assert start("j1", "a", 0, now_ms=5)
        assert not start("j1", "a", 0, now_ms=6)
        assert not start("j1", "a", 1, now_ms=6)
        assert end("j1", "a", 0, TaskStatus.FAILED, reason=make.reason("why"), now_ms=7)
        assert not end("j1", "a", 0, TaskStatus.SUCCESS, reason=None, now_ms=8)
        assert not start("j1", "a", 0, now_ms=9)
        assert end("j1", "b", 0, TaskStatus.CANCELED, reason=None, now_ms=9)
        assert not end("j1", "none", 0, TaskStatus.CANCELED, reason=None, now_ms=9)
        b, a = tx.schedules.get("j1").tasks
        with pytest.raises(IllegalMove):
            end("j1", "a", 0, TaskStatus.RUNNING, reason=None, now_ms=9)
    assert (a.status, a.started_ms, a.ended_ms, a.reason) == (
        TaskStatus.FAILED, 5, 7, make.reason("why"),
    )  # fmt: skip
    assert (b.status, b.started_ms, b.ended_ms) == (TaskStatus.CANCELED, None, 9)


def test_reports_move_a_share_forward_only(store, make):
    def report(status, *, now_ms=5, progress=None, reason=None, version=0, site=make.host):
        with store.transaction() as tx:
            return tx.schedules.report(
                "j1", "a", version, site, status, reason=reason, progress=progress, now_ms=now_ms
            )

    def share():
        with store.read() as tx:
            return tx.schedules.get("j1").tasks[1].parties[1]

    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
    assert report(TaskStatus.WAITING) == Stale()
    assert report(TaskStatus.RUNNING, now_ms=6, progress=0.1) == Moved(TaskStatus.RUNNING)
    assert (share().status, share().since_ms, share().progress) == (TaskStatus.RUNNING, 6, 0.1)
    assert report(TaskStatus.RUNNING, now_ms=7) == Stale()
    assert report(TaskStatus.RUNNING, now_ms=8, progress=0.1) == Stale()
    assert report(TaskStatus.RUNNING, now_ms=9, progress=0.4) == Moved(TaskStatus.RUNNING)
    assert (share().since_ms, share().progress) == (6, 0.4)
    assert report(TaskStatus.WAITING) == Stale()
    assert report(TaskStatus.FAILED, now_ms=10, reason=make.reason("x")) == Moved(TaskStatus.FAILED)
    assert (share().status, share().since_ms, share().reason, share().progress) == (
        TaskStatus.FAILED, 10, make.reason("x"), 0.4,
    )  # fmt: skip
    for late in (TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.SUCCESS):
        assert report(late, now_ms=11, progress=0.9) == Stale()
    assert share().since_ms == 10
    assert report(TaskStatus.SUCCESS, site=make.arbiter) == Stale()
    assert report(TaskStatus.SUCCESS, version=1) == Stale()
    assert report(TaskStatus.PASS, site=make.guest) == Moved(TaskStatus.PASS)


def test_an_attempt_is_open_until_all_its_shares_ended(store, make):
    told = {"reason": None, "progress": None, "now_ms": 5}
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        assert tx.schedules.is_open("j1", "a", 0)
        tx.schedules.report("j1", "a", 0, make.host, TaskStatus.SUCCESS, **told)
        assert tx.schedules.is_open("j1", "a", 0)
        tx.schedules.report("j1", "a", 0, make.guest, TaskStatus.FAILED, **told)
        assert not tx.schedules.is_open("j1", "a", 0)
        assert tx.schedules.is_open("j1", "b", 0)
        assert not tx.schedules.is_open("j1", "a", 1)
        assert not tx.schedules.is_open("none", "a", 0)


def test_only_the_latest_attempt_is_shown_and_takes_reports(store, make):
    old, new = make.scheduled_task("a", 0), make.scheduled_task("a", 1)
    job = make.schedule(tasks=(make.scheduled_task("b"), old, new))
    with store.transaction() as tx:
        tx.schedules.add(job)
        attempts = [(t.component, t.version) for t in tx.schedules.get("j1").tasks]
        assert attempts == [("b", 0), ("a", 1)]
        told = {"reason": None, "progress": None, "now_ms": 5}
        assert tx.schedules.report("j1", "a", 0, make.host, TaskStatus.RUNNING, **told) == Stale()
        assert tx.schedules.report("j1", "a", 1, make.host, TaskStatus.RUNNING, **told) == Moved(
            TaskStatus.RUNNING
        )
        assert tx.schedules.get("j1").tasks[1].parties[1].status is TaskStatus.RUNNING


# --- reruns ---------------------------------------------------------------------------------------


def test_a_rerun_forgets_how_the_job_ended_and_begins_an_epoch(store, make):
    ended = make.schedule(
        status=JobStatus.FAILED, reason=make.reason(), started_ms=3, ended_ms=9,
        stop=StopRequest(status=JobStatus.FAILED, reason=make.reason()),
    )  # fmt: skip
    with store.transaction() as tx:
        tx.schedules.add(ended)
        moved = tx.schedules.rerun("j1", seen=JobStatus.FAILED, epoch=1, now_ms=50)
        assert moved == Moved(JobStatus.READY)
        job = tx.schedules.get("j1")
        assert (job.epoch, job.stop, job.reason, job.started_ms, job.ended_ms) == (
            1, None, None, None, None,
        )  # fmt: skip
        assert (job.created_ms, job.rerun_ms, job.began_ms) == (1000, 50, 50)
        assert tx.schedules.active() == ["j1"]
        assert tx.schedules.epoch("j1") == 1
        assert tx.schedules.rerun("j1", seen=JobStatus.FAILED, epoch=2, now_ms=60) == Stale()
        tx.schedules.move("j1", JobEvent.FAILED, seen=JobStatus.READY, now_ms=70)
        # somebody who saw epoch 0 asks late: the job has failed again meanwhile
        assert tx.schedules.rerun("j1", seen=JobStatus.FAILED, epoch=1, now_ms=80) == Stale()
        assert tx.schedules.epoch("nope") is None


def test_a_further_attempt_takes_its_tasks_place_and_older_reports_are_stale(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(components=("b", "a")))
        attempt = replace(make.scheduled_task("b", 1), epoch=2, retries=1)
        assert tx.schedules.add_attempt("j1", attempt, now_ms=9)
        assert not tx.schedules.add_attempt("j1", attempt, now_ms=9)
        assert not tx.schedules.add_attempt("j1", make.scheduled_task("zzz", 0), now_ms=9)
        assert not tx.schedules.add_attempt("nope", attempt, now_ms=9)
        attempts = [(t.component, t.version) for t in tx.schedules.get("j1").tasks]
        assert attempts == [("b", 1), ("a", 0)]
        assert tx.schedules.get("j1").tasks[0] == attempt
        late = tx.schedules.report(
            "j1", "b", 0, make.host, TaskStatus.FAILED, reason=None, progress=None, now_ms=5
        )
        assert late == Stale()
        tx.schedules.set_conf("j1", {"new": 1}, now_ms=6)
        assert tx.schedules.get("j1").conf == {"new": 1}


# --- pauses and steps -----------------------------------------------------------------------------


def test_how_far_a_job_may_go_is_replaced_only_as_it_was_seen(store, make):
    paused = Control(paused=make.reason("who"), allowed=3, held_ms=7, rested_ms=11)
    other = Control(allowed=4)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())
        tx.schedules.add(make.schedule("ended", status=JobStatus.SUCCESS))
        change = tx.schedules.set_control
        assert tx.schedules.get("j1").control == FREE
        assert not change("j1", paused, seen=other, now_ms=5)
        assert change("j1", paused, seen=FREE, now_ms=5, told=make.reason("who"))
        assert tx.schedules.get("j1").control == paused
        assert not change("j1", other, seen=FREE, now_ms=6)
        assert change("j1", FREE, seen=paused, now_ms=6)
        assert tx.schedules.get("j1").control == FREE
        assert not change("ended", paused, seen=FREE, now_ms=6)
        assert not change("none", paused, seen=FREE, now_ms=6)


def test_a_stored_schedule_keeps_how_far_it_may_go_until_it_is_rerun(store, make):
    control = Control(paused=make.reason("who"), held_ms=7)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(status=JobStatus.FAILED, control=control))
        assert tx.schedules.get("j1").control == control
        tx.schedules.rerun("j1", seen=JobStatus.FAILED, epoch=1, now_ms=50)
        assert tx.schedules.get("j1").control == FREE


def test_a_held_job_runs_waits_and_starts_again_with_its_first_start(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(status=JobStatus.WAITING))
        move = tx.schedules.move
        move("j1", JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=20)
        assert move(
            "j1", JobEvent.HELD, seen=JobStatus.RUNNING, now_ms=30, reason=make.reason("paused")
        ) == Moved(JobStatus.WAITING)
        assert move("j1", JobEvent.HELD, seen=JobStatus.RUNNING, now_ms=31) == Stale()
        assert tx.schedules.get("j1").reason == make.reason("paused")
        move("j1", JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=40)
        assert (tx.schedules.get("j1").started_ms, tx.schedules.get("j1").ended_ms) == (20, None)


def test_retries_that_a_server_caused_are_counted_apart(store, make):
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(components=("a",)))
        attempt = replace(make.scheduled_task("a", 1), retries=2, infrastructure_retries=1)
        assert tx.schedules.add_attempt("j1", attempt, now_ms=1)
        assert tx.schedules.get("j1").tasks == (attempt,)


def test_a_held_job_is_none_of_the_queues_and_is_looked_at_when_people_change_it(store, make):
    paused = Control(paused=make.reason("who"), held_ms=7)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(status=JobStatus.WAITING))
        free = ComputeResources(cores=99)
        tx.queue.enter("j1", free, queued_ms=1, deadline_ms=9_000, look_ms=9_000)
        assert [w.job_id for w in tx.queue.first(free, 50, limit=9)] == ["j1"]
        assert tx.queue.due(50, limit=9) == []
        tx.schedules.set_control("j1", paused, seen=FREE, now_ms=50)
        assert tx.queue.first(free, 50, limit=9) == tx.queue.oldest(limit=9) == []
        assert tx.queue.due(50, limit=9) == ["j1"]
        tx.queue.enter("j1", free, queued_ms=1, deadline_ms=9_000, look_ms=9_000)
        assert tx.queue.due(50, limit=9) == []
        tx.schedules.set_control("j1", FREE, seen=paused, now_ms=60)
        assert [w.job_id for w in tx.queue.first(free, 60, limit=9)] == ["j1"]
        assert tx.queue.due(60, limit=9) == ["j1"]


def test_a_share_is_excused_and_relaunched_and_reports_of_its_former_launch_are_late(store, make):
    a = ("j1", "a", 0, make.host)
    with store.transaction() as tx:
        tx.schedules.add(make.schedule())

    def share():
        with store.read() as tx:
            task = next(t for t in tx.schedules.get("j1").tasks if t.component == "a")
        return next(p for p in task.parties if p.site == make.host)

    def move(event, seen, reason=None):
        with store.transaction() as tx:
            return tx.schedules.move_party(*a, event, seen=seen, reason=reason, now_ms=7)

    def report(status, launch):
        with store.transaction() as tx:
            return tx.schedules.report(
                *a, status, reason=None, progress=None, now_ms=8, launch=launch
            )

    assert report(TaskStatus.FAILED, 0) == Moved(TaskStatus.FAILED)
    assert not move(TaskEvent.EXCUSED, TaskStatus.RUNNING)
    assert move(TaskEvent.EXCUSED, TaskStatus.FAILED, make.reason("gone"))
    assert (share().status, share().reason, share().since_ms) == (
        TaskStatus.PASS, make.reason("gone"), 7,
    )  # fmt: skip
    assert report(TaskStatus.FAILED, 0) == Stale()
    assert move(TaskEvent.RELAUNCHED, TaskStatus.PASS)
    assert (share().status, share().reason, share().launch) == (TaskStatus.WAITING, None, 1)
    assert report(TaskStatus.FAILED, 0) == report(TaskStatus.FAILED, 2) == Stale()
    assert report(TaskStatus.RUNNING, 1) == Moved(TaskStatus.RUNNING)
    assert share().launch == 1
    assert report(TaskStatus.SUCCESS, 1) == Moved(TaskStatus.SUCCESS)
    with pytest.raises(IllegalMove):
        move(TaskEvent.RELAUNCHED, TaskStatus.SUCCESS)
