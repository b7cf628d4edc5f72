"""The toy test when it does not go well: what it says, and its exit code."""

from __future__ import annotations

import json

import pytest

from fedflow.base.errors.jobs import SubmitRefused

SUBMIT, STATUS, LOG, STOP = (
    "/v1/job/submit", "/v1/job/status", "/v1/job/log/download", "/v1/job/stop",
)  # fmt: skip
TOY = ("test", "toy", "--guest", "9999", "--host", "10000")


@pytest.fixture
def submits(shell):
    shell.answer(SUBMIT, {"job_id": "7"}, members={"jobId": "7"})
    shell.answer(STOP)
    return shell


def test_a_failed_job_shows_the_guests_errors_and_ends_with_3(submits, make_view):
    submits.answer(STATUS, make_view("failed"))
    submits.archive(LOG, {"guest/9999/ERROR.log": "no way to host\n", "guest/9999/INFO.log": "x"})
    result = submits(*TOY)
    assert result.exit_code == 3
    assert result.stdout.splitlines()[1:] == ["toy test job 7 is failed", "no way to host"]


def test_a_job_that_takes_too_long_is_stopped(submits, make_view):
    submits.answer(STATUS, make_view("running", ended_ms=None))
    result = submits(*TOY, "--timeout", "0.05")
    assert result.exit_code == 3
    assert "did not end within 0.05 seconds" in result.stdout
    assert submits.server.bodies(STOP) == [{"job_id": "7"}]


def test_a_refused_job_is_an_error(submits):
    submits.refuse(SUBMIT, SubmitRefused(reason="host 10000 says no"))
    result = submits(*TOY)
    assert result.exit_code == 1
    assert "host 10000 says no" in result.stderr


def test_programs_get_one_object(submits, make_view):
    submits.answer(STATUS, make_view())
    submits.archive(LOG, {"guest/9999/INFO.log": "a\nb secure_add_guest: 2000\n"})
    found = json.loads(submits(*TOY, "--json").stdout)
    assert found["success"] is True
    assert found["lines"][-1] == "b secure_add_guest: 2000"
