"""Files and tables of a real server: in, out, bound, traced; and uploads that mean no good."""

from __future__ import annotations

import gzip
import io
import json
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
import requests
from pyarrow import feather, parquet

from tests.e2e.servers import DATA, Party, standalone, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CSV = b"id,y,x0\na,1,0.5\nb,0,1.5\nc,1,2.5\n"
JOB = {"local": {"0": {}}}
MAX_MIB = 2


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the server may read."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Party]:
    settings = {
        "FEDFLOW__UPLOAD__ALLOWED_FOLDERS": json.dumps([str(shared)]),
        "FEDFLOW__UPLOAD__MAX_MIB": str(MAX_MIB),
    }
    with standalone(tmp_path_factory.mktemp("data"), settings=settings) as pair:
        yield pair.guest


def conf(name: str, **more: Any) -> dict[str, Any]:
    given = {"file": "d.csv", "head": 1, "partition": 4, "table_name": name, "namespace": "e"}
    return {**given, "drop": 1, "use_local_data": 1, "verbose": 0, "work_mode": 0, **more}


def send(server: Party, given: dict[str, Any], content: bytes = CSV) -> dict[str, Any]:
    """Upload as FATE's clients do: the conf is JSON text, the whole query."""
    url = f"{server.url}/v1/data/upload?{quote(json.dumps(given), safe='&=+;')}"
    answer = requests.post(url, files={"file": ("d.csv", content)}, timeout=60)
    found: dict[str, Any] = answer.json()
    return found


def ended(server: Party, job_id: str, role: str = "local") -> str:
    """Return the status of a job as FATE's clients ask for it, once it has ended."""

    def look() -> str | None:
        (row, *_) = server.post("/v1/job/query", {"job_id": job_id, "role": role})["data"]
        status: str = row["f_status"]
        return None if status in ("running", "waiting") else status

    return wait_for(look, f"the end of job {job_id}")


def do(server: Party, path: str, **body: Any) -> Any:
    """Return the data of an answer that must be a success."""
    answer = server.post(path, body)
    assert answer["retcode"] == 0, answer
    return answer.get("data")


def uploaded(server: Party, name: str, content: bytes = CSV, **more: Any) -> str:
    answer = send(server, conf(name, **more), content)
    assert answer["retcode"] == 0, answer
    assert ended(server, answer["jobId"]) == "success"
    job_id: str = answer["jobId"]
    return job_id


def info(server: Party, name: str, namespace: str = "e") -> dict[str, Any]:
    found: dict[str, Any] = do(server, "/v1/table/table_info", name=name, namespace=namespace)
    return found


def run_reader(server: Party, table: dict[str, Any]) -> tuple[str, str]:
    """Run a job that only reads a table at guest and host; return its id and status."""
    reads = {"0": {"reader_0": {"table": table}}}
    answer = server.post(
        "/v1/job/submit",
        {
            "job_dsl": {
                "components": {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}
            },
            "job_runtime_conf": {
                "dsl_version": 2,
                "initiator": {"role": "guest", "party_id": 9999},
                "role": {"guest": [9999], "host": [10000]},
                "component_parameters": {"role": {"guest": reads, "host": reads}},
            },
        },
    )
    assert answer["retcode"] == 0, answer
    return answer["jobId"], ended(server, answer["jobId"], "guest")


# --- what clients do ------------------------------------------------------------------------------


