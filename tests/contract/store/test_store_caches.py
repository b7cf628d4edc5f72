"""Caches of components, over every store."""

from __future__ import annotations

from fedflow.domain.data.caches import CacheFilter, StoredCache, TableName


def cache(key, number=0, *, name="cache", created_ms=1):
    return StoredCache(
        cache_key=f"k{number}",
        key=key,
        name=name,
        tables={"ids": TableName(namespace="n", name=f"t{number}")},
        meta={"a": [number]},
        private={"secret": "00ff"},
        created_ms=created_ms,
    )


def test_a_cache_is_found_by_its_key_or_by_what_made_it(store, make):
    one = cache(make.task_key("a"), 1)
    two = cache(make.task_key("b", job_id="j2"), 2, name="other", created_ms=2)
    with store.transaction() as tx:
        tx.caches.put(two)
        tx.caches.put(one)
        tx.caches.put(cache(make.task_key("a", site=make.host), 3))
    with store.read() as tx:
        find = tx.caches.find
        assert find(CacheFilter(site=make.guest)) == [one, two]
        assert find(CacheFilter(site=make.guest, cache_key="k2")) == [two]
        assert find(CacheFilter(site=make.guest, cache_key="k3")) == []
        assert find(CacheFilter(site=make.guest, job_id="j1", component="a", name="cache")) == [one]
        assert find(CacheFilter(site=make.guest, job_id="j2", name="cache")) == []


def test_only_caches_of_the_latest_attempt_that_made_any_are_found(store, make):
    with store.transaction() as tx:
        for version in (1, 0):
            for name in ("x", "y"):
                tx.caches.put(cache(make.task_key("a", version), version, name=name))
    with store.read() as tx:
        found = tx.caches.find(CacheFilter(site=make.guest, job_id="j1"))
        assert [(c.key.version, c.name) for c in found] == [(1, "x"), (1, "y")]


def test_a_cache_that_is_put_again_replaces_the_first(store, make):
    with store.transaction() as tx:
        tx.caches.put(cache(make.task_key(), 1))
        tx.caches.put(cache(make.task_key(), 2))
        assert [c.cache_key for c in tx.caches.find(CacheFilter(site=make.guest))] == ["k2"]


def test_a_transaction_that_fails_stores_no_cache(store, make):
    class Undo(Exception):
        pass

    try:
        with store.transaction() as tx:
            tx.caches.put(cache(make.task_key()))
            raise Undo
    except Undo:
        pass
    with store.read() as tx:
        assert tx.caches.find(CacheFilter(site=make.guest)) == []


def test_dropping_forgets_the_caches_of_all_attempts(store, make):
    old, new = cache(make.task_key("a", 0), 1), cache(make.task_key("a", 1), 2)
    other = cache(make.task_key("b"), 3)
    with store.transaction() as tx:
        for one in (old, new, other):
            tx.caches.put(one)
        dropped = tx.caches.drop(CacheFilter(site=make.guest, job_id="j1", component="a"))
        assert sorted(c.cache_key for c in dropped) == ["k1", "k2"]
    with store.read() as tx:
        assert tx.caches.find(CacheFilter(site=make.guest)) == [other]
    with store.transaction() as tx:
        assert tx.caches.drop(CacheFilter(site=make.host)) == []
