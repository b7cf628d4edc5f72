"""docs/migration.md names settings that exist, and every key of FATE's that does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedflow.base.errors.start import BadSetting
from fedflow.base.settings import Settings, parse_settings

PAGE = (Path(__file__).parents[3] / "docs" / "migration.md").read_text(encoding="utf-8")
_SETTING = re.compile(r"[a-z_]+(\.[a-z_]+)*")

FATE_1_11: dict[str, Any] = {
    "use_registry": False,
    "use_deserialize_safe_module": False,
    "dependent_distribution": False,
    "encrypt_password": False,
    "encrypt_module": "fate_arch.common.encrypt_utils#pwdecrypt",
    "private_key": None,
    "private_key_file": None,
    "party_id": None,
    "hook_module": {"permission": "fate_flow.hook.flow.permission"},
    "hook_server_name": None,
    "authentication": {
        "client": {"switch": False, "http_app_key": None, "http_secret_key": None},
        "site": {"switch": False},
    },
    "permission": {"switch": False, "component": False, "dataset": False},
    "fateflow": {
        "host": "127.0.0.1",
        "http_port": 9380,
        "grpc_port": 9360,
        "nginx": {"host": None, "http_port": None, "grpc_port": None},
        "random_instance_id": False,
        "proxy": "rollsite",
        "protocol": "default",
    },
    "database": {
        "name": "fate_flow", "user": "fate", "passwd": "fate", "host": "127.0.0.1", "port": 3306,
        "max_connections": 100, "stale_timeout": 30,
    },
    "zookeeper": {"hosts": ["127.0.0.1:2181"]},
    "default_engines": {"computing": "standalone"},
    "fate_on_standalone": {"standalone": {"cores_per_node": 20, "nodes": 1}},
    "fate_on_eggroll": {"clustermanager": {"cores_per_node": 16, "nodes": 1}},
    "fate_on_spark": {"pulsar": {"host": "192.168.0.5", "port": 6650}},
    "fateboard": {"host": "127.0.0.1", "port": 8080},
    "enable_model_store": False,
    "model_store_address": {
        "storage": "mysql", "name": "fate_model", "user": "fate", "passwd": "fate",
        "host": "127.0.0.1", "port": 3306,
    },
    "servings": {"hosts": ["127.0.0.1:8000"]},
    "fatemanager": {"host": "127.0.0.1", "port": 8001, "federatedId": 0},
}  # fmt: skip
"""The keys of FATE Flow's own file. Source: FATE Flow 1.11, service_conf.yaml."""


def rows(title: str) -> list[list[str]]:
    """Return the cells of the tables of one section, without their heads."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {at - 1 for at, row in enumerate(cells) if set(row[0]) == {"-"}}
    return [r for at, r in enumerate(cells) if at not in heads and set(r[0]) != {"-"}]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def settings_named() -> Iterator[str]:
    for given, ours, *note in rows("Settings"):
        yield from words(given if ours == "the same" else ours)
        yield from (word for cell in note for word in words(cell) if "." in word)


def exists(path: str) -> bool:
    """Tell whether a dotted path is a section or a key of the settings."""
    kind: Any = Settings
    for name in path.split("."):
        kinds = {f.name: f.type for f in msgspec.structs.fields(kind)} if _is_struct(kind) else {}
        if name not in kinds:
            return False
        kind = kinds[name]
    return True


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@pytest.mark.parametrize(
    "path", sorted({word for word in settings_named() if _SETTING.fullmatch(word)})
)
def test_every_setting_that_the_page_names_exists(path: str) -> None:
    assert exists(path)


def test_the_page_names_settings_at_all() -> None:
    assert {"database.engine", "routes", "scheduling.call_timeout_s"} <= set(settings_named())


def test_fates_own_file_is_refused_with_all_keys_to_take_out_and_the_page_names_each() -> None:
    with pytest.raises(BadSetting, match="no such keys") as caught:
        parse_settings(FATE_1_11)
    unknown = caught.value.fields["path"].split(", ")
    assert {"use_registry", "fateflow.nginx", "fate_on_eggroll", "hook_module"} <= set(unknown)
    explained = {word for given, *_ in rows("Settings") for word in words(given)}
    assert set(unknown) <= explained


def test_without_these_keys_and_with_an_engine_fates_file_is_good() -> None:
    with pytest.raises(BadSetting) as caught:
        parse_settings(FATE_1_11)
    values = {
        k: v for k, v in FATE_1_11.items() if k not in caught.value.fields["path"].split(", ")
    }
    listen = ("host", "http_port", "grpc_port")
    values["fateflow"] = {key: FATE_1_11["fateflow"][key] for key in listen}
    values["fate_on_spark"] = {}
    with pytest.raises(BadSetting, match="engine"):
        parse_settings(values)
    values["database"] = {**FATE_1_11["database"], "engine": "mysql"}
    settings = parse_settings(values)
    assert settings.database.max_connections == 100
    assert settings.authentication.client.http_app_key == ""
