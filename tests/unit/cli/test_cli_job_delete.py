"""`fedflow job delete` and `fedflow job tag`: what is said, asked and sent."""

from __future__ import annotations

import json

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
    assert no.exit_code == 130
    assert "4 tasks, 2 metrics" in no.stdout
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
