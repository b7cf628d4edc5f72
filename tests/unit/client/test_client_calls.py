"""The client's calls: what is sent, and the values that come back."""

from __future__ import annotations

import io
import re
import tarfile

import msgspec
import pytest

from fedflow.base.errors.data import BadData
from fedflow.base.errors.jobs import JobNotFound, StillRunning
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.ids import PartyId
from fedflow.client.client import Client
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Role, Site
from fedflow.wire.api.jobs import JobStatusView, Reason, TaskView
from tests.support.rest import Answer, RestServer

GUEST = Site(Role.GUEST, PartyId("9999"))


def _status(status="running", *tasks, **more):
    return {
        "job_id": "7",
        "status": status,
        "progress": 50,
        "reason": None,
        "initiator": "guest-9999",
        "roles": {"guest": ["9999"]},
        "created_ms": 1,
        "started_ms": 2,
        "ended_ms": None,
        "warnings": [],
        "components": ["reader_0"],
        "tasks": list(tasks),
        "a_member_of_a_newer_server": True,
        **more,
    }


def _sequence(*answers):
    left = list(answers)

    def tell(_request):
        return left.pop(0) if len(left) > 1 else left[0]

    return tell


@pytest.fixture
def server():
    with RestServer() as one:
        yield one


@pytest.fixture
def client(server):
    with Client(server.url, timeout_s=60.0) as one:
        yield one


# --- jobs -----------------------------------------------------------------------------------------


def test_a_submit_sends_both_documents_and_returns_the_job(server, client):
    data = {
        "job_id": "7",
        "model_info": {"model_id": "guest-1#model", "model_version": "7"},
        "logs_directory": "/x",
        "warnings": [{"code": "NoEffect", "path": "$.conf", "message": "odd", "hint": ""}],
        "reused": {"a": "6"},
    }
    server.answers["/v1/job/submit"] = Answer(data=data, members={"jobId": "7"})
    made = client.submit({"components": {}}, {"dsl_version": 2})
    (body,) = server.bodies("/v1/job/submit")
    assert body.pop("idempotency_key")
    assert body == {"job_dsl": {"components": {}}, "job_runtime_conf": {"dsl_version": 2}}
    assert (made.job_id, made.model_id, made.warnings) == (
        "7",
        "guest-1#model",
        (JobWarning(code="NoEffect", path="$.conf", message="odd"),),
    )
    assert made.reused == {"a": "6"}
    assert repr(made) == "<Submitted job 7>"


def test_waiting_tells_every_change_once_and_returns_the_end(server, client):
    server.answers["/v1/job/status"] = _sequence(
        Answer(data=_status("waiting")),
        Answer(data=_status("running")),
        Answer(data=_status("running")),
        Answer(data=_status("success", ended_ms=9)),
    )
    seen = []
    end = client.wait("7", on_change=lambda view: seen.append(view.status))
    assert seen == ["waiting", "running", "success"]
    assert end.succeeded
    assert end.is_final


def test_waiting_ends_at_its_timeout_and_leaves_the_job_alone(server, client):
    server.answers["/v1/job/status"] = Answer(data=_status())
    with pytest.raises(StillRunning, match=r"still running after 0\.3 seconds"):
        client.wait("7", timeout_s=0.3)
    assert {one.path for one in server.received} == {"/v1/job/status"}


def test_waiting_survives_a_server_that_restarts(server, client):
    statuses = iter(["running", "away", "away", "success"])

    def look(job_id):
        status = next(statuses)
        if status == "away":
            raise ServerNotReachable(address="x", reason="connection refused")
        return msgspec.convert(_status(status), JobStatusView)

    client.job = look
    assert client.wait("7").succeeded


def test_waiting_for_an_unknown_job_fails_at_once(server, client):
    members = {"error": {"name": "JobNotFound", "hint": ""}}
    server.answers["/v1/job/status"] = Answer(retcode=102, retmsg="No job 7", members=members)
    with pytest.raises(JobNotFound):
        client.wait("7")


def _task(component, site, status, *, code=None, ended_ms=None):
    return TaskView(
        component=component,
        module="M",
        site=site,
        version=0,
        status=status,
        ended_ms=ended_ms,
        reason=Reason(code=code, message="m") if code else None,
    )


def _view(*tasks):
    view = msgspec.convert(_status("failed"), JobStatusView)
    return msgspec.structs.replace(view, tasks=tasks)


def test_the_first_error_is_the_cause_and_not_a_follower():
    cause = _task("a", "host-1", "failed", code="BadData", ended_ms=20)
    follower = _task("a", "guest-2", "failed", code="PeerFailed", ended_ms=10)
    stopped = _task("b", "guest-2", "canceled", code="Stopped", ended_ms=5)
    assert _view(follower, stopped, cause).first_error is cause
    assert _view(follower, stopped).first_error is follower
    assert _view(stopped).first_error is None


def test_of_two_causes_the_earlier_one_is_first():
    late = _task("a", "host-1", "failed", code="BadData", ended_ms=20)
    early = _task("b", "guest-2", "failed", code="NoData", ended_ms=10)
    assert _view(late, early).first_error is early


