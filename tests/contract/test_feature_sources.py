"""What every feature source promises: values, an error per item, time limits, and safe ids."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import redis

from fedflow.base.clock import SystemClock
from fedflow.serving.sources.source import (
    FeatureFault,
    FeatureSource,
    FoundFeatures,
    open_feature_source,
)
from tests.storage_servers import MysqlDatabase, mysql_database
from tests.support.feature_service import feature_service
from tests.support.proxy import FaultyProxy
from tests.support.redis_server import redis_server

ROWS: dict[str, dict[str, Any]] = {
    "u1": {"x0": 1.5, "kind": "a"},
    "u2": {"x0": None, "kind": "b"},
    "8": {"x0": 0.25, "kind": None},
    "slow": {"x0": 3.0, "kind": "s"},
}
U1, U2 = {"x0": 1.5, "kind": "a"}, {"kind": "b"}
LIMIT_MS = 300  #: of the query for one id, or of a call
SLOW_S = 3.0  #: what the slow id would take

HOSTILE = (
    "u1' OR '1'='1", 'u1" OR "1"="1', "u1`", "u1'; DROP TABLE f; -- ", "\\", "u1\\' OR 1=1 -- ",
    "%", "_1", "u%", "u1\0", "\0", "u1:x", "u1:x:row", "*", "u?", "u[1]", "{device_id}", "u1%00",
    "u1\r\nDEL row:u1:row\r\n", "../u1", "u1/../u2", "u1?x=1#y", "u1&device_id=u2", "ü1", "😀",
    "8 ", "8abc", "0", ":device_id", "@fedflow_0", "a" * 65_536, "'" * 65_536,
)  # fmt: skip


@dataclass
class Sample:
    """What a source with ROWS is opened with."""

    name: str
    options: dict[str, Any]
    has_slow_id: bool = False  #: one that alone exceeds its time limit
    bad_types: bool = False  #: `bad` has a value that is no feature
    proxy: FaultyProxy | None = None  #: between the source and its server
    intact: Callable[[], bool] = field(default=lambda: True)  #: nothing was changed there
    source: FeatureSource = field(init=False)


@pytest.fixture(
    params=["table", "sqlite", "mysql", "http", "hash", "json", "composite", "names"],
    scope="module",
)
def _sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    kinds = {
        "table": _table, "sqlite": _sqlite, "mysql": _mysql, "http": _http, "hash": _redis_hash,
        "json": _redis_json, "composite": _composite, "names": _names,
    }  # fmt: skip
    with kinds[request.param](tmp_path_factory.mktemp(request.param)) as sample:
        yield sample


@pytest.fixture
def sample(_sample: Sample) -> Iterator[Sample]:
    _sample.source = open_feature_source(_sample.name, _sample.options)
    with closing(_sample.source):
        yield _sample


def found(source: FeatureSource, *ids: Any, seconds: float = 30.0) -> list[Any]:
    """Return features, and codes in the place of faults; a number may come as its text."""
    given = [one if isinstance(one, Mapping) else {"device_id": one} for one in ids]
    items = source.find(given, deadline_s=SystemClock().monotonic_s() + seconds)
    return [one.retcode if isinstance(one, FeatureFault) else _as_read(one) for one in items]


def _as_read(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(v) if name == "x0" and isinstance(v, str) else v for name, v in row.items()}


# --- the promises ---------------------------------------------------------------------------------


def test_values_come_in_the_order_of_the_items_and_missing_ones_have_no_name(
    sample: Sample,
) -> None:
    assert found(sample.source, "u2", "u1", 8, "u1", "8", 8.0) == [
        U2, U1, {"x0": 0.25}, U1, {"x0": 0.25}, {"x0": 0.25},
    ]  # fmt: skip
    assert found(sample.source) == []


def test_an_unknown_id_has_an_error_of_its_own(sample: Sample) -> None:
    assert found(sample.source, "u1", "nobody", "u2") == [U1, 113, U2]
    fault = sample.source.find([{"device_id": "nobody"}], deadline_s=math.inf)[0]
    assert isinstance(fault, FeatureFault)
    assert "no features" in fault.reason


@pytest.mark.parametrize("ids", [{}, {"other": "u1"}, {"device_id": None}, {"device_id": True},
                                 {"device_id": 1.5}, {"device_id": ""}])  # fmt: skip
def test_what_is_no_id_finds_nothing_and_harms_no_other(
    sample: Sample, ids: Mapping[str, Any]
) -> None:
    answers = found(sample.source, "u1", ids, "u2")
    assert (answers[0], answers[2]) == (U1, U2)
    assert answers[1] in (102, 113)


def test_more_ids_than_are_needed_are_no_error(sample: Sample) -> None:
    assert found(sample.source, {"device_id": "u1", "x0": 7, "more": "y"}) == [U1]


@pytest.mark.parametrize("user", HOSTILE, ids=lambda user: ascii(user)[:24])
def test_an_id_is_never_more_than_an_id(sample: Sample, user: str) -> None:
    answers = found(sample.source, "u1", user, "u2")
    assert (answers[0], answers[2]) == (U1, U2)
    assert answers[1] in (102, 113) or (user == "8 " and answers[1] == {"x0": 0.25})
    assert sample.intact()


def test_a_value_that_is_no_feature_fails_its_item_alone(sample: Sample) -> None:
    if not sample.bad_types:
        pytest.skip("it has numbers and texts only")
    assert found(sample.source, "u1", "bad", "u2") == [U1, 116, U2]


def test_a_slow_id_costs_its_time_limit_and_the_others_are_found(sample: Sample) -> None:
    if not sample.has_slow_id:
        pytest.skip("it has no query")
    begun = time.monotonic()
    assert found(sample.source, "u1", "slow", "u2") == [U1, 116, U2]
    assert time.monotonic() - begun < SLOW_S - 0.5
    assert found(sample.source, "u1", "u2") == [U1, U2]


def test_nothing_is_asked_after_the_deadline(sample: Sample) -> None:
    begun = time.monotonic()
    answers = found(sample.source, *["slow"] * 5, seconds=-1)
    assert set(map(str, answers)) <= {"116", str(_as_read(ROWS["slow"]))}
    assert time.monotonic() - begun < 1.0


def test_a_deadline_ends_a_request_with_slow_ids(sample: Sample) -> None:
    if not sample.has_slow_id:
        pytest.skip("it has no query")
    begun = time.monotonic()
    assert found(sample.source, *["slow"] * 20, seconds=0.4) == [116] * 20
    assert time.monotonic() - begun < SLOW_S - 0.5


def test_a_server_that_was_started_again_is_asked_again(sample: Sample) -> None:
    proxy = _proxy(sample)
    assert found(sample.source, "u1") == [U1]
    proxy.reset()
    assert found(sample.source, "u1", "nobody", "u2") == [U1, 113, U2]


def test_a_server_that_is_gone_is_code_116_until_it_is_back(sample: Sample) -> None:
    proxy = _proxy(sample)
    target, proxy.target = proxy.target, 9  # nobody listens there
    proxy.reset()
    begun = time.monotonic()
    assert found(sample.source, "u1", "u2") == [116, 116]
    assert time.monotonic() - begun < 2
    proxy.target = target
    assert found(sample.source, "u1", "u2") == [U1, U2]


def test_a_server_that_hangs_costs_the_time_limit_once(sample: Sample) -> None:
    proxy = _proxy(sample)
    assert found(sample.source, "u1") == [U1]
    proxy.stall()
    begun = time.monotonic()
    assert found(sample.source, *["u1"] * 50) == [116] * 50
    assert time.monotonic() - begun < SLOW_S
    proxy.heal()
    proxy.reset()
    assert found(sample.source, "u1", "u2") == [U1, U2]


def test_a_source_says_how_long_its_features_are_valid(sample: Sample) -> None:
    if sample.name in ("http", "composite"):
        pytest.skip("its answers, or its parts, say it")
    with closing(open_feature_source(sample.name, {**sample.options, "valid_s": 7})) as source:
        items = source.find([{"device_id": "u1"}], deadline_s=SystemClock().monotonic_s() + 30)
    assert isinstance(items, FoundFeatures)
    assert items.valid_s == 7


def test_threads_do_not_see_each_others_items(sample: Sample) -> None:
    with ThreadPoolExecutor(12) as pool:
        users = [f"u{1 + number % 3}" for number in range(120)]
        answers = list(pool.map(lambda user: found(sample.source, user), users))
    assert answers == [[{"u1": U1, "u2": U2, "u3": 113}[user]] for user in users]


def _proxy(sample: Sample) -> FaultyProxy:
    if sample.proxy is None:
        pytest.skip("it has no server")
    return sample.proxy


# --- the sources ----------------------------------------------------------------------------------


@contextmanager
def _table(folder: Path) -> Iterator[Sample]:
    path = folder / "f.csv"
    lines = [f"{u},{row['x0'] or ''},{row['kind'] or ''}" for u, row in ROWS.items()]
    path.write_text("\n".join(["device_id,x0,kind", *lines, ""]))
    yield Sample("table", {"path": str(path), "ids": ["device_id"]})


_SQLITE = """
    SELECT x0, kind FROM f WHERE id = :device_id AND (id <> 'slow' OR 0 = (
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)
      SELECT max(i) FROM n))
