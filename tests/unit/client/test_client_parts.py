"""Repeats of safe calls, documents, predict confs, model archives, and results in notebooks."""

from __future__ import annotations

import io
import json
import re
import socket
import threading

import pytest

import fedflow.client
from fedflow.base.errors.models import ModelExists
from fedflow.base.errors.requests import BadDocument
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.ids import PartyId
from fedflow.client.client import Client
from fedflow.client.downloads import keep, named_in
from fedflow.client.models import filled_conf
from fedflow.domain.site import Role, Site
from fedflow.wire.api import html
from fedflow.wire.api.job_lists import TaskPage, TaskRow
from fedflow.wire.api.jobs import JobStatusView, Reason, TaskView
from fedflow.wire.api.models import ModelVersion
from fedflow.wire.api.tables import Preview, TableInfo
from fedflow.wire.api.tracking import Metric
from fedflow.wire.envelope import failure
from tests.support.rest import Answer, RestServer

GUEST = Site(Role.GUEST, PartyId("9999"))


@pytest.fixture
def server():
    with RestServer() as one:
        yield one


@pytest.fixture
def client(server):
    with Client(server.url, timeout_s=60.0) as one:
        yield one


def test_the_client_is_imported_from_its_package():
    assert fedflow.client.Client is Client


# --- repeats --------------------------------------------------------------------------------------


class Flaky:
    """A server that cuts its first connections, then answers `data`, by default an empty list."""

    def __init__(self, cut, data=b'{"jobs": [], "count": 0}'):
        self.calls = 0
        self.bodies = []
        self._cut = cut
        self._data = data
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="flaky")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self):
        body = b'{"retcode": 0, "retmsg": "success", "data": %s}' % self._data
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.bodies.append(_body(connection))
                self.calls += 1
                if self.calls > self._cut:
                    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    size = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
                    connection.sendall(head + size + body)


def _body(connection):
    """Return the body of a request."""
    given = b""
    while b"\r\n\r\n" not in given:
        given += connection.recv(65536)
    head, _, body = given.partition(b"\r\n\r\n")
    size = int(re.search(rb"Content-Length: (\d+)", head).group(1))
    while len(body) < size:
        body += connection.recv(65536)
    return body


def test_a_call_that_changes_nothing_is_repeated_when_the_connection_breaks():
    with Flaky(cut=2) as server, Client(server.url) as client:
        assert client.jobs().count == 0
        assert server.calls == 3


def test_it_is_repeated_twice_at_most():
    with Flaky(cut=99) as server, Client(server.url) as client:
        with pytest.raises(ServerNotReachable):
            client.jobs()
        assert server.calls == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.rerun("7"),
        lambda c: c.tables.delete("n", "t"),
        lambda c: c.models.deploy("m", "1"),
        lambda c: c.tags.create("t"),
    ],
)
def test_a_call_that_changes_something_is_sent_once(call):
    with Flaky(cut=99) as server, Client(server.url) as client:
        with pytest.raises(ServerNotReachable):
            call(client)
        assert server.calls == 1


def test_a_submit_is_repeated_with_the_key_by_which_the_server_knows_it():
    with Flaky(cut=2, data=b'{"job_id": "7"}') as server, Client(server.url) as client:
        assert client.submit({}, {}).job_id == "7"
    assert len(server.bodies) == 3
    assert len(set(server.bodies)) == 1
    assert b"idempotency_key" in server.bodies[0]


def test_every_submit_has_a_key_of_its_own_unless_one_is_given(server, client):
    server.answers["/v1/job/submit"] = Answer(data={"job_id": "7"}, members={"jobId": "7"})
    client.submit({}, {})
    client.submit({}, {})
    client.submit({}, {}, idempotency_key="mine")
    client.submit({}, {"job_parameters": {"common": {"idempotency_key": "conf's"}}})
    client.submit({}, {}, idempotency_key="")  # wrong, but not for the client to replace
    one, other, *given = (b["idempotency_key"] for b in server.bodies("/v1/job/submit"))
    assert one != other
    assert given == ["mine", "conf's", ""]


# --- documents ------------------------------------------------------------------------------------


def test_a_job_is_submitted_from_files(server, client, tmp_path):
    server.answers["/v1/job/submit"] = Answer(data={"job_id": "7"}, members={"jobId": "7"})
    (tmp_path / "dsl.json").write_text('{"components": {}}')
    (tmp_path / "conf.json").write_text('\ufeff{"dsl_version": 2}', encoding="utf-8")
    client.submit(tmp_path / "dsl.json", str(tmp_path / "conf.json"))
    (body,) = server.bodies("/v1/job/submit")
    assert body.pop("idempotency_key")
    assert body == {"job_dsl": {"components": {}}, "job_runtime_conf": {"dsl_version": 2}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{\n1}", "line 2, column 1"),
        (b"[]", "must hold a JSON object"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b"\xff", "UTF-8"),
        (b"[" * 200_000, "nested too deep"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_sent(server, client, tmp_path, content, said):
    (tmp_path / "conf.json").write_bytes(content)
    with pytest.raises(BadDocument, match=said) as caught:
        client.submit({}, tmp_path / "conf.json")
    assert "conf.json" in caught.value.message
    with pytest.raises(BadDocument, match="No such file"):
        client.submit({}, tmp_path / "none.json")
    assert not server.received


# --- predict --------------------------------------------------------------------------------------

TEMPLATE = {
    "role": {"guest": [9999], "host": [10000, 10001], "arbiter": [10000]},
    "component_parameters": {
        "common": {"x": 1},
        "role": {
            "guest": {"0": {"reader_0": {"table": {"name": "name_to_be_filled_0"}}}},
            "host": {"0": {"reader_0": {"table": {}}}, "1": {"reader_0": {"table": {}}}},
        },
    },
}


def table_of(conf, role, index):
    return conf["component_parameters"]["role"][role][index]["reader_0"]["table"]


def test_tables_are_filled_in_by_role_or_by_party():
    before = json.dumps(TEMPLATE)
    conf = filled_conf(
        TEMPLATE,
        {"guest": ("n", "g"), ("host", 10000): ("n", "h0"), ("host", "10001"): ("n", "h1")},
    )
    found = [table_of(conf, *w)["name"] for w in (("guest", "0"), ("host", "0"), ("host", "1"))]
    assert found == ["g", "h0", "h1"]
    assert conf["component_parameters"]["common"] == {"x": 1}
    assert json.dumps(TEMPLATE) == before
    both = filled_conf(TEMPLATE, {"guest": ("n", "g"), "host": ("n", "h")})
    assert table_of(both, "host", "1") == {"namespace": "n", "name": "h"}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"guest": ("n", "g")}, "no table is named for host 10000, host 10001"),
        ({"guest": ("n", "g"), "host": ("n", "h"), "arbiter": ("n", "a")}, "at arbiter"),
    ],
)
def test_a_missing_or_a_needless_table_is_named(tables, said):
    with pytest.raises(BadDocument, match=said):
        filled_conf(TEMPLATE, tables)


