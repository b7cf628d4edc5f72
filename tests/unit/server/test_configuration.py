"""Where settings come from, which source wins, and which listeners are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.start import BadSetting, ListenerNotSafe
from fedflow.base.settings import Settings
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.server.adapters import (
    applications_of,
    engines_of,
    register_engines,
    timing_of,
    web_settings,
)
from fedflow.server.configuration import load_settings
from tests.memory_store import MemoryStore

TLS = {"ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"}
KEYS = {"client": {"switch": True, "http_app_key": "a", "http_secret_key": "s"}}


def load(
    conf: Path | None = None, *, environment: dict[str, str] | None = None, **overrides: Any
) -> Settings:
    return load_settings(conf, environment=environment or {}, overrides=overrides)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "conf.yaml"
    path.write_text(
        "party_id: 9999\nfateflow:\n  http_port: 1\n  grpc_port: 2\nroutes:\n  10000: a:1\n",
        encoding="utf-8",
    )
    return path


def test_without_any_source_everything_is_the_default() -> None:
    assert load() == Settings()


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(conf: Path) -> None:
    environment = {"FEDFLOW__FATEFLOW__HTTP_PORT": "11", "FEDFLOW__FATEFLOW__GRPC_PORT": "12"}
    settings = load(conf, environment=environment, fateflow={"grpc_port": 22})
    assert settings.party_id == "9999"
    assert (settings.fateflow.http_port, settings.fateflow.grpc_port) == (11, 22)


def test_routes_of_all_sources_are_joined(conf: Path) -> None:
    settings = load(
        conf, environment={"FEDFLOW__ROUTES__10001": "b:2"}, routes={"10002": "c:3", "10000": "d:4"}
    )
    assert settings.routes == {"10000": "d:4", "10001": "b:2", "10002": "c:3"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("FEDFLOW__INSECURE", "true", True),
        ("FEDFLOW__PARTY_ID", "10000", "10000"),
        ("FEDFLOW__PARTY_ID", "null", None),
    ],
)
def test_values_of_the_environment_are_yaml(name: str, text: str, expected: Any) -> None:
    key = name.removeprefix("FEDFLOW__").lower()
    assert getattr(load(environment={name: text}), key) == expected


def test_lists_may_come_from_the_environment() -> None:
    settings = load(environment={"FEDFLOW__UPLOAD__ALLOWED_FOLDERS": "[/data, /more]"})
    assert settings.upload.allowed_folders == ("/data", "/more")


def test_other_variables_are_none_of_its_business() -> None:
    assert load(environment={"FEDFLOW_HOME": "/x", "HOME": "/y", "FEDFLOW_SERVER": "z"}) == load()


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"FEDFLOW__NOPE": "1"}, "nope"),
        ({"FEDFLOW__FATEFLOW__PROT": "1"}, "fateflow.prot"),
        ({"FEDFLOW__LOG__LEVEL": "[unclosed"}, "FEDFLOW__LOG__LEVEL"),
        ({"FEDFLOW__LOG": "x", "FEDFLOW__LOG__LEVEL": "INFO"}, "FEDFLOW__LOG__LEVEL"),
        ({"FEDFLOW__LOG": "x"}, "log"),
    ],
)
def test_a_wrong_variable_is_named(environment: dict[str, str], path: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load(environment=environment)
    assert caught.value.fields["path"] == path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"- a\n- b\n", "keys and values"),
        (b"a: [\n", "not YAML"),
        (b"a: \xff\xfe\n", "not YAML"),
        (b"just text", "keys and values"),
        (b"a: !!python/object/apply:os.system [x]\n", "not YAML"),
    ],
)
def test_a_file_that_is_no_conf_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "conf.yaml"
    path.write_bytes(content)
    with pytest.raises(BadSetting) as caught:
        load(path)
    assert caught.value.fields["path"] == str(path)
    assert reason in caught.value.fields["reason"]


def test_a_file_that_is_not_there_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="No such file"):
        load(tmp_path / "missing.yaml")
    empty = tmp_path / "empty.yaml"
    empty.write_text("# nothing\n", encoding="utf-8")
    assert load(empty) == Settings()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_no_protection(host: str) -> None:
    assert load(fateflow={"host": host}).fateflow.host == host


@pytest.mark.parametrize(
    ("overrides", "listener", "missing"),
    [
        ({"fateflow": {"host": "0.0.0.0"}}, "The gRPC server", "TLS"),
        ({"fateflow": {"grpc_host": "10.0.0.1"}}, "The gRPC server", "TLS"),
        ({"fateflow": {"host": "0.0.0.0"}, "tls": TLS}, "The REST API", "authentication.client"),
        (
            {"fateflow": {"host": "0.0.0.0"}, "tls": TLS, "authentication": KEYS},
            "The REST API",
            "http_behind_tls_proxy",
        ),
        ({"fateflow": {"host": "::", "grpc_host": "::1"}}, "The REST API", "authentication"),
        ({"fateflow": {"host": "127.0.0.1.example"}}, "The gRPC server", "TLS"),
        (
            {
                "fateflow": {"host": "0.0.0.0", "http_behind_tls_proxy": True},
                "tls": TLS,
                "authentication": KEYS,
                "board": {"sign_in": False},
            },
            "The board",
            "board.sign_in",
        ),
    ],
)
def test_a_listener_that_others_could_reach_unprotected_is_refused(
    overrides: dict[str, Any], listener: str, missing: str
) -> None:
    with pytest.raises(ListenerNotSafe) as caught:
        load(**overrides)
    assert caught.value.fields["listener"] == listener
    assert missing in caught.value.fields["missing"]
    assert load(insecure=True, **overrides).insecure


def test_protected_listeners_are_good() -> None:
    behind = {"host": "0.0.0.0", "http_behind_tls_proxy": True}
    assert load(fateflow=behind, tls=TLS, authentication=KEYS).tls.on
    assert load(fateflow={"grpc_host": "0.0.0.0"}, tls=TLS).fateflow.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("sign_in", "switch", "asks"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_people_sign_in_as_clients_do_unless_the_conf_says_else(
    sign_in: bool | None, switch: bool, asks: bool
) -> None:
    client = {**KEYS["client"], "switch": switch}
    settings = load(board={"sign_in": sign_in}, authentication={"client": client})
    board = web_settings(settings).board
    assert board is not None
    assert board.asks is asks


@pytest.mark.parametrize("name", ["", "a b", "http://board.example", "board.example:80", "*"])
def test_what_is_no_host_is_no_name_of_the_board(name: str) -> None:
    with pytest.raises(BadSetting, match=r"board\.host_names"):
        load(board={"host_names": [name]})


def test_seconds_of_the_settings_become_the_times_of_scheduling() -> None:
    timing = timing_of(load(scheduling={"lease_s": 8, "heartbeat_s": 0.25, "stop_grace_s": 1}))
    assert (timing.lease_ms, timing.heartbeat_ms, timing.stop_grace_s) == (8_000, 250, 1.0)
    assert timing_of(Settings()).lease_ms == 60_000


# --- engines --------------------------------------------------------------------------------------


def test_a_server_has_its_machine_and_the_cluster_that_the_conf_names() -> None:
    cluster = {"spark": {"master": "spark://h:7077", "cores_per_node": 5, "nodes": 3}}
    assert engines_of(load()) == OwnEngines()
    assert engines_of(load(fate_on_spark=cluster)) == OwnEngines(spark=True)
    by_default = load(fate_on_spark=cluster, default_engines={"computing": "spark"})
    assert engines_of(by_default) == OwnEngines(default=SPARK, spark=True)


def test_a_cluster_that_the_conf_does_not_name_any_more_has_no_cores() -> None:
    store = MemoryStore()
    cluster = {"spark": {"master": "spark://h:7077", "cores_per_node": 5, "nodes": 3}}

    def cores(**conf: Any) -> dict[str, int | None]:
        register_engines(load(**conf), store, 1)
        with store.read() as tx:
            found = {name: tx.engines.get(name) for name in (STANDALONE, SPARK)}
        return {name: engine.cores if engine else None for name, engine in found.items()}

    assert cores() == {STANDALONE: 20, SPARK: None}
    assert cores(fate_on_spark=cluster) == {STANDALONE: 20, SPARK: 15}
    assert cores() == {STANDALONE: 20, SPARK: 0}


def test_what_applications_left_is_removed_when_the_conf_names_no_cluster_any_more(
    tmp_path: Path,
) -> None:
    folders = Folders(tmp_path)
    assert applications_of(load(), folders) is None
    left = folders.spark / "202611220001-guest-9999.1"
    left.mkdir(parents=True)
    applications = applications_of(load(), folders)
    assert applications is not None
    applications.open()
    applications.close()
    assert not left.exists()
