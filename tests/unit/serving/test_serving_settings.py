"""The settings of a serving process: what is refused and where, and the conf file."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.errors.start import ListenerNotSafe
from fedflow.serving.settings import ServingSettings, parse_serving_settings
from tests.unit.base.test_settings import at, leaves, paths
from tests.unit.docs.markdown import ROOT

CONF = yaml.safe_load((ROOT / "conf" / "serving_conf.yaml").read_text(encoding="utf-8"))


def test_the_conf_file_has_every_setting_with_its_default_and_no_other() -> None:
    defaults = dict(leaves(ServingSettings))
    assert parse_serving_settings(CONF) == ServingSettings() == parse_serving_settings({})
    assert paths(CONF) == defaults.keys()
    for path, default in defaults.items():
        found = at(CONF, path)
        assert (tuple(found) if isinstance(found, list) else found) == default, path


def test_ids_of_parties_may_be_numbers() -> None:
    settings = parse_serving_settings(
        {"party_id": 9999, "routes": {10000: "h:1"}, "partners": {"allowed": [10000]}}
    )
    assert (settings.party_id, dict(settings.routes)) == ("9999", {"10000": "h:1"})
    assert settings.partners.allowed == ("10000",)


def keys(*several: dict[str, Any], **one: Any) -> dict[str, Any]:
    """Return settings with keys of callers."""
    return {
        "callers": {"keys": [{"name": "bank", "sha256": "0" * 64, **x} for x in several or [one]]}
    }


@pytest.mark.parametrize(
    ("values", "path", "reason"),
    [
        ({"calers": {}}, "calers", "no such key"),
        ({"callers": {"prot": 1}, "x": 1}, "callers.prot, x", "no such keys"),
        ({"callers": {"port": 70_000}}, "callers.port", "65535"),
        ({"limits": {"batch_rows": 0}}, "limits.batch_rows", ">= 1"),
        ({"log": {"level": "LOUD"}}, "log.level", "known are DEBUG"),
        ({"party_id": "a-b"}, "party_id", "not a party id"),
        ({"routes": {"10000": "nowhere"}}, "routes.10000", "not host:port"),
        ({"party_id": "1", "routes": {"1": "h:1"}}, "routes.1", "own party"),
        ({"partners": {"tls": {"ca": "x"}}}, "partners.tls.certificate", "together"),
        (
            {"partners": {"tls": dict.fromkeys(("ca", "certificate", "key"), "x")}},
            "party_id",
            "one party",
        ),
        ({"default_service": "a b"}, "default_service", "no service id"),
        ({"home": "here"}, "home", "absolute"),
        ({"admin": {"token": "short"}}, "admin.token", "16"),
        ({"callers": {"tls": {"key": "x"}}}, "callers.tls.certificate", "together"),
        ({"callers": {"tls": {"certificate": "x"}}}, "callers.tls.key", "together"),
        ({"callers": {"tls": {"ca": "x"}}}, "callers.tls.certificate", "together"),
        ({"callers": {"grpc_port": -1}}, "callers.grpc_port", ">= 0"),
        (keys(name="a b"), "callers.keys.0.name", "no caller's name"),
        (keys(name="token"), "callers.keys.0.name", "no caller's name"),
        (keys(sha256="AB"), "callers.keys.0.sha256", "64 hexadecimal"),
        (keys(services=["a b"]), "callers.keys.0.services", "no service id"),
        (keys({"services": ["a"]}, {}), "callers.keys.1", "the same services"),
        (keys({}, {}), "callers.keys", "twice"),
        (keys(per_second=0), "callers.keys[0].per_second", "> 0"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_path(
    values: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(BadServingSetting, match=re.escape(reason)) as caught:
        parse_serving_settings(values)
    assert caught.value.fields["path"] == path


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"partners": {"host": "0.0.0.0"}}, "partners.tls"),
        ({"callers": {"host": "0.0.0.0"}}, "callers.token"),
        ({"admin": {"host": "0.0.0.0", "token": "x" * 16}}, "admin.behind_tls_proxy"),
        ({"callers": {"grpc_port": 0, "grpc_host": "0.0.0.0"}}, "callers.token"),
        (
            {"callers": {"grpc_port": 0, "grpc_host": "0.0.0.0", "token": "x" * 16}},
            "callers.tls",
        ),
    ],
)
def test_an_open_port_without_protection_is_refused(values: dict[str, Any], missing: str) -> None:
    with pytest.raises(ListenerNotSafe, match=re.escape(missing)):
        parse_serving_settings(values)
    assert parse_serving_settings({**values, "insecure": True}).insecure


def test_a_grpc_port_with_tls_and_a_token_may_be_open() -> None:
    tls = {"certificate": "c", "key": "k"}
    callers = {"grpc_port": 8000, "grpc_host": "0.0.0.0", "token": "x" * 16, "tls": tls}
    assert parse_serving_settings({"callers": callers}).callers.tls.on
    off = {"grpc_host": "0.0.0.0"}
    assert parse_serving_settings({"callers": off}).callers.grpc_port is None


def test_keys_of_callers_protect_as_a_token_does() -> None:
    values = keys()
    values["callers"] |= {"host": "0.0.0.0", "behind_tls_proxy": True}
    assert parse_serving_settings(values).callers.keys[0].name == "bank"
