"""The route table: addresses, what is local, and the exchange."""

from __future__ import annotations

import pytest

from fedflow.base.errors.start import BadSetting
from fedflow.rpc.client.routes import Route, RouteTable, make_routes, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a.example:9360", "a.example", 9360),
        ("[::1]:1", "::1", 1),
        (" 10.0.0.1:65535 ", "10.0.0.1", 65535),
    ],
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    route = parse_address(text, path="routes.1", tls=True)
    assert (route.host, route.port) == (host, port)
    assert route.address == text.strip()


@pytest.mark.parametrize(
    "text", ["", "host", ":1", "host:", "host:x", "host:0", "host:65536", "host:١"]
)
def test_anything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadSetting, match=r"routes\.10000"):
        make_routes({"9999"}, {"10000": text}, tls=True)


def test_parties_without_a_route_take_the_exchange() -> None:
    table = RouteTable(make_routes({"9999"}, {"10000": "a:1", "default": "x:2"}, tls=False))
    assert table.find("10000") == Route(host="a", port=1, tls=False)
    assert table.find("7") == Route(host="x", port=2, tls=False)
    assert table.knows("7")
    assert table.parties() == ("10000",)


def test_partners_are_listed_or_have_a_route() -> None:
    with_route = RouteTable(make_routes({"9999"}, {"10000": "a:1"}, tls=False))
    assert [with_route.is_partner(p) for p in ("9999", "10000", "7")] == [True, True, False]
    exchange = RouteTable(make_routes({"9999"}, {"default": "x:2"}, tls=False))
    assert exchange.is_partner("7")
    remote = {"10000": "a:1", "default": "x:2"}
    listed = RouteTable(make_routes({"9999"}, remote, tls=False, partners=["7"]))
    assert [listed.is_partner(p) for p in ("9999", "0", "7", "10000")] == [True, True, True, False]
    alone = RouteTable(make_routes(None, {}, tls=False, partners=[]))
    assert alone.is_partner("10000")  # standalone: it is here


def test_a_local_party_has_no_route() -> None:
    with pytest.raises(BadSetting, match="hosts the party itself"):
        make_routes({"9999"}, {"9999": "a:1"}, tls=False)


def test_a_standalone_server_hosts_every_party_without_a_route() -> None:
    table = RouteTable(make_routes(None, {"10000": "a:1"}, tls=False))
    assert table.is_local("9999")
    assert table.is_local("0")
    assert not table.is_local("10000")


def test_a_replaced_table_is_in_force_at_once() -> None:
    table = RouteTable(make_routes({"1"}, {}, tls=False))
    assert not table.knows("2")
    table.replace(make_routes({"1"}, {"2": "a:1"}, tls=False))
    assert table.knows("2")


def test_a_party_with_several_servers_has_one_route_that_each_can_lead() -> None:
    table = RouteTable(make_routes({"9999"}, {"10000": "a:1, b:2,c:3"}, tls=False))
    route = table.find("10000")
    assert route is not None
    assert route.address == "a:1"
    turned = [route.turned(n) for n in range(4)]
    assert [t.address for t in turned] == ["a:1", "b:2", "c:3", "a:1"]
    assert [[o.address for o in t.others] for t in turned[:2]] == [["b:2", "c:3"], ["c:3", "a:1"]]
    assert turned[3] == route


@pytest.mark.parametrize("text", ["a:1,", ",a:1", "a:1,b", "a:1,b:0"])
def test_one_wrong_address_among_several_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"routes\.10000"):
        make_routes({"9999"}, {"10000": text}, tls=False)
