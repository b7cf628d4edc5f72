"""`fedflow job delete` and `fedflow job tag`: what is said, asked and sent."""

from __future__ import annotations

import json

import pytest

FOUND = {
    "job_id": "7", "sites": ["guest-9999"], "partners": ["10000"], "tasks": 4, "metrics": 2,
    "tables": [{"namespace": "out", "name": "t\x1b[31m", "rows": 3, "size_bytes": 9}],
    "kept_tables": [{"namespace": "out", "name": "k", "jobs": ["8"]}],
    "models": [
        {"model_id": "m", "model_version": "7", "role": "guest", "party_id": "9999",
         "size_bytes": 5, "kept": "version 9 was deployed from it"},
    ],
    "log_files": 1, "log_bytes": 7, "file_bytes": 2,
}  # fmt: skip


def sent(shell):
    return [json.loads(one.body) for one in shell.server.received]


def test_delete_says_what_goes_asks_and_then_deletes(shell):
    shell.answer("/v1/job/delete", data=FOUND)
    no = shell("job", "delete", "-j", "7", text="n\n")
    assert no.exit_code == 1
    assert "4 tasks, 2 metrics" in no.stdout
    assert no.stdout.endswith("Nothing was deleted.\n")
    assert "Kept: table out.k, used by 8" in no.stdout
    assert "Parties 10000 keep their parts." in no.stdout
    assert "\x1b" not in no.stdout
    assert sent(shell) == [{"job_id": "7", "preview": True}]
    yes = shell("job", "delete", "-j", "7", text="y\n")
    assert "Job 7 was deleted." in yes.stdout
    assert sent(shell)[-1] == {"job_id": "7", "preview": False}


def test_a_preview_deletes_nothing(shell):
    shell.answer("/v1/job/delete", data=FOUND)
    assert shell("job", "delete", "-j", "7", "--preview").exit_code == 0
    assert [body["preview"] for body in sent(shell)] == [True]


def test_delete_with_yes_asks_nothing(shell):
    shell.answer("/v1/job/delete", data=FOUND)
    done = shell("job", "delete", "-j", "7", "--yes", "--json")
    assert json.loads(done.stdout)["job_id"] == "7"
    assert [body["preview"] for body in sent(shell)] == [False]


OLD = {
    "jobs": [{**FOUND, "status": "success", "ended": 1_800_000_000_000, "kept_tables": []}],
    "kept": [{"job_id": "8", "reason": "job 9 is going to read\x1b what it made"}],
}


def test_a_dry_run_of_old_jobs_lists_them_and_deletes_nothing(shell):
    shell.answer("/v1/job/delete/old", data=OLD)
    done = shell("job", "delete", "--older-than", "30d", "--status", "success,failed", "--dry-run")
    assert done.exit_code == 0
    assert "7  success" in done.stdout
    assert "1 tables, 18 bytes" in done.stdout
    assert "8  stays: job 9 is going to read" in done.stdout
    assert "\x1b" not in done.stdout
    assert "Would delete 1 jobs with 1 tables, 18 bytes in files." in done.stdout
    assert sent(shell) == [
        {"older_than": "30d", "status": ["success", "failed"], "after": "", "preview": True}
    ]


def test_old_jobs_are_listed_asked_for_and_then_deleted(shell):
    shell.answer("/v1/job/delete/old", data=OLD)
    no = shell("job", "delete", "--older-than", "30d", text="n\n")
    assert no.exit_code == 1
    assert [body["preview"] for body in sent(shell)] == [True]
    done = shell("job", "delete", "--older-than", "30d", text="y\n")
    assert "1 jobs with 1 tables, 18 bytes in files were deleted." in done.stdout
    assert "Kept: job 8" in done.stderr
    assert [body["preview"] for body in sent(shell)[1:]] == [True, False]


def test_old_jobs_with_yes_are_deleted_at_once_with_their_sums(shell):
    shell.answer("/v1/job/delete/old", data=OLD)
    done = shell("job", "delete", "--older-than", "30d", "--yes", "--json")
    found = json.loads(done.stdout)
    assert (found["jobs"], found["job_ids"]) == (1, ["7"])
    assert [job["job_id"] for job in found["kept_jobs"]] == ["8"]
    assert [body["preview"] for body in sent(shell)] == [False]


def test_without_a_terminal_the_option_is_named(shell):
    shell.answer("/v1/job/delete", data=FOUND)
    done = shell("job", "delete", "-j", "7", text="")
    assert (done.exit_code, "give `--yes`" in done.stderr) == (2, True)
    assert [body["preview"] for body in sent(shell)] == [True]


def test_if_no_job_is_that_old_it_is_said(shell):
    shell.answer("/v1/job/delete/old", data={"jobs": [], "kept": []})
    for words in (("--dry-run",), ("--yes",), ()):
        done = shell("job", "delete", "--older-than", "30d", *words)
        assert (done.exit_code, done.stdout) == (0, "No job is that old.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--older-than", "1m"), "such as 30d, at most 36500d"),
        (("--older-than", "36501d"), "at most 36500d"),
        (("--older-than", "30d", "--status", "running"), "canceled, failed, success, timeout"),
        (("--older-than", "30d", "-j", "7"), "not both"),
    ],
)
def test_what_is_no_age_or_status_is_wrong_usage(shell, words, said):
    done = shell("job", "delete", *words)
    assert (done.exit_code, said in done.stderr, "Hint" in done.stderr) == (2, True, False)
    assert sent(shell) == []


def test_one_job_or_old_ones(shell):
    for words in ((), ("-j", "7", "--older-than", "3d"), ("-j", "7", "--status", "failed")):
        assert shell("job", "delete", *words).exit_code == 2
    assert sent(shell) == []


def test_tags_are_shown_given_and_taken(shell):
    shell.answer("/v1/job/tag/query", data={"tags": ["a", "b"]})
    shell.answer("/v1/job/tag/add", data={"tags": ["a", "b", "c"]})
    shell.answer("/v1/job/tag/remove", data={"tags": []})
    assert shell("job", "tag", "-j", "7").stdout == "a, b\n"
    assert shell("job", "tag", "-j", "7", "c").stdout == "a, b, c\n"
    assert shell("job", "tag", "-j", "7", "a", "b", "--remove").stdout == "No tags.\n"
    assert [body.get("tag_name") for body in sent(shell)] == [None, "c", "a", "b"]


def test_jobs_are_listed_by_tag(shell):
    shell.answer("/v1/job/list/job", data={"jobs": [], "count": 0})
    assert shell("job", "list", "--tag", "red").exit_code == 0
    assert sent(shell)[0]["tag"] == "red"