def test_an_upload_is_listed_traced_downloaded_and_deleted(server: Party) -> None:
    job_id = uploaded(server, "a+b=c&d;e")
    assert info(server, "a+b=c&d;e") | {"address": 0, "created": 0} == {
        "table_name": "a+b=c&d;e", "namespace": "e", "exist": 1, "count": 3, "partition": 4,
        "schema": {"header": "y,x0", "sid": "id"}, "enable": True, "origin": "upload",
        "extend_sid": False, "engine": "STANDALONE", "address": 0, "created": 0,
        "made_by": {
            "job_id": job_id, "component_name": "upload_0", "task_version": 0, "role": "local",
            "party_id": "0", "data_name": "data",
        },
        "columns": [
            {"name": "y", "kind": "number", "count": 3, "missing": 0, "min": 0.0, "max": 1.0,
             "mean": 2 / 3},
            {"name": "x0", "kind": "number", "count": 3, "missing": 0, "min": 0.5, "max": 2.5,
             "mean": 1.5},
        ],
    }  # fmt: skip
    (entry, *_) = do(server, "/v1/data/upload/history", limit=10)
    assert entry[job_id]["upload_info"] == {
        "table_name": "a+b=c&d;e", "namespace": "e", "partition": 4, "upload_count": 3,
    }  # fmt: skip
    names = {"table_name": "a+b=c&d;e", "namespace": "e"}
    assert do(server, "/v1/table/tracking/source", **names) == []
    assert do(server, "/v1/table/tracking/job", **names) == {"count": 1, "job": [job_id]}
    answer = requests.get(f"{server.url}/v1/table/download", json=names, timeout=30)
    assert answer.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        rows = tar.extractfile("table.csv")
        assert rows is not None
        assert rows.read() == CSV
    assert do(server, "/v1/table/delete", **names) == names
    again = server.post("/v1/table/delete", names)
    assert (again["retcode"], again["retmsg"]) == (101, "no find table")
    assert (
        requests.get(f"{server.url}/v1/table/download", json=names, timeout=30).status_code == 210
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_the_kind_of_the_file_does_not_matter(server: Party, tmp_path: Path, kind: str) -> None:
    rows = pa.table({"id": ["a", "b", "c"], "y": [1, 0, 1], "x0": [0.5, 1.5, None]})
    path = tmp_path / "d"
    if kind == "parquet":
        parquet.write_table(rows, path)
    else:
        feather.write_feather(rows, path)
    uploaded(server, "typed", path.read_bytes())
    uploaded(server, "text", b"id,y,x0\na,1,0.5\nb,0,1.5\nc,1,\n")
    same = ("schema", "count", "columns", "partition")
    assert {m: info(server, "typed")[m] for m in same} == {m: info(server, "text")[m] for m in same}
    first, second = (
        do(server, "/v1/table/preview", name=name, namespace="e") for name in ("typed", "text")
    )
    assert first == second
    assert first["data"][2] == ["c", "1", ""]


def test_rows_of_tags_are_uploaded_and_transformed(server: Party) -> None:
    meta = {"input_format": "tag", "tag_with_value": True, "delimiter": ";", "with_label": True}
    uploaded(server, "tags", b"u,1;a:2;b:3\nv,0\n", head=0, with_meta=1, meta=meta)
    assert info(server, "tags")["schema"]["meta"]["input_format"] == "tag"
    reads = {"0": {"reader_0": {"table": {"namespace": "e", "name": "tags"}}}}
    components = {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "DataTransform", "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    }  # fmt: skip
    conf_of_job = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999]}, "component_parameters": {"role": {"guest": reads}},
    }  # fmt: skip
    body = {"job_dsl": {"components": components}, "job_runtime_conf": conf_of_job}
    answer = server.post("/v1/job/submit", body)
    assert answer["retcode"] == 0, answer
    assert ended(server, answer["jobId"], "guest") == "success"
    which = {"job_id": answer["jobId"], "role": "guest", "party_id": "9999"}
    (table,) = do(
        server, "/v1/tracking/component/output/data/table", **which,
        component_name="data_transform_0",
    )  # fmt: skip
    names = {"name": table["table_name"], "namespace": table["table_namespace"]}
    assert do(server, "/v1/table/preview", **names) == {
        "header": ["id", "label", "a", "b"],
        "data": [["u", "1", "2.0", "3.0"], ["v", "0", "0.0", "0.0"]],
    }
    shown = do(server, "/v1/table/table_info", **names)
    assert shown["schema"]["anonymous_header"] == ["guest_9999_x0", "guest_9999_x1"]
    assert shown["made_by"]["component_name"] == "data_transform_0"


def test_a_file_of_the_server_is_read_by_its_relative_path(server: Party, shared: Path) -> None:
    (shared / "data").mkdir(exist_ok=True)
    (shared / "data" / "d.csv").write_bytes(CSV)
    given = conf("local", use_local_data=0, file="data/d.csv")
    answer = server.post("/v1/data/upload", given)
    assert ended(server, answer["jobId"]) == "success"
    assert info(server, "local")["count"] == 3
    assert (shared / "data" / "d.csv").exists(), "the server deletes only what was sent to it"


