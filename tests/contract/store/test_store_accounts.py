"""Accounts of the board and sessions of browsers, over every store."""

from __future__ import annotations

from dataclasses import replace

from fedflow.domain.administration.accounts import Account, AccountRole, AccountSession


def account(name="ann", **fields):
    values = {"role": AccountRole.VIEWER, "password": "scrypt:hash", "created_ms": 1000}
    return Account(name=name, updated_ms=1000, **{**values, **fields})


def session(digest="d1", name="ann", **fields):
    values = {"address": "127.0.0.1", "created_ms": 1000, "seen_ms": 1000}
    return AccountSession(digest=digest, name=name, **{**values, **fields})


def test_an_account_is_added_once_and_found_by_its_exact_name(store):
    with store.transaction() as tx:
        assert tx.accounts.add(account())
        assert not tx.accounts.add(account(role=AccountRole.ADMIN))
        assert tx.accounts.add(account("Ann"))
    with store.read() as tx:
        assert tx.accounts.get("ann") == account()
        assert tx.accounts.get("ANN") is None
        assert tx.accounts.get("ann ") is None
        assert [one.name for one in tx.accounts.all()] == ["Ann", "ann"]


def test_role_and_password_change_apart(store):
    with store.transaction() as tx:
        tx.accounts.add(account())
        assert tx.accounts.set_role("ann", AccountRole.ADMIN, now_ms=2000)
        assert tx.accounts.set_role("ann", AccountRole.ADMIN, now_ms=2000)
        assert tx.accounts.set_password("ann", "other", now_ms=3000)
        assert not tx.accounts.set_role("bob", AccountRole.ADMIN, now_ms=2000)
        assert not tx.accounts.set_password("bob", "other", now_ms=2000)
    with store.read() as tx:
        changed = replace(account(role=AccountRole.ADMIN, password="other"), updated_ms=3000)
        assert tx.accounts.get("ann") == changed


def test_sessions_are_listed_oldest_first_and_end_one_by_one_or_together(store):
    first, second = session("d2"), session("d1", created_ms=2000, seen_ms=2500)
    with store.transaction() as tx:
        for one in (second, first, session("d3", "bob")):
            tx.accounts.put_session(one)
        assert tx.accounts.sessions("ann") == [first, second]
        assert tx.accounts.end_session("d2")
        assert not tx.accounts.end_session("d2")
    with store.transaction() as tx:
        assert tx.accounts.session("d2") is None
        assert tx.accounts.session("d1") == second
        assert tx.accounts.end_sessions("ann") == 1
        assert tx.accounts.session("d3") is not None


def test_a_session_that_was_seen_does_not_come_back_when_it_has_ended(store):
    with store.transaction() as tx:
        tx.accounts.put_session(session())
        tx.accounts.seen("d1", now_ms=5000)
        tx.accounts.seen("gone", now_ms=5000)
    with store.read() as tx:
        assert tx.accounts.session("d1") == session(seen_ms=5000)
        assert tx.accounts.session("gone") is None


def test_an_account_goes_with_its_sessions(store):
    with store.transaction() as tx:
        tx.accounts.add(account())
        tx.accounts.put_session(session())
        assert tx.accounts.drop("ann")
        assert not tx.accounts.drop("ann")
    with store.read() as tx:
        assert tx.accounts.session("d1") is None


def test_sessions_are_pruned_by_use_and_by_age(store):
    with store.transaction() as tx:
        for n, (created_ms, seen_ms) in enumerate([(1, 50), (20, 21), (30, 60)]):
            tx.accounts.put_session(session(f"d{n}", created_ms=created_ms, seen_ms=seen_ms))
        assert tx.accounts.prune_sessions(seen_before_ms=40, created_before_ms=10) == 2
        assert [one.digest for one in tx.accounts.sessions("ann")] == ["d2"]


def test_what_a_broken_transaction_did_to_accounts_is_undone(store):
    with store.transaction() as tx:
        tx.accounts.add(account())
        tx.accounts.put_session(session())
    try:
        with store.transaction() as tx:
            tx.accounts.drop("ann")
            tx.accounts.add(account("bob"))
            raise InterruptedError
    except InterruptedError:
        pass
    with store.read() as tx:
        assert [one.name for one in tx.accounts.all()] == ["ann"]
        assert tx.accounts.session("d1") == session()
