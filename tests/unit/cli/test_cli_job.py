"""`fedflow job`: texts, JSON, exit codes."""

from __future__ import annotations

import json
import re
import signal
import threading

import pytest

from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.jobs import JobNotFound, SubmitRefused
from tests.support.rest import Answer

STATUS, SUBMIT, LOG = "/v1/job/status", "/v1/job/submit", "/v1/job/log/download"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "conf.json").write_text('{"dsl_version": 2}')
    (tmp_path / "dsl.json").write_text('{"components": {}}')
    return ["-c", tmp_path / "conf.json", "-d", tmp_path / "dsl.json"]


def test_submit_sends_both_files_and_prints_the_job(shell, files):
    warning = {"code": "NoEffect", "path": "$.conf.x", "message": "a short key", "hint": "Drop it."}
    shell.answer(SUBMIT, {"job_id": "7", "warnings": [warning]}, members={"jobId": "7"})
    result = shell("job", "submit", *files)
    assert result.exit_code == 0
    assert "Job 7 was submitted." in result.stdout
    assert "Warning: $.conf.x: a short key (NoEffect) Drop it." in result.stderr
    (body,) = shell.server.bodies(SUBMIT)
    assert body.pop("idempotency_key")
    assert body == {"job_dsl": {"components": {}}, "job_runtime_conf": {"dsl_version": 2}}


def test_a_strict_submit_says_so(shell, files):
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    assert shell("job", "submit", *files, "--strict").exit_code == 0
    assert [body["strict"] for body in shell.server.bodies(SUBMIT)] == [True]


def test_submit_takes_a_key_and_says_what_was_taken_over(shell, files):
    answer = {"job_id": "7", "reused": {"reader_0": "6"}}
    shell.answer(SUBMIT, answer, members={"jobId": "7"})
    result = shell("job", "submit", *files, "--idempotency-key", "mine")
    assert "reader_0 is taken over from job 6." in result.stderr
    assert [body["idempotency_key"] for body in shell.server.bodies(SUBMIT)] == ["mine"]


def test_submit_prints_json_for_programs(shell, files):
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    assert shell.json("job", "submit", *files)["job_id"] == "7"


def test_submit_and_wait_ends_with_code_3_if_the_job_fails(shell, files, make_view, make_task):
    reason = {"code": "BadData", "message": "row 3: no number", "site": "host-10000"}
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    failed = make_view(
        "failed",
        reason=reason,
        tasks=[make_task("host-10000", "failed", reason=reason)],
    )
    shell.answer(STATUS, failed)
    result = shell("job", "submit", *files, "--wait")
    assert result.exit_code == 3
    assert "Job 7: failed after 3.5 s." in result.stdout
    assert "First error: reader_0 at host 10000, BadData" in result.stdout
    assert result.stdout.count("row 3: no number") == 1
    assert "What helps: `fedflow job explain -j 7` says it." in result.stdout
    assert json.loads(shell("job", "submit", *files, "--wait", "--json").stdout) == {
        **failed,
        "roles": failed["roles"],
    }


def test_submit_and_wait_ends_with_code_0_if_the_job_succeeds(shell, files, make_view):
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    shell.answer(STATUS, make_view())
    result = shell("job", "submit", *files, "--wait")
    assert result.exit_code == 0
    assert "Job 7: success after 3.5 s." in result.stdout


def test_every_mistake_of_a_job_is_printed_with_its_path(shell, files):
    problems = [Problem("$.dsl.a", "no module", "X"), Problem("$.conf.role", "is empty", "Y")]
    shell.refuse(SUBMIT, InvalidJobSpec(problems))
    result = shell("job", "submit", *files)
    assert result.exit_code == 1
    assert "  $.dsl.a: no module (X)\n  $.conf.role: is empty (Y)\n" in result.stderr
    assert result.stdout == ""


def test_a_refusal_is_printed_with_its_hint(shell, files):
    shell.refuse(SUBMIT, SubmitRefused(reason="host 10000 says no"))
    result = shell("job", "submit", *files)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: The job was not accepted: host 10000 says no.\nHint: ")


