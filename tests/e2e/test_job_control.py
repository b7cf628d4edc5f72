"""Pause, continue, steps, `run_to`, policies and retries through the command line, between two real
servers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fedflow.wire.api.jobs import JobStatusView
from tests.e2e.commands import fedflow
from tests.e2e.jobs import empty_job, example, upload_data
from tests.e2e.servers import ARBITER, HOST, QUICK, Pair, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {**QUICK, "FEDFLOW__SCHEDULING__LEASE_S": "60"}  # a restart is no loss of the party


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("control"), settings=SETTINGS) as pair:
        yield pair


def submit(pair: Pair, *steps: dict[str, Any], **common: Any) -> str:
    return pair.guest.client.submit(*empty_job(*steps, **common)).job_id


def wait_held(pair: Pair, job_id: str, code: str) -> None:
    """Wait until a job is held at both parties and all cores are free."""

    def held() -> bool:
        found = [party.client.job(job_id) for party in pair.all]
        return all(v.status == "waiting" for v in found) and found[0].reason.code == code

    wait_for(held, f"job {job_id} to be held ({code})")
    pair.wait_idle()


def statuses(view: JobStatusView) -> dict[str, str]:
    """Return how the components stand at the guest."""
    return {t.component: t.status for t in view.tasks if t.site == "guest-9999"}


def test_a_job_is_paused_at_one_party_and_continued_at_the_other(pair: Pair) -> None:
    job_id = submit(pair, {"sleep_s": 1.0}, {})
    wait_for(lambda: pair.guest.client.job(job_id).status == "running", "the job to run")
    assert "is paused" in fedflow(pair.host, "job", "pause", "-j", job_id)
    assert "paused already" in fedflow(pair.guest, "job", "pause", "-j", job_id, code=1)
    wait_held(pair, job_id, "Paused")
    view = pair.guest.client.job(job_id)
    assert view.reason.message == "paused by host 10000"
    assert statuses(view) == {"empty_0": "success", "empty_1": "waiting"}
    pair.guest.restart(after_s=0.1)
    assert pair.guest.client.job(job_id).status == "waiting"
    assert "goes on" in fedflow(pair.guest, "job", "continue", "-j", job_id)
    assert set(pair.ends(job_id).values()) == {"success"}
    assert "has ended" in fedflow(pair.host, "job", "continue", "-j", job_id, code=1)


def test_a_job_goes_step_by_step(pair: Pair) -> None:
    job_id = submit(pair, {}, {}, {}, step=True)
    wait_held(pair, job_id, "AwaitsStep")
    fedflow(pair.guest, "job", "continue", "-j", job_id, "--steps", "2")
    wait_for(
        lambda: statuses(pair.guest.client.job(job_id))["empty_1"] == "success", "two components"
    )
    wait_held(pair, job_id, "AwaitsStep")
    assert statuses(pair.guest.client.job(job_id))["empty_2"] == "waiting"
    fedflow(pair.host, "job", "continue", "-j", job_id, "--all")
    assert set(pair.ends(job_id).values()) == {"success"}


def test_a_stop_ends_a_held_job(pair: Pair) -> None:
    job_id = submit(pair, {}, step=True)
    wait_held(pair, job_id, "AwaitsStep")
    fedflow(pair.host, "job", "stop", "-j", job_id)
    assert set(pair.ends(job_id).values()) == {"canceled"}


def test_a_job_runs_to_a_component_and_after_a_change_the_rest(pair: Pair) -> None:
    job_id = submit(pair, {}, {}, {}, run_to="empty_1")
    assert set(pair.ends(job_id).values()) == {"success"}
    view = pair.guest.client.job(job_id)
    assert statuses(view) == {"empty_0": "success", "empty_1": "success", "empty_2": "canceled"}
    reasons = {t.reason.code for t in view.tasks if t.component == "empty_2" and t.reason}
    assert reasons == {"NotSelected"}
    pair.guest.client.update_parameters(job_id, {"job_parameters": {"common": {"run_to": None}}})
    fedflow(pair.guest, "job", "rerun", "-j", job_id, "--wait")
    assert statuses(pair.guest.client.job(job_id))["empty_2"] == "success"


def test_a_component_that_can_live_with_a_failure_runs_without_its_outputs(pair: Pair) -> None:
    options = {"empty_1": {"schedule_policy": "all_done"}}
    job_id = submit(pair, {"fail": True}, {"rows": 3}, task_conf=options)
    assert set(pair.ends(job_id).values()) == {"success"}
    assert statuses(pair.guest.client.job(job_id)) == {"empty_0": "failed", "empty_1": "success"}


def test_a_component_that_takes_too_long_ends_everywhere(pair: Pair) -> None:
    options = {"empty_0": {"timeout": 1, "auto_retries": 1, "auto_retry_delay": 0}}
    job_id = submit(pair, {"sleep_s": 600.0}, task_conf=options)
    assert set(pair.ends(job_id).values()) == {"timeout"}
    for party in pair.all:
        view = party.client.job(job_id)
        assert view.reason.code == "TaskTimedOut"
        assert {t.version for t in view.tasks} == {1}


def test_wrong_options_are_refused_with_their_paths(pair: Pair) -> None:
    dsl, conf = empty_job({}, task_conf={"empty_0": {"schedule_policy": "x"}}, run_to="no")
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] != 0
    text = json.dumps(answer)
    assert "task_conf.empty_0.schedule_policy" in text
    assert "job_parameters.common.run_to" in text


def test_a_server_that_dies_while_values_are_exchanged_costs_an_attempt_and_not_the_job(
    pair: Pair,
) -> None:
    upload_data(pair)
    job_id = pair.guest.client.submit(*example(iterations=20)).job_id
    pair.host.wait_executor(job_id, component="hetero_lr_0", site=HOST)
    metrics = pair.host.client.metrics
    wait_for(lambda: metrics(job_id, "hetero_lr_0", site=ARBITER), "the first iteration")
    pair.host.restart(after_s=0.2)
    assert set(pair.ends(job_id, within_s=150).values()) == {"success"}
    view = pair.guest.client.job(job_id)
    assert {t.version for t in view.tasks if t.component == "hetero_lr_0"} == {1}
