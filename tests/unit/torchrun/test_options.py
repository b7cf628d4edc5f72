"""What the options of torchrun become."""

from __future__ import annotations

import tomllib
from importlib import import_module
from typing import Any

import pytest

from fedflow.base.errors.start import NotOverExchange
from fedflow.elastic.state import RendezvousSettings
from fedflow.torchrun.options import Options, read_options
from tests.unit.docs.markdown import ROOT


def options(endpoint: str = "fed.example.org:9380", **config: Any) -> Options:
    return read_options(
        endpoint, "r", min_nodes=1, max_nodes=3, local_addr=None, config=config
    )  # fmt: skip


def test_what_is_not_said_has_torchs_defaults() -> None:
    found = options(rank=0, timeout=900)  # these two torchrun adds itself
    assert found == Options(
        host="fed.example.org", port=9380, local_address=None,
        settings=RendezvousSettings(run_id="r", min_members=1, max_members=3),
    )  # fmt: skip


def test_every_key_of_the_documentation_is_read() -> None:
    found = options(
        join_timeout="9", last_call_timeout="0", close_timeout="8", keep_alive_interval="0.5",
        keep_alive_max_attempt="4", heartbeat_timeout="7", reconnect_timeout="6",
        connect_timeout="5", app_key="k", secret="s",
        job_id="1", transport="grpc", party_id="9999", ca="a", certificate="b", key="c",
    )  # fmt: skip
    assert found.settings == RendezvousSettings(
        run_id="r", min_members=1, max_members=3, join_timeout_s=9, last_call_s=0,
        close_timeout_s=8, keep_alive_interval_s=0.5, keep_alive_attempts=4, heartbeat_timeout_s=7,
    )  # fmt: skip
    assert (found.transport, found.party_id, found.server_party) == ("grpc", "9999", "9999")
    assert (found.connect_timeout_s, found.reconnect_timeout_s) == (5, 6)
    assert (found.app_key, found.job_id) == ("k", "1")


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("h", ("h", 9380)), ("h:1", ("h", 1)), ("[::1]:2", ("::1", 2)), ("[::1]", ("::1", 9380)),
    ],
)  # fmt: skip
def test_an_endpoint_is_host_and_port(endpoint: str, place: tuple[str, int]) -> None:
    assert (options(endpoint).host, options(endpoint).port) == place


@pytest.mark.parametrize("endpoint", ["", ":1", "h:", "h:x", "h:0", "h:65536", "h:²"])
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="--rdzv-endpoint"):
        options(endpoint)


@pytest.mark.parametrize("config", [{}, {"transport": "grpc"}])
def test_an_endpoint_over_an_exchange_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(NotOverExchange, match=r"rdzv-endpoint: exchange://e:9390 .*\[1813\]"):
        options(" exchange://e:9390", **config)


@pytest.mark.parametrize(
    "config",
    [
        {"join_timeot": "1"}, {"join_timeout": "x"}, {"join_timeout": "-1"}, {"join_timeout": "0"},
        {"join_timeout": "nan"}, {"keep_alive_max_attempt": "1.5"}, {"transport": "udp"},
        {"ca": "a"}, {"keep_alive_max_attempt": "0"},
    ],
)  # fmt: skip
def test_what_an_option_cannot_be_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        options(**config)


def test_the_wheel_registers_the_back_end() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = project["entry-points"]["torchrun.handlers"]["fedflow"]
    module, _, function = named.partition(":")
    assert callable(getattr(import_module(module), function))
