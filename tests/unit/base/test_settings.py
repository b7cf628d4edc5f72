"""The settings: what is refused and where, and that the conf file tells of every one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import msgspec
import pytest
import yaml

from fedflow.base.errors.start import BadSetting
from fedflow.base.settings import Settings, parse_settings

CONF = Path(__file__).parents[3] / "conf" / "service_conf.yaml"


def leaves(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and default of every key that is no section."""
    for field in msgspec.structs.fields(kind):
        here = (*path, field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from leaves(field.type, here)
        elif get_origin(field.type) is not None and field.default is msgspec.NODEFAULT:
            yield here, field.default_factory()
        else:
            yield here, field.default


LEAVES = dict(leaves(Settings))


def at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def paths(values: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if not isinstance(values, dict) or not values:
        return {path}
    return {found for key, value in values.items() for found in paths(value, (*path, key))}


def test_the_conf_file_is_what_a_server_without_one_has() -> None:
    given = yaml.safe_load(CONF.read_text(encoding="utf-8"))
    assert parse_settings(given) == Settings() == parse_settings({})


def test_the_conf_file_has_every_setting_with_its_default_and_no_other() -> None:
    given = yaml.safe_load(CONF.read_text(encoding="utf-8"))
    assert paths(given) == LEAVES.keys()
    for path, default in LEAVES.items():
        expected = list(default) if isinstance(default, tuple) else default
        assert at(given, path) == expected, path


def test_every_key_of_the_conf_file_is_explained() -> None:
    """By a comment beside it, beside its section, or above it; names that say it all need none."""
    obvious = {"user", "passwd", "host", "port"}
    explained_by = {-1: False}  # by depth of indentation: a comment beside that key or above it
    above = False
    for line in CONF.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            above = line.startswith("#")
            continue
        depth = len(line) - len(line.lstrip())
        outer = max(d for d in explained_by if d < depth)
        explained = "#" in line or above or explained_by[outer]
        explained_by = {d: e for d, e in explained_by.items() if d < depth} | {depth: explained}
        key, value = line.split("#")[0].strip().split(":", 1)
        assert explained or not value or key in obvious, f"{key} is not explained"
        above = False


def test_party_ids_may_be_written_as_numbers() -> None:
    settings = parse_settings({"party_id": 9999, "routes": {10000: "127.0.0.1:9361"}})
    assert settings.party_id == "9999"
    assert settings.routes == {"10000": "127.0.0.1:9361"}


def test_whole_numbers_are_good_where_seconds_are_asked_for() -> None:
    assert parse_settings({"scheduling": {"lease_s": 8}}).scheduling.lease_s == 8.0


@pytest.mark.parametrize(
    ("values", "path", "reason"),
    [
        ({"nope": 1}, "nope", "no such key"),
        ({"fateflow": {"prot": 1}}, "fateflow.prot", "no such key"),
        ({"x": 1, "fateflow": {"prot": 1}, 7: 1}, "x, fateflow.prot, 7", "no such keys"),
        ({"servers": {"a": {"host": "h", "port": 1, "x": 1}}}, "servers[...].x", "no such key"),
        ({"database": {"user": "fate", "host": "db"}}, "database.engine", "mysql"),
        ({"authentication": {"client": {"x": 1}}}, "authentication.client.x", "no such key"),
        ({"fateflow": {"http_port": "9380"}}, "fateflow.http_port", "got `str`"),
        ({"fateflow": {"http_port": 65536}}, "fateflow.http_port", "<= 65535"),
        ({"fateflow": {"http_port": -1}}, "fateflow.http_port", ">= 0"),
        ({"fateflow": None}, "fateflow", "got `null`"),
        ({"party_id": True}, "party_id", "got `bool`"),
        ({"party_id": "99/99"}, "party_id", "not a party id"),
        ({"party_id": ""}, "party_id", "not a party id"),
        ({"insecure": "yes"}, "insecure", "got `str`"),
        ({"log": {"level": "LOUD"}}, "log.level", "LOUD"),
        ({"database": {"engine": "oracle"}}, "database.engine", "oracle"),
        ({"executor": {"memory_mib": 0}}, "executor.memory_mib", ">= 1"),
        ({"database": {"port": 70000}}, "database.port", "<= 65535"),
        ({"scheduling": {"lease_s": "long"}}, "scheduling.lease_s", "Expected `float`"),
        ({"scheduling": {"lease_s": -1}}, "scheduling.lease_s", "> 0"),
        ({"scheduling": {"lease_s": 0}}, "scheduling.lease_s", "> 0"),
        ({"scheduling": {"lease_s": float("nan")}}, "scheduling.lease_s", "> 0"),
        ({"scheduling": {"lease_s": float("inf")}}, "scheduling.lease_s", "<="),
        ({"scheduling": {"lease_s": True}}, "scheduling.lease_s", "got `bool`"),
        ({"upload": {"allowed_folders": "/data"}}, "upload.allowed_folders", "got `str`"),
        ({"storage": {"mysql_hosts": ["db"]}}, "storage.mysql_hosts", "not host:port"),
        ({"storage": {"mysql_hosts": ["u:p@db:1"]}}, "storage.mysql_hosts", "not host:port"),
        ({"storage": {"hive_hosts": ["http://db:1"]}}, "storage.hive_hosts", "not host:port"),
        ({"storage": {"s3_buckets": ["bucket"]}}, "storage.s3_buckets", "not s3://"),
        ({"storage": {"s3_buckets": ["http://u@h/b"]}}, "storage.s3_buckets", "not s3://"),
        ({"storage": {"s3_buckets": ["s3://b/a/../c"]}}, "storage.s3_buckets", "not s3://"),
        ({"storage": {"hdfs_folders": ["/a"]}}, "storage.hdfs_folders", "not hdfs://"),
        ({"storage": {"allowed_folders": ["a"]}}, "storage.allowed_folders", "absolute"),
        ({"routes": ["10000"]}, "routes", "got `array`"),
        ({"routes": {"10000": "nowhere"}}, "routes.10000", "not host:port"),
        ({"routes": {"10000": "127.0.0.1"}}, "routes.10000", "not host:port"),
        ({"routes": {"10000": "127.0.0.1:0"}}, "routes.10000", "not host:port"),
        ({"routes": {"10000": "127.0.0.1:65536"}}, "routes.10000", "not host:port"),
        ({"routes": {"10000": "http://a:1"}}, "routes.10000", "not host:port"),
        ({"routes": {"a b": "h:1"}}, "routes.a b", "not a party id"),
        ({"party_id": 1, "routes": {1: "h:1"}}, "routes.1", "own party"),
        ({"tls": {"ca": "a.pem"}}, "tls.certificate", "together"),
        ({"tls": {"ca": "a.pem", "certificate": "b.pem"}}, "tls.key", "together"),
        ({"authentication": {"client": {"switch": True}}}, "authentication.client", "switch"),
        ({"default_engines": {"computing": "spark"}}, "default_engines.computing", "no cluster"),
        ({"default_engines": {"computing": "eggroll"}}, "default_engines.computing", "eggroll"),
    ],
)
def test_a_wrong_setting_is_named_by_its_path(
    values: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_settings(values)
    assert caught.value.fields["path"] == path
    assert reason in str(caught.value.fields["reason"])


@pytest.mark.parametrize("address", ["127.0.0.1:9361", "host-1.example:1", "[::1]:65535"])
def test_routes_may_be_names_and_addresses_of_both_kinds(address: str) -> None:
    assert parse_settings({"routes": {"10000": address}}).routes == {"10000": address}


def test_places_of_storages_are_read() -> None:
    given = {
        "mysql_hosts": ["db:3306", "*.example.com:*", "[::1]:3306"],
        "s3_buckets": ["s3://b", "s3://b/folder", "http://h:9000/b/x", "https://[::1]/b"],
        "hdfs_folders": ["hdfs://nn:8020/a"],
        "allowed_folders": ["/data"],
    }
    found = parse_settings({"storage": given}).storage
    assert list(found.mysql_hosts) == given["mysql_hosts"]
    assert list(found.s3_buckets) == given["s3_buckets"]


def test_a_text_that_is_left_blank_is_the_default() -> None:
    keys = {"switch": False, "http_app_key": None, "http_secret_key": None}
    values = {"authentication": {"client": keys}, "fateflow": {"host": None}}
    assert parse_settings(values) == Settings()


def test_parsing_leaves_what_it_was_given_alone() -> None:
    given = {"party_id": 9999, "routes": {10000: "h:1"}}
    parse_settings(given)
    assert given == {"party_id": 9999, "routes": {10000: "h:1"}}


def test_every_field_has_its_unit_in_its_name_or_a_comment() -> None:
    for path, default in LEAVES.items():
        if isinstance(default, float):
            assert re.search(r"_s$|_percent_", path[-1]), f"{'.'.join(path)}: seconds end in _s"


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"retention": {"status": ["done"]}}, "known are success, failed, canceled, timeout"),
        ({"log": {"level": "TRACE"}}, "known are DEBUG, INFO, WARNING, ERROR"),
        ({"servers": {"a": {"protocol": "ftp"}}}, "known are http, https"),
        ({"model_store_address": {"storage": "tape"}}, "known are mysql, folder, s3"),
    ],
)
def test_a_word_that_is_no_choice_is_refused_with_those_that_are(
    values: dict[str, Any], known: str
) -> None:
    with pytest.raises(BadSetting, match=known):
        parse_settings(values)
