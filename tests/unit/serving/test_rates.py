"""The token bucket: what passes at once, what on average, and how a large batch is paid for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from fedflow.serving.rates import Rate
from tests.sim.clock import FakeClock


def test_a_burst_passes_at_once_and_the_rest_as_time_goes_by() -> None:
    clock = FakeClock()
    rate = Rate(2.0, 4.0, clock)
    assert [rate.take(1) for _ in range(5)] == [True] * 4 + [False]
    clock.time.ms += 499
    assert not rate.take(1)
    clock.time.ms += 1
    assert rate.take(1)
    clock.time.ms += 3_600_000
    assert [rate.take(1) for _ in range(5)] == [True] * 4 + [False]


def test_a_batch_beyond_the_burst_passes_when_nothing_was_used_and_is_owed() -> None:
    clock = FakeClock()
    rate = Rate(10.0, 10.0, clock)
    assert rate.take(100)
    clock.time.ms += 9_000
    assert not rate.take(1)
    clock.time.ms += 101
    assert rate.take(1)
    assert not rate.take(100)


def test_what_is_refused_is_not_counted() -> None:
    clock = FakeClock()
    rate = Rate(1.0, 5.0, clock)
    assert rate.take(3)
    assert not any(rate.take(3) for _ in range(50))
    assert rate.take(2)


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 300)), max_size=60))
def test_never_more_pass_than_time_allows(calls: list[tuple[int, int]]) -> None:
    clock = FakeClock()
    rate = Rate(7.0, 20.0, clock)
    passed = 0
    for pause_ms, number in calls:
        clock.time.ms += pause_ms
        if rate.take(number):
            assert passed <= 20.0 + 7.0 * clock.time.ms / 1000 + 1e-6
            passed += number


def test_threads_share_one_bucket() -> None:
    rate = Rate(1.0, 100.0, FakeClock())
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: rate.take(1), range(400))) == 100