"""


@contextmanager
def _sqlite(folder: Path) -> Iterator[Sample]:
    path = folder / "f.sqlite"
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("CREATE TABLE f (id TEXT, x0 REAL, kind TEXT)")
        link.executemany("INSERT INTO f VALUES (?, ?, ?)", _lines())
        link.execute("INSERT INTO f VALUES ('bad', x'00', 'c')")
    options = {"path": str(path), "query": _SQLITE, "timeout_ms": LIMIT_MS}
    yield Sample("sqlite", options, has_slow_id=True, bad_types=True)


_MYSQL = """
    SELECT x0, kind FROM f -- it's :not a parameter, and neither is ':this'
    WHERE id = :device_id AND CASE WHEN id = 'slow' THEN SLEEP(3) = 0 ELSE 1 END
"""


@contextmanager
def _mysql(folder: Path) -> Iterator[Sample]:
    with mysql_database() as database, FaultyProxy(database.port) as proxy:
        database.run("CREATE TABLE f (id VARCHAR(64) COLLATE utf8mb4_bin PRIMARY KEY,"
                     " x0 DECIMAL(9, 2), kind VARCHAR(8), more BLOB)",
                     f"INSERT INTO f VALUES {', '.join(_sql(line) for line in _lines())}",
                     "INSERT INTO f VALUES ('bad', 1, 'c', x'00')")  # fmt: skip
        query = _MYSQL.replace("x0, kind", "x0, kind, more")
        yield Sample(
            "mysql", _login(database, proxy.port, query=query), True, True, proxy,
            intact=lambda: database.run("SELECT COUNT(*) FROM f") == ((5,),),
        )  # fmt: skip


def _login(database: MysqlDatabase, port: int, **more: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1", "port": port, "user": database.user, "password": database.password,
        "database": database.database, "timeout_ms": LIMIT_MS, **more,
    }  # fmt: skip


def _sql(line: tuple[Any, ...]) -> str:
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in (*line, None)) + ")"


def _lines() -> list[tuple[Any, ...]]:
    return [(user, row["x0"], row["kind"]) for user, row in ROWS.items()]


@contextmanager
def _http(folder: Path) -> Iterator[Sample]:
    stop = Event()

    def look_up(ids: Mapping[str, Any]) -> Any:
        user = ids.get("device_id")
        if user == "slow":
            stop.wait(SLOW_S)
        if isinstance(user, float) and user.is_integer():
            user = int(user)
        text = str(user) if type(user) is int else user
        return {"x0": [1]} if text == "bad" else ROWS.get(text) if isinstance(text, str) else None

    with feature_service() as service, FaultyProxy(service.port) as proxy:
        service.look_up = look_up
        options = {
            "url": f"http://127.0.0.1:{proxy.port}/f", "timeout_ms": LIMIT_MS,
            "ids_per_call": 1, "calls": 20,
        }  # fmt: skip
        try:
            yield Sample("http", options, has_slow_id=True, bad_types=True, proxy=proxy)
        finally:
            stop.set()


@contextmanager
def _redis(folder: Path, value: str) -> Iterator[Sample]:
    with redis_server(folder) as port, FaultyProxy(port) as proxy, redis.Redis(port=port) as link:
        trap = {"x0": 99, "kind": "trap"}
        for user, row in {**ROWS, "u1:x": trap, "u1:x:row": trap, "*": trap, "\0": trap}.items():
            given = {name: one for name, one in row.items() if one is not None}
            if value == "hash":
                link.hset(f"row:{user}:row", mapping=given)
            else:
                link.set(f"row:{user}:row", json.dumps(row))
        link.rpush("row:bad:row", "x")
        keys = set(link.keys())
        options = {
            "port": proxy.port, "key": "row:{device_id}:row", "value": value,
            "timeout_ms": LIMIT_MS,
        }  # fmt: skip
        yield Sample(
            "redis", options, bad_types=True, proxy=proxy, intact=lambda: set(link.keys()) == keys
        )


def _redis_hash(folder: Path) -> Any:
    return _redis(folder, "hash")


def _redis_json(folder: Path) -> Any:
    return _redis(folder, "json")


@contextmanager
def _composite(folder: Path) -> Iterator[Sample]:
    table, path = folder / "f.csv", folder / "f.sqlite"
    table.write_text("\n".join(["device_id,KIND", *(f"{u},{r['kind'] or ''}"
                                                    for u, r in ROWS.items()), ""]))  # fmt: skip
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("CREATE TABLE f (id TEXT, x0 REAL)")
        link.executemany("INSERT INTO f VALUES (?, ?)", [line[:2] for line in _lines()])
    options = {"sources": [
        {"source": "table", "options": {
            "path": str(table), "ids": ["device_id"], "names": {"KIND": "kind"}}},
        {"source": "sqlite", "options": {
            "path": str(path), "query": _SQLITE.replace("x0, kind", "x0"),
            "timeout_ms": LIMIT_MS}},
    ]}  # fmt: skip
    yield Sample("composite", options, has_slow_id=True)


@contextmanager
def _names(folder: Path) -> Iterator[Sample]:
    path = folder / "f.csv"
    lines = [f"{u},{row['x0'] or ''},{row['kind'] or ''}" for u, row in ROWS.items()]
    path.write_text("\n".join(["device_id,X 0,kind", *lines, ""]))
    options = {"path": str(path), "ids": ["device_id"], "names": {"X 0": "x0", "none": "z"}}
    yield Sample("table", options)