def test_with_json_an_error_is_one_json_object_on_stdout_too(shell, files):
    problems = [Problem("$.dsl.a", "no module", "X"), Problem("$.conf.role", "is empty", "Y")]
    shell.refuse(SUBMIT, InvalidJobSpec(problems))
    shell.refuse(STATUS, JobNotFound(job_id="8"))
    invalid, unknown = (
        shell("job", "submit", *files, "--json"),
        shell("job", "query", "-j", "8", "--json"),
    )
    assert (invalid.exit_code, unknown.exit_code) == (1, 1)
    assert json.loads(invalid.stdout)["error"]["problems"] == [
        {"path": "$.dsl.a", "message": "no module", "rule": "X"},
        {"path": "$.conf.role", "message": "is empty", "rule": "Y"},
    ]
    assert json.loads(unknown.stdout) == {
        "error": {
            "code": JobNotFound.code, "name": "JobNotFound", "message": "No job 8 at this server.",
            "hint": JobNotFound.hint, "job_id": None, "problems": [],
        }
    }  # fmt: skip
    assert unknown.stderr.startswith("Error: No job 8 at this server.\nHint: ")


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("job", "query"), 2, "WrongUsage"),
        (("job", "submit", "-c", "/no/such.json"), 2, "WrongUsage"),
        (("version", "--server", "ftp://x"), 1, "BadSetting"),
        (("version", "--server", "127.0.0.1:1"), 4, "ServerNotReachable"),
        (("job", "log", "-j", "7", "-o", "/dev/null/x"), 1, "FileError"),
    ],
)
def test_every_kind_of_error_is_json_with_its_exit_code(shell, words, code, name):
    shell.archive(LOG, LOGS)
    result = shell(*words, "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["name"]) == (code, name)
    assert error["message"] in result.stderr


def test_an_error_never_steers_the_terminal(shell, files):
    shell.refuse(SUBMIT, SubmitRefused(reason="\x1b[2J\x07evil\r"))
    assert "\x1b" not in shell("job", "submit", *files).stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{\n  "a": 1,\n  "b" 2\n}', "line 3, column 7: Expecting ':' delimiter"),
        ("", "line 1, column 1"),
        ("[]", "must hold a JSON object"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": NaN}', "NaN is not JSON"),
    ],
)
def test_a_file_that_is_no_json_object_is_a_usage_error_that_says_where(
    shell, files, tmp_path, content, said
):
    (tmp_path / "conf.json").write_text(content)
    result = shell("job", "submit", *files)
    assert result.exit_code == 2
    assert "conf.json" in result.stderr
    assert said in result.stderr
    assert shell.server.received == []


def test_a_file_in_another_encoding_is_a_usage_error(shell, files, tmp_path):
    (tmp_path / "conf.json").write_bytes('{"a": "ä"}'.encode("latin-1"))
    result = shell("job", "submit", *files)
    assert (result.exit_code, "not UTF-8" in result.stderr) == (2, True)


def test_a_missing_file_is_a_usage_error(shell, files, tmp_path):
    (tmp_path / "dsl.json").unlink()
    result = shell("job", "submit", *files)
    assert result.exit_code == 2
    assert "dsl.json: No such file or directory" in result.stderr


def test_a_conf_can_come_from_standard_input(shell, files):
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    shell("job", "submit", "-c", "-", *files[2:], text='{"from": "stdin"}')
    assert shell.server.bodies(SUBMIT)[0]["job_runtime_conf"] == {"from": "stdin"}


def test_a_job_can_be_one_yaml_file(shell, files, tmp_path):
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    (tmp_path / "job.yaml").write_text("dsl: {components: {}}\nconf: {dsl_version: 2}\n")
    assert shell("job", "submit", "-f", tmp_path / "job.yaml").exit_code == 0
    assert shell("job", "submit", "-f", "-", text='{"dsl": {}, "conf": {}}').exit_code == 0
    sent = [(b["job_dsl"], b["job_runtime_conf"]) for b in shell.server.bodies(SUBMIT)]
    assert sent == [({"components": {}}, {"dsl_version": 2}), ({}, {})]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("dsl: {}\nconf: [1", "job.yaml, line 2, column 9"),
        ("dsl: {}", "job.yaml: the member `conf` is missing"),
        ("- a", "must be a mapping with `dsl` and `conf`, not a list"),
    ],
)
def test_a_yaml_file_that_is_no_job_is_a_usage_error_that_says_where(
    shell, tmp_path, content, said
):
    (tmp_path / "job.yaml").write_text(content)
    result = shell("job", "submit", "-f", tmp_path / "job.yaml")
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert shell.server.received == []


def test_a_job_is_named_once(shell, files, tmp_path):
    assert "name the job with `--file`" in shell("job", "submit").stderr
    (tmp_path / "job.yaml").write_text("dsl: {}\nconf: {}\n")
    both = shell("job", "submit", "-f", tmp_path / "job.yaml", *files)
    assert (both.exit_code, "leave `--conf` and `--dsl` out" in both.stderr) == (2, True)


