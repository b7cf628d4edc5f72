"""`fedflow job pause` and `continue`: what they ask, what they print."""

from __future__ import annotations

import pytest

from fedflow.base.errors.jobs import ContinueRefused

PAUSE, CONTINUE = "/v1/job/pause", "/v1/job/continue"


def test_pause_names_the_job(shell):
    shell.answer(PAUSE)
    result = shell("job", "pause", "-j", "7")
    assert (result.exit_code, result.stdout) == (0, "Job 7 is paused.\n")
    assert shell.server.bodies(PAUSE) == [{"job_id": "7"}]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ((), {"all": False}),
        (("--steps", "3"), {"all": False, "steps": 3}),
        (("--all",), {"all": True}),
    ],
)
def test_continue_sends_what_was_asked(shell, options, asked):
    shell.answer(CONTINUE)
    result = shell("job", "continue", "-j", "7", *options)
    assert (result.exit_code, result.stdout) == (0, "Job 7 goes on.\n")
    assert shell.server.bodies(CONTINUE) == [{"job_id": "7", **asked}]
    assert shell.json("job", "continue", "-j", "7") == {"job_id": "7", "continued": True}


@pytest.mark.parametrize("options", [("--steps", "0"), ("--steps", "x"), ("--steps", "1", "--all")])
def test_a_wrong_continue_sends_nothing(shell, options):
    assert shell("job", "continue", "-j", "7", *options).exit_code == 2
    assert shell.server.bodies(CONTINUE) == []


def test_a_refusal_is_told_with_its_hint(shell):
    shell.refuse(CONTINUE, ContinueRefused(job_id="7", reason="it is not paused"))
    result = shell("job", "continue", "-j", "7")
    assert result.exit_code == 1
    assert "it is not paused" in result.stderr
    assert "Only a job that is paused" in result.stderr