# --- models ---------------------------------------------------------------------------------------


def test_no_model_that_fits_is_an_empty_list(server, client):
    server.answers["/v1/model/query"] = Answer(retcode=100, retmsg="no model", data=[])
    assert client.models.find(version="1") == []
    server.answers["/v1/model/query"] = Answer(
        data=[{"f_model_id": "m", "f_model_version": "1", "f_role": "guest", "f_party_id": "9999",
               "f_parent": False, "f_unknown": 1}]
    )  # fmt: skip
    (found,) = client.models.find(version="1")
    assert isinstance(found, ModelVersion)
    assert found.is_deployed


def test_an_import_sends_the_share_as_fields_beside_the_file(server, client, tmp_path):
    server.answers["/v1/model/import"] = Answer(data={})
    (tmp_path / "m.zip").write_bytes(b"content")
    client.models.import_("m#model", "1", GUEST, tmp_path / "m.zip", replace=True, sha256="ab")
    request = server.received[-1]
    assert request.headers["Content-Type"].startswith("multipart/form-data")
    for name, value in (("model_id", "m#model"), ("force_update", "1"), ("hash", "ab")):
        assert f'name="{name}"\r\n\r\n{value}\r\n'.encode() in request.body
    assert b"content" in request.body
    assert int(request.headers["Content-Length"]) == len(request.body)
    server.answers["/v1/model/import"] = Answer(
        raw=json.dumps(failure(ModelExists(model="m"))).encode(), status=409
    )
    with pytest.raises(ModelExists):
        client.models.import_("m#model", "1", GUEST, tmp_path / "m.zip")
    with pytest.raises(BadDocument, match="No such file"):
        client.models.import_("m#model", "1", GUEST, tmp_path / "none.zip")


def test_a_refused_export_leaves_nothing_behind(server, client, tmp_path):
    server.answers["/v1/model/export"] = Answer(retcode=404, retmsg="none", status=404)
    with pytest.raises(Exception, match="none"):
        client.models.export("m", "1", GUEST, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("attachment; filename=guest#9999#m_1.zip", "guest#9999#m_1.zip"),
        ('attachment; filename="a b.zip"', "a_b.zip"),
        ("attachment; filename=../../evil", "_.._evil"),
        ("attachment; filename=/etc/passwd", "_etc_passwd"),
        ("attachment; filename=.bashrc", "bashrc"),
        ("attachment; filename=...", "download"),
        ("attachment", "guest-9999_1.zip"),
    ],
)
def test_the_name_of_a_download_cannot_lead_out_of_its_folder(tmp_path, header, name):
    content = io.BytesIO(b"zip")
    path = keep(content, tmp_path / "out", named_in(header) or "guest-9999_1.zip")
    assert path == tmp_path / "out" / name
    assert path.read_bytes() == b"zip"
    assert [one.name for one in (tmp_path / "out").iterdir()] == [name]


# --- notebooks ------------------------------------------------------------------------------------

EVIL = "<script>alert(1)</script>"
RESULTS = [
    JobStatusView(
        job_id=EVIL, status="failed", progress=1, initiator=EVIL, roles={}, created_ms=1,
        reason=Reason(code="X", message=EVIL),
        tasks=(TaskView(component=EVIL, module=EVIL, site=EVIL, version=0, status="failed"),),
    ),
    Metric(namespace=EVIL, name=EVIL, points=((EVIL, 0.5),), meta={}),
    Preview(header=(EVIL,), rows=((EVIL,),), name=EVIL),
    TableInfo(namespace=EVIL, name=EVIL, exist=1),
    TaskPage(
        tasks=(TaskRow(job_id=EVIL, component_name=EVIL, role="guest", party_id=1, status=EVIL),),
        count=1,
    ),
]  # fmt: skip


@pytest.mark.parametrize("result", RESULTS, ids=lambda one: type(one).__name__)
def test_results_show_themselves_escaped_and_load_nothing(result):
    shown = result._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "http" not in shown
    assert "src=" not in shown
    assert len(repr(result)) < 200


def test_a_long_table_is_cut_and_says_so():
    shown = html.table(("a",), [(n,) for n in range(html.MAX_ROWS + 5)])
    assert shown.count("<tr>") == html.MAX_ROWS + 1
    assert "5 more rows are not shown." in shown
    assert "<td" in html.table(("a",), [(None,)])