def test_no_server_is_code_4_and_says_how_to_start_one(shell):
    result = shell("job", "list", reachable=False)
    assert result.exit_code == 4
    assert "No fedflow server answers at http://127.0.0.1:1: connection refused" in result.stderr
    assert "fedflow server start" in result.stderr


def test_the_option_wins_over_the_environment(shell, make_view):
    shell.answer(STATUS, make_view())
    result = shell("job", "query", "-j", "7", "--server", shell.server.url, reachable=False)
    assert result.exit_code == 0


def test_query_shows_every_task_of_every_site(shell, make_view):
    shell.answer(STATUS, make_view())
    result = shell("job", "query", "-j", "7")
    assert result.exit_code == 0
    assert "status     success (100 %)" in result.stdout
    assert "guest 9999" in result.stdout
    assert "success 2.0 s" in result.stdout


def test_query_names_what_was_taken_over(shell, make_view):
    shell.answer(STATUS, make_view(reused={"reader_0": "6"}))
    assert "reused     reader_0 of job 6" in shell("job", "query", "-j", "7").stdout


def test_query_of_a_failed_job_shows_why_and_is_no_failure_itself(shell, make_view, make_task):
    reason = {"code": "BadData", "message": "x\x1b[31m", "site": None}
    task = make_task("guest-9999", "failed", reason=reason)
    shell.answer(STATUS, make_view("failed", tasks=[task]))
    result = shell("job", "query", "-j", "7")
    assert result.exit_code == 0
    assert "First error: reader_0 at guest 9999, BadData" in result.stdout
    assert "\x1b" not in result.stdout


def test_query_prints_the_whole_view_as_json(shell, make_view):
    shell.answer(STATUS, make_view())
    assert shell.json("job", "query", "-j", "7") == make_view()


FIGURES = [
    {"component": "evaluation_0", "name": "auc", "value": 0.98661, "model": "lr_0", "part": "test"},
    {"component": "lr_0", "name": "converged", "value": 0.0, "model": "", "part": ""},
    {"component": "lr_0", "name": "iterations", "value": 10.0, "model": "", "part": ""},
    {"component": "join_0", "name": "rows", "value": 569.0, "model": "", "part": ""},
]


def test_a_job_is_shown_with_its_name_and_its_result(shell, make_view):
    shell.answer(STATUS, make_view(name="HeteroLR · breast", figures=FIGURES))
    result = shell("job", "query", "-j", "7")
    assert "name       HeteroLR · breast" in result.stdout
    told = "auc 0.9866 (test), not converged, 10 iterations, 569 rows in common"
    assert f"result     {told}" in result.stdout
    assert f"Result: {told}" in shell("job", "wait", "-j", "7").stdout


def test_the_figures_of_a_job_are_a_table(shell, make_view):
    shell.answer(STATUS, make_view(name="HeteroLR · breast", figures=FIGURES))
    result = shell("job", "result", "-j", "7")
    assert "HeteroLR · breast: success" in result.stdout
    assert re.search(r"evaluation_0 +lr_0 +test +auc +0\.98661", result.stdout)
    assert shell.json("job", "result", "-j", "7")["figures"] == FIGURES


def test_a_job_without_figures_says_so(shell, make_view):
    shell.answer(STATUS, make_view())
    assert "No component evaluated" in shell("job", "result", "-j", "7").stdout


def test_an_unknown_job_is_an_error(shell):
    shell.refuse(STATUS, JobNotFound(job_id="8"))
    result = shell("job", "query", "-j", "8")
    assert (result.exit_code, result.stderr.partition("\n")[0]) == (
        1,
        "Error: No job 8 at this server.",
    )


def test_list_shows_jobs_and_how_many_there_are(shell):
    row = {"job_id": "7", "role": "guest", "party_id": 9999, "status": "success", "elapsed": 2000}
    shell.answer("/v1/job/list/job", {"jobs": [row], "count": 3})
    result = shell("job", "list", "-l", "1")
    assert "7" in result.stdout
    assert "guest 9999" in result.stdout
    assert "1 of 3" in result.stdout


def test_the_error_of_a_job_that_succeeded_is_shown_as_one_that_does_not_count(
    shell, make_view, make_task
):
    reason = {"code": "BadData", "message": "no number", "site": "guest-9999"}
    failed = make_task("guest-9999", "failed", reason=reason)
    shell.answer(STATUS, make_view("success", tasks=[failed]))
    said = shell("job", "query", "-j", "7").stdout
    assert "First error, which does not count: reader_0 at guest 9999, BadData" in said


