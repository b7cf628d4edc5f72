"""Uploads, tables and tracking."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from fedflow.base.errors.data import TableExists
from fedflow.domain.records import StoredModel, TaskKey
from fedflow.web.settings import WebSettings
from tests.unit.web.applications import whole_app
from tests.unit.web.conftest import make_table

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
    client = whole_app(services, WebSettings(upload_bytes=1000)).test_client()
    assert send(client, "namespace=e", b"x" * 2000).status_code == 413
    assert spooled(services) == []


def test_an_upload_may_be_larger_than_other_bodies(services: Any) -> None:
    client = whole_app(services, WebSettings(body_bytes=1000)).test_client()
    assert send(client, "namespace=e", b"x" * 5000).json["retcode"] == 0


def test_a_server_file_is_read_only_from_allowed_folders(
    client: FlaskClient, services: Any
) -> None:
    ask = {"use_local_data": 0, "file": "/allowed/d.csv", "namespace": "e", "table_name": "t"}
    assert client.post("/v1/data/upload", json=ask).json["retcode"] == 0
    assert services.calls[0][3] is True  # it is kept
    for wrong in ({"file": "/etc/passwd"}, {"use_local_data": 1}, {"file": None}):
        assert client.post("/v1/data/upload", json={**ask, **wrong}).json["retcode"] == 101


def test_the_upload_history_has_fates_shape(client: FlaskClient, services: Any) -> None:
    (entry,) = client.post("/v1/data/upload/history", json={"limit": "10"}).json["data"]
    assert services.calls[-1] == ("history", 10, None)
    info = {"table_name": "g", "namespace": "exp", "partition": 4, "upload_count": 3}
    schema = {"header": "y,x0", "sid": "id"}
    created_ms = entry[JOB_ID].pop("created_ms")  # FATE has no time
    assert created_ms > 0
    assert entry == {JOB_ID: {"upload_info": info, "notes": "my notes", "schema": schema}}
    client.post("/v1/data/upload/history", json={"limit": -3, "job_id": "j"})
    assert services.calls[-1] == ("history", 0, "j")


def test_a_full_disk_is_told_and_leaves_no_file(
    client: FlaskClient, services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_more: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fedflow.web.spool.os.open", full)
    body = send(client, "namespace=e").json
    assert (body["retcode"], body["error"]["name"]) == (100, "DiskFull")
    assert spooled(services) == []


def test_a_packed_body_is_refused(client: FlaskClient, services: Any) -> None:
    headers = {"Content-Encoding": "gzip"}
    answer = client.post("/v1/data/upload?namespace=e", data=b"\x1f\x8b", headers=headers)
    assert answer.json["retcode"] == 101
    assert "Content-Encoding" in answer.json["retmsg"]
    assert services.calls == []


def test_a_part_of_another_name_is_taken_as_the_file(client: FlaskClient, services: Any) -> None:
    data = {"upload": (io.BytesIO(CSV), "../../x/../passwd")}
    assert client.post("/v1/data/upload?namespace=e", data=data).json["retcode"] == 0
    ((path,),) = [list(folder.iterdir()) for folder in spooled(services)]
    assert path.parent.parent == services.spool_dir
    assert path.read_bytes() == CSV


# --- out of the server ----------------------------------------------------------------------------


def test_a_download_is_a_job(client: FlaskClient, services: Any) -> None:
    ask = {"namespace": "exp", "table_name": "g", "output_path": "g.csv", "delimiter": ";"}
    body = client.post("/v1/data/download", json=ask).json
    assert (body["retcode"], body["jobId"], body["data"]["table_name"]) == (0, JOB_ID, "g")
    assert services.calls == [("download", "exp", "g", "g.csv", ";")]
    for member in ("namespace", "table_name", "output_path"):
        body = client.post("/v1/data/download", json={**ask, member: None}).json
        assert body["retmsg"].startswith(f"required argument are missing: {member};")
    assert client.post("/v1/data/download", json={**ask, "output_path": 7}).json["retcode"] == 101


def test_a_second_name_is_given_by_a_job(client: FlaskClient, services: Any) -> None:
    ask = {"namespace": "exp", "table_name": "g", "output_namespace": "o", "output_name": 7}
    assert client.post("/v1/data/writer", json=ask).json["jobId"] == JOB_ID
    more = {"output_namespace": "o", "output_name": "7", "storage_engine": None, "address": None}
    assert services.calls == [("write", "exp", "g", {**more, "drop": False})]


def test_a_place_in_another_storage_is_written_by_a_job(client: FlaskClient, services: Any) -> None:
    place = {"storage_engine": "MYSQL", "address": {"connector_name": "c", "name": "new"}}
    ask = {"namespace": "exp", "table_name": "g", **place}
    assert client.post("/v1/data/writer", json=ask).json["jobId"] == JOB_ID
    names = {"output_namespace": None, "output_name": None, "drop": False}
    assert services.calls == [("write", "exp", "g", {**names, **place})]
    assert client.post("/v1/data/writer", json={**ask, "address": 7}).json["retcode"] == 101


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


def test_the_outputs_of_a_job_are_deleted_at_once(client: FlaskClient, services: Any) -> None:
    ask = {"job_id": JOB_ID, "role": "guest", "party_id": 9999, "component_name": "a_0"}
    row = {"table_name": "a", "namespace": "out"}
    body = client.post("/v1/table/delete", json=ask).json
    assert body["data"] == {**row, "tables": [row]}
    assert services.calls[-1][1:] == (JOB_ID, services.default_site(JOB_ID), "a_0")
    for more in ({"component_name": "none"}, {"job_id": "unknown"}):
        body = client.post("/v1/table/delete", json={**ask, **more}).json
        assert (body["retcode"], body["retmsg"]) == (101, "no find table")


def test_missing_names_are_told_for_every_table_route(client: FlaskClient) -> None:
    for word in ("table_info", "delete", "disable", "enable"):
        body = client.post(f"/v1/table/{word}", json={"x": 1}).json
        assert body["retmsg"].startswith("required argument are missing: table_name,namespace;")


def test_any_other_word_is_a_success_as_in_fate(client: FlaskClient) -> None:
    assert client.post("/v1/table/anything").json == {"retcode": 0, "retmsg": "success"}
    assert client.post("/v1/table/anything", data=b"{").json["retcode"] == 0
    assert client.post("/v1/table/any/thing").json["retcode"] == 100
    assert client.get("/v1/table/anything").json["retcode"] == 100


def test_table_info_tells_all_of_a_table(client: FlaskClient, services: Any) -> None:
    services.tables_known["exp", "g"] = make_table(
        engine="PATH", source="/data/g.csv", disabled=True, extend_sid=True, origin="table_bind",
        extra={"meta": {"with_label": True}, "header": ["x0"], "label_name": "y"},
    )  # fmt: skip
    body = client.post("/v1/table/table_info", json={"name": "g", "namespace": "exp"}).json
    assert body["data"] == {
        "table_name": "g", "namespace": "exp", "exist": 1, "count": 3, "partition": 4,
        "schema": {"header": ["x0"], "sid": "id", "label_name": "y", "meta": {"with_label": True}},
        "enable": False, "origin": "table_bind", "extend_sid": True,
        "engine": "PATH", "address": {"path": "/data/g.csv"}, "created": 1,
        "made_by": {
            "job_id": JOB_ID, "component_name": "upload_0", "task_version": 0, "role": "guest",
            "party_id": "9999", "data_name": "data",
        },
        "columns": [
            {"name": "y", "kind": "number", "count": 3, "missing": 0, "min": None, "max": None,
             "mean": 0.5}
        ],
    }  # fmt: skip


def test_a_table_is_downloaded_as_an_archive(client: FlaskClient) -> None:
    ask = {"name": "g", "namespace": "exp"}
    answer = client.get("/v1/table/download", json=ask)
    assert (answer.status_code, answer.data) == (200, b"archive")
    disposition = answer.headers["Content-Disposition"]
    assert disposition == "attachment; filename=table_exp_g.tar.gz"
    answer.close()
    bare = client.get("/v1/table/download", json={**ask, "head": False})
    assert bare.data == b"bare"
    bare.close()
    for wrong, status in (({"name": "no"}, 210), ({"name": None}, 400), ({"head": []}, 400)):
        assert client.get("/v1/table/download", json={**ask, **wrong}).status_code == status


def test_tables_are_disabled_enabled_and_swept(client: FlaskClient, services: Any) -> None:
    row = {"table_name": "g", "namespace": "exp"}
    assert client.post("/v1/table/disable", json=row).json["data"] == [row]
    assert services.calls[-1] == ("set_disabled", "exp", "g", True)
    assert client.post("/v1/table/enable", json={"namespace": "exp"}).json["data"] == [row]
    assert services.calls[-1] == ("set_disabled", "exp", None, False)
    assert client.post("/v1/table/disable", json={"name": "none"}).json["retcode"] == 101
    assert client.post("/v1/table/disable/delete").json["retcode"] == 101
    services.tables_known["exp", "g"] = make_table(disabled=True)
    assert client.post("/v1/table/disable/delete").json["data"] == [row]


@pytest.mark.parametrize("word", ["add", "bind"])
def test_binding_takes_what_the_sdk_sends(client: FlaskClient, services: Any, word: str) -> None:
    ask = {
        "engine": "PATH", "name": "g", "namespace": "e", "address": {"path": "/d/g.csv"},
        "drop": True,
    }  # fmt: skip
    body = client.post(f"/v1/table/{word}", json=ask).json
    assert body == {
        "retcode": 0, "retmsg": "success", "data": {"table_name": "g", "namespace": "e"},
    }  # fmt: skip
    given = services.calls[-1][1]
    assert (given.engine, given.drop, given.head, given.id_delimiter) == ("PATH", True, True, ",")
    body = client.post(f"/v1/table/{word}", json={}).json
    assert "engine,address,namespace,name;" in body["retmsg"]


def test_connectors_are_listed_tried_and_deleted(client: FlaskClient, services: Any) -> None:
    listed = client.post("/v1/table/connector/list", json={}).json["data"]
    assert listed == [{"connector_name": "c", "engine": "MYSQL", "created": 1}]
    ask = {"connector_name": "c", "address": {"db": "d", "name": "t"}}
    tried = client.post("/v1/table/connector/test", json=ask).json["data"]
    assert tried == {"columns": ["id", "x"]}
    assert services.calls[-1] == ("try_connector", "c", {"db": "d", "name": "t"})
    assert (
        client.post("/v1/table/connector/delete", json={"connector_name": "c"}).json["retcode"] == 0
    )
    assert services.calls[-1] == ("delete_connector", "c")


def test_a_connector_is_shown_without_credentials(client: FlaskClient, services: Any) -> None:
    ask = {"connector_name": "c", "engine": "MYSQL", "connector_info": {"passwd": "pw"}}
    assert client.post("/v1/table/connector/create", json=ask).json["retcode"] == 0
    assert services.calls[-1] == ("put_connector", "c", "MYSQL", {"passwd": "pw"}, True)
    client.post("/v1/table/connector/create", json={**ask, "replace": 0})
    assert services.calls[-1][-1] is False
    data = client.post("/v1/table/connector/query", json={"connector_name": "c"}).json["data"]
    hidden = "******"
    info = {"host": "h", "port": 3306, "user": hidden, "passwd": hidden, "db": hidden}
    assert data == {"connector_name": "c", "engine": "MYSQL", "connector_info": info}


def test_provenance_has_fates_words(client: FlaskClient) -> None:
    ask = {"table_name": "g", "namespace": "exp"}
    (row,) = client.post("/v1/table/tracking/source", json=ask).json["data"]
    assert row == {
        "parent_table_name": "raw", "parent_table_namespace": "exp",
        "source_table_name": "first", "source_table_namespace": "old",
    }  # fmt: skip
    body = client.post("/v1/table/tracking/source", json={**ask, "table_name": "x"}).json
    assert (body["retcode"], body["error"]["name"]) == (100, "TableNotTracked")
    data = client.post("/v1/table/tracking/job", json=ask).json["data"]
    assert data == {"count": 2, "job": ["1", "2"]}


def test_schema_changes_answer_the_new_schema(client: FlaskClient, services: Any) -> None:
    ask = {"namespace": "exp", "name": "g", "schema": {"meta": {}}}
    data = client.post("/v1/table/schema/update", json=ask).json["data"]
    assert data == {"header": "y,x0", "sid": "id", "meta": {"with_label": True}}
    ask = {
        "namespace": "exp", "name": "g", "role": "guest", "party_id": 9999,
        "migrate_mapping": {"guest": {"9999": 1}},
    }  # fmt: skip
    data = client.post("/v1/table/schema/anonymous/migrate", json=ask).json["data"]
    assert data["anonymous_header"] == ["guest_1_x0"]
    assert services.calls[-1] == (
        "migrate", "exp", "g", "guest", "9999", {"guest": {"9999": 1}},
    )  # fmt: skip


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


# --- list of tables -------------------------------------------------------------------------------


def test_tables_are_listed_with_how_many_fit(client: FlaskClient, services: Any) -> None:
    services.tables_known["exp", "h"] = make_table(name="h", disabled=True, created_ms=2)
    answer = client.post("/v1/table/list/all", json={"limit": 1, "part": "exp"}).json
    assert answer["data"]["count"] == 2
    (row,) = answer["data"]["tables"]
    assert row == {
        "table_name": "h", "namespace": "exp", "count": 3, "columns": 3, "partition": 4,
        "origin": "upload", "engine": "STANDALONE", "enable": False, "created": 2,
    }  # fmt: skip
    only = client.post(
        "/v1/table/list/all", json={"disabled": "false", "origin": ["upload"], "order": "name"}
    ).json
    assert [one["table_name"] for one in only["data"]["tables"]] == ["g"]


@pytest.mark.parametrize(
    "body", [{"limit": 1001}, {"limit": -1}, {"offset": -1}, {"order": "x"}, {"offset": 10**12}]
)
def test_a_list_that_cannot_be_made_is_refused(client: FlaskClient, body: dict[str, Any]) -> None:
    assert client.post("/v1/table/list/all", json=body).json["retcode"] == 101
