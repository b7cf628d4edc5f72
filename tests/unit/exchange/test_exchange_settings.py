from pathlib import Path
from typing import Any

import pytest
import yaml

from fedflow.base.errors.start import BadExchangeSetting, BadSetting, NotOverExchange
from fedflow.base.settings import parse_settings
from fedflow.exchange.parties import Parties, parties_of
from fedflow.exchange.settings import parse_exchange_settings
from fedflow.exchange.traffic import RelayTraffic
from fedflow.rpc.client.routes import make_routes
from fedflow.serving.settings import parse_serving_settings
from fedflow.wire.exchange import CallHeader, CallKind, read_header

ROOT = Path(__file__).parents[3]
TLS = {"ca": "ca.pem", "certificate": "e.pem", "key": "e.key"}
TWO = {"tls": TLS, "parties": {9999: "a:9360", 10000: "b:9360,c:9360"}}


def test_the_shipped_conf_is_one() -> None:
    settings = parse_exchange_settings(
        yaml.safe_load((ROOT / "conf" / "exchange_conf.yaml").read_text())
    )
    assert settings.parties == {"9999": "10.1.0.5:9360", "10000": "10.2.0.5:9360"}
    assert settings.limits == parse_exchange_settings(TWO).limits


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"tls": {}}, "tls"),
        ({"tls": {"ca": "ca.pem"}}, "tls.certificate"),
        ({"parties": {"9999": "a:1"}}, "parties"),
        ({"parties": {"9999": "a:1", "exchange": "b:1"}}, "parties.exchange"),
        ({"parties": {"9999": "a:1", "10000": "b"}}, "parties.10000"),
        ({"parties": {"9999": "a:1", "10000": "exchange://b:1"}}, "parties.10000"),
        ({"parties": {"9999": "a:1", "10000": "dial-in,b:1"}}, "parties.10000"),
        ({"pairs": [[9999, 7777]]}, "pairs"),
        ({"status": {"host": "0.0.0.0"}}, "status.host"),
        ({"limits": {"calls": 0}}, "limits.calls"),
        ({"speed": 1}, "speed"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_wrong_setting_stops_the_start_with_its_path(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_exchange_settings({**TWO, **changed})
    assert path in str(caught.value.message)
    assert "service_conf.yaml" not in caught.value.hint


def test_a_wrong_setting_is_explained_by_the_conf_of_an_exchange() -> None:
    with pytest.raises(BadExchangeSetting, match=r"two parties .*\[1814\] exchange_conf.yaml"):
        parse_exchange_settings({**TWO, "parties": {}})


@pytest.mark.parametrize("values", [{"party_id": "9999"}, {"tls": TLS}])
def test_a_server_without_a_certificate_has_no_route_over_an_exchange(
    values: dict[str, Any],
) -> None:
    with pytest.raises(BadSetting, match="over an exchange, a server needs"):
        parse_settings({**values, "routes": {"10000": "exchange://e:9390"}})


def test_a_party_that_dials_in_has_no_address() -> None:
    settings = parse_exchange_settings({"tls": TLS, "parties": {9999: "a:1", 10000: "dial-in"}})
    assert settings.addresses == {"9999": "a:1"}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"party_id": "9999", "dial_in": ["e:9390"]}, "over an exchange, a server needs"),
        ({"party_id": "9999", "tls": TLS, "dial_in": ["e"]}, "'e' is not host:port"),
        ({"party_id": "9999", "tls": TLS, "dial_in": ["e:99999"]}, "'e:99999' is not host:port"),
    ],
)
def test_a_server_that_cannot_dial_in_does_not_start(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadSetting, match=reason) as caught:
        parse_settings(values)
    assert "dial_in" in str(caught.value.message)


def test_a_server_may_name_an_exchange_as_its_routes_do() -> None:
    given = ("exchange://e:9390", "f:9390")
    assert parse_settings({"party_id": "1", "tls": TLS, "dial_in": list(given)}).dial_in == given


def test_no_party_is_called_as_the_exchange_is() -> None:
    with pytest.raises(BadSetting, match="'exchange' is not a party id"):
        parse_settings({"party_id": "exchange"})


@pytest.mark.parametrize("address", ["exchange://e:9390", "h:1, exchange://e:9390"])
def test_a_serving_process_has_no_route_over_an_exchange(address: str) -> None:
    with pytest.raises(NotOverExchange, match="exchange://e:9390 leads over") as caught:
        parse_serving_settings({"party_id": "1", "routes": {"2": address}})
    assert (caught.value.fields["path"], caught.value.code) == ("routes.2", 1813)
    assert "host and port of the partner itself" in caught.value.hint


def test_a_route_says_whether_it_goes_over_an_exchange() -> None:
    routes = make_routes(
        ["1"], {"2": "exchange://e:9390", "3": "h:1", "default": "exchange://[::1]:5"}, tls=True
    )
    over, direct, default = routes.remote["2"], routes.remote["3"], routes.default
    assert (over.exchange, over.host_port, over.address) == (True, "e:9390", "exchange://e:9390")
    assert over.name == "party-exchange"
    assert (direct.exchange, direct.address) == (False, "h:1")
    assert default is not None
    assert default.address == "exchange://[::1]:5"


def test_only_pairs_that_are_named_may_call_each_other() -> None:
    parties = parties_of(["1", "2", "3"], [("1", "2")])
    assert parties.refusal("1", "2") is None
    assert parties.refusal("2", "1") is None
    assert parties.refusal("1", "3") == "parties 1 and 3 may not call each other"
    assert parties.refusal("1", "1") == "party 1 is not behind this exchange"
    assert parties.refusal("1", "4") == "party 4 is not behind this exchange"
    assert parties.refusal("4", "1") == "your party is not known here"
    everybody = Parties(known=frozenset("123"))
    assert everybody.refusal("1", "3") is None


def test_counts_are_those_of_a_pair() -> None:
    traffic = RelayTraffic()
    traffic.of("1", "2").calls += 2
    traffic.of("1", "2").bytes_up += 10
    traffic.of("2", "1").failed += 1
    assert [(row["source"], row["calls"]) for row in traffic.as_json()] == [("1", 2), ("2", 0)]
    lines = "".join(traffic.as_metrics()).splitlines()
    assert 'fedflow_exchange_sent_bytes_total{source="1",destination="2"} 10' in lines
    assert "# TYPE fedflow_exchange_open_calls gauge" in lines


def test_a_header_comes_back_as_it_was() -> None:
    header = CallHeader(
        kind=CallKind.BULK, session=b"s" * 16, call=2**40, time_ms=1_800_000_000_000
    )
    assert read_header(header.pack() + b"record") == header
