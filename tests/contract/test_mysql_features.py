"""The feature source `mysql` at a real server: types of ids, its start, and what it may not do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.sources.source import FeatureFault, FeatureSource, open_feature_source
from tests.storage_servers import MysqlDatabase, mysql_database


@pytest.fixture(scope="module")
def database() -> Iterator[MysqlDatabase]:
    with mysql_database() as database:
        database.run(
            "CREATE TABLE f (id VARCHAR(64) CHARACTER SET latin1, n BIGINT, day DATE, x DOUBLE)",
            "INSERT INTO f VALUES ('u1', 9007199254740993, '2026-11-28', 1.5)",
            "INSERT INTO f VALUES ('8', 8, NULL, 2), ('twice', 3, NULL, 3), ('twice', 3, NULL, 4)",
        )
        yield database


def opened(database: MysqlDatabase, query: str, /, **more: Any) -> FeatureSource:
    options = {
        "host": database.host, "port": database.port, "user": database.user,
        "password": database.password, "database": database.database, "query": query, **more,
    }  # fmt: skip
    return open_feature_source("mysql", options)


def found(source: FeatureSource, *users: Any) -> list[Any]:
    items = source.find([{"id": user} for user in users], deadline_s=1e12)
    return [one.retcode if isinstance(one, FeatureFault) else one for one in items]


def test_a_number_is_compared_with_texts_as_it_is_written(database: MysqlDatabase) -> None:
    with closing(opened(database, "SELECT x FROM f WHERE id = :id")) as source:
        assert found(source, 8, 0, "twice", "你") == [{"x": 2.0}, 113, 116, 102]


def test_a_text_that_is_no_number_is_none_although_the_server_would_cut_it(
    database: MysqlDatabase,
) -> None:
    with closing(opened(database, "SELECT x FROM f WHERE n = :id")) as source:
        users = ("8", 8, "8abc", "abc", 9007199254740993, 9007199254740992, 2**80)
        assert found(source, *users) == [{"x": 2.0}, {"x": 2.0}, 102, 102, {"x": 1.5}, 113, 113]


def test_many_ids_are_asked_together_and_each_has_its_own_answer(database: MysqlDatabase) -> None:
    users = ["u1", "8", "none", "twice", None, "x" * 2_000, "ü"] * 20
    expected = [{"x": 1.5}, {"x": 2.0}, 113, 116, 102, 102, 113] * 20
    for query in (
        "SELECT x FROM f WHERE id = :id",
        "SELECT x FROM f WHERE id = :id ORDER BY n LIMIT 5; -- :id",
        "(SELECT x FROM f WHERE id = :id)",
        "SELECT x, x FROM f WHERE id = :id AND id = :id",  # no table has two columns of one name
    ):
        with closing(opened(database, query)) as source:
            for _ in range(2):
                assert found(source, *users) == expected, query


def test_an_id_that_the_server_would_cut_fails_alone_among_many(database: MysqlDatabase) -> None:
    with closing(opened(database, "SELECT x FROM f WHERE n = :id")) as source:
        found(source, 8)
        assert found(source, *[8] * 20, "8abc", *[8] * 20) == [
            *[{"x": 2.0}] * 20, 102, *[{"x": 2.0}] * 20,
        ]  # fmt: skip


def test_dates_are_texts_and_an_id_may_stand_twice(database: MysqlDatabase) -> None:
    query = "SELECT day, CAST(x AS DECIMAL(9, 3)) AS x, :id AS same FROM f WHERE id = :id"
    with closing(opened(database, query)) as source:
        assert found(source, "u1") == [{"day": "2026-11-28", "x": 1.5, "same": "u1"}]


def test_a_query_may_not_write(database: MysqlDatabase) -> None:
    with closing(opened(database, "DELETE FROM f WHERE id = :id")) as source:
        assert found(source, "u1") == [116]
    assert database.run("SELECT COUNT(*) FROM f") == ((4,),)


@pytest.mark.parametrize(
    ("query", "more", "path"),
    [
        ("SELECT y FROM f WHERE id = :id", {}, "features.options"),
        ("SELEKT x FROM f WHERE id = :id", {}, "features.options"),
        ("SELECT x FROM f; DROP TABLE f", {}, "features.options"),
        ("SELECT x FROM g WHERE id = :id", {}, "features.options"),
        ("SELECT x FROM f WHERE id = ?", {}, "features.options.query"),
        ("SELECT 1", {"database": "fedflow_test_none"}, "features.options"),
        ("SELECT 1", {"connections": 0}, "features.options.connections"),
        ("SELECT 1", {"ca": "/none.pem"}, "features.options.ca"),
    ],
)
def test_what_the_server_refuses_stops_the_start(
    database: MysqlDatabase, query: str, more: dict[str, Any], path: str
) -> None:
    with pytest.raises(BadServingSetting) as caught:
        opened(database, query, **more)
    assert caught.value.fields["path"] == path


def test_a_server_that_cannot_be_reached_does_not_stop_the_start(
    database: MysqlDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        with closing(opened(database, "SELECT 1", port=9, timeout_ms=200)) as source:
            assert found(source, "u1") == [116]
    assert "cannot be reached now" in caplog.text


def test_there_are_no_more_connections_than_the_setting_allows(database: MysqlDatabase) -> None:
    query = "SELECT CONNECTION_ID() AS link, SLEEP(0.02) AS slept WHERE :id <> ''"
    with closing(opened(database, query, connections=2)) as source:
        with ThreadPoolExecutor(6) as pool:
            rows = list(pool.map(lambda _: found(source, "u1")[0]["link"], range(24)))
    assert len(set(rows)) == 2