def test_jobs_are_listed_with_their_count(server, client):
    row = {"job_id": "7", "role": "guest", "party_id": 9999, "status": "success", "x": 1}
    server.answers["/v1/job/list/job"] = Answer(data={"jobs": [row], "count": 41})
    page = client.jobs(1, status="success")
    assert server.bodies("/v1/job/list/job") == [{"limit": 1, "page": 1, "status": "success"}]
    assert page.count == 41
    assert repr(page.jobs[0]) == "<Job 7 at guest 9999: success>"


# --- data -----------------------------------------------------------------------------------------


def test_an_upload_is_a_multipart_body_with_its_parameters_in_the_query(server, client, tmp_path):
    from email.parser import BytesParser
    from urllib.parse import unquote

    content = b"id,x\n" + b"1,2\r\n" * 700_000  # several pieces
    file = tmp_path / 'a "quoted" name.csv'
    file.write_bytes(content)
    server.answers["/v1/data/upload"] = Answer(members={"jobId": "9"})
    told = []
    sent = client.upload(
        file,
        namespace="n & + = # ;",
        table_name="ä",
        id_delimiter="=",
        drop=True,
        more={"extend_sid": 1},
        progress=lambda done, total: told.append((done, total)),
    )
    request = server.received[0]
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    (part,) = BytesParser().parsebytes(head + request.body).get_payload()
    assert part.get_param("name", header="content-disposition") == "file"
    assert part.get_payload(decode=True) == content
    assert "Transfer-Encoding" not in request.headers
    assert msgspec.json.decode(unquote(request.target.partition("?")[2])) == {
        "file": 'a "quoted" name.csv',
        "namespace": "n & + = # ;",
        "table_name": "ä",
        "head": 1,
        "partition": 4,
        "id_delimiter": "=",
        "drop": 1,
        "use_local_data": 1,
        "extend_sid": 1,
    }
    assert told[-1] == (len(content), len(content))
    assert len(told) == 4
    assert repr(sent) == "<Uploaded n & + = # ;.ä by job 9>"


def test_a_file_of_no_bytes_is_sent_too(server, client, tmp_path):
    (tmp_path / "empty.csv").touch()
    server.answers["/v1/data/upload"] = Answer(members={"jobId": "9"})
    assert client.upload(tmp_path / "empty.csv", namespace="n", table_name="t").job_id == "9"


def test_a_file_that_is_missing_is_bad_data_before_anything_is_sent(server, client, tmp_path):
    with pytest.raises(BadData, match="No such file"):
        client.upload(tmp_path / "none.csv", namespace="n", table_name="t")
    assert server.received == []


def test_a_file_that_shrinks_while_it_is_sent_is_bad_data(tmp_path):
    from fedflow.client.multipart import MultipartFile

    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 100)
    with path.open("rb") as file:
        body = MultipartFile(file, name="a.csv")
        path.write_bytes(b"x" * 10)
        with pytest.raises(BadData, match="shorter"):
            list(body)


def test_a_file_name_cannot_add_a_header_line(tmp_path):
    from fedflow.client.multipart import MultipartFile

    path = tmp_path / "a.csv"
    path.touch()
    with path.open("rb") as file:
        head = next(iter(MultipartFile(file, name='x"\r\nX-Evil: 1\r\n.csv')))
    assert re.search(rb'^Content-Disposition: .*filename="x%22%0D%0AX-Evil', head, re.MULTILINE)


def test_a_table_that_does_not_exist_is_told_not_raised(server, client):
    server.answers["/v1/table/table_info"] = Answer(
        data={"table_name": "t", "namespace": "n", "exist": 0, "count": 0}
    )
    info = client.table_info("n", "t")
    assert not info.exists
    assert repr(info) == "<Table n.t: does not exist>"


def test_the_upload_history_is_flattened(server, client):
    info = {"table_name": "g", "namespace": "exp", "partition": 4, "upload_count": 569}
    server.answers["/v1/data/upload/history"] = Answer(
        data=[{"7": {"upload_info": info, "notes": "", "schema": {}}}]
    )
    (one,) = client.upload_history()
    assert (one.job_id, one.namespace, one.table_name, one.count) == ("7", "exp", "g", 569)


# --- tracking -------------------------------------------------------------------------------------


def test_metrics_come_with_points_and_meta(server, client):
    server.answers["/v1/tracking/component/metric/all"] = Answer(
        data={
            "train": {
                "hetero_lr_0": {
                    "data": [["auc", 0.98], ["ks", 0.91]],
                    "meta": {"metric_type": "EVALUATION_SUMMARY"},
                },
                "loss": {"data": [[0, 0.6]], "meta": {"metric_type": "LOSS"}},
            }
        }
    )
    summary, loss = client.metrics("7", "evaluation_0", site=GUEST)
    assert summary.value("auc") == 0.98
    assert summary.is_summary
    assert loss.kind == "LOSS"
    assert not loss.is_summary
    assert server.bodies("/v1/tracking/component/metric/all") == [
        {"job_id": "7", "component_name": "evaluation_0", "role": "guest", "party_id": "9999"}
    ]


