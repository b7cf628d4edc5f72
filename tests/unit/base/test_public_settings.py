"""Which settings people see."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fedflow.base.public_settings import HIDDEN, SHOWN, shown_settings
from fedflow.base.settings import Settings, parse_settings


def _leaves(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _leaves(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def test_it_was_decided_for_every_setting_whether_people_see_it() -> None:
    assert sorted((*SHOWN, *HIDDEN)) == sorted(_leaves(Settings))


def test_no_setting_whose_name_sounds_secret_is_shown() -> None:
    words = ("passwd", "password", "secret", "token", "user", "app_key", "certificate")
    assert [p for p in SHOWN if any(w in p for w in words) or p.endswith(".key")] == []


def test_values_are_shown_as_in_the_conf_and_credentials_in_addresses_are_not() -> None:
    given = {
        "party_id": "9999",
        "routes": {"10000": "127.0.0.1:9361"},
        "fate_on_spark": {
            "spark": {"master": "spark://h:7077", "tables_uri": "hdfs://me:pw@namenode/x"}
        },
        "storage": {"s3_buckets": ["s3://bucket/a"]},
    }
    shown = {one.path: one for one in shown_settings(parse_settings(given))}
    assert shown["party_id"].value == "9999"
    assert not shown["party_id"].is_default
    assert shown["routes"].value == '{"10000":"127.0.0.1:9361"}'
    assert shown["fate_on_spark.spark.tables_uri"].value == "hdfs://***@namenode/x"
    assert shown["storage.s3_buckets"].value == '["s3://bucket/a"]'
    assert shown["log.level"].is_default
    assert shown["board.sign_in"].value == "null"
