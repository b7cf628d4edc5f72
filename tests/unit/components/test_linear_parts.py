"""The parts of HeteroLR that read what other parties say, and the drawing of batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import Diverged
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.linear import arithmetic
from fedflow.components.linear.arithmetic import (
    Scales,
    encode_features,
    open_sums,
    pack_sums,
)
from fedflow.components.linear.batches import BatchInfo, GuestBatches, HostBatches, plan_batches
from fedflow.components.linear.families import LOGISTIC
from fedflow.components.linear.params import BatchOrder, HeteroLRParams
from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.session import receive_flag
from fedflow.components.linear.zeros import Zeros
from fedflow.components.samples.alignment import ids_digest
from fedflow.components.samples.predictions import sigmoid
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import Workers, check_params
from fedflow.sdk.crypto.encrypted_rows import (
    IntegerRows,
    column_sums,
    encrypt_integers,
    encrypt_numbers,
)
from fedflow.sdk.crypto.fixed_point import FixedPoint
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.testing.federation import LocalFederation
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components.hetero_lr_parties import ARBITER, HOST


def plan(rows: int = 50, hosts: int = 1, **params: Any) -> BatchInfo:
    checked = check_params(HeteroLRParams, params, path="$")
    return plan_batches(checked, rows=rows, hosts=hosts, weighted=False)


# --- batches --------------------------------------------------------------------------------------


def test_defaults_mean_one_batch_and_the_asynchronous_variant() -> None:
    info = plan()
    assert (info.batch_size, info.batch_num, info.use_async, info.masked) == (50, 1, True, False)
    assert info.stored_order
    assert plan(hosts=2).use_async is False


def test_the_last_batch_may_be_smaller() -> None:
    info = plan(batch_size=20)
    assert [info.batch_rows(b) for b in range(info.batch_num)] == [20, 20, 10]
    random = plan(batch_size=20, batch_strategy="random")
    assert [random.batch_rows(b) for b in range(random.batch_num)] == [20, 20, 20]


def test_decoys_hide_the_real_rows_and_every_row_is_real_once() -> None:
    info = plan(batch_size=10, masked_rate=1.5)
    assert info.masked_batch_size == 25
    batches = GuestBatches(info, BatchOrder(shuffle=True))
    first, second = batches.epoch(0), batches.epoch(1)
    for epoch in (first, second):
        real = []
        for batch in epoch:
            assert isinstance(batch.rows, np.ndarray)
            assert batch.real is not None
            assert len(np.unique(batch.rows)) == len(batch.rows) == 25
            real.extend(batch.rows[batch.real].tolist())
        assert sorted(real) == list(range(50))
    assert not np.array_equal(first[0].rows, second[0].rows)


@pytest.mark.parametrize(
    ("params", "rows"),
    [
        ({"masked_rate": 0.0, "shuffle": False}, [10, 20, 20]),
        ({"masked_rate": 0.5, "shuffle": True}, [30, 30, 30]),
    ],
)
def test_the_rows_of_the_next_batch_are_known_until_the_last(
    params: dict[str, Any], rows: list[int]
) -> None:
    info = plan(batch_size=20, **params)
    assert info.rows == 50
    assert info.rows_after(0, 1, iterations=2) == rows[0]
    assert info.rows_after(0, 2, iterations=2) == rows[1]
    assert info.rows_after(1, 0, iterations=2) == rows[2]
    assert info.rows_after(1, 2, iterations=2) == 0


def test_decoys_stay_the_same_if_the_batches_do() -> None:
    info = plan(batch_size=10, masked_rate=1.0, shuffle=False)
    batches = GuestBatches(info, BatchOrder())
    assert batches.epoch(0) is batches.epoch(1)
    (first, *_) = batches.epoch(2)
    assert isinstance(first.rows, np.ndarray)
    assert sorted(first.rows[first.real].tolist()) == list(range(10))


def test_hosts_accept_what_the_guest_draws() -> None:
    info = BatchInfo.from_json(plan(batch_size=10, masked_rate=2.0).to_json())
    guest, host = GuestBatches(info, BatchOrder(shuffle=True)), HostBatches(info)
    assert host.announced
    rows = [batch.rows for batch in guest.epoch(0) if isinstance(batch.rows, np.ndarray)]
    assert [batch.rows is r for batch, r in zip(host.epoch(rows), rows, strict=True)] == [True] * 5


@pytest.mark.parametrize(
    "rows",
    [
        "all",
        [1, 2],
        np.array([1.0, 2.0]),
        np.array([[1, 2]]),
        np.array([], dtype=np.int64),
        np.array([-1, 2]),
        np.array([1, 50]),
        np.array([3, 3]),
        np.arange(21),
        np.arange(19),
    ],
)
def test_hosts_refuse_impossible_rows(rows: Any) -> None:
    host = HostBatches(plan(batch_size=20, masked_rate=0.0, shuffle=True))
    with pytest.raises(CodecError, match="batch_data_index"):
        host.epoch([rows])


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": "50"},
        {"batch_size": 0},
        {"batch_size": 60},
        {"batch_size": 1, "batch_num": 50},
        {"batch_num": 10**9},
        {"masked_batch_size": 10**12},
        {"precision": 4000},
        {"use_async": None},
    ],
)
def test_an_impossible_batch_info_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match="batch_info"):
        BatchInfo.from_json({**plan(batch_size=20).to_json(), **change})
    with pytest.raises(CodecError):
        BatchInfo.from_json([1, 2])


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "update", [None, [0.0, 0.0], np.zeros(3), np.zeros(2, dtype=np.float32), np.zeros((2, 1))]
)
def test_an_update_of_the_wrong_shape_is_refused(update: Any) -> None:
    share = PartyWeights(HeteroLRParams(), columns=("a",), intercept=True)
    with pytest.raises(CodecError):
        share.apply(update, iteration=0)


def test_an_update_that_is_not_finite_is_divergence() -> None:
    share = PartyWeights(HeteroLRParams(), columns=("a",), intercept=True)
    with pytest.raises(Diverged, match="iteration 4"):
        share.apply(np.array([np.nan, 0.0]), iteration=4)


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "what"),
    [
        (None, "not two flags"),
        ([True, True], "not two flags"),
        ({"converged": False}, "not two flags"),
        ({"converged": 0, "stop": 1}, "not two flags"),
        ({"converged": False, "stop": False}, "the arbiter goes on past max_iter 3"),
    ],
)
def test_an_impossible_end_is_refused(told: Any, what: str) -> None:
    federation = LocalFederation((HOST, ARBITER))
    federation.at(ARBITER).send("converge_flag", told, to=HOST, tag="2")
    host: Any = SimpleNamespace(
        federation=federation.at(HOST),
        only=lambda role: ARBITER,
        params=SimpleNamespace(max_iter=3),
    )
    with pytest.raises(CodecError, match=what):
        receive_flag(host, 2)


# --- sums -----------------------------------------------------------------------------------------


def test_slots_have_128_bits_with_fates_precision() -> None:
    scales = Scales.of(plan(), family=LOGISTIC, hosts=1)
    assert (scales.slot_bits, scales.factors, scales.sum_bits) == (128, 2, 79)


def test_sums_of_the_largest_allowed_numbers_do_not_overflow() -> None:
    key = PrivateKey.generate(1024)
    public = key.public
    scales = Scales.of(plan(), family=LOGISTIC, hosts=1)
    largest = 1 << (scales.sum_bits + 2 * 23)
    values = [largest, -largest] * 5
    ciphertexts = list(public.encrypt([2 * v for v in values]))
    message = pack_sums(public, ciphertexts, values, slot_bits=scales.slot_bits)
    found = open_sums(key, message, scales=scales, count=10)
    assert found.tolist() == [3 * 2.0**79, -3 * 2.0**79] * 5
    again = pack_sums(public, ciphertexts, values, slot_bits=scales.slot_bits)
    assert again != message  # blinded anew each time


def test_a_column_that_is_too_large_is_named_with_its_count() -> None:
    columns, fixed = ("a", "b"), FixedPoint(bits=23)
    large = np.array([[1.0, 2.0**20], [0.0, -(2.0**20)], [2.0, 3.0]])
    with pytest.raises(BadData, match=r"column 'b': 2 of 3 values reach 2\^20"):
        encode_features(large, fixed=fixed, columns=columns)
    heavy = np.full((1 << 9, 1), 2.0**19)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "COLUMN_BITS", 28)
        with pytest.raises(BadData, match=r"column 'b': the values' sizes sum up to 2\^28"):
            encode_features(heavy, fixed=fixed, columns=("b",))


WORKERS = [LocalWorkers(1), LocalWorkers(2), PicklingWorkers(block_rows=6)]


@pytest.mark.parametrize("workers", WORKERS, ids=["one", "two", "blocks"])
def test_long_messages_are_worked_on_in_blocks(
    monkeypatch: pytest.MonkeyPatch, workers: Workers
) -> None:
    monkeypatch.setattr("fedflow.sdk.crypto.encrypted_rows.ROWS_PER_BLOCK", 7)
    key = PrivateKey.generate(256)
    values = np.arange(-10, 10)
    payload = encrypt_integers(workers, key.public, values)
    matrix = np.arange(40, dtype=np.int64).reshape(20, 2)
    for placed in (IntegerRows.of(matrix), IntegerRows.of(matrix, workers)):
        sums = column_sums(workers, key.public, payload, placed, with_total=True)
        assert key.decrypt(sums) == [*(values @ matrix).tolist(), sum(values)]
        with pytest.raises(CodecError, match="20 ciphertexts where 19 were due"):
            column_sums(workers, key.public, payload, placed.select(slice(0, 19)))
    chosen = np.array([7, 3, 19])
    part = encrypt_integers(workers, key.public, values[chosen])
    more, kept = np.array([5, 6, 7]), np.array([True, False, True])
    sums = column_sums(workers, key.public, part, placed.select(chosen), more=more, kept=kept)
    expected = values[chosen] @ np.where(kept[:, None], np.c_[matrix[chosen], more], 0)
    assert key.decrypt(sums) == expected.tolist()


@pytest.mark.parametrize("workers", WORKERS, ids=["one", "two", "blocks"])
def test_sums_of_no_rows_are_zero_and_bad_ciphertexts_are_refused(workers: Workers) -> None:
    key = PrivateKey.generate(256)
    empty = IntegerRows.of(np.empty((0, 2), dtype=np.int64))
    sums = column_sums(workers, key.public, key.public.to_bytes([]), empty, with_total=True)
    assert key.decrypt(sums) == [0, 0, 0]
    bad = key.public.message(bytes(key.public.width))
    with pytest.raises(CodecError, match="out of range"):
        column_sums(workers, key.public, bad, IntegerRows.of(np.ones((1, 1), dtype=np.int64)))


def test_numbers_are_encrypted_at_their_scale_however_large() -> None:
    key = PrivateKey.generate(256)
    values = np.array([0.0, -1.5, 2.0**29 + 0.25, 1e-9])
    payload = encrypt_numbers(PicklingWorkers(), key.public, values, scale=46)
    found = key.decrypt(key.public.from_bytes(payload, count=4))
    assert found == [0, -3 << 45, (1 << 75) + (1 << 44), round(1e-9 * 2**46)]


# --- rows -----------------------------------------------------------------------------------------


def test_the_digest_of_ids_depends_on_values_and_order_not_on_chunks() -> None:
    ids = pa.chunked_array([["a", "bc", "d"]])
    assert ids_digest(ids) == ids_digest(pa.chunked_array([["a"], ["bc", "d"]]))
    assert ids_digest(pa.chunked_array([[1, 2]])) == ids_digest(pa.chunked_array([["1", "2"]]))
    others = [["ab", "c", "d"], ["bc", "a", "d"], ["a", "bc"]]
    assert len({ids_digest(pa.chunked_array([o])) for o in others} | {ids_digest(ids)}) == 4


def test_sigmoid_does_not_overflow() -> None:
    assert sigmoid(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 0.5, 1.0]


def test_zeros_made_ahead_are_handed_out_once() -> None:
    key, workers = PrivateKey.generate(256), LocalWorkers(1)
    zeros = Zeros(workers, key.public, most=4)
    zeros.make(3)
    messages = [zeros.take(3), zeros.take(3)]
    zeros.make(4)
    values = np.array([-5, 0, 2**40])  # another number of rows than there are zeros
    messages += [zeros.encrypt(values), zeros.take(4), zeros.encrypt(values)]
    counts = [3, 3, 3, 4, 3]
    found = [key.public.from_bytes(m, count=c) for m, c in zip(messages, counts, strict=True)]
    assert len({ciphertext for message in found for ciphertext in message}) == sum(counts)
    expected = values.tolist()
    assert [key.decrypt(m) for m in found] == [[0] * 3, [0] * 3, expected, [0] * 4, expected]


def test_zeros_of_many_rows_are_not_made_ahead() -> None:
    key = PrivateKey.generate(256)
    zeros = Zeros(LocalWorkers(1), key.public, most=2)
    zeros.make(3)
    assert zeros.take(3) is None
    message = zeros.encrypt(np.array([7, 8, -9]))
    assert key.decrypt(key.public.from_bytes(message, count=3)) == [7, 8, -9]