def test_a_table_goes_out_as_a_file_and_under_a_second_name(server: Party) -> None:
    uploaded(server, "out")
    names = {"namespace": "e", "table_name": "out"}
    written = server.post("/v1/data/download", {**names, "output_path": "some/out.csv"})
    assert ended(server, written["jobId"]) == "success"
    assert (server.home / "downloads" / "some" / "out.csv").read_bytes() == CSV
    second = {"output_namespace": "e2", "output_name": "copy"}
    copied = server.post("/v1/data/writer", {**names, **second})
    assert ended(server, copied["jobId"]) == "success"
    do(server, "/v1/table/delete", **names)
    assert info(server, "copy", "e2")["count"] == 3
    preview = do(server, "/v1/table/preview", name="copy", namespace="e2", limit=1)
    assert preview == {"header": ["id", "y", "x0"], "data": [["a", "1", "0.5"]]}
    (row,) = do(server, "/v1/table/tracking/source", table_name="copy", namespace="e2")
    assert (row["parent_table_namespace"], row["parent_table_name"]) == ("e", "out")


@pytest.mark.parametrize("path", ["/etc/cron.d/x", "../../x.csv", "/tmp/x.csv", "a\0b", ""])
def test_a_table_is_not_written_elsewhere(server: Party, path: str) -> None:
    uploaded(server, "stay")
    ask = {"namespace": "e", "table_name": "stay", "output_path": path}
    answer = server.post("/v1/data/download", ask)
    assert answer["retcode"] == 101
    assert "jobId" not in answer


def test_a_bound_file_is_read_by_a_job_and_its_output_by_another(
    server: Party, shared: Path
) -> None:
    source = shared / "bound.csv"
    source.write_bytes(CSV)
    ask = {
        "engine": "PATH", "name": "bound", "namespace": "e", "drop": True,
        "address": {"path": str(source)},
    }  # fmt: skip
    assert do(server, "/v1/table/bind", **ask) == {"table_name": "bound", "namespace": "e"}
    shown = info(server, "bound")
    assert (shown["origin"], shown["schema"]["header"]) == ("table_bind", "y,x0")
    first, status = run_reader(server, {"namespace": "e", "name": "bound"})
    assert status == "success"
    share = {"job_id": first, "component_name": "reader_0", "role": "guest", "party_id": 9999}
    (made,) = do(server, "/v1/tracking/component/output/data/table", **share)
    assert info(server, made["table_name"], made["table_namespace"])["count"] == 3
    earlier = {"job_id": first, "component_name": "reader_0", "data_name": "data"}
    second, status = run_reader(server, earlier)
    assert status == "success"
    jobs = do(
        server, "/v1/table/tracking/job",
        table_name=made["table_name"], namespace=made["table_namespace"],
    )  # fmt: skip
    assert jobs["job"] == [first, second]
    kept = server.post("/v1/table/delete", {"job_id": first, "role": "guest", "party_id": 9999})
    assert kept["retmsg"] == "no find table", "another job took the output over"
    (row,) = do(
        server, "/v1/table/tracking/source",
        table_name=made["table_name"], namespace=made["table_namespace"],
    )  # fmt: skip
    assert (row["source_table_namespace"], row["source_table_name"]) == ("e", "bound")
    do(server, "/v1/table/delete", table_name="bound", namespace="e")
    assert source.read_bytes() == CSV


def test_a_disabled_table_is_refused_by_submit(server: Party) -> None:
    uploaded(server, "off")
    names = {"namespace": "e", "table_name": "off"}
    assert do(server, "/v1/table/disable", **names) == [names]
    with pytest.raises(AssertionError, match="is disabled"):
        run_reader(server, {"namespace": "e", "name": "off"})
    assert names in do(server, "/v1/table/disable/delete")
    assert info(server, "off")["exist"] == 0


def test_an_upload_replaces_a_table_only_on_demand(server: Party) -> None:
    uploaded(server, "twice")
    for drop in (0, 2):
        assert send(server, conf("twice", drop=drop))["retcode"] == 100
    uploaded(server, "twice", CSV + b"d,1,9\n")
    assert info(server, "twice")["count"] == 4
    rows = [p for p in (server.home / "tables").iterdir() if not p.name.startswith(".")]
    assert len(rows) == len({p.name for p in rows})


