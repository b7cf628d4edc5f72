"""Split points, statistics, merging and encrypted sums, each on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.binning.labels import read_classes
from fedflow.components.binning.optimal import Aim, merge_buckets
from fedflow.components.binning.session import parse_ends
from fedflow.components.binning.splitting import (
    COMPARED_POINTS,
    MAX_CATEGORIES,
    bin_numbers,
    bucket_points,
    category_points,
    quantile_points,
)
from fedflow.components.binning.statistics import against_rest, counts_per_bin, statistics_of
from fedflow.components.binning.sums import HostSums, SumLayout, encrypt_labels, open_sums
from fedflow.components.crypto.bucket_products import BucketProducts, passes_of
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import Workers
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.workers import PicklingWorkers

HERE = LocalWorkers(1)
NAN = float("nan")


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.generate(512)


# --- split points ---------------------------------------------------------------------------------


def test_quantiles_are_values_of_exact_rank() -> None:
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 7.0, 6.0])
    assert quantile_points(values, 2).tolist() == [4.0, 7.0]  # ranks 4 and 7
    assert quantile_points(values, 3).tolist() == [3.0, 5.0, 7.0]
    assert quantile_points(values, 100).tolist() == sorted(values.tolist())


def test_equal_quantiles_are_one_split_point() -> None:
    assert quantile_points(np.array([0.0] * 9 + [1.0]), 10).tolist() == [0.0, 1.0]


def test_missing_values_have_no_rank() -> None:
    assert quantile_points(np.array([NAN, 2.0, NAN, 1.0]), 2).tolist() == [1.0, 2.0]
    assert quantile_points(np.array([NAN, NAN]), 4).tolist() == []
    assert bucket_points(np.array([NAN, NAN]), 4).tolist() == []


def test_buckets_are_equally_wide_and_end_at_the_maximum() -> None:
    assert bucket_points(np.array([10.0, 0.0, NAN, 3.0]), 4).tolist() == [2.5, 5.0, 7.5, 10.0]
    assert bucket_points(np.array([0.1, 0.1]), 4).tolist() == [0.1]
    huge = bucket_points(np.array([-1.7e308, 1.7e308]), 2)
    assert huge.tolist() == [0.0, 1.7e308]


def test_every_category_is_a_bin_and_too_many_are_refused() -> None:
    assert category_points(np.array([3.0, 1.0, NAN, 3.0]), name="c", where="t").tolist() == [1, 3]
    with pytest.raises(BadData, match=rf"'c' has {MAX_CATEGORIES + 1} different values"):
        category_points(np.arange(MAX_CATEGORIES + 1.0), name="c", where="t")


def test_bins_hold_their_upper_split_point() -> None:
    values = np.array([-9.0, 1.0, 1.5, 2.0, 3.0, 99.0, NAN])
    assert bin_numbers(values, [1.0, 2.0, 3.0]).tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert bin_numbers(np.array([NAN, NAN]), []).tolist() == [0, 0]


@pytest.mark.parametrize("count", [1, 2, COMPARED_POINTS, COMPARED_POINTS + 1, 300])
def test_bins_are_the_same_however_many_points_there_are(count: int) -> None:
    points = np.arange(float(count))
    values = np.concatenate((points, points - 0.5, points + 0.5, [NAN, -1e9, 1e9]))
    expected = [np.count_nonzero(points[:-1] < v) if v == v else count for v in values]
    assert bin_numbers(values, points).tolist() == expected


# --- statistics -----------------------------------------------------------------------------------


def test_statistics_of_known_counts() -> None:
    found = statistics_of(np.array([30, 10, 0]), np.array([10, 40, 10]), adjustment=0.5)
    rates = [(30 / 40, 10 / 60), (10 / 40, 40 / 60), (0.5 / 40, 10.5 / 60)]
    expected = [np.log(e / n) for e, n in rates]
    np.testing.assert_allclose(found.woe, expected)
    assert found.iv == pytest.approx(
        sum((e - n) * w for (e, n), w in zip(rates, expected, strict=True))
    )
    assert found.is_monotonic
    assert not statistics_of(np.array([1, 9, 1]), np.array([9, 1, 9]), adjustment=0.5).is_monotonic


def test_a_class_without_rows_counts_as_one_row() -> None:
    found = statistics_of(np.array([0, 0]), np.array([3, 1]), adjustment=0.5)
    np.testing.assert_allclose(found.event_rates, [0.5, 0.5])
    np.testing.assert_allclose(found.other_rates, [3.5 / 4, 1.5 / 4])


def test_counts_are_per_bin_and_class() -> None:
    counts = counts_per_bin(np.array([0, 2, 2, 2]), np.array([1, 0, 2, 2]), shape=(4, 3))
    assert counts.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 2], [0, 0, 0]]
    assert [part.tolist() for part in against_rest(counts, 2)] == [[0, 0, 2, 0], [1, 0, 1, 0]]


# --- optimal binning ------------------------------------------------------------------------------


def aim(**changes: Any) -> Aim:
    values: dict[str, Any] = {
        "bins": 2,
        "metric": "iv",
        "mixture": False,
        "least": 0.0,
        "most": 1e9,
        "adjustment": 0.5,
    }
    return Aim(**{**values, **changes})


@pytest.mark.parametrize("metric", ["iv", "gini", "ks", "chi_square"])
def test_buckets_of_like_rates_are_merged(metric: str) -> None:
    events, others = np.array([9, 8, 9, 1, 2, 1]), np.array([1, 2, 1, 9, 8, 9])
    found = merge_buckets(events, others, aim(metric=metric))
    assert found.last.tolist() == [2, 5]
    assert len(found.metric) == 2


def test_merged_bins_never_exceed_the_greatest_size() -> None:
    events, others = np.full(10, 5), np.full(10, 5)
    found = merge_buckets(events, others, aim(most=20.0))
    assert np.diff([-1, *found.last]).max() == 2
    assert len(found.last) >= 5


def test_small_bins_are_merged_whatever_that_costs() -> None:
    events, others = np.array([50, 1, 0, 50]), np.array([0, 1, 2, 50])
    found = merge_buckets(events, others, aim(bins=4, least=10.0))
    sizes = np.add.reduceat(events + others, np.concatenate(([0], found.last[:-1] + 1)))
    assert sizes.min() >= 10


def test_mixture_leaves_no_bin_of_one_class() -> None:
    events, others = np.array([9, 9, 0, 0, 5]), np.array([0, 0, 9, 9, 5])
    pure = merge_buckets(events, others, aim(bins=3))
    mixed = merge_buckets(events, others, aim(bins=3, mixture=True))
    starts = np.concatenate(([0], mixed.last[:-1] + 1))
    assert (np.add.reduceat(events, starts) > 0).all()
    assert (np.add.reduceat(others, starts) > 0).all()
    assert pure.last.tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("gini", [2 * 8 * 2 / 100, 2 * 2 * 8 / 100]),
        ("ks", [0.6, 0.0]),
        ("chi_square", [20 * (8 * 8 - 2 * 2) ** 2 / 10**4, 0.0]),
    ],
)
def test_measures_of_two_bins(metric: str, expected: list[float]) -> None:
    found = merge_buckets(np.array([8, 2]), np.array([2, 8]), aim(metric=metric))
    np.testing.assert_allclose(found.metric, expected)


counts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    counts,
    st.sampled_from(["iv", "gini", "ks", "chi_square"]),
    st.booleans(),
    st.integers(2, 6),
)
def test_bins_always_cover_the_buckets_in_order(
    pairs: list[tuple[int, int]], metric: str, mixture: bool, bins: int
) -> None:
    events, others = (np.array(side) for side in zip(*pairs, strict=True))
    found = merge_buckets(events, others, aim(metric=metric, mixture=mixture, bins=bins, least=2.0))
    assert found.last[-1] == len(pairs) - 1
    assert (np.diff(found.last) > 0).all()
    assert len(found.last) == len(found.metric) <= bins
    assert np.isfinite(found.metric).all()


# --- labels ---------------------------------------------------------------------------------------


def labelled(values: Any) -> Any:
    return MemoryTableStore().add({"id": ["a", "b", "c"], "y": values, "x": [1.0, 2.0, 3.0]})


def test_the_largest_label_is_class_0() -> None:
    found = read_classes(labelled([-1, 1, -1]))
    assert found.names == ("1", "-1")
    assert found.numbers.tolist() == [1, 0, 1]
    assert found.totals.tolist() == [1, 2]
    assert read_classes(labelled([0.0, 1.0, 0.5])).names == ("1", "0.5", "0")
    assert read_classes(labelled(["no", "yes", "no"])).numbers.tolist() == [1, 0, 1]
    same = read_classes(labelled(["0", "1.0", "1"]))
    assert (same.names, same.totals.tolist()) == (("1", "0"), [2, 1])


def test_labels_of_a_model_may_lack_rows_but_no_other_is_known() -> None:
    assert read_classes(labelled([1, 1, 1]), known=("1", "0")).totals.tolist() == [3, 0]
    with pytest.raises(BadData, match=r"1 of 3 rows have a label that the model does not know"):
        read_classes(labelled([0, 1, 2]), known=("1", "0"))


@pytest.mark.parametrize("values", [[1.0, None, 0.0], [1.0, NAN, 0.0]])
def test_missing_labels_are_counted(values: list[float]) -> None:
    with pytest.raises(BadData, match=r"1 of 3 rows have no label"):
        read_classes(labelled(pa.array(values)))


# --- encrypted sums -------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 50, 100_000])
def test_bucket_products_do_not_depend_on_how_columns_are_grouped(rows: int) -> None:
    generator = np.random.default_rng(1)
    modulus = mpz(2**61 - 1)
    sizes = (3, 1, 7, 4)
    buckets = np.column_stack([generator.integers(0, size, 50) for size in sizes])
    factors = [mpz(int(f)) for f in generator.integers(2, 2**60, 50)]
    whole = BucketProducts(sizes, modulus, rows=rows)
    whole.add(factors[:20], buckets[:20])
    rest = BucketProducts(sizes, modulus, rows=rows)
    rest.add(factors[20:], buckets[20:])
    whole.merge(rest.products())
    for column, products in enumerate(whole.products()):
        expected = [mpz(1)] * sizes[column]
        for bucket, factor in zip(buckets[:, column].tolist(), factors, strict=True):
            expected[bucket] = expected[bucket] * factor % modulus
        assert products == expected


def test_many_rows_let_columns_share_a_pass() -> None:
    assert passes_of((10,) * 6, rows=100_000) == 2
    assert passes_of((10,) * 6, rows=20) == 6
    assert passes_of((1000, 1000), rows=10_000) == 2
    assert passes_of((10,) * 300, rows=10**6) == 100  # groups of four would take too much memory


@pytest.mark.parametrize(
    "workers", [HERE, LocalWorkers(2), PicklingWorkers()], ids=["one", "two", "pickled"]
)
@pytest.mark.parametrize("classes", [2, 5])
def test_sums_are_those_of_the_plain_labels(
    workers: Workers, classes: int, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.components.binning.sums.ROWS_PER_BLOCK", 700)
    monkeypatch.setattr("fedflow.cores.forked.FORK_FROM", 10)
    generator = np.random.default_rng(2)
    rows, sizes = 1500, (3, 2)
    labels = generator.integers(0, classes, rows)
    bins = np.column_stack([generator.integers(0, size, rows) for size in sizes])
    layout = SumLayout(rows=rows, classes=classes)
    host = HostSums(key.public, sizes, layout, workers)
    assert [tag for tag, _ in layout.blocks()] == ["0", "1", "2"]
    for _, part in layout.blocks():
        payload = encrypt_labels(key.public, labels[part], layout, workers)
        host.add(payload, bins[part])
    totals = np.bincount(labels, minlength=classes)
    found = open_sums(key, host.message(), sizes=sizes, totals=totals, sender="host")
    for column, size in enumerate(sizes):
        expected = counts_per_bin(bins[:, column], labels, shape=(size, classes))
        assert found[column].tolist() == expected.tolist()


def test_sums_are_blinded_before_they_leave(key: PrivateKey) -> None:
    layout = SumLayout(rows=2, classes=2)
    host = HostSums(key.public, (2,), layout, HERE)
    payload = encrypt_labels(key.public, np.array([0, 1]), layout, HERE)
    host.add(payload, np.array([[0], [1]]))
    messages = {host.message(), host.message()}
    assert len(messages) == 2
    first, second = key.public.from_bytes(payload, count=2)
    packed = key.public.to_bytes(key.public.pack([first, second], layout.bin_bits))
    assert packed not in messages


@pytest.mark.parametrize("processes", [1, 2])
def test_a_label_that_is_no_ciphertext_is_refused(
    processes: int, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.cores.forked.FORK_FROM", 0)
    layout = SumLayout(rows=3, classes=2)
    body = key.public.body([*key.public.encrypt([1, 0]), key.public.modulus])
    host = HostSums(key.public, (2,), layout, LocalWorkers(processes))

    def served() -> None:
        host.add(key.public.message(body), np.array([[0], [1], [1]]))
        host.message()

    with pytest.raises(CodecError, match="out of range"):
        served()
    with pytest.raises(CodecError, match="3 ciphertexts where 2 were due"):
        host.add(key.public.message(body), np.array([[0], [1]]))


def test_sums_that_do_not_hold_every_row_once_are_refused(key: PrivateKey) -> None:
    layout = SumLayout(rows=4, classes=2)
    host = HostSums(key.public, (2,), layout, HERE)
    payload = encrypt_labels(key.public, np.array([0, 1, 1, 0]), layout, HERE)
    host.add(payload, np.array([[0], [1], [1], [1]]))
    message = host.message()
    with pytest.raises(CodecError, match="every row once"):
        open_sums(key, message, sizes=(2,), totals=np.array([3, 1]), sender="host")
    with pytest.raises(CodecError):
        open_sums(key, message, sizes=(200,), totals=np.array([2, 2]), sender="host")
    minus = key.public.to_bytes(key.public.encrypt([-1]))
    with pytest.raises(CodecError, match="impossible count"):
        open_sums(key, minus, sizes=(2,), totals=np.array([2, 2]), sender="host")


@pytest.mark.parametrize(
    "answer", [None, [], [[0]], [[0, 2]], [[1, 1, 3]], [[-1, 3]], [["0", 3]], [[3, 0]]]
)
def test_answers_of_optimal_binning_are_checked(answer: object) -> None:
    with pytest.raises(CodecError):
        parse_ends(answer, sizes=[4])


def test_a_good_answer_of_optimal_binning_is_taken() -> None:
    assert [e.tolist() for e in parse_ends([[0, 3], []], sizes=[4, 0])] == [[0, 3], []]