def test_stop_prints_the_status_that_the_job_has_then(shell, make_view):
    shell.answer("/v1/job/stop")
    shell.answer(STATUS, make_view("canceled"))
    assert "Job 7 is canceled." in shell("job", "stop", "-j", "7").stdout


def test_stop_says_that_a_stop_is_still_under_way(shell, make_view):
    shell.answer("/v1/job/stop")
    shell.answer(STATUS, make_view("running"))
    assert "Job 7 is being stopped, and still running" in shell("job", "stop", "-j", "7").stdout


def test_stop_says_that_the_job_had_ended_before(shell, make_view):
    said = {"retmsg": "nothing to stop: the job had ended, success"}
    shell.answer("/v1/job/stop", members=said)
    shell.answer(STATUS, make_view())
    assert "Job 7 had ended before: success." in shell("job", "stop", "-j", "7").stdout
    assert shell.json("job", "stop", "-j", "7") == {
        "job_id": "7", "status": "success", "had_ended": True,
    }  # fmt: skip


def test_a_rerun_may_bring_parameters_and_leave_out_what_never_ran(shell, tmp_path):
    changed = {"component_parameters": {"common": {"a": {"x": 1}}}}
    (tmp_path / "p.json").write_text(json.dumps({**changed, "initiator": "not sent"}))
    shell.answer("/v1/job/rerun")
    shell("job", "rerun", "-j", "7", "-c", "a", "--failed-only", "-p", str(tmp_path / "p.json"))
    assert shell.server.bodies("/v1/job/rerun") == [
        {"job_id": "7", "component_name": ["a"], "force": False, "failed_only": True, **changed}
    ]
    both = shell("job", "rerun", "-j", "7", "--failed-only", "--force")
    assert both.exit_code == 2
    assert "exclude each other" in both.stderr
    (tmp_path / "p.json").write_text("{}")
    nothing = shell("job", "rerun", "-j", "7", "-p", str(tmp_path / "p.json"))
    assert "it must hold job_parameters or component_parameters" in nothing.stderr
    assert len(shell.server.bodies("/v1/job/rerun")) == 1


def tell_one_after_another(shell, *views):
    left = list(views)
    shell.server.answers[STATUS] = lambda _: Answer(data=left.pop(0) if len(left) > 1 else left[0])


def test_wait_prints_a_line_per_change(shell, make_view, make_task):
    views = [
        make_view("waiting", tasks=[make_task("guest-9999", "waiting", ended_ms=None)]),
        make_view("running", tasks=[make_task("guest-9999", "running", ended_ms=None)]),
        make_view("running", tasks=[{**make_task("guest-9999", "running"), "ended_ms": None,
                                     "progress": 0.3}]),
        make_view("success"),
    ]  # fmt: skip
    slow = {**make_task("guest-9999", "running"), "ended_ms": None}
    views[2:2] = [
        make_view("running", tasks=[{**slow, "running_ms": 1000 * time_s}])
        for time_s in (4, 6, 29, 31)
    ]
    tell_one_after_another(shell, *views)
    lines = shell("job", "wait", "-j", "7").stdout.splitlines()
    assert lines == [
        "job 7 waiting",
        "job 7 running",
        "  reader_0 guest 9999 running",
        "  reader_0 guest 9999 running for 5.0 s",
        "  reader_0 guest 9999 running for 30.0 s",
        "  reader_0 guest 9999 running 25%",
        "  reader_0 guest 9999 success 2.0 s",
        "  reader_0 host 10000 success 2.0 s",
        "Job 7: success after 3.5 s.",
    ]


def test_a_reason_that_no_task_has_is_printed_once(shell, make_view):
    reason = {"code": "JobTimeout", "message": "too long", "site": None}
    shell.answer(STATUS, make_view("failed", reason=reason, tasks=[]))
    result = shell("job", "wait", "-j", "7")
    assert result.stdout == "Job 7: failed after 3.5 s.\nReason: too long\n"


def test_a_task_is_shown_with_its_seconds_when_a_view_knows_them(shell, make_view, make_task):
    host = make_task("host-10000", "success", started_ms=None, ended_ms=None)
    tell_one_after_another(
        shell,
        make_view("running", ended_ms=None, tasks=[make_task("guest-9999", "success"), host]),
        make_view(),
    )
    assert shell("job", "wait", "-j", "7").stdout.splitlines() == [
        "job 7 running",
        "  reader_0 guest 9999 success 2.0 s",
        "  reader_0 host 10000 success 2.0 s",
        "Job 7: success after 3.5 s.",
    ]


