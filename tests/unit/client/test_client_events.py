"""What happened between two looks at a job, and how a client waits for it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fedflow.base.errors.jobs import JobNotFound, StillRunning
from fedflow.base.errors.start import ServerNotReachable
from fedflow.client import Client
from fedflow.client.events import EventKind, events_between
from fedflow.wire.api.jobs import JobStatusView, Reason, TaskView
from fedflow.wire.envelope import failure
from tests.support.rest import Answer, RestServer

STARTED, PROGRESS, ENDED, MOVED = (
    EventKind.TASK_STARTED, EventKind.TASK_PROGRESS, EventKind.TASK_ENDED, EventKind.JOB_MOVED,
)  # fmt: skip


def job(status, *tasks, **more):
    return JobStatusView(
        job_id="7", status=status, progress=50, initiator="guest-9999", roles={}, created_ms=1,
        tasks=tasks, **more,
    )  # fmt: skip


def task(status="running", *, site="guest-9999", version=0, **more):
    started = None if status == "waiting" else 5
    ended = 9 if status in ("success", "failed") else None
    return TaskView(
        component="lr_0", module="HeteroLR", site=site, version=version, status=status,
        started_ms=started, ended_ms=ended, **more,
    )  # fmt: skip


def kinds(before, after):
    return [(e.kind, e.status, e.site) for e in events_between(before, after)]


def test_the_first_look_tells_everything_that_happened_before():
    after = job("running", task("success"), task(site="host-10000"))
    assert kinds(None, after) == [
        (MOVED, "running", None),
        (STARTED, "running", "guest-9999"),
        (ENDED, "success", "guest-9999"),
        (STARTED, "running", "host-10000"),
    ]


def test_nothing_is_told_twice():
    view = job("running", task("success"), task(site="host-10000", progress=0.5))
    assert kinds(view, view) == []


def test_what_began_and_ended_in_between_is_told_as_both():
    before, after = job("running", task("waiting")), job("running", task("success"))
    assert [kind for kind, _, _ in kinds(before, after)] == [STARTED, ENDED]


def test_the_end_of_the_job_comes_last_with_its_reason():
    reason = Reason(code="BadData", message="row 3", site="host-10000")
    after = job("failed", task("failed", reason=reason), reason=reason)
    told = list(events_between(job("running", task()), after))
    assert [e.kind for e in told] == [ENDED, MOVED]
    assert {e.reason for e in told} == {reason}
    assert str(told[0]) == "lr_0 at guest-9999 failed: host-10000: row 3"
    assert str(told[1]) == "job 7 failed: host-10000: row 3"


def test_a_new_reason_of_a_waiting_job_is_told():
    first = Reason(code="X", message="waits for 4 cores")
    second = Reason(code="X", message="waits for 2 cores")
    assert kinds(job("waiting", reason=first), job("waiting", reason=second)) == [
        (MOVED, "waiting", None)
    ]
    assert kinds(job("waiting", reason=first), job("waiting", reason=first)) == []


def test_progress_is_told_in_steps():
    looks = [job("running", task(progress=p)) for p in (0.0, 0.01, 0.06, 0.07, 0.5)]
    told = [list(events_between(a, b)) for a, b in pairwise(looks)]
    assert [[(e.kind, e.progress) for e in events] for events in told] == [
        [], [(PROGRESS, 0.06)], [], [(PROGRESS, 0.5)]
    ]  # fmt: skip


def test_another_attempt_is_told_from_its_start():
    before = job("running", task("failed"))
    assert kinds(before, job("running", task(version=1))) == [(STARTED, "running", "guest-9999")]
    assert [e.version for e in events_between(before, job("running", task(version=1)))] == [1]


# --- a client that waits --------------------------------------------------------------------------


def answer(status, *tasks):
    return {
        "job_id": "7", "status": status, "progress": 0, "initiator": "guest-9999", "roles": {},
        "created_ms": 1, "tasks": list(tasks),
    }  # fmt: skip


@pytest.fixture
def server():
    with RestServer() as one:
        yield one


@pytest.fixture
def client(server):
    with Client(server.url, timeout_s=60.0) as one:
        yield one


def sequence(*answers):
    left = list(answers)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


def test_events_end_with_the_job(server, client):
    server.answers["/v1/job/status"] = sequence(
        Answer(data=answer("waiting")), Answer(data=answer("waiting")),
        Answer(data=answer("running")), Answer(data=answer("success")),
    )  # fmt: skip
    assert [e.status for e in client.events("7")] == ["waiting", "running", "success"]


def test_a_deadline_is_an_error_of_its_own_and_stops_nothing(server, client):
    server.answers["/v1/job/status"] = Answer(data=answer("running"))
    for call in (
        lambda: client.wait("7", timeout_s=0.05),
        lambda: [*client.events("7", timeout_s=0.05)],
    ):
        with pytest.raises(StillRunning, match="Job 7 is still running"):
            call()
    assert {one.path for one in server.received} == {"/v1/job/status"}


def test_events_of_an_unknown_job_are_an_error(server, client):
    import msgspec

    raw = msgspec.json.encode(failure(JobNotFound(job_id="7")))
    server.answers["/v1/job/status"] = Answer(raw=raw)
    with pytest.raises(JobNotFound):
        next(client.events("7"))


def test_events_go_on_after_the_server_was_away(monkeypatch):
    views = [job("running"), ServerNotReachable(address="x", reason="gone"), job("success")]

    def look(_self, _job_id):
        one = views.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(Client, "job", look)
    with Client("127.0.0.1:1") as client:
        assert [e.status for e in client.events("7")] == ["running", "success"]


def test_without_a_first_answer_there_is_nothing_to_wait_for():
    with Client("127.0.0.1:1") as client, pytest.raises(ServerNotReachable):
        next(client.events("7"))
