"""`fedflow job events` and `fedflow job explain`: texts, JSON, exit codes."""

from __future__ import annotations

import json

import pytest

from fedflow.base.errors.jobs import JobNotFound
from tests.support.rest import Answer

EVENTS, EXPLAIN, STATUS = "/v1/job/events", "/v1/job/explain", "/v1/job/status"


def event(number, text, **more):
    return {
        "number": number, "at_ms": number, "at": "1970-01-01T00:00:00.001Z", "epoch": 0,
        "subject": "job", "site": None, "component": None, "version": None, "old": None,
        "new": "ready", "code": None, "message": "m", "cause_site": None, "by": "a user",
        "text": text, **more,
    }  # fmt: skip


def page(*events, more=False):
    last = events[-1]["number"] if events else 0
    return {"job_id": "7", "events": list(events), "next": last, "more": more}


def sequence(*answers):
    left = [Answer(data=data) for data in answers]
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


def test_events_are_printed_page_after_page(shell):
    shell.server.answers[EVENTS] = sequence(
        page(event(1, "first"), event(4, "second"), more=True), page(event(9, "third"))
    )
    result = shell("job", "events", "-j", "7", "-c", "a")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"1970-01-01T00:00:00.001Z {word}" for word in ("first", "second", "third")
    ]
    assert shell.server.bodies(EVENTS) == [
        {"job_id": "7", "component_name": "a", "since": 0},
        {"job_id": "7", "component_name": "a", "since": 4},
    ]


def test_events_are_json_lines_for_programs(shell):
    shell.answer(EVENTS, page(event(1, "first"), event(2, "second")))
    lines = shell("job", "events", "-j", "7", "--json").stdout.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2]


def test_followed_events_end_with_the_job_and_none_is_told_twice(shell, make_view):
    shell.server.answers[STATUS] = sequence(make_view("running"), make_view("success"))
    shell.server.answers[EVENTS] = sequence(
        page(event(100, "first")), page(event(99, "late"), event(100, "first"), event(101, "end"))
    )
    result = shell("job", "events", "-j", "7", "--follow")
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["first", "late", "end"]
    assert [body["since"] for body in shell.server.bodies(EVENTS)] == [0, 50]


def test_a_job_that_goes_on_ends_following_at_its_timeout(shell, make_view):
    shell.answer(STATUS, make_view("running"))
    shell.answer(EVENTS, page())
    result = shell("job", "events", "-j", "7", "-f", "--timeout", "0.05")
    assert result.exit_code != 0
    assert "still running" in result.stderr


def test_a_timeout_without_follow_is_refused(shell):
    result = shell("job", "events", "-j", "7", "--timeout", "1")
    assert result.exit_code == 2
    assert not shell.server.received


@pytest.mark.parametrize(("command", "path"), [("events", EVENTS), ("explain", EXPLAIN)])
def test_an_unknown_job_is_an_error_with_a_hint(shell, command, path):
    shell.refuse(path, JobNotFound(job_id="7"))
    result = shell("job", command, "-j", "7")
    assert result.exit_code == 1
    assert "Hint: " in result.stderr


def explanation(**more):
    return {
        "job_id": "7", "status": "waiting", "epoch": 0, "initiator": "guest-9999",
        "is_initiator": True, "deadline_ms": None, "waits": [], "end": None, **more,
    }  # fmt: skip


def test_an_explanation_says_what_where_since_when_and_what_helps(shell):
    wait = {
        "code": "NotEnoughResources", "message": "waits for 4 cores at host 10000",
        "remedy": "other jobs must end", "site": "host-10000", "component": None,
        "since_ms": 1_000, "heard_ms": None, "next_ms": 2_000, "deadline_ms": 3_000,
    }  # fmt: skip
    shell.answer(EXPLAIN, explanation(waits=[wait], deadline_ms=3_000))
    text = shell("job", "explain", "-j", "7").stdout
    assert "Job 7 is waiting." in text
    assert "1. NotEnoughResources: waits for 4 cores at host 10000." in text
    assert "since 1970-01-01" in text
    assert "next try" in text
    assert "What helps: other jobs must end." in text
    assert "It ends by itself at" in text
    assert shell.json("job", "explain", "-j", "7")["waits"][0]["code"] == "NotEnoughResources"


def test_of_what_runs_it_says_for_whom_it_waits(shell):
    wait = {
        "code": "Running", "message": "lr_0 runs", "remedy": "", "site": "host-10000",
        "component": "lr_0", "since_ms": 1_000, "heard_ms": None, "next_ms": None,
        "deadline_ms": None,
    }  # fmt: skip
    peer = {"site": "host-10000", "receives": 3, "receive_s": 6.0}
    task = {"component": "lr_0", "version": 0, "site": "guest-9999", "seconds": 8.0,
            "peers": [peer]}  # fmt: skip
    tasks = [{**task, "status": "running"}, {**task, "component": "bin_0", "status": "success"}]
    shell.answer(EXPLAIN, explanation(status="running", waits=[wait]))
    shell.answer("/v1/job/ledger/query", data={"job_id": "7", "tasks": tasks})
    text = shell("job", "explain", "-j", "7").stdout
    assert "lr_0: 75 % of 8.0 s waiting for host 10000." in text
    assert "bin_0" not in text


def test_an_explanation_of_an_end_names_component_site_hint_and_log(shell):
    end = {
        "code": "TableNotFound", "message": "reader_0 at host 10000: there is no table a.b",
        "remedy": "Upload it. Then run it again.", "site": "host-10000", "component": "reader_0",
        "version": 1, "log": None,
    }  # fmt: skip
    shell.answer(EXPLAIN, explanation(status="failed", epoch=2, is_initiator=False, end=end))
    lines = shell("job", "explain", "-j", "7").stdout.splitlines()
    assert lines == [
        "Job 7 is failed, rerun 2.",
        "This server knows only its own part; guest 9999 started the job and knows more.",
        "First failure: reader_0, attempt 1 at host 10000.",
        "TableNotFound: reader_0 at host 10000: there is no table a.b.",
        "What helps: Upload it. Then run it again.",
    ]


def test_what_other_parties_wrote_cannot_steer_the_terminal(shell):
    end = {"code": "X", "message": "a\x1b[2Jb", "remedy": "r", "site": None, "component": None,
           "version": None, "log": None}  # fmt: skip
    shell.answer(EXPLAIN, explanation(status="failed", end=end))
    assert "\x1b" not in shell("job", "explain", "-j", "7").stdout


def test_explain_says_when_and_in_which_rounds_a_site_was_absent(shell):
    away = {"site": "host-10001", "reason": "killed by signal 9", "since_ms": 1_000}
    rounds = {"site": "host-10001", "reason": "", "component": "homo_lr_0", "first_round": 3}
    shell.answer(
        EXPLAIN,
        {
            "job_id": "7", "status": "success", "epoch": 0, "initiator": "guest-9999",
            "is_initiator": True,
            "absences": [
                away, {**away, "until_ms": 9_000}, {**rounds, "last_round": 7},
                {**rounds, "last_round": 3, "reason": "too late"},
            ],
        },
    )  # fmt: skip
    first, second, *others = shell("job", "explain", "-j", "7").stdout.splitlines()[1:]
    assert first.startswith("host 10001 was absent from ")
    assert first.endswith(" on: killed by signal 9.")
    assert " to " in second
    assert others == [
        "homo_lr_0: host 10001 was absent from round 3 to 7.",
        "homo_lr_0: host 10001 was absent in round 3: too late.",
    ]