def test_without_a_site_the_initiators_is_asked_if_it_is_here(server, client):
    server.answers["/v1/job/query"] = Answer(
        data=[
            {
                "f_job_id": "7",
                "f_role": role,
                "f_party_id": "9999",
                "f_status": "success",
                "f_is_initiator": role == "guest",
            }
            for role in ("arbiter", "guest")
        ]
    )
    server.answers["/v1/tracking/component/metric/all"] = Answer(data={})
    assert client.metrics("7", "a") == []
    assert server.bodies("/v1/tracking/component/metric/all")[0]["role"] == "guest"


def test_previews_pair_rows_with_their_headers(server, client):
    server.answers["/v1/tracking/component/output/data"] = Answer(
        data=[[["1", "0"]], []],
        members={
            "meta": {"header": [["id", "y"], None], "total": [569, 0], "names": ["data", "other"]}
        },
    )
    first, second = client.output_data("7", "a", site=GUEST)
    assert (first.header, first.rows, first.total) == (("id", "y"), (("1", "0"),), 569)
    assert (second.header, second.rows, second.name) == ((), (), "other")


def test_a_summary_is_the_value_with_or_without_an_envelope(server, client):
    path = "/v1/tracking/component/summary/download"
    server.answers[path] = Answer(data={"auc": 1})
    assert client.summary("7", "a", site=GUEST) == {"auc": 1}
    server.answers[path] = Answer(raw=b'{"auc": 2}')
    assert client.summary("7", "a", site=GUEST) == {"auc": 2}


def test_a_component_without_a_model_has_none(server, client):
    server.answers["/v1/tracking/component/output/model"] = Answer(data={})
    assert client.model("7", "a", site=GUEST) is None


def test_a_download_is_unpacked(server, client, tmp_path):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("data.csv")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"id\n"))
    path = "/v1/tracking/component/output/data/download"
    server.answers[path] = Answer(raw=archive.getvalue(), content_type="application/gzip")
    (file,) = client.download_output("7", "a", tmp_path / "out", site=GUEST)
    assert file.read_bytes() == b"id\n"
    assert server.received[0].method == "GET"
    assert server.received[0].json["limit"] == -1


def test_connectors_are_listed_tried_and_deleted(server, client):
    row = {"connector_name": "c", "engine": "MYSQL", "created": 5, "new": 1}
    server.answers["/v1/table/connector/list"] = Answer(data=[row])
    (found,) = client.tables.connectors()
    assert (found.name, found.engine, found.created_ms) == ("c", "MYSQL", 5)
    server.answers["/v1/table/connector/test"] = Answer(data={"columns": ["id", "x"]})
    assert client.tables.test_connector("c", {"name": "t"}) == ["id", "x"]
    (body,) = server.bodies("/v1/table/connector/test")
    assert body == {"connector_name": "c", "address": {"name": "t"}}
    server.answers["/v1/table/connector/delete"] = Answer()
    client.tables.delete_connector("c")
    assert server.bodies("/v1/table/connector/delete") == [{"connector_name": "c"}]


def test_a_bound_table_tells_its_engine_and_address(server, client):
    row = {"exist": 1, "namespace": "n", "table_name": "t", "engine": "MYSQL"}
    address = {"host": "h", "connector_name": "c"}
    server.answers["/v1/table/table_info"] = Answer(data={**row, "address": address})
    found = client.tables.info("n", "t")
    assert (found.engine, found.address) == ("MYSQL", address)


def test_a_job_is_deleted_and_tagged(server, client):
    row = {
        "job_id": "7", "tasks": 4, "tables": [{"namespace": "n", "name": "t", "rows": 3}],
        "models": [{"model_id": "m", "model_version": "7", "kept": "it was loaded for serving"}],
        "a_member_of_a_newer_server": True,
    }  # fmt: skip
    server.answers["/v1/job/delete"] = Answer(data=row)
    server.answers["/v1/job/tag/add"] = Answer(data={"tags": ["a"]})
    server.answers["/v1/job/tag/list"] = Answer(data={"tags": [{"name": "a", "job_count": 2}]})
    found = client.delete("7", preview=True)
    assert (found.tasks, found.tables[0].rows, found.models[0].kept[:6]) == (4, 3, "it was")
    assert client.job_tags.add("7", "a") == ["a"]
    assert [(t.name, t.job_count) for t in client.job_tags.all()] == [("a", 2)]


def test_tables_are_listed_with_how_many_there_are(server, client):
    row = {"namespace": "n", "table_name": "t", "count": 3, "enable": False, "created": 5, "new": 1}
    server.answers["/v1/table/list/all"] = Answer(data={"count": 7, "tables": [row]})
    found = client.tables.listed("part", namespace="n", limit=1, offset=2)
    (table,) = found.tables
    assert (found.count, table.name, table.enabled, table.created_ms) == (7, "t", False, 5)
    (body,) = server.bodies("/v1/table/list/all")
    assert body == {"part": "part", "limit": 1, "offset": 2, "namespace": "n"}
