"""What servers tell of a job's history, of what it waits for, and why it ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.app.protocol.party_commands import reason_to_wire
from fedflow.app.queries.history import Histories, event_view, moment
from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.domain.reason import Reason
from fedflow.domain.records import TaskKey
from fedflow.domain.scheduling.history import Event, Subject
from fedflow.wire.api.job_history import HistoryEvent, Wait
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl


def events(server: OneServer, job_id: str, **which: Any) -> tuple[HistoryEvent, ...]:
    return Histories(store=server.store).events(job_id, **which).events


def story(server: OneServer, job_id: str, **which: Any) -> list[str]:
    return [
        f"{e.component or e.subject} {e.site or '-'} {e.old} {e.new}"
        for e in events(server, job_id, **which)
    ]


def end(server: OneServer, job_id: str, status: str = "success", **more: Any) -> None:
    """Let all processes of a job that have started run to their end."""
    for launch in list(server.executor.started):
        task = server.task(launch.task)
        if launch.task.job_id == job_id and task.ended_ms is None:
            server.report(launch.task, "running")
            server.report(launch.task, status, **more)
            server.processes.exited(str(task.launch_id), 0, None)
    server.work()


def test_the_history_of_a_job_tells_all_that_happened_in_order(alone: OneServer) -> None:
    job_id, _ = alone.core.submissions.begin(dsl(a="Step"), conf())
    alone.work()
    end(alone, job_id)
    told = story(alone, job_id)
    assert told[0] == "job - None ready"
    order = [
        "share guest-9999 None waiting", "site guest-9999 creating created", "job - ready waiting",
        "cores guest-9999 free held", "site guest-9999 applying granted", "job - waiting running",
        "a - waiting running", "a guest-9999 waiting running", "a guest-9999 running success",
        "a - running success", "job - running success", "share guest-9999 running success",
        "cores guest-9999 held free",
    ]  # fmt: skip
    places = [told.index(line) for line in order]
    assert places == sorted(places)
    assert len(told) == len(set(told)), "nothing is told twice"
    found = events(alone, job_id)
    assert [e.number for e in found] == sorted(e.number for e in found)
    assert all(e.message and e.by and e.epoch == 0 for e in found)


def test_a_failure_is_told_with_its_cause_wherever_it_shows(alone: OneServer) -> None:
    job_id, _ = alone.core.submissions.begin(dsl(a="Step"), conf())
    alone.work()
    end(alone, job_id, "failed", error={"code": "BadData", "message": "no label"})
    ended = [e for e in events(alone, job_id) if e.new == "failed"]
    assert {e.subject for e in ended} >= {"party_task", "task", "job", "share"}
    assert {e.code for e in ended} == {"BadData"}
    assert "BadData: no label" in next(e.text for e in ended if e.subject == "party_task")


def test_a_history_is_given_in_pages(alone: OneServer) -> None:
    job_id, _ = alone.core.submissions.begin(dsl(a="Step"), conf())
    alone.work()
    histories = Histories(store=alone.store)
    every, pages, since, more = events(alone, job_id), (), 0, True
    while more:
        page = histories.events(job_id, since=since, limit=3)
        pages += page.events
        since, more = page.next, page.more
        assert len(page.events) <= 3
    assert pages == every
    assert story(alone, job_id, component="a") == [x for x in story(alone, job_id) if x[:2] == "a "]


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": 1001}, {"since": -1}])
def test_a_page_that_is_none_is_refused(alone: OneServer, wrong: dict[str, int]) -> None:
    job_id, _ = alone.core.submissions.begin(dsl(), conf())
    with pytest.raises(BadRequest):
        Histories(store=alone.store).events(job_id, **wrong)


def test_an_unknown_job_has_neither_history_nor_explanation(alone: OneServer) -> None:
    with pytest.raises(JobNotFound):
        Histories(store=alone.store).events("no")
    with pytest.raises(JobNotFound):
        alone.core.explanations.explain("no")


def test_the_history_of_a_component_that_is_none_names_those_there_are(alone: OneServer) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf(cores=1))[0]
    with pytest.raises(BadRequest, match="no component 'nope_0', but a"):
        Histories(store=alone.store).events(job_id, component="nope_0")


def test_an_event_is_shown_as_people_say_it() -> None:
    reason = Reason(code="TableNotFound", message="there is no table a.b", site=HOST)
    event = Event(
        job_id="j", subject=Subject.REPORT, at_ms=1_700_000_000_120, site=HOST, version=0,
        component="reader_0", old="running", new="failed", reason=reason, number=7,
    )  # fmt: skip
    shown = event_view(event)
    assert shown.at == "2023-11-14T22:13:20.120Z"
    assert shown.text == (
        "reader_0 at host 10000: running -> failed: TableNotFound: there is no table a.b "
        "(reported by host 10000)"
    )
    assert (shown.code, shown.cause_site) == ("TableNotFound", "host-10000")
    assert moment(0) == "1970-01-01T00:00:00.000Z"


# --- explain --------------------------------------------------------------------------------------


def waits(server: OneServer, job_id: str) -> tuple[Wait, ...]:
    return server.core.explanations.explain(job_id).waits


def test_a_job_that_waits_for_cores_says_where_it_stands_in_the_queue(alone: OneServer) -> None:
    running, _ = alone.core.submissions.begin(dsl(), conf(cores=3))
    alone.work()
    others = [alone.core.submissions.begin(dsl(), conf(cores=2))[0] for _ in range(2)]
    alone.work()
    (wait,) = waits(alone, others[1])
    assert wait.code == "NotEnoughResources"
    assert wait.message.startswith("waits for 4 cores at guest 9999: 2 of 8 free")
    assert f"number 2 of 2 in the queue, right behind {others[0]}" in wait.message
    assert wait.deadline_ms > wait.since_ms > 0
    assert {w.code for w in waits(alone, running)} <= {"Running", "TaskParallelism", "Upstream"}
    shown = alone.core.jobs.status_view(others[0])
    assert (shown.reason.code, shown.deadline_ms) == (
        "NotEnoughResources", shown.since_ms + 259_200_000
    )  # fmt: skip


def test_tasks_of_a_running_job_say_what_they_wait_for(alone: OneServer) -> None:
    job_id, _ = alone.core.submissions.begin(dsl(a="Step", b="Step"), conf())
    alone.work()
    running = {w.component: w for w in waits(alone, job_id)}
    first = next(iter(running.values()))
    assert first.code == "Running"
    assert first.since_ms is not None
    tasks = {t.component: t for t in alone.core.jobs.status_view(job_id).tasks}
    waiting = [t for t in tasks.values() if t.status == "waiting" and t.reason]
    assert waiting
    assert all(t.since_ms and t.deadline_ms for t in waiting)


def test_an_ended_job_explains_its_end_with_the_hint_and_the_log(alone: OneServer) -> None:
    job_id, _ = alone.core.submissions.begin(dsl(a="Step"), conf())
    alone.work()
    end(alone, job_id, "failed", error={"code": "BadData", "message": "no label"})
    found = alone.core.explanations.explain(job_id)
    assert (found.status, found.waits, found.deadline_ms) == ("failed", (), None)
    assert (found.end.code, found.end.component) == ("BadData", "a")
    assert "fedflow job rerun" in found.end.remedy
    assert found.end.log.endswith("/a/0")


@pytest.mark.parametrize("is_cut", [False, True], ids=["older release", "cut"])
def test_what_helps_against_another_partys_failure_is_said_to_help_there(
    guest: OneServer, is_cut: bool
) -> None:
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), conf()).job_id
    guest.work()
    key = TaskKey(job_id=job_id, component="a", version=0, site=HOST)
    error = ComponentFailed(component="a", reason="column 'hiv'")
    whole = Reason(code=error.name, message=error.message, site=HOST)
    reason = reason_to_wire(whole, HOST, to=GUEST if is_cut else HOST)
    guest.ask(
        "initiator_report", key, source="10000", body={"party_status": "failed", "reason": reason}
    )
    guest.work()
    (task,) = [
        task
        for task in guest.core.jobs.status_view(job_id).tasks
        if (task.component, task.site) == ("a", HOST.key)
    ]
    assert task.here is False
    found = guest.core.explanations.explain(job_id)
    assert found.end is not None
    assert (found.end.site, found.end.log) == (HOST.key, None)
    assert ("hiv" in found.end.message) is not is_cut
    ask = "Its people see more, and their board has a text that they can send. " if is_cut else ""
    assert found.end.remedy.startswith(
        f"{ask}At party 10000's server: `fedflow job log` has the traceback."
    )


def test_a_participant_says_that_the_initiator_decides_and_when_it_was_heard(
    host: OneServer,
) -> None:
    job_id = host.create().job_id
    host.clock.ms += 7_000
    found = host.core.explanations.explain(job_id)
    assert (found.is_initiator, found.initiator) == (False, GUEST.key)
    (wait,) = found.waits
    assert (wait.code, wait.site) == ("Initiator", GUEST.key)
    assert host.clock.ms - wait.heard_ms == 7_000
    assert wait.deadline_ms == wait.heard_ms + 60_000
    host.ask("heartbeat", body={"jobs": {}, "initiator_party_id": "9999"})
    (later,) = waits(host, job_id)
    assert later.heard_ms == host.clock.ms


def test_a_party_that_does_not_answer_is_named_with_its_error(guest: OneServer) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    found = guest.core.explanations.explain(job_id)
    creating = [w for w in found.waits if w.code == "Creating"]
    assert HOST.key in {w.site for w in creating}
    assert found.deadline_ms == creating[0].deadline_ms
    assert found.status == "waiting"


def test_a_command_that_waits_for_a_party_out_of_reach_is_told_with_the_next_try(
    guest: OneServer,
) -> None:
    job_id, _ = guest.core.submissions.begin(dsl(), conf())
    for _ in range(3):
        guest.core.circuit_breakers.failed(
            HOST.party_id,
            Message("{address}: {reason}", address="127.0.0.1:9", reason="connection refused"),
        )
    stuck = [w for w in waits(guest, job_id) if w.code == "Undelivered"]
    assert [w.site for w in stuck] == [HOST.key]
    assert "connection refused" in stuck[0].message
    assert stuck[0].next_ms is not None
    assert stuck[0].deadline_ms > stuck[0].since_ms


# --- what moves no status -------------------------------------------------------------------------


def test_a_launch_that_is_repeated_is_told(host: OneServer) -> None:
    host.create()
    host.run_task()
    host.clock.ms += host.timing.launch_grace_ms + 1
    host.core.detector.tick()
    told = events(host, "1", component="a")[-1]
    assert (told.code, told.by, told.new) == ("LaunchRepeated", "the detector", None)


def test_a_process_that_is_adopted_is_told(host: OneServer) -> None:
    host.create()
    host.run_task(pid=7)
    host.boot()
    host.core.detector.recover()
    told = events(host, "1", component="a")[-1]
    assert (told.code, told.by) == ("ProcessAdopted", "the detector")
    assert "process 7" in told.message


def test_a_command_that_was_given_up_is_told(host: OneServer) -> None:
    host.create()
    host.report(host.run_task(pid=7), "success")
    report = host.core.delivery.take("9999")
    assert report is not None
    failure = PartyUnreachable(party_id="9999", address="x:1", reason="connection refused")
    host.core.delivery.settle(replace(report, deadline_ms=0), failure)
    told = events(host, "1")[-1]
    assert (told.code, told.new, told.by) == ("PartyUnreachable", None, "the scheduler")
    assert "the command report_task was given up" in told.message
    assert "connection refused" in told.message
