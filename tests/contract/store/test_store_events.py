"""The history of jobs: the store writes it with every change of a status, whoever asked for it."""
# only constants

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import fedflow.store
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import StopRequest
from fedflow.domain.records import ScheduledSite
from fedflow.domain.scheduling import history
from fedflow.domain.scheduling.history import Event, EventFilter, Subject
from fedflow.domain.states import JobEvent, JobStatus, TaskEvent, TaskStatus
from fedflow.store import recording
from fedflow.store.memory import events as memory_events
from fedflow.store.sql import events as sql_events

NOW = {"now_ms": 5000}


def told(store, job_id="j1", **which):
    with store.read() as tx:
        return tx.events.find(EventFilter(job_id=job_id, **which))


def lines(events):
    return [(e.subject.value, e.component, e.site and e.site.key, e.old, e.new) for e in events]


def last(store):
    return told(store, newest=True, limit=1)[0]


@pytest.fixture
def schedule(store, make):
    """A store with a scheduled job, a share of it and a share of a task, after their first
    events.
    """
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 8, now_ms=1)
        tx.schedules.add(make.schedule())
        tx.jobs.add(make.job())
        tx.tasks.add([make.task()])
    return store


def test_a_new_job_begins_its_history_and_its_first_tasks_are_not_told(schedule):
    assert lines(told(schedule)) == [
        ("job", "", None, "", "ready"), ("share", "", "guest-9999", "", "waiting")
    ]  # fmt: skip
    assert [e.epoch for e in told(schedule)] == [0, 0]


