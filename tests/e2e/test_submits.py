"""Submits that may be repeated, results that are taken over, and sites that only answer (PULL)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import requests

from fedflow.client.client import Client
from tests.e2e.jobs import NAMES, Json, empty_job
from tests.e2e.servers import (
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    Pair,
    two_parties,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def servers(quick_servers: Pair) -> Pair:
    return quick_servers


def job_ids(pair: Pair) -> set[str]:
    return {job.job_id for job in pair.guest.client.jobs(0).jobs}


# --- idempotency keys -----------------------------------------------------------------------------


def test_submits_at_once_with_one_key_make_one_job_and_get_one_answer(pair: Pair) -> None:
    before = job_ids(pair)
    dsl, conf = empty_job({})
    body = {"job_dsl": dsl, "job_runtime_conf": conf}

    def submit(_: int) -> Json:
        url = f"{pair.guest.url}/v1/job/submit"
        answer = requests.post(url, json=body, headers={"Idempotency-Key": '"at-once"'}, timeout=60)
        return dict(answer.json())

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(submit, range(6)))
    assert all(answer == answers[0] for answer in answers), answers
    assert answers[0]["retcode"] == 0
    assert job_ids(pair) - before == {answers[0]["jobId"]}
    assert set(pair.ends(answers[0]["jobId"]).values()) == {"success"}


def test_a_submit_whose_server_dies_is_made_again_and_gives_the_same_job(pair: Pair) -> None:
    pair.host.kill()  # so that the first submit waits for its sites
    before = job_ids(pair)
    dsl, conf = empty_job({})
    url = f"{pair.guest.url}/v1/job/submit"
    body = {"job_dsl": dsl, "job_runtime_conf": conf, "idempotency_key": "killed"}
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(requests.post, url, json=body, timeout=60)
        pair.host.start().wait_ready()
        first = lost.result().json()
    assert first["retcode"] in (0, 103)
    pair.guest.restart(after_s=0.0)
    pair.wait_connected()
    again = requests.post(url, json=body, timeout=60).json()
    assert again["retcode"] == 0, again
    if first["retcode"] == 0:
        assert again == first
    assert set(pair.ends(again["jobId"]).values()) == {"success"}
    made = job_ids(pair) - before - {first["jobId"]} | {again["jobId"]}
    assert made == {again["jobId"]}
    third = pair.guest.client.submit(dsl, conf, idempotency_key="killed")
    assert third.job_id == again["jobId"]


# --- reuse ----------------------------------------------------------------------------------------


def data_job(*, host_missing: bool = False, **common: Any) -> tuple[Json, Json]:
    """Return Reader -> DataTransform -> Empty, with a parameter of the host's DataTransform."""
    dsl = {
        "components": {
            "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
            "data_transform_0": {
                "module": "DataTransform",
                "input": {"data": {"data": ["reader_0.data"]}},
                "output": {"data": ["data"], "model": ["model"]},
            },
            "empty_0": {
                "module": "Empty",
                "input": {"data": {"data": ["data_transform_0.data"]}},
                "output": {"data": ["data"]},
            },
        }
    }
    conf = empty_job({})[1]
    conf["job_parameters"]["common"].update({"reuse": True, **common})
    conf["component_parameters"] = {
        "role": {
            "guest": {"0": side("breast_hetero_guest", with_label=True)},
            "host": {"0": side("breast_hetero_host", with_label=False, missing_fill=host_missing)},
        }
    }
    return dsl, conf


def side(table: str, **transform: Any) -> Json:
    return {
        "reader_0": {"table": {"namespace": "experiment", "name": table}},
        "data_transform_0": {"output_format": "dense", **transform},
    }


def finished(pair: Pair, **more: Any) -> tuple[str, dict[str, str]]:
    """Run the job to its end; return its id and what it took over."""
    made = pair.guest.client.submit(*data_job(**more))
    assert set(pair.ends(made.job_id).values()) == {"success"}
    pair.wait_idle()
    return made.job_id, dict(made.reused)