LOST = {"code": "ServerLost", "message": "its server is gone", "site": "guest-9999"}
PEER = {"code": "PeerFailed", "message": "guest 9999 failed", "site": "guest-9999"}


def test_a_task_that_is_tried_again_says_so_and_why(shell, make_view, make_task):
    again = [make_task(site, "running", version=1, ended_ms=None) for site in ("guest-9999", "h-1")]
    tell_one_after_another(
        shell,
        make_view("running", ended_ms=None, tasks=[
            make_task("h-1", "canceled", reason=PEER),
            make_task("guest-9999", "failed", reason=LOST),
        ]),
        make_view("running", ended_ms=None, tasks=again),
        make_view(tasks=[make_task("guest-9999", "success", version=1)]),
    )  # fmt: skip
    assert shell("job", "wait", "-j", "7").stdout.splitlines()[1:] == [
        "  reader_0 h 1 canceled 2.0 s",
        "  reader_0 guest 9999 failed 2.0 s, ServerLost",
        "  reader_0 is tried again, attempt 1: guest 9999, ServerLost: its server is gone",
        "  reader_0 guest 9999 running",
        "  reader_0 h 1 running",
        "  reader_0 guest 9999 success 2.0 s",
        "Job 7: success after 3.5 s.",
    ]


def test_a_retry_names_the_site_whose_own_error_it_is(shell, make_view, make_task):
    reason = {"code": "ComponentFailed", "message": "it failed", "site": "host-10000"}
    tell_one_after_another(
        shell,
        make_view("running", ended_ms=None, tasks=[
            make_task("guest-9999", "failed", reason=reason),
            make_task("host-10000", "failed", reason=reason),
        ]),
        make_view(tasks=[make_task("guest-9999", "success", version=1)]),
    )  # fmt: skip
    told = shell("job", "wait", "-j", "7").stdout
    assert "reader_0 is tried again, attempt 1: host 10000, ComponentFailed: it failed" in told


def test_why_an_attempt_failed_between_two_views_is_read_from_the_history(
    shell, make_view, make_task
):
    tell_one_after_another(
        shell,
        make_view("running", ended_ms=None, tasks=[make_task("guest-9999", "running")]),
        make_view(tasks=[make_task("guest-9999", "success", version=1)]),
    )
    event = {"number": 1, "at_ms": 1, "at": "", "subject": "share", "by": "", "text": "",
             "version": 0, "new": "failed", "cause_site": "guest-9999"}  # fmt: skip
    told = [
        {**event, "code": "PeerFailed", "message": "a follower"},
        {**event, "code": "ServerLost", "message": "its server is gone", "number": 2},
    ]
    shell.answer("/v1/job/events", {"job_id": "7", "events": told, "next": 2, "more": False})
    lines = shell("job", "wait", "-j", "7").stdout.splitlines()
    assert (
        "  reader_0 is tried again, attempt 1: guest 9999, ServerLost: its server is gone" in lines
    )


