"""Values in the process: bounds, what goes first, and answers to repeated requests."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedflow.serving.caches.entries import NewEntry
from fedflow.serving.caches.keys import CacheKey
from fedflow.serving.caches.memory import MemoryCache
from fedflow.serving.caches.results import CachedResults
from fedflow.serving.caches.settings import ResultCacheSettings
from fedflow.serving.codes import ItemAnswer, failed
from fedflow.serving.metrics import ServingMetrics
from tests.support.caches import SCOPE, TwoClocks, cache_keys

KEYS = cache_keys()


def key(name: object) -> CacheKey:
    return KEYS.parts(SCOPE, "10000", [{"id": str(name)}])[0]


def test_what_was_not_used_for_longest_goes_first() -> None:
    evicted: list[int] = []
    cache: MemoryCache[bytes] = MemoryCache(
        entries=3, size_bytes=1 << 20, size_of=len, clock=TwoClocks(), evicted=evicted.append
    )
    cache.put_many([NewEntry(key(n), b"x", 60.0) for n in range(3)])
    cache.get_many([key(0)])
    cache.put_many([NewEntry(key(n), b"x", 60.0) for n in (3, 4)])
    assert [one is not None for one in cache.get_many([key(n) for n in range(5)])] == [
        True, False, False, True, True,
    ]  # fmt: skip
    assert evicted == [2]


@given(
    st.lists(
        st.tuples(st.sampled_from("gprt"), st.integers(0, 9), st.integers(0, 6_000)), max_size=60
    )
)
def test_the_bounds_hold_whatever_happens(steps: list[tuple[str, int, int]]) -> None:
    clock = TwoClocks()
    cache: MemoryCache[bytes] = MemoryCache(entries=5, size_bytes=10_000, size_of=len, clock=clock)
    newest: dict[int, bytes] = {}
    for what, name, number in steps:
        if what == "p":
            newest[name] = bytes(number)
            cache.put_many([NewEntry(key(name), newest[name], 60.0)])
        elif what == "g":
            (found,) = cache.get_many([key(name)])
            assert found is None or found.value == newest[name]
        elif what == "r":
            cache.remove_many([key(name)])
            assert cache.get_many([key(name)]) == [None]
        else:
            clock.go(number / 100)
        assert len(cache) <= 5
        assert 0 <= cache.size_bytes <= 10_000
    cache.purge(KEYS.selection())
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_a_value_larger_than_the_cache_is_left_out_and_the_older_one_is_gone() -> None:
    cache: MemoryCache[bytes] = MemoryCache(
        entries=5, size_bytes=5_000, size_of=len, clock=TwoClocks()
    )
    cache.put_many([NewEntry(key(1), b"old", 60.0), NewEntry(key(2), b"x", 60.0)])
    cache.put_many([NewEntry(key(1), bytes(5_000), 60.0)])
    found = cache.get_many([key(1), key(2)])
    assert [one and one.value for one in found] == [None, b"x"]


# --- results --------------------------------------------------------------------------------------


def results(clock: TwoClocks, metrics: ServingMetrics, **given: Any) -> CachedResults:
    return CachedResults(KEYS, ResultCacheSettings(**given), metrics=metrics, clock=clock)


def test_a_repeated_request_gets_its_answer_for_two_minutes() -> None:
    clock, metrics = TwoClocks(), ServingMetrics()
    cache = results(clock, metrics)
    rows = [("case", {"x0": 1.0}, {"id": "1"}), ("case", {"x0": 2.0}, {"id": "1"})]
    answers = [ItemAnswer(score=0.5, label=1), failed(105, "late")]
    first = cache.find(SCOPE, rows)
    assert first.answers == [None, None]
    cache.store(first, answers)
    clock.go(120)
    clock.step(-86_400)
    assert cache.find(SCOPE, rows).answers == [answers[0], None]  # errors are not kept
    assert cache.find(SCOPE, [("case", {"x0": 1.5}, {"id": "1"})]).answers == [None]
    clock.go(0.1)
    assert cache.find(SCOPE, rows).answers == [None, None]
    lines = "\n".join(metrics.cache_lookups.lines())
    assert 'level="results",outcome="hit"} 1' in lines
    assert 'level="results",outcome="miss"} 6' in lines


def test_what_was_scored_before_a_purge_is_not_stored_after_it() -> None:
    clock = TwoClocks()
    cache = results(clock, ServingMetrics())
    rows = [("case", {}, {"id": "1"})]
    before = cache.find(SCOPE, rows)
    assert cache.purge(KEYS.selection(service_id="credit")) == 0
    cache.store(before, [ItemAnswer(score=0.5)])
    assert cache.find(SCOPE, rows).answers == [None]
    cache.store(cache.find(SCOPE, rows), [ItemAnswer(score=[0.1, 0.9])])
    assert cache.purge(KEYS.selection(ids={"id": 1})) == 1
