"""Feature sources: what they find, what an id may be, and an error per item."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.sources.source import FeatureFault, FeatureSource, open_feature_source

CSV = "device_id,day,x0,x1,kind\nu1,1,1.5,-2,a\nu2,1,,4,b\n8,2,0.25,1e3,\n"


def opened(name: str, **options: Any) -> FeatureSource:
    return open_feature_source(name, options)


def found(source: FeatureSource, *ids: Mapping[str, Any], seconds: float = 30.0) -> list[Any]:
    """Return features, and return codes in the place of faults."""
    items = source.find(ids, deadline_s=SystemClock().monotonic_s() + seconds)
    return [one.retcode if isinstance(one, FeatureFault) else dict(one) for one in items]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "f.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


# --- table ----------------------------------------------------------------------------------------


def test_a_table_has_numbers_and_texts_and_leaves_out_what_is_missing(csv: Path) -> None:
    source = opened("table", path=str(csv), ids=["device_id"])
    assert found(source, {"device_id": "u1"}, {"device_id": "u2"}, {"device_id": 8}) == [
        {"day": 1.0, "x0": 1.5, "x1": -2.0, "kind": "a"},
        {"day": 1.0, "x1": 4.0, "kind": "b"},
        {"day": 2.0, "x0": 0.25, "x1": 1000.0},
    ]


def test_each_id_that_cannot_be_found_has_an_error_of_its_own(csv: Path) -> None:
    source = opened("table", path=str(csv), ids=["device_id", "day"])
    ids = ({"device_id": "u1", "day": 1.0}, {"device_id": "u1", "day": 2}, {"device_id": "u1"},
           {"device_id": True, "day": 1}, {"device_id": 0.5, "day": 1})  # fmt: skip
    assert found(source, *ids)[1:] == [113, 102, 102, 102]
    assert found(source, ids[0])[0]["x0"] == 1.5


def test_a_parquet_file_is_the_same_table(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"id": [1, 2], "x": [0.1, None], "kind": ["a", None], "n": [3, 4]})
    pyarrow.parquet.write_table(table, path)
    source = opened("table", path=str(path), ids=["id"])
    assert found(source, {"id": "1"}, {"id": 2}, {"id": 3}) == [
        {"x": 0.1, "kind": "a", "n": 3.0}, {"n": 4.0}, 113,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "ids", "path", "reason"),
    [
        (None, ["a"], "features.options.path", "No such file"),
        ("a,x\n1,2\n1,3\n", ["a"], "features.options.path", "twice"),
        ("a,x\n1\n", ["a"], "features.options.path", "line 2 has 1 cells"),
        ("a,a\n", ["a"], "features.options.path", "names of the columns"),
        ("", ["a"], "features.options.path", "names of the columns"),
        ("a,x\n1,2\n", ["b"], "features.options.ids", "columns of"),
        ("a,x\n1,2\n", [], "features.options.ids", "columns of"),
        ("a,x\n1,2\n", [1], "features.options.ids[0]", "str"),
    ],
)
def test_a_table_that_is_none_stops_the_start(
    tmp_path: Path, text: str | None, ids: list[Any], path: str, reason: str
) -> None:
    file = tmp_path / "f.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadServingSetting, match=reason) as caught:
        opened("table", path=str(file), ids=ids)
    assert caught.value.fields["path"] == path


def test_a_source_that_nobody_has_is_named() -> None:
    with pytest.raises(BadServingSetting, match="known are http, sqlite, table"):
        opened("oracle")


# --- sqlite ---------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "f.sqlite"
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("CREATE TABLE f (id TEXT, x0 REAL, kind TEXT)")
        rows = [("u1", 1.5, None), ("u2", None, "b"), ("2", 1, "c"), ("2", 2, "d")]
        link.executemany("INSERT INTO f VALUES (?, ?, ?)", rows)
    return path


QUERY = "SELECT x0, kind FROM f WHERE id = :device_id"


def test_a_query_gets_ids_as_parameters(database: Path) -> None:
    with closing(opened("sqlite", path=str(database), query=QUERY)) as source:
        injected = {"device_id": "u1' OR '1'='1"}
        ids = [{"device_id": one} for one in ("u1", "u2", "u3", "2", 2**70)]
        assert found(source, *ids, injected, {}) == [
            {"x0": 1.5}, {"kind": "b"}, 113, 116, 102, 113, 102,
        ]  # fmt: skip


def test_a_query_may_not_write_and_not_take_too_long(database: Path) -> None:
    with closing(
        opened("sqlite", path=str(database), query="DELETE FROM f WHERE id = :device_id")
    ) as source:
        assert found(source, {"device_id": "u1"}) == [116]
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n" \
              " WHERE i < 0 AND :device_id"  # fmt: skip
    with closing(opened("sqlite", path=str(database), query=endless)) as source:
        assert found(source, {"device_id": 1}, seconds=0.05) == [116]


def test_a_query_that_is_none_stops_the_start(database: Path) -> None:
    with pytest.raises(BadServingSetting, match="no such column"):
        opened("sqlite", path=str(database), query="SELECT y FROM f")
    with pytest.raises(BadServingSetting, match="unable to open"):
        opened("sqlite", path=str(database.with_name("none")), query=QUERY)


# --- http -----------------------------------------------------------------------------------------


class Service(ThreadingHTTPServer):
    """Gives what it is told, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, bytes] = (200, b"")
        self.asked: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/features"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, json.loads(body)))
        status, raw = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        yield service
        service.shutdown()
        thread.join()


def test_a_service_is_asked_with_ids_in_the_body(service: Service) -> None:
    data = [{"x0": 1, "x1": None, "kind": "a"}, None]
    service.answer = (200, json.dumps({"data": data}).encode())
    with closing(opened("http", url=service.url, headers={"X-Token": "t"})) as source:
        asked = ({"device_id": "a/../b?c"}, {"device_id": 8})
        assert found(source, *asked) == [{"x0": 1, "kind": "a"}, 113]
    assert service.asked == [("/features", {"ids": list(asked)})]


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"), (302, b"{}"), (200, b""), (200, b"[]"), (200, b'{"data": []}'),
        (200, b'{"data": [{"x": NaN}]}'), (200, b'{"data": [{"x": [1]}]}'),
        (200, b'{"data": ' + b"[" * 100_000), (200, b" " * 20_000_000),
    ],
    ids=lambda answer: str(answer[0]) + answer[1][:12].decode(),
)  # fmt: skip
def test_an_answer_that_is_none_is_code_116(service: Service, answer: tuple[int, bytes]) -> None:
    service.answer = answer
    with closing(opened("http", url=service.url)) as source:
        assert found(source, {"device_id": "u1"}) == [116]
    assert len(service.asked) == 1  # no redirect is followed


def test_a_service_that_does_not_answer_is_code_116(service: Service) -> None:
    url = service.url
    service.server_close()
    with closing(opened("http", url=url)) as source:
        assert found(source, {"device_id": "u1"}) == [116]
    with pytest.raises(BadServingSetting, match="http://"):
        opened("http", url="file:///etc/passwd")
