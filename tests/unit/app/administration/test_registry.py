"""Servers and services: what may be registered, and that only the conf's servers are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fedflow.app.administration.registry import Forwarded, Registry
from fedflow.base.errors.requests import (
    BadAddress,
    BadRequest,
    NotSupportedYet,
    ServerCallFailed,
    ServerNotListed,
)
from fedflow.domain.administration.records import RegisteredServer, RegisteredService
from tests.unit.app.fakes import OneServer

BOARD = RegisteredServer(name="FATEBOARD", host="127.0.0.1", port=8080)


class Caller:
    """Remembers what was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str, dict[str, Any]]] = []
        self.reached: list[str] = []
        self.down = False

    def call(
        self, server: RegisteredServer, method: str, endpoint: str, body: Mapping[str, Any]
    ) -> Forwarded:
        self.calls.append((server.name, method, endpoint, dict(body)))
        return Forwarded(status=200, content=b"{}", content_type="application/json")

    def reach(self, server: RegisteredServer) -> None:
        self.reached.append(server.name)
        if self.down:
            raise ServerCallFailed(name=server.name, reason="down")


@pytest.fixture
def caller() -> Caller:
    return Caller()


@pytest.fixture
def registry(host: OneServer, caller: Caller) -> Registry:
    return Registry(
        store=host.store, clock=host.clock, parties=host.parties, caller=caller,
        listed={"FATEBOARD": BOARD},
    )  # fmt: skip


def service(name: str = "signature", server: str = "HOOKS", **more: Any) -> RegisteredService:
    return RegisteredService(
        **{"server": server, "name": name, "url": "", "method": "post", **more}
    )


def test_registered_servers_are_found_beside_those_of_the_conf(registry: Registry) -> None:
    registry.register("marketplace", "10.0.0.5", 80, "https")
    assert registry.server("FateBoard") == BOARD
    assert registry.server("marketplace") == RegisteredServer(
        name="MARKETPLACE", host="10.0.0.5", port=80, protocol="https"
    )
    assert list(registry.servers()) == ["MARKETPLACE", "FATEBOARD"]
    assert registry.server("nobody") is None


def test_a_server_of_the_conf_cannot_be_replaced(registry: Registry) -> None:
    with pytest.raises(BadRequest):
        registry.register("fateboard", "evil", 80)
    with pytest.raises(BadRequest):
        registry.register_server("fateboard", "evil", 80, None, {})
    assert registry.server("fateboard") == BOARD


@pytest.mark.parametrize(
    "address",
    [
        ("a/b", "h", 80, "http"), ("", "h", 80, "http"), ("n" * 31, "h", 80, "http"),
        ("n", "h/../x", 80, "http"), ("n", "a@b", 80, "http"), ("n", "", 80, "http"),
        ("n", "h:80", 80, "http"), ("n", "h", 0, "http"), ("n", "h", 65536, "http"),
        ("n", "h", 80, "file"), ("n", "h", 80, "gopher"), ("n", "h\r\n", 80, "http"),
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(
    registry: Registry, address: tuple[str, str, int, str]
) -> None:
    with pytest.raises(BadAddress):
        registry.register(*address)
    assert list(registry.servers()) == ["FATEBOARD"]


def test_a_service_gets_the_address_of_its_server(registry: Registry) -> None:
    registry.register("hooks", "::1", 81)
    registry.register_service(service(params={"a": 1}), "/v1/sign", None)
    found = registry.services("signature")
    assert [(s.url, s.method, s.params) for s in found] == [
        ("http://[::1]:81/v1/sign", "POST", {"a": 1})
    ]
    assert registry.services("signature", "OTHER") == []
    assert registry.services("other") == []


@pytest.mark.parametrize(
    "uri",
    ["file://h/etc/passwd", "ftp://h/x", "http://user:pw@h/", "http:///x", "http://h:99999/",
     "http://h o/", "http://[::1/", "\x00", "http://ü/", "x" * 3000],
)  # fmt: skip
def test_a_service_with_a_url_that_cannot_be_used_is_refused(registry: Registry, uri: str) -> None:
    registry.register("hooks", "h", 81)
    with pytest.raises(BadAddress):
        registry.register_service(service(), uri, None)
    assert registry.services("signature") == []


def test_a_service_of_a_server_that_is_not_registered_is_refused(registry: Registry) -> None:
    with pytest.raises(BadAddress):
        registry.register_service(service(), "/x", None)
    with pytest.raises(BadRequest):
        registry.register_service(service(server="FATEBOARD", method="TRACE"), "/x", None)


def test_only_a_server_of_the_conf_is_connected_to(registry: Registry, caller: Caller) -> None:
    both = {"s": (service("s"), "/s")}
    registry.register_server("hooks", "169.254.169.254", 80, None, both)
    assert caller.reached == []
    assert registry.services("s")[0].url == "http://169.254.169.254:80/s"
    board = {"b": (service("b", "FATEBOARD"), "/b")}
    registry.register_server("fateboard", BOARD.host, BOARD.port, None, board)
    assert caller.reached == ["FATEBOARD"]


def test_services_of_a_server_that_is_down_are_not_stored(
    registry: Registry, caller: Caller
) -> None:
    caller.down = True
    with pytest.raises(ServerCallFailed):
        registry.register_server(
            "fateboard", BOARD.host, BOARD.port, None, {"b": (service("b", "FATEBOARD"), "/b")}
        )
    assert registry.services("b") == []


def test_requests_are_passed_on_to_servers_of_the_conf_only(
    registry: Registry, caller: Caller
) -> None:
    registry.register("inner", "10.0.0.5", 80)
    with pytest.raises(ServerNotListed) as info:
        registry.forward("inner", "POST", "/x", {})
    assert info.value.retcode == 404
    registry.forward("fateboard", "get", "/x?a=b", {"c": 1}, destination="10000")
    assert caller.calls == [("FATEBOARD", "GET", "/x?a=b", {"c": 1})]


@pytest.mark.parametrize(
    ("method", "endpoint"),
    [("POST", "x"), ("POST", "//evil/x"), ("POST", "@evil"), ("POST", ""), ("POST", "/a b"),
     ("POST", "/a\r\nHost: x"), ("POST", "/\\evil"), ("CONNECT", "/x"), ("POST", "http://evil/")],
)  # fmt: skip
def test_the_request_names_a_path_and_nothing_else(
    registry: Registry, caller: Caller, method: str, endpoint: str
) -> None:
    with pytest.raises(BadRequest):
        registry.forward("fateboard", method, endpoint, {})
    assert caller.calls == []


def test_a_server_of_another_party_is_not_called(registry: Registry, caller: Caller) -> None:
    with pytest.raises(NotSupportedYet):
        registry.forward("fateboard", "POST", "/x", {}, destination="9999")
    assert caller.calls == []
