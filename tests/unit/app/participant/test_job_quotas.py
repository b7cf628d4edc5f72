"""What another party's jobs may take of this server: size, number, disk, and what is noted."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from fedflow.app.participant.early_ends import KEPT
from fedflow.app.protocol.commands import REPLIES
from fedflow.app.protocol.job_limits import KIB, MIB, JobLimits
from fedflow.app.protocol.newest import Newest
from fedflow.base.errors.jobs import DiskTooFull, JobEnded, JobTooLarge, QuotaReached
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.states import JobStatus
from tests.unit.app.fakes import HOST, OneServer, conf, create_body

KEY = JobKey(job_id="1", site=HOST)
JUNK = {"note": "x" * 90_000, "conf_path": "/home/me/conf.json"}


def limited(host: OneServer, **limits: Any) -> None:
    host.limits = replace(JobLimits(), **limits)
    host.boot()


def with_junk() -> dict[str, Any]:
    given = conf()
    section = {**given["job_parameters"], "more": JUNK, "job_type": "train"}
    return {**given, **JUNK, "job_parameters": section}


def test_members_of_another_partys_conf_without_effect_are_not_stored(host: OneServer) -> None:
    host.create(conf_=with_junk())
    stored = host.job("1").conf
    assert not stored.keys() & JUNK.keys()
    assert stored["job_parameters"].keys() == {"common", "job_type"}
    again = create_body(conf_=with_junk())
    assert host.ask("job_create", KEY, body=again, request_id="another").retcode == 0
    assert "x" * 100 not in repr(host.job("1"))


def test_a_rerun_of_another_partys_job_brings_no_such_members_either(host: OneServer) -> None:
    host.create()
    host.ask("job_stop", KEY, body={"epoch": 0}, status="failed")
    body = {"epoch": 1, "runtime_conf": with_junk(), "tasks": {"a": 1}}
    host.ask("job_rerun", KEY, body=body)
    assert not host.job("1").conf.keys() & JUNK.keys()
    assert host.job("1").size_bytes > 2 * 2048  # two attempts


def test_a_partys_own_conf_is_stored_as_it_was_given(host: OneServer) -> None:
    own = with_junk()
    own["initiator"] = {"role": "host", "party_id": 10000}
    body = {**create_body(conf_=own, initiator_party_id="10000"), "initiator_role": "host"}
    host.ask("job_create", KEY, body=body, source="10000")
    assert host.job("1").conf["note"] == JUNK["note"]
    assert host.job("1").size_bytes == 0


def test_a_job_that_is_too_large_is_refused_before_it_is_read(host: OneServer) -> None:
    limited(host, job_bytes=10 * KIB)
    values = {f"p{i}": "x" * 100 for i in range(100)}
    large = create_body(parameters={"common": {"a": values}}, dsl_={"components": {"no": "dsl"}})
    with pytest.raises(JobTooLarge, match="have 11 KiB together; party 10000 takes 10 KiB"):
        host.ask("job_create", KEY, body=large)
    host.create()
    host.ask("job_stop", KEY, body={"epoch": 0}, status="failed")
    again = conf(parameters={"common": {"a": values}})
    for name, more in (("job_rerun", {"tasks": {"a": 1}, "epoch": 1}), ("job_parameters", {})):
        with pytest.raises(JobTooLarge):
            host.ask(name, KEY, body={"epoch": 0, "runtime_conf": again, **more})


def test_a_party_with_enough_open_jobs_is_told_and_others_go_on(host: OneServer) -> None:
    limited(host, open_jobs=2)
    host.parties.known = frozenset({"9999", "8888"})
    host.create("1")
    host.create("2")
    with pytest.raises(QuotaReached, match="no more jobs of party 9999 now: 2 of its jobs"):
        host.create("3")
    other = {
        **conf(guest=[8888], host=[10000]),
        "initiator": {"role": "guest", "party_id": 8888},
    }
    body = create_body(conf_=other, initiator_party_id="8888")
    host.ask("job_create", JobKey(job_id="4", site=HOST), body=body, source="8888")
    host.ask("job_stop", KEY, body={"epoch": 0}, status="failed")
    host.clock.ms += 1_001  # a party at its limit is counted anew soon
    host.create("5")
    with pytest.raises(QuotaReached):
        host.create("6")


def test_a_party_whose_jobs_take_enough_of_the_disk_is_told(host: OneServer) -> None:
    limited(host, stored_bytes=MIB)
    values = {f"p{i}": "x" * 1_000 for i in range(100)}
    for number in range(5):  # 100 KB with the conf, with the job's parameters and with its task
        host.create(str(number), parameters={"common": {"a": values}})
    with pytest.raises(QuotaReached, match="its jobs take 1 MiB of the disk"):
        host.create("5", parameters={"common": {"a": values}})
    host.boot()  # a restarted server counts what is stored
    with pytest.raises(QuotaReached):
        host.create("more", parameters={"common": {"a": values}})


def test_attempts_without_end_count_too(host: OneServer) -> None:
    limited(host, stored_bytes=90 * KIB)
    host.create(parameters={"common": {"a": {"x": "y" * 10_000}}})
    size = host.job("1").size_bytes
    for version in range(1, 6):
        host.ask("task_create", attempt(version), body={"epoch": 0, "auto_retries": 0})
    assert host.job("1").size_bytes > size + 5 * 12_000
    with pytest.raises(QuotaReached):
        host.ask("task_create", attempt(6), body={"epoch": 0, "auto_retries": 0})
    ended = {"epoch": 0, "tasks": {"a": [100, "failed"]}}  # as if attempts had been lost
    host.ask("job_stop", KEY, body=ended, status="failed")
    assert host.job("1").status is JobStatus.FAILED
    assert host.task(attempt(5)) is not None
    with host.store.read() as tx:
        assert tx.tasks.get(attempt(6)) is None


def test_counting_is_one_statement_in_a_minute(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host.store.read() as tx:
        kind: Any = type(tx.jobs)
    counted, counts = kind.taken_by, []

    def count(jobs: Any, initiator: str) -> tuple[int, int]:
        counts.append(initiator)
        return tuple(counted(jobs, initiator))  # type: ignore[return-value]

    monkeypatch.setattr(kind, "taken_by", count)
    for number in range(50):
        host.create(str(number))
    assert counts == ["9999"]


def test_without_room_on_the_disk_no_job_is_taken(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs(host.home)
    limited(host, free_bytes=found.f_bavail * found.f_frsize * 2)
    with pytest.raises(DiskTooFull, match="Party 10000 takes no new jobs"):
        host.create()
    limited(host, free_bytes=1)
    host.create()


def test_ends_of_unknown_jobs_leave_a_bounded_number_of_notes(host: OneServer) -> None:
    for number in range(KEPT + 500):
        key = JobKey(job_id=an_id(number), site=HOST)
        host.ask("job_stop", key, body={"epoch": 0}, status="canceled")
    host.ask("job_stop", JobKey(job_id="x", site=HOST), body={"epoch": 0}, status="canceled")
    assert KEPT * 0.9 < len(notes(host)) <= KEPT
    with pytest.raises(JobEnded):
        host.create(an_id(KEPT + 499))
    host.create(an_id(0))  # who sent thousands of ends has had them forgotten
    host.create("x")  # no note: other servers have no job under such an id


def test_replies_to_a_party_are_bounded_and_a_repeat_of_a_new_one_is_answered(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.core.commands._newest = Newest(100)
    host.create()
    for number in range(500):
        host.ask("job_stop", JobKey(job_id="j", site=HOST), body={}, status="canceled",
                 request_id=f"r{number}")  # fmt: skip
    kept = [name for name in rows(host) if name.startswith("j/9999/")]
    assert 90 < len(kept) <= 100
    assert kept[-1] == "j/9999/r499"
    assert 5_000 < REPLIES < 50_000


def test_one_partys_names_push_out_none_of_another() -> None:
    newest = Newest(20)
    assert not newest.add("quiet", "q")
    gone = [name for i in range(100) for name in newest.add("loud", f"l{i}")]
    assert gone == [f"l{i}" for i in range(len(gone))]
    assert 80 <= len(gone) <= 100


def rows(host: OneServer) -> list[str]:
    with host.store.read() as tx:
        session = tx.reply_cache._session  # type: ignore[attr-defined]
        found = session.rows("SELECT f_request_id FROM t_received_request ORDER BY rowid", ())
    return [name for (name,) in found]


def notes(host: OneServer) -> list[str]:
    return [name for name in rows(host) if name.startswith("/end/")]


def an_id(number: int) -> str:
    return f"{number:024}"


def attempt(version: int) -> TaskKey:
    return TaskKey(job_id="1", component="a", version=version, site=HOST)