def test_meta_of_an_upload_is_kept_with_the_table(server: Party) -> None:
    meta = {"with_label": True, "label_name": "y", "label_type": "int"}
    uploaded(server, "meta", with_meta=True, meta=meta)
    schema = info(server, "meta")["schema"]
    assert (schema["header"], schema["sid"], schema["label_name"]) == (["x0"], "id", "y")
    assert schema["meta"]["with_label"] is True
    changed = do(
        server, "/v1/table/schema/update",
        namespace="e", name="meta", schema={"meta": {"data_type": "float"}},
    )  # fmt: skip
    assert changed["meta"] == {**schema["meta"], "data_type": "float"}


def test_columns_of_the_real_example_survive_the_way_in_and_out(server: Party) -> None:
    content = (DATA / "breast_hetero_guest.csv").read_bytes()
    uploaded(server, "breast", content)
    names = {"name": "breast", "namespace": "e"}
    answer = requests.get(f"{server.url}/v1/table/download", json=names, timeout=30)
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        rows = tar.extractfile("table.csv")
        assert rows is not None
        assert rows.read() == content


def test_a_table_is_deleted_as_soon_as_a_job_has_ended(server: Party) -> None:
    names = {"table_name": "soon", "namespace": "e"}
    for _ in range(5):
        uploaded(server, "soon")
        assert run_reader(server, {"namespace": "e", "name": "soon"})[1] == "success"
        assert do(server, "/v1/table/delete", **names) == names
        assert info(server, "soon")["exist"] == 0


# --- what attackers and broken networks do --------------------------------------------------------


def spooled(server: Party) -> list[Path]:
    return list((server.home / "uploads").iterdir())


def clean(server: Party, name: str) -> None:
    """Nothing of an upload may be left: no table, no file, no half of one."""
    assert info(server, name)["exist"] == 0
    wait_for(lambda: not spooled(server), "the spool to be empty")
    halves = [p for p in (server.home / "tables").iterdir() if p.name.startswith(".new-")]
    assert halves == []


BOUNDARY = "xXxXx"
PART = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="d.csv"\r\n\r\n'
).encode()
END = f"\r\n--{BOUNDARY}--\r\n".encode()


def raw_post(server: Party, name: str, body: bytes, kind: str) -> requests.Response:
    url = f"{server.url}/v1/data/upload?{quote(json.dumps(conf(name)))}"
    return requests.post(url, data=body, headers={"Content-Type": kind}, timeout=30)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PART + CSV, f"multipart/form-data; boundary={BOUNDARY}"),  # no end
        (PART + CSV + END, "multipart/form-data; boundary=other"),
        (PART + CSV + END, "multipart/form-data"),
        (CSV, f"multipart/form-data; boundary={BOUNDARY}"),
        (b"", f"multipart/form-data; boundary={BOUNDARY}"),
        (b"--" + BOUNDARY.encode() + b"--\r\n", f"multipart/form-data; boundary={BOUNDARY}"),
        (PART + CSV + b"\r\n" + PART + CSV + END, f"multipart/form-data; boundary={BOUNDARY}"),
        (PART + CSV + END, f"multipart/form-data; boundary={'b' * 5000}"),
        (
            b"--" + BOUNDARY.encode() + b"\r\n" + b"x" * 100_000,
            f"multipart/form-data; boundary={BOUNDARY}",
        ),
        (CSV, "text/csv"),
        (b'{"use_local_data": 1}', "application/json"),
    ],
)  # fmt: skip
def test_a_broken_body_is_refused_and_leaves_nothing(server: Party, body: bytes, kind: str) -> None:
    answer = raw_post(server, "broken", body, kind)
    assert answer.json()["retcode"] in (101, 413), answer.text
    clean(server, "broken")


def test_a_body_over_the_limit_is_http_413_and_leaves_nothing(server: Party) -> None:
    content = b"id,x\n" + b"1,2\n" * (MAX_MIB * 300_000)
    url = f"{server.url}/v1/data/upload?{quote(json.dumps(conf('big')))}"
    try:
        answer = requests.post(url, files={"file": ("d.csv", content)}, timeout=60)
        assert answer.status_code == 413
    except requests.ConnectionError:
        pass  # the server may close before all was sent
    clean(server, "big")


