"""What single feature sources have of their own; tests/contract has what all of them promise."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.sources.query import NamedQuery
from fedflow.serving.sources.redis import KeyTemplate
from fedflow.serving.sources.source import (
    FeatureFault,
    FeatureSource,
    FoundFeatures,
    open_feature_source,
    together,
)
from tests.support.feature_service import FeatureService, feature_service

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


def test_a_table_may_be_looked_up_by_several_ids(csv: Path) -> None:
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
    with pytest.raises(
        BadServingSetting, match="known are composite, http, mysql, redis, sqlite, table"
    ):
        opened("oracle")


def freshness(source: FeatureSource, ids: Mapping[str, Any]) -> tuple[str, float | None]:
    items = source.find([ids], deadline_s=SystemClock().monotonic_s() + 30)
    assert isinstance(items, FoundFeatures)
    return items.version, items.valid_s


def test_the_version_of_a_table_changes_with_any_cell(csv: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"path": str(csv), "ids": ["device_id"]}
    first = freshness(opened("table", **given), {"device_id": "u1"})
    assert first == freshness(opened("table", **given), {"device_id": "none"})
    csv.write_text(CSV.replace("1e3", "1e4"), encoding="utf-8")
    assert freshness(opened("table", **given), {"device_id": "u1"}) != first
    source = opened("table", **given, version="monday", valid_s=3600)
    assert freshness(source, {"device_id": "u1"}) == ("monday", 3600.0)
    with pytest.raises(BadServingSetting, match="200"):
        opened("table", **given, version="x" * 201)


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


def test_two_rows_of_one_id_are_an_error_and_so_is_a_number_that_is_too_large(
    database: Path,
) -> None:
    with closing(opened("sqlite", path=str(database), query=QUERY, valid_s=0)) as source:
        assert freshness(source, {"device_id": "u1"}) == ("", 0.0)
        ids = [{"device_id": one} for one in ("u1", "2", 2**70)]
        assert found(source, *ids) == [{"x0": 1.5}, 116, 102]


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


@pytest.fixture
def service() -> Iterator[FeatureService]:
    with feature_service() as service:
        yield service


def test_a_service_is_asked_with_ids_in_the_body(service: FeatureService) -> None:
    data = [{"x0": 1, "x1": None, "kind": "a"}, None]
    service.answer = (200, json.dumps({"data": data}).encode())
    with closing(opened("http", url=service.url, headers={"X-Token": "t"})) as source:
        asked = ({"device_id": "a/../b?c"}, {"device_id": 8})
        assert found(source, *asked) == [{"x0": 1, "kind": "a"}, 113]
    assert service.asked == [("/features", {"ids": list(asked)})]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ("", None)), ({"version": None, "valid_s": None}, ("", None)),
        ({"version": 7, "valid_s": 60}, ("7", 60.0)), ({"version": "v", "valid_s": 0}, ("v", 0.0)),
    ],
)  # fmt: skip
def test_a_service_says_how_long_its_features_are_valid(
    service: FeatureService, said: dict[str, Any], expected: tuple[str, float | None]
) -> None:
    service.answer = (200, json.dumps({"data": [{"x0": 1}], **said}).encode())
    with closing(opened("http", url=service.url)) as source:
        assert freshness(source, {"device_id": "u1"}) == expected


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"), (302, b"{}"), (200, b""), (200, b"[]"), (200, b'{"data": []}'),
        (200, b'{"data": [{"x": NaN}]}'), (200, b'{"data": [{"x": [1]}]}'),
        (200, b'{"data": ' + b"[" * 100_000), (200, b" " * 20_000_000),
        (200, b'{"data": [{}], "valid_s": -1}'),
        (200, b'{"data": [{}], "version": "' + b"x" * 201 + b'"}'),
    ],
    ids=lambda answer: str(answer[0]) + answer[1][:12].decode(),
)  # fmt: skip
def test_an_answer_that_is_none_is_code_116(
    service: FeatureService, answer: tuple[int, bytes]
) -> None:
    service.answer = answer
    with closing(opened("http", url=service.url)) as source:
        assert found(source, {"device_id": "u1"}) == [116]
    assert len(service.asked) == 1  # no redirect is followed


def test_a_service_that_does_not_answer_is_code_116(service: FeatureService) -> None:
    url = service.url
    service.server_close()
    with closing(opened("http", url=url)) as source:
        assert found(source, {"device_id": "u1"}) == [116]
    with pytest.raises(BadServingSetting, match="http://"):
        opened("http", url="file:///etc/passwd")


def test_a_service_may_get_fewer_ids_and_in_several_calls(service: FeatureService) -> None:
    service.look_up = lambda ids: {"x0": ids["device_id"]}
    options = {"url": service.url, "ids": ["device_id"], "ids_per_call": 2, "calls": 1}
    with closing(opened("http", **options)) as source:
        asked = [{"device_id": number, "more": "m"} for number in range(5)]
        assert found(source, *asked) == [{"x0": number} for number in range(5)]
        assert source.id_names == {"device_id"}
    assert [[one["device_id"] for one in body["ids"]] for _, body in service.asked] == [
        [0, 1], [2, 3], [4],
    ]  # fmt: skip
    assert "more" not in str(service.asked)


# --- names, several sources -----------------------------------------------------------------------


def test_names_that_lead_to_one_column_are_refused_or_fail_the_item(csv: Path) -> None:
    options: dict[str, Any] = {"path": str(csv), "ids": ["device_id"]}
    with pytest.raises(BadServingSetting, match="two columns become 'a'") as caught:
        opened("table", **options, names={"x0": "a", "x1": "a"})
    assert caught.value.fields["path"] == "features.options.names"
    source = opened("table", **options, names={"x0": "x1"})
    assert found(source, {"device_id": "u1"}, {"device_id": "u2"}) == [
        116, {"day": 1.0, "x1": 4.0, "kind": "b"},
    ]  # fmt: skip


def part(path: Path, **more: Any) -> dict[str, Any]:
    return {"source": "table", "options": {"path": str(path), "ids": ["id"]}, **more}


def test_a_row_of_several_sources_and_errors_that_name_the_source(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    paths[0].write_text("id,x0\nu1,1\nu2,2\nu4,4\n")
    paths[1].write_text("id,x1\nu1,5\nu3,6\nu4,7\n")
    paths[2].write_text("id,x2,x1\nu1,8,\nu4,,9\n")
    source = opened("composite", sources=[
        part(paths[0], name="first"), part(paths[1], name="second"),
        part(paths[2], name="third", needed=False),
    ])  # fmt: skip
    assert source.id_names == {"id"}
    items = source.find([{"id": f"u{n}"} for n in (1, 2, 3, 4)], deadline_s=1e12)
    assert items[0] == {"x0": 1.0, "x1": 5.0, "x2": 8.0}
    faults = [(one.retcode, one.reason) for one in items[1:] if isinstance(one, FeatureFault)]
    assert faults == [
        (113, "source second: there are no features for the id"),
        (113, "source first: there are no features for the id"),
        (116, "source third: another one has its column x1, too"),
    ]
    paths[2].write_text("id,x2\n")
    last = opened("composite", sources=[part(paths[0], name="a"), part(paths[2], needed=False)])
    assert found(last, {"id": "u2"}) == [{"x0": 2.0}]


@pytest.mark.parametrize(
    ("sources", "path"),
    [
        ([], "features.options.sources"),
        ([{"options": {}}], "features.options.sources[0]"),
        ([{"source": "nobody"}], "features.options.sources[0].source"),
        ([part(Path("/none.csv"))], "features.options.sources[0].options.path"),
        ([part(Path("/a"), name="a"), part(Path("/b"), name="a")],
         "features.options.sources[0].name"),
        ([{"source": "composite", "options": {"sources": [part(Path("/none.csv"))]}}],
         "features.options.sources[0].options.sources[0].options.path"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_one_of_several_sources_has_its_path(sources: Any, path: str) -> None:
    with pytest.raises(BadServingSetting) as caught:
        opened("composite", sources=sources)
    assert caught.value.fields["path"] == path


# --- keys and queries -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "reason"),
    [("row", "needs ids"), ("row:{}", "needs ids"), ("{a}{b}", "between two ids"),
     ("{a}-{b}", "between two ids"), ("row:{a", "needs ids"), ("row}:{a}", "partner")],
)  # fmt: skip
def test_a_key_in_which_ids_could_not_be_told_apart_is_refused(template: str, reason: str) -> None:
    with pytest.raises(BadServingSetting, match=reason) as caught:
        opened("redis", key=template)
    assert caught.value.fields["path"] == "features.options.key"


def test_ids_in_a_key_are_told_apart() -> None:
    template = KeyTemplate("row:{a}:{b}")
    assert template.key({"a": "u1", "b": 8}) == "row:u1:8"
    assert template.key({"a": "u:1", "b": "ü%"}) == "row:u%3A1:%C3%BC%25"
    pairs = [("x:y", "z"), ("x", "y:z"), ("x%3Ay", "z"), ("x%3ay", "z")]
    assert len({template.key({"a": a, "b": b}) for a, b in pairs}) == len(pairs)


def test_parameters_of_a_query_are_names_outside_of_texts() -> None:
    query = NamedQuery.of(
        "SELECT ':no', \":no\", `:no`, 'it''s :no', 'a\\':no' -- :no\n"
        "/* :no */ # :no\n :a, x::b, :b+:a"
    )
    assert query.names == ("a", "b", "a")
    assert query.marked.endswith(" ?, x::b, ?+?")
    with pytest.raises(ValueError, match="has a name"):
        NamedQuery.of("SELECT ?")


# --- validity of several look-ups -----------------------------------------------------------------


def test_several_look_ups_are_valid_as_long_as_the_shortest() -> None:
    parts = [
        FoundFeatures([], version="a", valid_s=60), FoundFeatures([], valid_s=10), [],
        FoundFeatures([], version="b"),
    ]  # fmt: skip
    both = together([{"x": 1.0}], parts)
    assert (list(both), both.valid_s) == ([{"x": 1.0}], 10)
    assert both.version not in ("", "a", "b")
    assert together([], parts[:2]).version == "a"
    assert (together([], []).version, together([], []).valid_s) == ("", None)