MOVES = {
    "schedules.move": (
        lambda tx, m: tx.schedules.move(
            "j1", JobEvent.FAILED, seen=JobStatus.READY, reason=m.reason(), **NOW),
        ("job", "", None, "ready", "failed"),
    ),
    "schedules.request_stop": (
        lambda tx, m: tx.schedules.request_stop(
            "j1", StopRequest(status=JobStatus.CANCELED, reason=m.reason()), **NOW),
        ("job", "", None, "", ""),
    ),
    "schedules.set_conf": (
        lambda tx, m: tx.schedules.set_conf("j1", {}, **NOW), ("job", "", None, "", ""),
    ),
    "schedules.add_attempt": (
        lambda tx, m: tx.schedules.add_attempt("j1", m.scheduled_task("a", 1), **NOW),
        ("task", "a", None, "", "waiting"),
    ),
    "schedules.set_site": (
        lambda tx, m: tx.schedules.set_site(
            "j1", ScheduledSite(site=m.host, phase=SitePhase.REFUSED, reason=m.reason()),
            seen=SitePhase.CREATING, **NOW),
        ("site", "", "host-10000", "creating", "refused"),
    ),
    "schedules.start_task": (
        lambda tx, m: tx.schedules.start_task("j1", "a", 0, **NOW),
        ("task", "a", None, "waiting", "running"),
    ),
    "schedules.end_task": (
        lambda tx, m: tx.schedules.end_task(
            "j1", "a", 0, TaskStatus.CANCELED, reason=m.reason(), **NOW),
        ("task", "a", None, "waiting", "canceled"),
    ),
    "schedules.report": (
        lambda tx, m: tx.schedules.report(
            "j1", "a", 0, m.host, TaskStatus.FAILED, reason=m.reason(), progress=1.0, **NOW),
        ("report", "a", "host-10000", "waiting", "failed"),
    ),
    "jobs.move": (
        lambda tx, m: tx.jobs.move(
            m.job_key(), JobEvent.FAILED, seen=JobStatus.WAITING, reason=m.reason(), **NOW),
        ("share", "", "guest-9999", "waiting", "failed"),
    ),
    "jobs.set_conf": (
        lambda tx, m: tx.jobs.set_conf(m.job_key(), {}, {}, **NOW),
        ("share", "", "guest-9999", "", ""),
    ),
    "jobs.take_cores": (
        lambda tx, m: tx.jobs.take_cores(m.job_key(), **NOW),
        ("cores", "", "guest-9999", "free", "held"),
    ),
    "tasks.add": (
        lambda tx, m: tx.tasks.add([m.task(m.task_key("a", 1), created_ms=5000)]),
        ("party_task", "a", "guest-9999", "", "waiting"),
    ),
    "tasks.move_party": (
        lambda tx, m: tx.tasks.move_party(
            m.task_key(), TaskEvent.FAILED, seen=TaskStatus.WAITING, reason=m.reason(), **NOW),
        ("party_task", "a", "guest-9999", "waiting", "failed"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_a_change_is_told_with_its_cause_and_a_repeat_is_not(schedule, make, name):
    change, expected = MOVES[name]
    before = told(schedule)
    with schedule.transaction() as tx:
        change(tx, make)
    event = last(schedule)
    assert (lines([event])[0], event.at_ms) == (expected, 5000)
    if expected[4] in ("failed", "refused", "canceled"):
        assert event.reason == make.reason()
    assert history.sentence(event)
    if not name.endswith("set_conf"):
        with schedule.transaction() as tx:
            change(tx, make)
    assert len(told(schedule)) == len(before) + 1


def test_a_rerun_is_told_with_its_epoch_and_all_that_follows_has_it_too(schedule, make):
    with schedule.transaction() as tx:
        tx.schedules.move("j1", JobEvent.FAILED, seen=JobStatus.READY, now_ms=10)
        tx.jobs.move(make.job_key(), JobEvent.FAILED, seen=JobStatus.WAITING, now_ms=10)
        tx.schedules.rerun("j1", seen=JobStatus.FAILED, epoch=1, now_ms=20)
        tx.jobs.reopen(
            make.job_key(), seen=JobStatus.FAILED, epoch=1, conf={}, parameters={}, cores=2,
            now_ms=30,
        )  # fmt: skip
        tx.schedules.start_task("j1", "a", 0, now_ms=40)
    assert [(e.old, e.new, e.epoch) for e in told(schedule)[2:]] == [
        ("ready", "failed", 0), ("waiting", "failed", 0), ("failed", "ready", 1),
        ("failed", "waiting", 1), ("waiting", "running", 1),
    ]  # fmt: skip
    middle = told(schedule)[3].number
    assert [e.epoch for e in told(schedule, since=middle, component="a")] == [1]


def test_a_result_that_was_taken_over_is_told(store, make):
    taken = replace(make.scheduled_task("a", status=TaskStatus.SUCCESS))
    with store.transaction() as tx:
        tx.schedules.add(make.schedule(tasks=(taken, make.scheduled_task("b"))))
        tx.tasks.add([make.task(party_status=TaskStatus.SUCCESS, inherited_from="j0")])
    assert lines(told(store))[1:] == [
        ("task", "a", None, "", "success"), ("party_task", "a", "guest-9999", "", "success")
    ]  # fmt: skip
    assert history.sentence(last(store)) == "its result was taken over from job j0"


def test_what_was_undone_did_not_happen(schedule, make):
    before = told(schedule)
    with pytest.raises(RuntimeError, match="no"), schedule.transaction() as tx:  # noqa: PT012
        tx.schedules.start_task("j1", "a", 0, now_ms=1)
        raise RuntimeError("no")
    assert told(schedule) == before
    with schedule.transaction() as tx:
        tx.schedules.start_task("j1", "b", 0, now_ms=1)
    assert [e.component for e in told(schedule)[2:]] == ["b"]


def test_a_reading_transaction_tells_nothing(store, make):
    event = Event(job_id="j1", subject=Subject.JOB, at_ms=1, reason=make.reason())
    with pytest.raises(RuntimeError), store.read() as tx:
        tx.events.add(event)


def test_what_others_add_is_kept_as_it_is(store, make):
    event = Event(
        job_id="j1", subject=Subject.PARTY_TASK, at_ms=7, site=make.host, component="a", version=3,
        reason=make.reason("its process was adopted", "ProcessAdopted"),
    )  # fmt: skip
    with store.transaction() as tx:
        tx.events.add(event)
    assert [replace(e, number=0) for e in told(store)] == [event]


def test_a_history_is_read_in_pages_and_by_component(schedule):
    with schedule.transaction() as tx:
        for component in ("a", "b"):
            tx.schedules.start_task("j1", component, 0, now_ms=9)
            tx.schedules.end_task("j1", component, 0, TaskStatus.SUCCESS, reason=None, now_ms=10)
    every = told(schedule)
    assert [e.number for e in every] == sorted({e.number for e in every})
    assert told(schedule, limit=4) == every[:4]
    assert told(schedule, since=every[3].number, limit=4) == every[4:]
    assert told(schedule, limit=2, newest=True) == every[-2:]
    assert [e.new for e in told(schedule, component="b")] == ["running", "success"]
    assert {e.subject for e in told(schedule, subjects=(Subject.SHARE,))} == {Subject.SHARE}
    assert told(schedule, job_id="j2") == []


def test_reports_of_some_sites_can_be_left_out(schedule, make):
    with schedule.transaction() as tx:
        for site in (make.guest, make.host):
            tx.schedules.report(
                "j1", "a", 0, site, TaskStatus.SUCCESS, reason=None, progress=1.0, now_ms=9
            )
    found = told(schedule, unreported=frozenset({make.guest}))
    assert [e.site for e in found if e.subject is Subject.REPORT] == [make.host]


def _ask_in_vain(store, make, *, now_ms):
    for old, new in ((SitePhase.CREATED, SitePhase.APPLYING),
                     (SitePhase.APPLYING, SitePhase.DENIED),
                     (SitePhase.DENIED, SitePhase.CREATED)):  # fmt: skip
        reason = make.reason() if new is SitePhase.DENIED else None
        with store.transaction() as tx:
            site = ScheduledSite(site=make.host, phase=new, reason=reason)
            assert tx.schedules.set_site("j1", site, seen=old, now_ms=now_ms)
            tx.jobs.take_cores(make.job_key(), now_ms=now_ms)
            tx.jobs.return_cores(make.job_key(), now_ms=now_ms)


def test_a_job_that_asks_in_vain_again_and_again_does_not_fill_its_history(schedule, make):
    with schedule.transaction() as tx:
        site = ScheduledSite(site=make.host, phase=SitePhase.CREATED)
        tx.schedules.set_site("j1", site, seen=SitePhase.CREATING, now_ms=1)
    before = len(told(schedule))
    for round_ in range(5):
        _ask_in_vain(schedule, make, now_ms=1000 + round_)
    once = len(told(schedule)) - before
    assert once <= 3 + 2 * 3
    _ask_in_vain(schedule, make, now_ms=1000 + recording.REPEAT_MS)
    later = len(told(schedule)) - before
    assert once < later <= 2 * once
    with schedule.transaction() as tx:
        tx.jobs.move(make.job_key(), JobEvent.STARTED, seen=JobStatus.WAITING, now_ms=5)
    _ask_in_vain(schedule, make, now_ms=1001 + recording.REPEAT_MS)
    assert len(told(schedule)) - before > later + 1


def test_only_the_newest_events_of_a_job_are_kept(schedule, make, monkeypatch):
    for module in (sql_events, memory_events):
        monkeypatch.setattr(module, "KEEP", 10)
    monkeypatch.setattr(recording, "TRIM_EVERY", 5)
    with schedule.transaction() as tx:
        tx.events.add(Event(job_id="j1", subject=Subject.JOB, at_ms=0, epoch=3))
    for number in range(40):
        reason = make.reason(str(number))
        with schedule.transaction() as tx:
            tx.events.add(Event(job_id="j1", subject=Subject.JOB, at_ms=number, reason=reason))
    kept = told(schedule)
    assert 10 <= len(kept) <= 16
    assert [e.at_ms for e in kept] == list(range(40 - len(kept), 40))
    assert {e.epoch for e in kept} == {3}


def test_a_history_is_forgotten_for_one_job_only(schedule, make):
    with schedule.transaction() as tx:
        tx.schedules.add(make.schedule("j2"))
    with schedule.transaction() as tx:
        assert tx.events.drop("j1") == 2
    assert (told(schedule), len(told(schedule, job_id="j2"))) == ([], 1)
    with schedule.transaction() as tx:
        tx.schedules.start_task("j1", "a", 0, now_ms=1)
    assert len(told(schedule)) == 1


# --- no writer of a status without an event -------------------------------------------------------

_STATUS_COLUMNS = re.compile(
    r"UPDATE (t_job|t_task|t_schedule_\w+) SET .*?\b(f_status|f_party_status|f_phase|f_stop"
    r"|f_resource_in_use)\b = (\?|NULL|0|1)"
)
_COPIES = {"set_status", "set_launch"}
"""Writers of a federated status, which only copies what the initiator's own history tells."""


def _functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node


def _texts(function):
    """Return the parts of the strings that follow each other in a function, as one."""
    return " ".join(
        str(n.value) for n in ast.walk(function) if isinstance(n, ast.Constant)
        if isinstance(n.value, str)
    )  # fmt: skip


def _tells(function):
    return any(isinstance(n, ast.Attribute) and n.attr == "tell" for n in ast.walk(function))


def test_every_statement_that_writes_a_status_tells_it():
    writers = {}
    root = Path(fedflow.store.__file__).parent
    for path in [p for part in (".", "sql", "memory") for p in (root / part).glob("*.py")]:
        for function in _functions(path):
            if _STATUS_COLUMNS.search(_texts(function)):
                writers[str(path), function.name] = _tells(function)
    silent = {name for name, tells in writers.items() if not tells and name[1] not in _COPIES}
    assert silent == set()
    assert {name for _, name in writers} >= {
        "move", "rerun", "reopen", "set_site", "start_task", "end_task", "report", "move_party",
        "take_cores", "return_cores", "request_stop",
    }  # fmt: skip


def test_the_store_in_memory_tells_what_the_one_over_sql_tells():
    folder = Path(fedflow.store.__file__).parent
    for name in ("jobs", "tasks", "schedules"):
        over_sql = {f.name for f in _functions(folder / "sql" / f"{name}.py") if _tells(f)}
        in_memory = {f.name for f in _functions(folder / "memory" / f"{name}.py") if _tells(f)}
        assert over_sql == in_memory, name