def test_finished_components_are_taken_over_until_something_they_depend_on_changes(
    pair: Pair,
) -> None:
    first, taken = finished(pair)
    assert taken == {}
    names = ("reader_0", "data_transform_0", "empty_0")
    again, taken = finished(pair)
    assert taken == dict.fromkeys(names, first)
    assert pair.guest.client.job(again).reused == taken
    assert not (pair.guest.home / "logs" / again / "guest" / "9999" / "reader_0").exists()
    rows = pair.guest.post(
        "/v1/tracking/component/output/data",
        {"job_id": again, "component_name": "empty_0", "role": "guest", "party_id": 9999},
    )
    assert rows["meta"]["total"] == [569]

    _, taken = finished(pair, host_missing=True)  # a parameter of the other party
    assert taken == {"reader_0": first}

    pair.host.upload(DATA / f"{NAMES[HOST_ID]}.csv", NAMES[HOST_ID], drop=True)  # the same rows
    replaced, taken = finished(pair)
    assert taken == {}

    pair.host.client.clean(replaced)  # its outputs at one site are gone
    _, taken = finished(pair)
    assert set(taken) <= {"reader_0"}

    _, taken = finished(pair, reuse=False)
    assert taken == {}


# --- PULL -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers, of which the host's has no route to the guest's."""
    slow = {**QUICK, "FEDFLOW__SCHEDULING__HEARTBEAT_S": "8"}
    with two_parties(tmp_path_factory.mktemp("pull"), settings=slow) as pair:
        pair.host.stop()
        listed = {**pair.host.place.settings, "FEDFLOW__PARTNERS": f"[{GUEST_ID}]"}
        pair.host.place = replace(pair.host.place, routes={}, settings=listed)
        pair.host.start().wait_ready()
        yield pair


def pulled(*steps: Json) -> tuple[Json, Json]:
    return empty_job(*steps, federated_status_collect_type="PULL")


def test_a_site_that_cannot_call_the_initiator_takes_part_with_pull_only(silent: Pair) -> None:
    job_id = silent.guest.client.submit(*pulled({}, {}, {})).job_id
    assert set(silent.ends(job_id).values()) == {"success"}
    dsl, conf = empty_job({})
    answer = silent.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] == 103
    assert "9999" in answer["retmsg"]
    silent.wait_idle()


def test_a_stop_at_such_a_site_ends_the_job_everywhere(silent: Pair) -> None:
    job_id = silent.guest.client.submit(*pulled({"sleep_s": 600.0})).job_id
    for site in (GUEST, HOST):
        silent.of(site).wait_executor(job_id, component="empty_0", site=site)
    with Client(silent.host.url, timeout_s=60.0) as client:
        client.stop(job_id)
    assert set(silent.ends(job_id).values()) == {"canceled"}
    reason = silent.guest.client.job(job_id).reason
    assert reason is not None
    assert (reason.code, reason.site) == ("Stopped", HOST.key)
    silent.wait_idle()


def test_a_failure_at_such_a_site_is_collected_with_its_reason(silent: Pair) -> None:
    job_id = silent.guest.client.submit(*pulled({"fail": "host"})).job_id
    assert set(silent.ends(job_id).values()) == {"failed"}
    reason = silent.guest.client.job(job_id).reason
    assert reason is not None
    assert reason.site == HOST.key
    silent.wait_idle()


def test_what_was_submitted_is_not_lost_by_a_restart_of_such_a_site(silent: Pair) -> None:
    job_id = silent.guest.client.submit(*pulled({"sleep_s": 2.0})).job_id
    silent.host.wait_executor(job_id, component="empty_0", site=HOST)
    silent.host.restart(after_s=0.0)
    assert len(set(silent.ends(job_id).values())) == 1
    wait_for(lambda: silent.guest.client.job(job_id).is_final, "the end")
    silent.wait_idle()
