"""Waiting for a job to change."""

from __future__ import annotations

import threading

import pytest

from fedflow.app.protocol import job_notifier
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.base.clock import SystemClock
from fedflow.base.errors.store import StoreUnavailable


def test_a_condition_that_holds_is_not_waited_for() -> None:
    assert JobNotifier(SystemClock()).wait_until(lambda: True, job_id="j", timeout_s=0.0)


def test_a_condition_that_never_holds_ends_the_wait_in_time() -> None:
    assert not JobNotifier(SystemClock()).wait_until(lambda: False, job_id="j", timeout_s=0.01)


def test_a_change_that_comes_between_the_look_and_the_wait_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_notifier, "_LOOK_S", 600.0)  # so that only the notification wakes it
    changes, looks = JobNotifier(SystemClock()), []

    def reached() -> bool:
        looks.append(None)
        if len(looks) == 1:
            changes.notify("j")  # the job changes just after the look that saw nothing
        return len(looks) > 1

    began_s = SystemClock().monotonic_s()
    assert changes.wait_until(reached, job_id="j", timeout_s=600.0)
    assert SystemClock().monotonic_s() - began_s < 60.0


def test_only_those_who_wait_for_the_job_that_changed_look_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_notifier, "_LOOK_S", 600.0)
    changes, ended = JobNotifier(SystemClock()), threading.Event()
    looks: dict[str, int] = {"this": 0, "other": 0}
    both_wait = threading.Barrier(3)

    def wait_for(job_id: str) -> None:
        def reached() -> bool:
            looks[job_id] += 1
            if looks[job_id] == 1:
                both_wait.wait(60)
            return ended.is_set() or (job_id == "this" and looks[job_id] > 1)

        changes.wait_until(reached, job_id=job_id, timeout_s=60.0)

    waiting = {job_id: threading.Thread(target=wait_for, args=(job_id,)) for job_id in looks}
    for thread in waiting.values():
        thread.start()
    both_wait.wait(60)
    changes.notify("this")
    waiting["this"].join(60)
    assert looks == {"this": 2, "other": 1}
    ended.set()
    changes.notify("other")
    waiting["other"].join(60)
    assert not any(thread.is_alive() for thread in waiting.values())


def test_nothing_is_kept_of_those_who_waited() -> None:
    changes = JobNotifier(SystemClock())
    changes.wait_until(lambda: False, job_id="j", timeout_s=0.0)
    assert not changes._waiting


def test_a_store_that_is_away_for_a_moment_does_not_end_the_wait() -> None:
    changes, looks = JobNotifier(SystemClock()), []

    def reached() -> bool:
        looks.append(None)
        changes.notify("j")
        if len(looks) < 3:
            raise StoreUnavailable(reason="the connection was lost")
        return True

    assert changes.wait_until(reached, job_id="j", timeout_s=60.0)


def test_a_store_that_stays_away_is_told_at_the_end_of_the_wait() -> None:
    def reached() -> bool:
        raise StoreUnavailable(reason="the connection was lost")

    with pytest.raises(StoreUnavailable):
        JobNotifier(SystemClock()).wait_until(reached, job_id="j", timeout_s=0.01)
