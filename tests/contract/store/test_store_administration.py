"""Permissions, keys of other parties, servers and services: the same rules in every store."""
# ruff: noqa: PT012  # the transaction is what raises

from __future__ import annotations

import pytest

from fedflow.app.ports.store import Store
from fedflow.domain.administration.records import (
    Grant,
    GrantKind,
    RegisteredServer,
    RegisteredService,
    SiteKey,
)


def grant(name: str, kind: GrantKind = GrantKind.COMPONENT, **fields: str) -> Grant:
    return Grant(**{"party_id": "10000", "kind": kind, "name": name, **fields})  # type: ignore[arg-type]


LR, DATA = grant("heterolr"), grant("g", GrantKind.DATASET, namespace="exp")


class Undo(Exception):
    pass


def test_a_grant_is_found_under_its_party_only_and_once(store: Store) -> None:
    with store.transaction() as tx:
        tx.permissions.add([LR, DATA], now_ms=1)
        tx.permissions.add([LR, grant("heterolr", role="guest")], now_ms=2)
    with store.read() as tx:
        assert tx.permissions.of("10000") == sorted([LR, DATA, grant("heterolr", role="guest")])
        assert tx.permissions.of("1000") == []
        assert tx.permissions.parties() == ["10000"]


def test_removing_tells_how_many_grants_there_were(store: Store) -> None:
    with store.transaction() as tx:
        tx.permissions.add([LR, DATA], now_ms=1)
        other_space = grant("g", GrantKind.DATASET, namespace="other")
        assert tx.permissions.remove([LR, other_space, grant("psi")]) == 1
        assert tx.permissions.of("10000") == [DATA]


def test_a_new_key_replaces_the_former_one(store: Store) -> None:
    with store.transaction() as tx:
        assert tx.site_keys.get("10000") is None
        tx.site_keys.put(SiteKey(party_id="10000", pem="one", updated_ms=1))
        tx.site_keys.put(SiteKey(party_id="10000", pem="two\nlines", updated_ms=2))
        tx.site_keys.put(SiteKey(party_id="9999", pem="other", updated_ms=2))
    with store.transaction() as tx:
        assert tx.site_keys.get("10000") == SiteKey(
            party_id="10000", pem="two\nlines", updated_ms=2
        )
        assert tx.site_keys.drop("10000")
        assert not tx.site_keys.drop("10000")
        assert tx.site_keys.get("10000") is None
        assert tx.site_keys.get("9999") is not None


def test_servers_and_services_are_kept_by_name(store: Store) -> None:
    board = RegisteredServer(name="FATEBOARD", host="127.0.0.1", port=8080)
    moved = RegisteredServer(name="FATEBOARD", host="::1", port=80, protocol="https")
    market = RegisteredServer(name="MARKETPLACE", host="m", port=1)
    service = RegisteredService(
        server="hooks", name="signature", url="http://h/x", method="POST",
        params={"a": [1]}, data={"b": {"ü": None}}, headers={"C": "d"},
    )  # fmt: skip
    with store.transaction() as tx:
        for server in (market, board, moved):
            tx.registry.put_server(server, now_ms=5)
        tx.registry.put_service(service, now_ms=5)
    with store.read() as tx:
        assert tx.registry.servers() == [moved, market]
        assert tx.registry.services("signature") == [service]
        assert tx.registry.services("other") == []


def test_what_a_failed_transaction_wrote_is_undone(store: Store) -> None:
    with store.transaction() as tx:
        tx.permissions.add([DATA], now_ms=1)
        tx.site_keys.put(SiteKey(party_id="1", pem="k", updated_ms=1))
    with pytest.raises(Undo), store.transaction() as tx:
        tx.permissions.add([LR], now_ms=1)
        tx.permissions.remove([DATA])
        tx.site_keys.drop("1")
        tx.registry.put_server(RegisteredServer(name="A", host="h", port=1), now_ms=1)
        raise Undo
    with store.read() as tx:
        assert tx.permissions.of("10000") == [DATA]
        assert tx.site_keys.get("1") is not None
        assert tx.registry.servers() == []