@pytest.mark.parametrize("sent", [0, 10, len(PART) + 5])
def test_a_connection_that_is_cut_leaves_nothing(server: Party, sent: int) -> None:
    body = (PART + CSV * 5000 + END)[: len(PART) + 10_000]
    head = (
        f"POST /v1/data/upload?{quote(json.dumps(conf('cut')))} HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{server.place.http_port}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(PART) + len(CSV) * 5000 + len(END)}\r\n\r\n"
    ).encode()
    for portion in (head + body[:sent], head + body, head[: len(head) // 2]):
        with socket.create_connection(("127.0.0.1", server.place.http_port), 10) as link:
            link.sendall(portion)
    uploaded(server, "after")  # the server goes on
    clean(server, "cut")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (gzip.compress(b"id,x\n" + b"1,2\n" * 1000, mtime=0), "gzip"),
        (gzip.compress(b"\0" * (32 << 20), mtime=0), "gzip"),
        (b"PK\x03\x04" + b"\0" * 100, "zip"),
        (b"x" * (1 << 20), "a name of 1048576 letters"),
        (b"id," * 100_001 + b"\n1\n", "columns"),
        (b"id,x\n1\n", "row 1 has 1 cells"),
        (b"id,x\n1,2\n1,3\n", "repeats the id"),
        (b"id,x\n1,\xff\n", "UTF-8"),
        (b"id,x\n", "no rows"),
    ],
    ids=[
        "empty", "gzip", "bomb", "zip", "long name", "many columns", "short row", "repeated id",
        "bytes", "no rows",
    ],
)  # fmt: skip
def test_a_wrong_file_fails_its_job_and_leaves_nothing(
    server: Party, content: bytes, says: str
) -> None:
    answer = send(server, conf("wrong"), content)
    assert answer["retcode"] == 0
    assert ended(server, answer["jobId"]) == "failed"
    reason = do(server, "/v1/job/status", job_id=answer["jobId"])["reason"]
    assert (reason["code"], says in reason["message"]) == ("BadData", True), reason
    clean(server, "wrong")


def test_a_wrong_file_leaves_the_table_that_it_was_to_replace(server: Party) -> None:
    uploaded(server, "good")
    answer = send(server, conf("good"), b"id,x\n1,2\n1,3\n")
    assert ended(server, answer["jobId"]) == "failed"
    assert info(server, "good")["count"] == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": None}, {"head": 2}, {"head": "x"}, {"partition": 0}, {"partition": 1 << 70},
        {"table_name": ""}, {"table_name": "a\nb"}, {"table_name": "x" * 101}, {"drop": []},
        {"id_delimiter": {}}, {"meta": 7}, {"task_cores": -1}, {"party_id": "../0"},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_and_leave_nothing(
    server: Party, wrong: dict[str, Any]
) -> None:
    answer = send(server, conf("params", **wrong))
    assert answer["retcode"] == 101, answer
    clean(server, "params")


@pytest.mark.parametrize(
    "wrong", [{"id_delimiter": ""}, {"id_delimiter": "ab"}, {"meta": {"x": 1}}]
)
def test_parameters_that_the_component_refuses_leave_nothing(
    server: Party, wrong: dict[str, Any]
) -> None:
    answer = send(server, conf("params", with_meta=1, **wrong))
    assert answer["retcode"] == 103, answer
    clean(server, "params")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x.csv", "/proc/self/environ", "data", "a\0b", "link.csv", "", 7, None],
)
def test_a_file_outside_the_allowed_folders_is_not_read(
    server: Party, shared: Path, path: Any
) -> None:
    link = shared / "link.csv"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    answer = server.post("/v1/data/upload", conf("outside", use_local_data=0, file=path))
    assert answer["retcode"] == 101
    assert "root:" not in json.dumps(answer)
    bound = server.post(
        "/v1/table/bind",
        {"engine": "PATH", "namespace": "e", "name": "outside", "address": {"path": path}},
    )
    assert bound["retcode"] == 101
    clean(server, "outside")


def test_downloads_of_absent_things_are_never_http_200(server: Party) -> None:
    for path, ask in (
        ("/v1/table/download", {"name": "no", "namespace": "e"}),
        ("/v1/table/download", {}),
        ("/v1/table/download", {"name": "../x", "namespace": "../../etc"}),
        ("/v1/tracking/component/output/data/download", {"job_id": "1", "component_name": "a"}),
    ):
        answer = requests.get(f"{server.url}{path}", json=ask, timeout=30)
        assert answer.status_code != 200
        assert answer.json()["retcode"] != 0
    preview = {"name": "no", "namespace": "e"}
    assert requests.post(
        f"{server.url}/v1/table/preview", json=preview, timeout=30
    ).status_code == 210  # fmt: skip