@pytest.fixture
def heeds_ctrl_c():
    """Let SIGINT interrupt, also where tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_says_that_the_job_goes_on_and_how_to_stop_it(shell, files):
    def interrupted(_):  # while the command waits for the answer, in its own thread
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        threading.Event().wait(0.3)
        return Answer(data=None)

    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    for words in (("job", "submit", *files, "--wait"), ("job", "wait", "-j", "7")):
        shell.server.answers[STATUS] = interrupted
        result = shell(*words)
        assert result.exit_code == 130
        assert result.stderr == (
            "\nJob 7 goes on.\nWatch it: fedflow job wait -j 7\nStop it:  fedflow job stop -j 7\n"
            "\nInterrupted.\n"
        )
        result = shell(*words, "--json")
        assert result.exit_code == 130
        error = json.loads(result.stdout)["error"]
        assert (error["name"], error["job_id"]) == ("Interrupted", "7")
        assert "fedflow job wait" in error["hint"]


def test_wait_with_a_timeout_is_an_error_that_leaves_the_job_alone(shell, make_view):
    shell.answer(STATUS, make_view("running", ended_ms=None))
    result = shell("job", "wait", "-j", "7", "--timeout", "0.05")
    assert result.exit_code == 1
    assert "still running" in result.stderr


# --- logs -----------------------------------------------------------------------------------------


LOGS = {
    "guest/9999/reader_0/0/INFO.log": "first attempt\n",
    "guest/9999/reader_0/1/INFO.log": "second attempt\n",
    "guest/9999/reader_0/1/ERROR.log": "the error\n",
    "guest/9999/other_0/0/INFO.log": "other\n",
    "host/9999/reader_0/0/INFO.log": "host's\n",
    "notes.txt": "no log",
}


def test_log_prints_the_newest_attempt_of_a_component(shell):
    shell.archive(LOG, LOGS)
    result = shell("job", "log", "-j", "7", "-c", "reader_0", "-r", "guest", "-p", "9999")
    assert (result.exit_code, result.stdout) == (0, "second attempt\n")


def test_log_takes_a_level_in_any_case(shell):
    shell.archive(LOG, LOGS)
    words = ("job", "log", "-j", "7", "-c", "reader_0", "-r", "guest", "-p", "9999")
    assert shell(*words, "--level", "ERROR").stdout == "the error\n"
    assert shell(*words, "--level", "Info").stdout == "second attempt\n"


def test_log_names_the_sites_if_there_are_several(shell):
    shell.archive(LOG, LOGS)
    result = shell("job", "log", "-j", "7", "-c", "reader_0")
    assert result.stdout == (
        "==> guest 9999 reader_0 <==\nsecond attempt\n==> host 9999 reader_0 <==\nhost's\n"
    )


def test_log_without_a_component_prints_the_first_error_and_its_log(shell, make_view, make_task):
    reason = {"code": "BadData", "message": "no number", "site": None}
    task = make_task("guest-9999", "failed", reason=reason)
    shell.answer(STATUS, make_view("failed", tasks=[task]))
    shell.archive(LOG, LOGS)
    result = shell("job", "log", "-j", "7")
    assert "First error: reader_0 at guest 9999, BadData\n  no number\n  the error" in result.stdout


def test_log_of_a_job_without_errors_says_so(shell, make_view):
    shell.answer(STATUS, make_view())
    assert "no task has failed at this server" in shell("job", "log", "-j", "7").stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-c", "none_0"), "the job has no none_0"),
        (("-c", "fed_0", "-r", "host", "-p", "10000"), "it is at the server of party 10000"),
        (("-c", "fed_0", "-r", "guest", "-p", "9999"), "no process of fed_0 ran at guest 9999 ("),
        (("-c", "fed_1"), "nothing was logged at level info at guest 9999"),
    ],
)
def test_a_log_that_is_not_here_says_where_it_is(shell, make_view, make_task, options, told):
    other = {"component": "fed_0", "here": False}
    why = {"code": "PeerFailed", "message": "host 10000 failed", "site": "host-10000"}
    tasks = [
        {**make_task("guest-9999", "failed", reason=why), "component": "fed_0", "started_ms": None},
        {**make_task("host-10000", "failed"), **other},
        {**make_task("guest-9999", "failed"), "component": "fed_1"},
    ]
    shell.answer(STATUS, make_view("failed", tasks=tasks))
    shell.archive(LOG, LOGS)
    result = shell("job", "log", "-j", "7", *options)
    assert result.exit_code == 1
    assert told in result.stderr


def test_the_first_error_at_another_party_says_where_its_log_is(shell, make_view, make_task):
    reason = {"code": "ComponentFailed", "message": "it failed", "site": "host-10000"}
    task = {**make_task("host-10000", "failed", reason=reason), "here": False}
    shell.answer(STATUS, make_view("failed", tasks=[task]))
    shell.archive(LOG, LOGS)
    result = shell("job", "log", "-j", "7")
    assert "Its log is at the server of party 10000." in result.stdout


def test_logs_are_saved_in_a_folder(shell, tmp_path):
    shell.archive(LOG, LOGS)
    result = shell("job", "log", "-j", "7", "-o", tmp_path / "logs")
    assert f"{len(LOGS)} files were saved" in result.stdout
    assert (tmp_path / "logs" / "notes.txt").read_text() == "no log"


def test_a_hostile_log_archive_is_an_error(shell, tmp_path):
    shell.archive(LOG, {"../evil": "x"})
    result = shell("job", "log", "-j", "7", "-o", tmp_path / "logs")
    assert result.exit_code == 1
    assert "outside" in result.stderr
    assert not (tmp_path / "evil").exists()


def test_role_and_party_go_together(shell):
    result = shell("job", "log", "-j", "7", "-r", "guest")
    assert result.exit_code == 2
    assert "go together" in result.stderr
