"""Reruns, retries and inherited results between two real servers, over TLS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.jobs import empty_job
from tests.e2e.servers import GUEST, HOST, Pair, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

GUEST_SHARE = {"role": "guest", "party_id": 9999}


@pytest.fixture(scope="module")
def servers(quick_servers: Pair) -> Pair:
    return quick_servers


def submit(pair: Pair, *steps: dict[str, Any], **common: Any) -> str:
    return pair.guest.client.submit(*empty_job(*steps, **common)).job_id


def tasks(pair: Pair, job_id: str, component: str) -> list[dict[str, Any]]:
    body = {"job_id": job_id, "component_name": component}
    return list(pair.guest.post("/v1/job/task/query", body)["data"])


def versions(pair: Pair, job_id: str, component: str) -> set[int]:
    return {t["f_task_version"] for t in tasks(pair, job_id, component)}


def test_a_failed_job_is_mended_by_new_parameters_and_goes_on(pair: Pair) -> None:
    job_id = submit(pair, {"rows": 5}, {"fail": "host"}, {})
    assert set(pair.ends(job_id).values()) == {"failed"}
    changed = pair.guest.post(
        "/v1/job/parameter/update",
        {"job_id": job_id, "component_parameters": {"common": {"empty_1": {"fail": False}}}},
    )
    assert changed["data"]["components"] == ["empty_1"], changed
    answer = pair.guest.post("/v1/job/rerun", {"job_id": job_id})
    assert answer == {"retcode": 0, "retmsg": "rerun job success"}
    assert set(pair.ends(job_id).values()) == {"success"}
    assert versions(pair, job_id, "empty_0") == {0}
    assert versions(pair, job_id, "empty_1") == versions(pair, job_id, "empty_2") == {1}
    report = pair.guest.post("/v1/job/report", {"job_id": job_id})["data"]
    assert [(r["component_name"], r["index"], r["status"]) for r in report] == [
        (f"empty_{i}", i, "success") for i in range(3)
    ]
    for party, site in ((pair.guest, GUEST), (pair.host, HOST)):
        logs = party.home / "logs" / job_id / site.role.value / site.party_id / "empty_1"
        assert {p.name for p in logs.iterdir() if p.is_dir()} >= {"0", "1"}


def test_another_party_may_ask_for_a_rerun(pair: Pair) -> None:
    job_id = submit(pair, {}, {"fail": "guest"})
    pair.ends(job_id)
    answer = pair.host.post("/v1/job/rerun", {"job_id": job_id, "component_name": "empty_1"})
    assert answer["retcode"] == 0, answer
    wait_for(lambda: versions(pair, job_id, "empty_1") == {1}, "the second attempt")
    assert set(pair.ends(job_id).values()) == {"failed"}
    refused = pair.host.post("/v1/job/rerun", {"job_id": job_id, "component_name": "zzz"})
    assert refused["retcode"] == 103
    assert "no component 'zzz'" in refused["retmsg"]


def test_a_rerun_survives_the_death_of_either_server(pair: Pair) -> None:
    job_id = submit(pair, {}, {"sleep_s": 1.0})
    pair.ends(job_id)
    for victim in (pair.host, pair.guest):
        answer = pair.guest.post("/v1/job/rerun", {"job_id": job_id, "force": True})
        assert answer["retcode"] == 0, answer
        victim.restart(after_s=0.2)
        assert set(pair.ends(job_id).values()) <= {"success", "failed"}
        assert len(set(pair.ends(job_id).values())) == 1
        pair.wait_connected()


def test_a_failed_task_is_tried_again_as_often_as_the_job_says(pair: Pair) -> None:
    job_id = submit(pair, {"fail": "host"}, auto_retries=2, auto_retry_delay=0)
    assert set(pair.ends(job_id).values()) == {"failed"}
    found = tasks(pair, job_id, "empty_0")
    assert {t["f_task_version"] for t in found} == {2}
    assert {t["f_auto_retries"] for t in found if t["f_role"] == "guest"} == {0}


def test_a_new_job_takes_over_results_and_cleaning_spares_them(pair: Pair) -> None:
    old = submit(pair, {"rows": 7}, {})
    assert set(pair.ends(old).values()) == {"success"}
    taken = {"job_id": old, "component_list": ["empty_0"]}
    new = submit(pair, {"rows": 7}, {"sleep_s": 0.1}, inheritance_info=taken)
    assert set(pair.ends(new).values()) == {"success"}
    inherited = tasks(pair, new, "empty_0")
    assert {t["f_inherited_from"] for t in inherited if t["f_run_on_this_party"]} == {old}
    where = {"job_id": new, "component_name": "empty_0", **GUEST_SHARE}
    rows = pair.guest.post("/v1/tracking/component/output/data", where)
    assert rows["meta"]["total"] == [7]
    cleaned = pair.guest.post("/v1/job/clean", {"job_id": old})["data"]
    assert len(cleaned["kept"]) == 1
    assert cleaned["tables"] == []  # empty_1 only passed the same table on
    assert pair.guest.post("/v1/tracking/component/output/data", where)["meta"]["total"] == [7]
    config = pair.guest.post("/v1/job/query", {"job_id": new, **GUEST_SHARE})["data"][0]
    assert config["f_inheritance_info"] == taken
    assert config["f_inheritance_status"] == "success"


def test_a_submit_names_files_that_are_there(pair: Pair) -> None:
    dsl, conf = empty_job({})
    conf["job_parameters"]["common"]["work_mode"] = 1
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    data = answer["data"]
    assert answer["retmsg"].startswith("[WARN]")
    assert json.loads(Path(data["dsl_path"]).read_text()) == dsl
    paths = [v for k, v in data.items() if k.endswith("_path")]
    assert len(paths) == 5
    assert all(Path(p).is_file() for p in paths)
    assert f"/board/jobs/{data['job_id']}/guest/" in data["board_url"]
    pair.ends(answer["jobId"])


def test_waiting_jobs_are_taken_out_of_the_queue(pair: Pair) -> None:
    cores = pair.guest.post("/v1/resource/query", {})["data"]["computing_engine_resource"]
    big = {"task_cores": cores["f_cores"]}
    running = submit(pair, {"sleep_s": 5.0}, **big)
    waiting = submit(pair, {}, **big)
    holding = pair.guest.post("/v1/resource/query", {})["data"]["use_resource_job"]
    assert {j["job_id"] for j in holding} == {running}
    answer = pair.guest.post("/v1/job/clean/queue")
    assert answer["data"] == {waiting: 0}
    assert set(pair.ends(waiting).values()) == {"canceled"}
    assert (
        pair.guest.post("/v1/resource/return", {"job_id": running})["data"][0][
            "resource_return_status"
        ]
        is False
    )
    pair.guest.post("/v1/job/stop", {"job_id": running})
    pair.ends(running)


def test_a_refused_submit_has_an_id_and_is_not_listed(pair: Pair) -> None:
    dsl, conf = empty_job({})
    conf["role"]["host"] = [4242]
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] == 103
    assert "data" not in answer
    found = pair.guest.post("/v1/job/query", {"job_id": answer["jobId"]})["data"]
    assert [j["f_tag"] for j in found] == ["submit_failed"]
    listed = pair.guest.post("/v1/job/list/job", {"limit": 0, "job_id": answer["jobId"]})["data"]
    assert listed["count"] == 0
