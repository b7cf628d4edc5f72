"""Addresses of storages: what is read of a request, kept, shown and allowed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.decoding import decode_as
from fedflow.base.errors.data import (
    BadStorage,
    ConnectorMismatch,
    QueryNotAllowed,
    StorageNotAllowed,
)
from fedflow.domain.data.select_query import LONGEST, check_select
from fedflow.domain.data.storage_places import Places, check_place
from fedflow.domain.data.storages import (
    ENGINES,
    Bound,
    Connection,
    HdfsFiles,
    HiveRows,
    LocalFiles,
    MysqlRows,
    PathFile,
    S3Files,
    Secrets,
    bound_from_json,
    bound_to_json,
    check_connector_info,
    completed,
    connection_without_secrets,
    is_bound,
    own_members,
    parse_address,
    place_text,
    secret_info,
    secrets_of,
    shown_address,
)

MYSQL = {"host": "h", "db": "d", "name": "t"}
ADDRESSES = [
    PathFile(path="/a"),
    LocalFiles(path="/a/*.csv", format="csv"),
    S3Files(bucket="bbb", path="a", endpoint="http://h:1", region="r"),
    HdfsFiles(name_node="hdfs://h:1", path="/a"),
    MysqlRows(host="h", db="d", query="SELECT 1"),
    HiveRows(host="h", name="t"),
]


# --- reading --------------------------------------------------------------------------------------


def test_fates_address_of_mysql_is_read_and_its_secrets_set_apart() -> None:
    given = {"user": "u", "passwd": "p", "host": "db.example.com", "port": "3307", **MYSQL}
    address, secrets = parse_address("MYSQL", {**given, "connector_name": None})
    assert address == MysqlRows(host="h", port=3307, db="d", name="t")
    assert secrets == Secrets(user="u", password="p")
    assert "p" not in repr(secrets).removeprefix("Secrets")


def test_numbers_stand_for_texts_and_texts_for_ports() -> None:
    address, secrets = parse_address("HIVE", {"host": "h", "name": 7, "port": 1, "password": 5})
    assert address == HiveRows(host="h", name="7", port=1)
    assert secrets == Secrets(password="5")


@pytest.mark.parametrize(
    ("engine", "given", "path"),
    [
        ("MYSQL", {**MYSQL, "host": None}, "$.address.host"),
        ("MYSQL", {**MYSQL, "host": "h/../x"}, "$.address.host"),
        ("MYSQL", {**MYSQL, "host": "u:p@h"}, "$.address.host"),
        ("MYSQL", {**MYSQL, "host": "h\nx"}, "$.address.host"),
        ("MYSQL", {**MYSQL, "port": 70_000}, "$.address.port"),
        ("MYSQL", {**MYSQL, "port": "x"}, "$.address.port"),
        ("MYSQL", {**MYSQL, "port": True}, "$.address.port"),
        ("MYSQL", {**MYSQL, "db": ["d"]}, "$.address.db"),
        ("MYSQL", {**MYSQL, "db": ""}, "$.address.db"),
        ("MYSQL", {**MYSQL, "name": "n" * 65}, "$.address.name"),
        ("MYSQL", {**MYSQL, "query": "SELECT 1"}, "$.address"),
        ("MYSQL", {"host": "h", "db": "d"}, "$.address"),
        ("MYSQL", {**MYSQL, "init_command": "DROP TABLE t"}, "$.address.init_command"),
        ("MYSQL", {**MYSQL, "local_infile": 1}, "$.address.local_infile"),
        ("MYSQL", {**MYSQL, "unix_socket": "/run/x"}, "$.address.unix_socket"),
        ("MYSQL", {**MYSQL, "passwd": {"a": 1}}, "$.address.passwd"),
        ("MYSQL", {**MYSQL, "passwd": "a\0b"}, "$.address.passwd"),
        ("HIVE", {"host": "h", "name": "csv.`/etc/passwd`"}, "$.address.name"),
        ("HIVE", {"host": "h", "name": "t", "auth_mechanism": "x;y"}, "$.address.auth_mechanism"),
        ("LOCALFS", {"path": "a/b"}, "$.address.path"),
        ("LOCALFS", {"path": "/a/../b"}, "$.address.path"),
        ("LOCALFS", {"path": "/a//b"}, "$.address.path"),
        ("LOCALFS", {"path": "/a/**"}, "$.address.path"),
        ("LOCALFS", {"path": "/a", "format": "pickle"}, "$.address.format"),
        ("LOCALFS", {"path": "file:///a"}, "$.address.path"),
        ("S3", {"bucket": "b/c"}, "$.address.bucket"),
        ("S3", {"bucket": "bbb", "path": "/a"}, "$.address.path"),
        ("S3", {"bucket": "bbb", "path": "a/.."}, "$.address.path"),
        ("S3", {"bucket": "bbb", "endpoint": "http://u:p@h"}, "$.address.endpoint"),
        ("S3", {"bucket": "bbb", "endpoint": "http://h/path"}, "$.address.endpoint"),
        ("S3", {"bucket": "bbb", "endpoint": "file:///x"}, "$.address.endpoint"),
        ("S3", {"bucket": "bbb", "access_key": "k"}, "$.address.secret_key"),
        ("S3", {"bucket": "bbb", "secret_key": "s"}, "$.address.access_key"),
        ("S3", {"bucket": "bbb", "session_token": "t"}, "$.address.access_key"),
        ("S3", {"bucket": "bbb", "access_key": "", "secret_key": "s"}, "$.address.access_key"),
        ("HDFS", {"name_node": "hdfs://u:p@h", "path": "/a"}, "$.address.name_node"),
        ("HDFS", {"name_node": "http://h", "path": "/a"}, "$.address.name_node"),
        ("HDFS", {"name_node": "hdfs://h", "path": "a"}, "$.address.path"),
    ],
)
def test_a_wrong_address_is_refused_with_the_path_of_the_wrong_member(
    engine: str, given: dict[str, Any], path: str
) -> None:
    with pytest.raises(BadStorage) as info:
        parse_address(engine, given)
    assert info.value.fields["path"] == path


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda a: str(a.engine))
def test_connections_and_bound_tables_survive_json(address: Any) -> None:
    connection = Connection(
        address=address, secrets=Secrets(user="u", password="p"), id_column="i",
        feature_columns=("b", "a"), roots=("/r",),
    )  # fmt: skip
    assert decode_as(msgspec.json.encode(connection), Connection) == connection
    bound = Bound(address=address, connector="c", id_column="i", feature_columns=("b",))
    stored = json.loads(json.dumps(bound_to_json(bound)))
    assert bound_from_json(stored) == bound
    assert is_bound(address.engine, stored)
    assert connection_without_secrets(None, stored).address == address
    assert address.engine in ENGINES
    assert place_text(address)


def test_tables_of_jobs_are_not_bound() -> None:
    assert not is_bound("STANDALONE", None)
    assert not is_bound("LOCALFS", {"parts": "/x"})
    assert is_bound("PATH", None)
    with pytest.raises(BadStorage):
        bound_from_json({"parts": "/x"})


# --- connectors -----------------------------------------------------------------------------------


def test_a_connector_completes_an_address() -> None:
    info = {"host": "h", "user": "u", "passwd": "p"}
    given = {"connector_name": "c", "db": "d", "name": "t", "port": None}
    whole = completed(given, info, connector="c")
    assert parse_address("MYSQL", whole)[0] == MysqlRows(host="h", db="d", name="t")


@pytest.mark.parametrize(
    "member",
    [{"host": "evil"}, {"port": 1}, {"endpoint": "http://evil"}, {"name_node": "hdfs://evil"},
     {"passwd": "x"}, {"user": "root"}, {"db": "other"}],
)  # fmt: skip
def test_nobody_sends_a_connectors_credentials_elsewhere(member: dict[str, Any]) -> None:
    info = {"user": "u", "passwd": "p", "db": "d"}
    with pytest.raises(ConnectorMismatch):
        completed({"connector_name": "c", "name": "t", **member}, info, connector="c")


def test_what_a_connector_says_now_counts_not_what_it_said() -> None:
    address = MysqlRows(host="old", port=1, db="d", name="t")
    bound = Bound(address=address, connector="c")
    info = {"host": "new", "passwd": "p"}
    own = own_members(bound, info)
    assert own == {"db": "d", "name": "t", "connector_name": "c"}
    again, _ = parse_address("MYSQL", completed(own, info, connector="c"))
    assert again == MysqlRows(host="new", db="d", name="t")


def test_an_address_is_shown_without_secrets() -> None:
    bound = Bound(address=MysqlRows(**MYSQL), connector="c")
    assert shown_address(bound) == {**MYSQL, "port": 3306, "connector_name": "c"}
    hidden = Bound(address=MysqlRows(**MYSQL), connector=".0123")
    assert shown_address(hidden) == {**MYSQL, "port": 3306}


@pytest.mark.parametrize(
    ("engine", "info", "path"),
    [
        ("MYSQL", {"password_file": "/x"}, "$.i.password_file"),
        ("MYSQL", {"passwd": []}, "$.i.passwd"),
        ("MYSQL", {"host": {"a": 1}}, "$.i.host"),
        ("S3", {"passwd": "x"}, "$.i.passwd"),
    ],
)
def test_members_of_connectors_are_those_of_addresses(
    engine: str, info: dict[str, Any], path: str
) -> None:
    with pytest.raises(BadStorage) as caught:
        check_connector_info(engine, info, at="$.i")
    assert caught.value.fields["path"] == path
    check_connector_info("LINKIS_HIVE", info, at="$.i")


def test_secrets_go_into_a_connector_and_out_of_it() -> None:
    for engine, secrets in (
        ("MYSQL", Secrets(user="u", password="p")),
        ("HIVE", Secrets(user="u", password="p")),
        ("S3", Secrets(access_key="a", secret_key="s", session_token="t")),
        ("HDFS", Secrets(user="u")),
    ):
        info = secret_info(engine, secrets)
        check_connector_info(engine, info, at="$")
        assert secrets_of(engine, info) == secrets
    assert secret_info("MYSQL", Secrets(user="u", password="p")) == {"user": "u", "passwd": "p"}


# --- places ---------------------------------------------------------------------------------------

PLACES = Places(
    mysql_hosts=("db.example.com:3306", "*.inner:*", "[::1]:3306"),
    hive_hosts=("hive:10000",),
    s3_buckets=("s3://ours/data", "http://store:9000/b"),
    hdfs_folders=("hdfs://nn:8020/warehouse/",),
)


@pytest.mark.parametrize(
    "address",
    [
        MysqlRows(host="DB.example.com", db="d", name="t"),
        MysqlRows(host="a.inner", port=1, db="d", name="t"),
        MysqlRows(host="::1", db="d", name="t"),
        HiveRows(host="hive", name="t"),
        S3Files(bucket="ours", path="data/x"),
        S3Files(bucket="ours", path="data"),
        S3Files(bucket="b", endpoint="http://store:9000/"),
        HdfsFiles(name_node="hdfs://nn:8020/", path="/warehouse/t"),
    ],
)
def test_a_place_on_the_list_is_allowed(address: Any) -> None:
    check_place(address, PLACES)
    with pytest.raises(StorageNotAllowed, match=r"storage\."):
        check_place(address, Places())


@pytest.mark.parametrize(
    "address",
    [
        MysqlRows(host="db.example.com", port=3307, db="d", name="t"),
        MysqlRows(host="xdb.example.com", db="d", name="t"),
        MysqlRows(host="dbxexample.com", db="d", name="t"),
        MysqlRows(host="inner", db="d", name="t"),
        HiveRows(host="hive", port=1, name="t"),
        S3Files(bucket="ours", path="database"),
        S3Files(bucket="ours", path=""),
        S3Files(bucket="ours", path="da*"),
        S3Files(bucket="ours", path="data", endpoint="http://store:9000"),
        S3Files(bucket="b"),
        S3Files(bucket="b", endpoint="https://store:9000"),
        HdfsFiles(name_node="hdfs://nn:8020", path="/warehouse2"),
        HdfsFiles(name_node="hdfs://nn:8021", path="/warehouse"),
    ],
)
def test_a_place_beside_the_list_is_refused(address: Any) -> None:
    with pytest.raises(StorageNotAllowed):
        check_place(address, PLACES)


def test_a_pattern_of_addresses_names_no_host() -> None:
    places = Places(mysql_hosts=("10.0.*:3306", "192.168.*.7:*"))
    for host, port in (("10.0.3.4", 3306), ("192.168.1.7", 1)):
        check_place(MysqlRows(host=host, port=port, db="d", name="t"), places)
    for host in ("10.0.evil.com", "10.0.3.4.evil.com", "192.168.evil.7"):
        with pytest.raises(StorageNotAllowed):
            check_place(MysqlRows(host=host, db="d", name="t"), places)


# --- queries --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t",
        "(SELECT 1 AS a) UNION (SELECT 2)",
        "  select a, b\nfrom `t;x` where c = 'drop -- table' ; ",
        "WITH x AS (SELECT 1 AS a) SELECT a FROM x",
        "SELECT \"it\"\"s\", 'it''s', x.`update`, `sleep` FROM x",
        "SELECT COUNT(*) FROM t GROUP BY updated, loaded HAVING SUM(a) > 1 ORDER BY 1 LIMIT 3",
        "SELECT größe FROM t WHERE name IN ('a', 'b') -1",
    ],
)
def test_one_select_passes(query: str) -> None:
    check_select(query, path="$")


@pytest.mark.parametrize(
    "query",
    [
        "",
        ";",
        "SELECT 1; DROP TABLE t",
        "SELECT 1;;",
        "DELETE FROM t",
        "SELECT 1) AS x, (SELECT 2",
        "SELECT (1",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT 1 into dumpfile '/tmp/x'",
        "SELECT 1 INTO @a",
        "SELECT @@version",
        "SELECT @a",
        "SELECT LOAD_FILE('/etc/passwd')",
        "SELECT `load_file`('/etc/passwd')",
        "SELECT `sleep` (9)",
        "SELECT SLEEP(100)",
        "SELECT spider_direct_sql('SELECT 1', '', 'host \"inner\"')",
        "SELECT SOURCE_POS_WAIT('f', 4)",
        "SELECT benchmark(1e9, md5('a'))",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t FOR SHARE",
        "SELECT * FROM t LOCK IN SHARE MODE",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "WITH x",
        "SELECT 1 -- x",
        "SELECT 1 # x",
        "SELECT 1 /* x */",
        "SELECT 1 /*!50000 INTO OUTFILE '/x' */",
        "SELECT '\\' INTO OUTFILE ', '/tmp/x'",
        "SELECT 'open",
        "SELECT `open",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT TRANSFORM(a) USING 'sh' FROM t",
        "SELECT " + "1," * LONGEST + "1",
        "HANDLER t OPEN",
        "CALL p()",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
    ],
)
def test_what_is_no_single_select_is_refused(query: str) -> None:
    with pytest.raises(QueryNotAllowed):
        check_select(query, path="$.address.query")


@given(st.text(alphabet="'\"`\\;-#/*@ ()aA1\n", max_size=40))
def test_a_passed_query_has_no_semicolon_or_comment_outside_of_closed_quotes(rest: str) -> None:
    query = f"SELECT {rest}"
    try:
        check_select(query, path="$")
    except QueryNotAllowed:
        return
    outside, quote = "", ""
    for c in query.strip().removesuffix(";"):
        if quote:
            quote, outside = ("", f"{outside}q") if c == quote else (quote, outside)
        elif c in "'\"`":
            quote = c
        else:
            outside += c
    assert not quote
    assert not any(mark in outside for mark in (";", "#", "/*", "--", "@"))
