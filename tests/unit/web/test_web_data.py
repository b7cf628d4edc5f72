"""Uploads, tables and tracking."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from fedflow.base.errors import TableExists
from fedflow.domain.records import StoredModel, TaskKey
from fedflow.web.app import create_app
from fedflow.web.settings import WebSettings

JOB_ID = "202611201000000000000"
SHARE = {"job_id": JOB_ID, "component_name": "reader_0", "role": "guest", "party_id": "9999"}
CSV = b"id,y\n1,0\n"


def send(client: FlaskClient, query: str, content: bytes = CSV, **fields: Any) -> Any:
    data = {"file": (io.BytesIO(content), "d.csv"), **fields}
    return client.post(f"/v1/data/upload?{query}", data=data)


def spooled(services: Any) -> list[Path]:
    folder: Path = services.spool_dir
    return sorted(folder.iterdir()) if folder.exists() else []


# --- upload ---------------------------------------------------------------------------------------


def test_json_text_as_the_whole_query_is_read_as_clients_send_it(
    client: FlaskClient, services: Any
) -> None:
    conf = {"namespace": "a+b", "table_name": "x=y&z", "id_delimiter": "=", "head": 1, "drop": 0}
    answer = send(client, quote(json.dumps(conf), safe="&=+;")).json
    assert answer["jobId"] == JOB_ID
    assert (answer["data"]["namespace"], answer["data"]["table_name"]) == ("a+b", "x=y&z")
    assert services.calls == [("upload", conf, CSV, False)]


def test_pairs_and_form_fields_are_read_too(client: FlaskClient, services: Any) -> None:
    send(client, "namespace=exp&table_name=g")
    send(client, "", namespace="exp", table_name="g")
    for call in services.calls:
        assert call[1] == {"namespace": "exp", "table_name": "g"}


def test_a_refused_upload_leaves_no_file(client: FlaskClient, services: Any) -> None:
    services.fail = TableExists(namespace="exp", name="g")
    assert send(client, "namespace=exp&table_name=g").json["retcode"] == 100
    assert len(services.calls) == 1
    assert spooled(services) == []


def test_the_file_of_an_accepted_upload_stays_for_the_job(
    client: FlaskClient, services: Any
) -> None:
    send(client, "namespace=exp&table_name=g")
    (folder,) = spooled(services)
    (path,) = folder.iterdir()
    assert path.read_bytes() == CSV
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("query", ["%7B%22a", "%7Bx%7D", "a", "%FF"])
def test_a_query_that_cannot_be_read_is_refused(
    client: FlaskClient, services: Any, query: str
) -> None:
    assert send(client, query).json["retcode"] == 101
    assert spooled(services) == []


def test_an_upload_without_or_with_two_files_is_refused(client: FlaskClient, services: Any) -> None:
    answer = client.post(
        "/v1/data/upload?namespace=e", data={"x": "1"}, content_type="multipart/form-data"
    )
    assert answer.json["retcode"] == 101
    data = {"file": (io.BytesIO(b"1"), "a"), "other": (io.BytesIO(b"2"), "b")}
    assert client.post("/v1/data/upload?namespace=e", data=data).json["retcode"] == 101
    assert services.calls == []
    assert spooled(services) == []


def test_a_broken_multipart_body_is_refused(client: FlaskClient, services: Any) -> None:
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        answer = client.post(
            "/v1/data/upload?namespace=e", data=b"--x\r\nrubbish", content_type=kind
        )
        assert answer.json["retcode"] in (101, 413)
    assert spooled(services) == []


def test_an_upload_over_the_limit_is_http_413(services: Any) -> None:
    client = create_app(services, WebSettings(upload_bytes=1000)).test_client()
    assert send(client, "namespace=e", b"x" * 2000).status_code == 413
    assert spooled(services) == []


def test_an_upload_may_be_larger_than_other_bodies(services: Any) -> None:
    client = create_app(services, WebSettings(body_bytes=1000)).test_client()
    assert send(client, "namespace=e", b"x" * 5000).json["retcode"] == 0


def test_a_server_file_is_read_only_from_allowed_folders(
    client: FlaskClient, services: Any
) -> None:
    ask = {"use_local_data": 0, "file": "/allowed/d.csv", "namespace": "e", "table_name": "t"}
    assert client.post("/v1/data/upload", json=ask).json["retcode"] == 0
    assert services.calls[0][3] is True  # it is kept
    for wrong in ({"file": "/etc/passwd"}, {"use_local_data": 1}, {"file": None}):
        assert client.post("/v1/data/upload", json={**ask, **wrong}).json["retcode"] == 101


def test_the_upload_history_takes_a_limit(client: FlaskClient) -> None:
    assert client.post("/v1/data/upload/history", json={"limit": 10}).json["data"] == [{"j": 10}]


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["name", "table_name"])
def test_table_info_takes_both_names(client: FlaskClient, member: str) -> None:
    data = client.post("/v1/table/table_info", json={member: "g", "namespace": "exp"}).json["data"]
    assert (data["exist"], data["count"], data["partition"]) == (1, 3, 4)
    assert data["schema"] == {"header": "y,x0", "sid": "id"}


def test_an_unknown_table_is_no_error(client: FlaskClient) -> None:
    body = client.post("/v1/table/table_info", json={"name": "no", "namespace": "exp"}).json
    assert (body["retcode"], body["data"]["exist"], body["data"]["count"]) == (0, 0, 0)


def test_a_second_delete_has_fates_sentence(client: FlaskClient) -> None:
    ask = {"table_name": "g", "namespace": "exp"}
    assert client.post("/v1/table/delete", json=ask).json["data"] == ask
    body = client.post("/v1/table/delete", json=ask).json
    assert (body["retcode"], body["retmsg"]) == (101, "no find table")
    assert body["error"]["name"] == "TableNotFound"


def test_missing_members_are_named_together(client: FlaskClient) -> None:
    body = client.post("/v1/table/list", json={"job_id": "j"}).json
    assert body["retmsg"].startswith("required argument are missing: role,party_id; ")


def test_a_preview_is_cut(client: FlaskClient) -> None:
    ask = {"name": "g", "namespace": "exp", "limit": 2}
    data = client.post("/v1/table/preview", json=ask).json["data"]
    assert data == {"header": ["id", "y", "x0"], "data": [["1", "0", "2.5"], ["2", "1", "3.5"]]}
    assert client.post("/v1/table/preview", json={**ask, "name": "no"}).status_code == 210
    assert client.post("/v1/table/preview", json={**ask, "limit": 101}).status_code == 400


# --- tracking -------------------------------------------------------------------------------------


def test_metrics_are_a_tree(client: FlaskClient) -> None:
    data = client.post("/v1/tracking/component/metric/all", json=SHARE).json["data"]
    assert data == {"train": {"loss": {"data": [[0, 0.7], [1, 0.5]], "meta": {"name": "loss"}}}}
    data = client.post("/v1/tracking/component/metrics", json=SHARE).json["data"]
    assert data == {"train": ["loss"]}


def test_no_metrics_are_an_empty_object(client: FlaskClient, services: Any) -> None:
    services.metrics_known = []
    assert client.post("/v1/tracking/component/metric/all", json=SHARE).json == {
        "retcode": 0, "retmsg": "no data", "data": {},
    }  # fmt: skip


def test_one_metric_has_points_and_meta(client: FlaskClient) -> None:
    ask = {**SHARE, "metric_namespace": "train", "metric_name": "loss"}
    body = client.post("/v1/tracking/component/metric_data", json=ask).json
    assert (body["data"], body["meta"]) == ([[0, 0.7], [1, 0.5]], {"name": "loss"})
    body = client.post("/v1/tracking/component/metric_data", json={**ask, "metric_name": "x"}).json
    assert (body["data"], body["meta"]) == ([], {})


def test_without_site_the_initiators_is_meant(client: FlaskClient, services: Any) -> None:
    ask = {"job_id": JOB_ID, "component_name": "reader_0"}
    client.post("/v1/tracking/component/metrics", json=ask)
    assert services.calls[-1][3].key == "guest-9999"


@pytest.mark.parametrize("wrong", [{"role": "boss"}, {"party_id": []}, {"component_name": None}])
def test_a_bad_share_is_refused(client: FlaskClient, wrong: dict[str, Any]) -> None:
    body = client.post("/v1/tracking/component/metrics", json={**SHARE, **wrong}).json
    assert body["retcode"] == 101


def test_a_model_is_its_param_and_meta(client: FlaskClient, services: Any) -> None:
    body = client.post("/v1/tracking/component/output/model", json=SHARE).json
    assert (body["retcode"], body["data"]) == (0, {})
    where = services.default_site(JOB_ID)
    services.model_known = StoredModel(
        key=TaskKey(job_id=JOB_ID, component="reader_0", version=0, site=where),
        alias="model", meta_name="M", param_name="P", meta={"m": 1}, param={"weight": {}},
    )  # fmt: skip
    body = client.post("/v1/tracking/component/output/model", json=SHARE).json
    assert body["data"] == {"weight": {}}
    assert body["meta"] == {"meta_data": {"m": 1}, "module_name": "Reader"}


def test_output_rows_come_from_the_preview(client: FlaskClient, services: Any) -> None:
    body = client.post("/v1/tracking/component/output/data", json=SHARE).json
    assert body["data"][0][1] == ["2", "1", "3.5"]
    assert body["meta"] == {"header": [["id", "y", "x0"]], "total": [3], "names": ["data"]}
    services.has_outputs = False
    assert client.post("/v1/tracking/component/output/data", json=SHARE).json["data"] == []


def test_output_of_an_unknown_task_is_an_error(client: FlaskClient) -> None:
    ask = {**SHARE, "component_name": "no"}
    assert client.post("/v1/tracking/component/output/data", json=ask).json["retcode"] != 0


def test_an_output_download_is_a_file_or_http_210(client: FlaskClient, services: Any) -> None:
    path = "/v1/tracking/component/output/data/download"
    answer = client.get(path, json={**SHARE, "limit": 5, "head": False})
    assert (answer.status_code, answer.data) == (200, b"archive")
    name = f"filename=job_{JOB_ID}_reader_0_guest_9999_output_data.tar.gz"
    assert name in answer.headers["Content-Disposition"]
    answer.close()
    assert services.calls[-1][4:] == (5, False)
    assert client.get(path, json={**SHARE, "limit": 0}).status_code == 210
    services.has_outputs = False
    refused = client.get(path, json=SHARE)
    assert (refused.status_code, refused.json["retcode"]) == (210, 210)
    assert client.get(path).status_code == 400


def test_output_tables_have_both_namespace_members(client: FlaskClient) -> None:
    (row,) = client.post("/v1/tracking/component/output/data/table", json=SHARE).json["data"]
    assert row["table_namespace"] == row["namespace"] == "exp"
    assert (row["table_name"], row["data_name"]) == ("g", "data")


def test_a_summary_is_data_or_a_file_or_http_210(client: FlaskClient, services: Any) -> None:
    path = "/v1/tracking/component/summary/download"
    assert client.post(path, json=SHARE).status_code == 210
    services.summary_known = {"auc": 0.9}
    assert client.post(path, json=SHARE).json["data"] == {"auc": 0.9}
    answer = client.post(path, json={**SHARE, "filename": "../../x/s.json"})
    assert answer.json == {"auc": 0.9}
    assert answer.headers["Content-Disposition"] == "attachment; filename=s.json"
    answer.close()


def test_components_and_parameters_are_told(client: FlaskClient) -> None:
    ask = {"job_id": JOB_ID}
    body = client.post("/v1/tracking/component/list", json=ask).json
    assert body["data"] == {"components": ["reader_0"]}
    body = client.post("/v1/tracking/component/parameters", json=SHARE).json
    assert body["data"]["module"] == "Reader"


def test_the_job_view_names_tables_roles_and_partners(client: FlaskClient) -> None:
    data = client.post("/v1/tracking/job/data_view", json={"job_id": JOB_ID}).json["data"]
    assert data == {
        "dataset": {"guest": {"9999": {"reader_0": "exp.g"}}},
        "roles": {"guest": [9999], "host": [10000]},
        "partner": {"host": [10000]},
        "model_summary": {},
    }


# --- components -----------------------------------------------------------------------------------


def test_modules_are_described_to_people_and_to_fate(client: FlaskClient) -> None:
    for answer in (client.get("/v1/component/describe"), client.post("/v1/component/describe")):
        assert answer.json["data"][0]["module"] == "HeteroLR"
    known = client.post("/v1/component/get").json["data"]
    assert known["heterolr"]["alias"] == ["HeteroLR", "lr"]
    assert client.post("/v1/component/LR/get").json["data"] == known["heterolr"]
    assert "data" not in client.post("/v1/component/no/get").json
