"""Job routes: shapes that FATE's clients read."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobFilter, JobKey, Order, Sort, TaskFilter
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus

JOB_ID = "202611201000000000000"


def test_a_submit_answers_what_the_sdk_reads(client: FlaskClient, services: Any) -> None:
    conf = {"dsl_version": 2, "conf_path": "x"}
    body = client.post(
        "/v1/job/submit", json={"job_dsl": {"components": {}}, "job_runtime_conf": conf}
    ).json
    assert body["retcode"] == 0
    assert body["jobId"] == JOB_ID
    assert body["data"]["model_info"]["model_id"] == "guest-9999#host-10000#model"
    assert body["data"]["board_url"].startswith("http://")
    assert services.calls == [("submit", {"components": {}}, conf)]


@pytest.mark.parametrize("names", [("job_dsl", "job_runtime_conf"), ("dsl", "runtime_conf")])
def test_both_names_of_the_submit_members_work(client: FlaskClient, names: tuple[str, str]) -> None:
    assert client.post("/v1/job/submit", json={names[0]: {}, names[1]: {}}).json["retcode"] == 0


def test_a_submit_without_conf_names_the_member(client: FlaskClient) -> None:
    body = client.post("/v1/job/submit", json={"job_dsl": {}}).json
    assert body["retcode"] == 101
    assert "job_runtime_conf" in body["retmsg"]


def test_a_refused_submit_has_code_103_and_all_problems(client: FlaskClient, services: Any) -> None:
    services.fail = InvalidJobSpec([Problem("$.dsl", "loop", rule="LoopError")])
    body = client.post("/v1/job/submit", json={"job_dsl": {}, "job_runtime_conf": {}}).json
    assert body["retcode"] == 103
    assert body["error"]["problems"][0]["rule"] == "LoopError"
    assert "data" not in body


def test_stop_takes_canceled_unless_told_otherwise(client: FlaskClient, services: Any) -> None:
    assert client.post("/v1/job/stop", json={"job_id": JOB_ID}).json == {
        "retcode": 0,
        "retmsg": "success",
    }
    client.post("/v1/job/stop", json={"job_id": JOB_ID, "stop_status": "failed"})
    assert services.calls == [("stop", JOB_ID, "canceled"), ("stop", JOB_ID, "failed")]


def test_a_query_matches_party_ids_as_number_and_as_text(client: FlaskClient) -> None:
    for party in (9999, "9999"):
        rows = client.post("/v1/job/query", json={"job_id": JOB_ID, "party_id": party}).json["data"]
        assert [r["f_party_id"] for r in rows] == ["9999"]
        assert {"f_dsl", "f_runtime_conf", "f_progress"} <= set(rows[0])


@pytest.mark.parametrize(
    "body",
    [{}, {"unknown": 1}, {"job_id": None}, {"job_id": "no"}, {"role": "boss"}, {"status": "pass"},
     {"party_id": [1]}, {"job_id": {"a": 1}}],
)  # fmt: skip
def test_a_query_without_a_known_filter_or_match_is_empty(
    client: FlaskClient, body: dict[str, Any]
) -> None:
    assert client.post("/v1/job/query", json=body).json == {
        "retcode": 0, "retmsg": "success", "data": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ({"role": ["host", "guest"]}, True),
        ({"role": ["host"]}, False),
        ({"party_id": ["1", 9999]}, True),
        ({"is_initiator": True}, True),
        ({"is_initiator": False}, False),
        ({"cores": [1, 4]}, True),
        ({"cores": [5, 9]}, False),
        ({"create_time": [1795168800000, 1795168800001]}, True),
        ({"create_time": ["2026-01-01 00:00:00", "2026-12-31 00:00:00"]}, True),
        ({"create_time": ["2027-01-01 00:00:00", "2027-12-31 00:00:00"]}, False),
        ({"end_time": [0, 9]}, False),
        ({"status": "running", "unknown": 1}, True),
        ({"status": "waiting"}, False),
    ],
)
def test_every_column_is_a_filter(client: FlaskClient, body: dict[str, Any], fits: bool) -> None:
    assert bool(client.post("/v1/job/query", json=body).json["data"]) is fits


def test_a_ready_job_is_found_as_waiting(client: FlaskClient, services: Any) -> None:
    services.jobs_known = [replace(services.jobs_known[0], status=JobStatus.READY)]
    rows = client.post("/v1/job/query", json={"status": "waiting"}).json["data"]
    assert [r["f_status"] for r in rows] == ["waiting"]


def many_jobs(services: Any, count: int) -> None:
    job = services.jobs_known[0]
    services.jobs_known = [
        replace(
            job,
            key=JobKey(job_id=f"j{i}", site=Site(Role.GUEST, PartyId("9999"))),
            created_ms=1000 - i,
            started_ms=i if i % 2 else None,
        )
        for i in range(count)
    ]


def test_a_list_is_filtered_sorted_and_paged_by_the_store(
    client: FlaskClient, services: Any
) -> None:
    many_jobs(services, 25)
    data = client.post("/v1/job/list/job", json={"limit": 10, "page": 3}).json["data"]
    assert (len(data["jobs"]), data["count"]) == (5, 25)
    assert services.calls[0] == ("page", JobFilter(limit=10, offset=20, refused=False))
    ask = {
        "job_id": "j", "description": "d", "party_id": 9, "partner": "", "role": "guest",
        "status": ["waiting"], "order_by": "elapsed", "order": "ASC",
    }  # fmt: skip
    services.calls.clear()
    client.post("/v1/job/list/job", json=ask)
    (asked,) = [call[1] for call in services.calls if call[0] == "page"]
    assert asked == JobFilter(
        job_id_part="j", description_part="d", party_id_part="9", roles=(Role.GUEST,),
        statuses=(JobStatus.WAITING, JobStatus.READY), refused=False, limit=10_000,
        order=Order(by=Sort.ELAPSED, descending=False),
    )  # fmt: skip


def test_pages_of_a_list_of_tasks_are_cut_by_the_store(client: FlaskClient, services: Any) -> None:
    ask = {"limit": 20_000, "page": 2, "component_name": "c", "status": "failed", "role": "host"}
    data = client.post("/v1/job/list/task", json=ask).json["data"]
    assert data == {"tasks": [], "count": 0}
    assert services.calls[0][1] == TaskFilter(
        component="c", statuses=(TaskStatus.FAILED,), roles=(Role.HOST,), order=Order(),
        limit=10_000, offset=10_000,
    )  # fmt: skip


def test_ranges_of_times_are_looked_for_by_the_store(client: FlaskClient, services: Any) -> None:
    ask = {"create_time": [5, "2026-01-01 00:00:00"], "end_time": ["x", 1], "cores": [1, 2]}
    client.post("/v1/job/query", json=ask)
    (between,) = services.calls[0][1].between
    assert (between.by, between.low) == (Sort.CREATED, 5.0)
    assert between.high > 1.7e12
    assert services.calls[0][1].limit == 10_000


def test_a_list_is_filtered_by_parts_and_sorted(client: FlaskClient, services: Any) -> None:
    many_jobs(services, 12)
    ask = {"limit": 2, "job_id": "j1", "order_by": "job_id", "order": "asc"}
    data = client.post("/v1/job/list/job", json=ask).json["data"]
    assert [j["job_id"] for j in data["jobs"]] == ["j1", "j10"]
    assert data["count"] == 3
    data = client.post("/v1/job/list/job", json={"partner": "10000", "limit": 0}).json["data"]
    assert data["count"] == 12
    data = client.post("/v1/job/list/job", json={"order_by": "start_time", "limit": 3}).json["data"]
    assert [j["job_id"] for j in data["jobs"]] == ["j11", "j9", "j7"]


@pytest.mark.parametrize(
    "body",
    [{"limit": -1}, {"page": 0}, {"order_by": "dsl"}, {"order": "up"}, {"status": "lost"},
     {"role": ["boss"]}, {"limit": "x"}, {"limit": 1.5}],
)  # fmt: skip
def test_a_bad_list_request_is_http_400(client: FlaskClient, body: dict[str, Any]) -> None:
    answer = client.post("/v1/job/list/job", json=body)
    assert answer.status_code == 400
    assert answer.json["retcode"] == 400


def test_a_task_query_without_match_has_code_101_and_no_data(client: FlaskClient) -> None:
    body = client.post("/v1/job/task/query", json={"job_id": "no"}).json
    assert body["retcode"] == 101
    assert "data" not in body


def test_a_task_query_filters_by_component_and_status(client: FlaskClient) -> None:
    ask = {"job_id": JOB_ID, "component_name": "reader_0", "status": "running"}
    assert client.post("/v1/job/task/query", json=ask).json["data"][0]["f_component_name"]
    assert (
        client.post("/v1/job/task/query", json={**ask, "status": "failed"}).json["retcode"] == 101
    )


def test_notes_answer_exactly_success(client: FlaskClient, services: Any) -> None:
    ask = {"job_id": JOB_ID, "role": "guest", "party_id": 9999, "notes": "n"}
    assert client.post("/v1/job/update", json=ask).json == {"retcode": 0, "retmsg": "success"}
    assert services.calls[-1] == ("set_notes", JOB_ID, "guest", "9999", "n", None)
    assert client.post("/v1/job/update", json={**ask, "job_id": "no"}).json["retcode"] == 101


@pytest.mark.parametrize(
    ("given", "kept"),
    [({"name": "x"}, (None, "x")), ({}, ("", None)), ({"notes": "n", "name": "x"}, ("n", "x"))],
)
def test_a_name_leaves_the_notes_as_they_are(client, services, given, kept):
    ask = {"job_id": JOB_ID, "role": "guest", "party_id": 9999, **given}
    assert client.post("/v1/job/update", json=ask).json["retcode"] == 0
    assert services.calls[-1] == ("set_notes", JOB_ID, "guest", "9999", *kept)


def test_config_has_what_the_cli_writes_to_files(client: FlaskClient) -> None:
    ask = {"job_id": JOB_ID, "role": "guest", "party_id": "9999"}
    data = client.post("/v1/job/config", json=ask).json["data"]
    assert {"job_id", "dsl", "runtime_conf", "train_runtime_conf", "model_info"} == set(data)
    assert client.post("/v1/job/config", json={**ask, "role": "host"}).json["retcode"] == 101


def test_the_data_view_lists_output_tables(client: FlaskClient) -> None:
    rows = client.post("/v1/job/data/view/query", json={"job_id": JOB_ID}).json["data"]
    assert rows[0]["f_table_namespace"] == "exp"


def test_logs_come_as_an_archive_of_regular_files(client: FlaskClient, services: Any) -> None:
    folder = services.home / "logs" / JOB_ID / "guest" / "9999"
    folder.mkdir(parents=True)
    (folder / "INFO.log").write_text("secure_add_guest")
    (folder / "secret").symlink_to("/etc/passwd")
    answer = client.post("/v1/job/log/download", json={"job_id": JOB_ID})
    assert answer.status_code == 200
    packed = answer.data
    answer.close()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getnames() == ["guest/9999/INFO.log"]
        content = tar.extractfile("guest/9999/INFO.log")
        assert content is not None
        assert content.read() == b"secure_add_guest"


def test_missing_logs_are_no_file(client: FlaskClient) -> None:
    missing = client.post("/v1/job/log/download", json={"job_id": "no"})
    assert (missing.status_code, missing.json["error"]["name"]) == (404, "JobNotFound")
    assert client.post("/v1/job/log/download", json={"job_id": JOB_ID}).status_code == 404
    assert client.get("/v1/job/log", json={"job_id": JOB_ID}).status_code == 210


def test_the_log_folder_is_told(client: FlaskClient) -> None:
    body = client.post("/v1/job/log/path", json={"job_id": JOB_ID}).json
    assert body["data"]["logs_directory"].endswith(JOB_ID)


def test_the_status_view_has_two_doors(client: FlaskClient) -> None:
    assert client.get(f"/v1/job/{JOB_ID}/status").json["data"] == {"job_id": JOB_ID}
    assert client.post("/v1/job/status", json={"job_id": "no"}).json["retcode"] == 102
