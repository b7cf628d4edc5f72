"""The parts of the SSHE models: shares, packed products, masks, parameters, hostile messages."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz

from fedflow.base.errors.components import BadParameter, NotEncodable
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.crypto.packed_rows import PackedMatrix, PowerTables, packed_products
from fedflow.components.sshe import matmul
from fedflow.components.sshe.params import HeteroSSHELinRParams, HeteroSSHELRParams
from fedflow.components.sshe.session import Batches
from fedflow.components.sshe.shares import (
    RING_BITS,
    WEIGHT_BITS,
    center,
    centered,
    combine,
    decode,
    encode,
    from_bytes,
    inner,
    matrix_vector,
    random_ring,
    ring,
    rounded,
    split,
    to_bytes,
    vector_matrix,
)
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import PlannedRun, Workers, check_params
from fedflow.sdk.crypto.encrypted_rows import IntegerRows
from fedflow.sdk.crypto.fixed_point import scaled
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components.hetero_lr_parties import GUEST, HOST, HOST_2, first_error, small
from tests.unit.components.sshe_parties import HIDDEN, SITES, run

KEY = PrivateKey.generate(1024)


# --- shares ---------------------------------------------------------------------------------------


def test_shares_add_up_and_are_centered() -> None:
    values = encode(np.array([0.0, 1.5, -3.25, 2.0**19]), scale=32, limit_bits=20, what="x")
    one, two = split(values)
    assert (center(one + two) == values).all()
    half = 1 << (RING_BITS - 1)
    assert all(-half <= v < half for v in (*one, *two))
    assert (decode(values, scale=32, limit_bits=20, what="x") == [0.0, 1.5, -3.25, 2.0**19]).all()


def test_random_elements_reach_all_of_the_ring() -> None:
    drawn = random_ring(2000)
    assert min(drawn) < -(1 << (RING_BITS - 3))
    assert max(drawn) > 1 << (RING_BITS - 3)
    assert len(set(drawn.tolist())) == 2000


def test_centering_is_modular() -> None:
    full = 1 << RING_BITS
    assert centered(full // 2) == -(full // 2)
    assert centered(full // 2 - 1) == full // 2 - 1
    assert centered(5 - 3 * full) == 5
    assert ring([full + 7, -1]).tolist() == [7, -1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0**20])
def test_what_does_not_fit_is_refused(value: float) -> None:
    with pytest.raises(NotEncodable, match="1 of 2 weights"):
        encode(np.array([0.0, value]), scale=32, limit_bits=20, what="weights")
    with pytest.raises(NotEncodable, match="1 of 2 losses"):
        decode(ring([1 << 100, 5]), scale=32, limit_bits=60, what="losses")


def test_products_with_a_matrix_are_those_of_the_ring() -> None:
    generator = np.random.default_rng(3)
    matrix = generator.integers(-(1 << 43), 1 << 43, size=(7, 4))
    vector, other = random_ring(4), random_ring(7)
    whole = matrix.astype(object)
    assert matrix_vector(matrix, vector).tolist() == center(whole @ vector).tolist()
    assert vector_matrix(other, matrix).tolist() == center(other @ whole).tolist()
    assert inner(vector, vector) == centered(sum(v * v for v in vector))
    assert matrix_vector(matrix[:, :0], vector[:0]).tolist() == [0] * 7


def test_blocks_of_rows_give_the_same_products(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.arange(30).reshape(10, 3)
    vector, other = random_ring(3), random_ring(10)
    expected = matrix_vector(matrix, vector).tolist(), vector_matrix(other, matrix).tolist()
    monkeypatch.setattr("fedflow.components.sshe.shares._ROWS_PER_BLOCK", 4)
    assert (
        matrix_vector(matrix, vector).tolist(),
        vector_matrix(other, matrix).tolist(),
    ) == expected


def test_each_party_combines_its_shares_alone() -> None:
    generator = np.random.default_rng(4)
    weights, sums = generator.normal(size=200), generator.normal(size=200) * 1e4
    decay = generator.uniform(0.9, 1.0, 200)
    one, two = split(encode(weights, scale=WEIGHT_BITS, limit_bits=20, what="w"))
    first, second = split(encode(sums, scale=64, limit_bits=40, what="g"))
    parts = [
        combine([(w, decay, WEIGHT_BITS), (g, -1e-6, 64)], scale=WEIGHT_BITS)
        for w, g in ((one, first), (two, second))
    ]
    found = decode(center(parts[0] + parts[1]), scale=WEIGHT_BITS, limit_bits=20, what="w")
    np.testing.assert_allclose(found, weights * decay - 1e-6 * sums, atol=4e-10, rtol=0)


@pytest.mark.parametrize("drop", [40, 0, -8])
def test_each_party_rounds_its_share_alone(drop: int) -> None:
    values = ring([12345 << 50, -(777 << 50), 0])
    one, two = split(values)
    total = center(rounded(one, drop=drop) + rounded(two, drop=drop))
    wanted = [v / 2.0**drop for v in values]
    assert all(abs(t - w) <= 1 for t, w in zip(total, wanted, strict=True))


def test_a_coefficient_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NotEncodable):
        combine([(ring([1]), float("inf"), 32)], scale=32)


def test_the_wire_form_keeps_every_element() -> None:
    values = np.append(random_ring(20), [-(1 << 191), (1 << 191) - 1, 0])
    assert from_bytes(to_bytes(values), count=23).tolist() == values.tolist()
    with pytest.raises(CodecError):
        from_bytes(to_bytes(values), count=22)
    with pytest.raises(CodecError):
        from_bytes([1, 2], count=2)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.5, 1e-9, -3.7e12, 0.1, 2.5])
@pytest.mark.parametrize("bits", [-20, 0, 1, 20, 60, 2000])
def test_a_scaled_factor_is_rounded_once(value: float, bits: int) -> None:
    assert scaled(value, bits) == round(Fraction(value) * Fraction(2) ** bits)


# --- products under encryption --------------------------------------------------------------------


@pytest.mark.parametrize("window", [2, 3, 5, 8])
@pytest.mark.parametrize("slots", [1, 3])
def test_packed_rows_are_exact(window: int, slots: int) -> None:
    generator = np.random.default_rng(1)
    matrix = generator.integers(-(1 << 27), 1 << 27, size=(11, 3))
    matrix[0] = [-(1 << 27), (1 << 27) - 1, 0]
    matrix[4] = 0
    numbers = random_ring(3)
    public = KEY.public
    vector = list(public.encrypt(int(v) for v in numbers))
    tables = PowerTables(
        ciphertexts=tuple(vector),
        modulus=public.modulus,
        slot_bits=330,
        slots=slots,
        bits=28,
        window=window,
    )
    packed = tables.multiply(matrix)
    assert len(packed) == -(-11 // slots)
    found = unpack(KEY.decrypt(packed), 330, slots=slots, count=11)
    assert found == (matrix.astype(object) @ numbers).tolist()


def test_packed_rows_refuse_what_does_not_fit() -> None:
    matrix = np.ones((2, 2), dtype=np.int64)

    def tables(columns: int, window: int = 3) -> PowerTables:
        return PowerTables(
            ciphertexts=(mpz(3),) * columns,
            modulus=mpz(35),
            slot_bits=8,
            slots=2,
            bits=1,
            window=window,
        )

    with pytest.raises(ValueError, match="1 ciphertexts"):
        tables(1).multiply(matrix)
    with pytest.raises(ValueError, match="13 bits"):
        tables(2, window=13)
    with pytest.raises(ValueError, match="2\\*\\*62"):
        PackedMatrix.of(matrix << 62, slots=1)
    assert tables(0).multiply(matrix[:, :0]) == [1]


@pytest.mark.parametrize("table_bytes", [1, 64 << 20])
@pytest.mark.parametrize("rows", [1, 10, 12])
def test_columns_in_several_passes_give_the_same_packed_rows(
    monkeypatch: pytest.MonkeyPatch, table_bytes: int, rows: int
) -> None:
    monkeypatch.setattr("fedflow.components.crypto.packed_rows._TABLE_BYTES", table_bytes)
    matrix = np.random.default_rng(6).integers(-(1 << 20), 1 << 20, size=(rows, 4))
    numbers, public = random_ring(4), KEY.public
    workers = PicklingWorkers(block_rows=3)
    found = packed_products(
        workers,
        public,
        list(public.encrypt(int(v) for v in numbers)),
        PackedMatrix.of(matrix, slots=3),
        slot_bits=330,
        finish=partial(written, public),
        width=public.width,
        products=0.0,
    )
    packed = public.from_bytes(public.message_of(found), count=-(-rows // 3))
    opened = unpack(KEY.decrypt(packed), 330, slots=3, count=rows)
    assert opened == (matrix.astype(object) @ numbers).tolist()
    assert len(workers.calls) == (4 if table_bytes == 1 else 1)


def written(key: PublicKey, packed: list[Any], used: list[int]) -> bytes:
    assert len(packed) == len(used)
    return key.body(packed)


WORKERS = [LocalWorkers(1), PicklingWorkers(block_rows=2)]


@pytest.mark.parametrize("workers", WORKERS, ids=["here", "blocks"])
@pytest.mark.parametrize("kind", ["rows", "columns", "elements", "vector"])
def test_masked_products_are_shares_of_the_product(kind: str, workers: Workers) -> None:
    public = KEY.public
    matrix = np.random.default_rng(2).integers(-(1 << 30), 1 << 30, size=(10, 4))
    numbers = random_ring({"rows": 4, "columns": 10, "elements": 10, "vector": 10}[kind])
    payload = matmul.encrypt(workers, KEY, numbers)
    if kind == "rows":
        packed = PackedMatrix.of(matrix, slots=3)
        message, own = matmul.row_products(workers, public, payload, packed)
        expected = matrix.astype(object) @ numbers
    elif kind == "columns":
        integers = IntegerRows.of(matrix)
        message, own = matmul.column_products(workers, public, payload, integers)
        expected = numbers @ matrix.astype(object)
    elif kind == "elements":
        message, own = matmul.element_products(workers, public, payload, matrix[:, 0])
        expected = numbers * matrix[:, 0].astype(object)
    else:
        ciphertexts = [int(c) for c in public.from_bytes(payload, count=10)]
        message, own = matmul.mask_vector(public, ciphertexts)
        expected = numbers
    opened = matmul.open_products(workers, KEY, message, count=len(expected))
    assert center(opened + own).tolist() == center(expected).tolist()
    assert not set(opened.tolist()) & set(expected.tolist())


@pytest.mark.parametrize("workers", WORKERS, ids=["here", "blocks"])
def test_inner_products_of_ring_elements_are_shared(workers: Workers) -> None:
    left, right, more = random_ring(6), random_ring(6), random_ring(2)
    right[:3] = [-(1 << 191), (1 << 191) - 1, -1]
    parts = [
        (matmul.encrypt(workers, KEY, left), right),
        (matmul.encrypt(workers, KEY, more), more),
    ]
    message, own = matmul.inner_product(workers, KEY.public, parts)
    total = inner(left, right) + inner(more, more)
    assert centered(matmul.open_inner(KEY, message) + own) == centered(total)


@pytest.mark.parametrize("workers", WORKERS, ids=["here", "blocks"])
def test_own_products_are_those_of_the_ring(workers: Workers) -> None:
    matrix = np.random.default_rng(3).integers(-(1 << 43), 1 << 43, size=(7, 4))
    vector, other, integers = random_ring(4), random_ring(7), IntegerRows.of(matrix, workers)
    rows = matmul.own_row_products(workers, integers, vector)
    assert rows.tolist() == matrix_vector(matrix, vector).tolist()
    columns = matmul.own_column_products(workers, other, integers)
    assert columns.tolist() == vector_matrix(other, matrix).tolist()


@pytest.mark.parametrize("size", [4, 5, 6, 14])
def test_batches_find_their_rows_although_groups_are_filled(size: int) -> None:
    matrix = np.arange(28, dtype=np.int64).reshape(14, 2)
    batches = Batches(rows=14, size=size)
    encoded = matmul.EncodedMatrix(matrix, batches, slots=3, packed=True, workers=PicklingWorkers())
    for rows in batches.slices():
        batch = encoded.batch(rows)
        assert local(batch.columns.rows).tolist() == matrix[rows].tolist()
        assert batch.packed is not None
        groups = local(batch.packed.groups)
        count = rows.stop - rows.start
        assert (groups.shape, batch.packed.rows) == ((-(-count // 3), 6), count)
        assert groups.reshape(-1, 2)[:count].tolist() == matrix[rows].tolist()
        assert not groups.reshape(-1, 2)[count:].any()


def local(rows: Any) -> Any:
    return rows if isinstance(rows, np.ndarray) else rows.local()


def test_products_that_another_party_falsified_are_refused() -> None:
    public = KEY.public
    bad = public.message(bytes(public.width * 4))
    for workers in WORKERS:
        with pytest.raises(CodecError, match="out of range"):
            matmul.open_products(workers, KEY, bad, count=12)
        with pytest.raises(CodecError, match="out of range"):
            matmul.element_products(workers, public, bad, np.ones(4, dtype=np.int64))
        with pytest.raises(CodecError, match="out of range"):
            matmul.column_products(
                workers, public, bad, IntegerRows.of(np.ones((4, 1), dtype=np.int64))
            )
        with pytest.raises(CodecError, match="4 ciphertexts where 5 were due"):
            matmul.open_products(workers, KEY, bad, count=13)


def test_masks_hide_the_product_and_change_each_time() -> None:
    matrix = np.ones((3, 1), dtype=np.int64)
    workers, packed = LocalWorkers(1), PackedMatrix.of(matrix, slots=3)
    payload = matmul.encrypt(workers, KEY, ring([5]))
    messages = [matmul.row_products(workers, KEY.public, payload, packed)[0] for _ in range(2)]
    opened = [matmul.open_products(workers, KEY, message, count=3) for message in messages]
    numbers = [int(v) for part in opened for v in part]
    assert len(set(numbers)) == 6
    assert all(abs(v) > 1 << 100 for v in numbers)


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "size"), [(40, 40), (40, 16), (40, 20), (41, 20)])
def test_weighted_batches_give_the_mean_of_means(rows: int, size: int) -> None:
    batches = Batches(rows=rows, size=size)
    values = np.arange(rows, dtype=np.float64) ** 2
    parts = batches.slices()
    total = sum(batches.weight(p.stop - p.start) * values[p].sum() for p in parts)
    assert total / batches.divisor == pytest.approx(np.mean([values[p].mean() for p in parts]))
    assert len(parts) == batches.count


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"penalty": "L1"}, "penalty"),
        ({"optimizer": "rmsprop"}, "optimizer"),
        ({"optimizer": "sqn", "reveal_every_iter": True}, "optimizer"),
        ({"callback_param": {"validation_freqs": 1}}, "callback_param.validation_freqs"),
        ({"validation_freqs": 1}, "validation_freqs"),
        ({"reveal_strategy": "both"}, "reveal_strategy"),
        (
            {"reveal_strategy": "encrypted_reveal_in_host", "reveal_every_iter": True},
            "reveal_strategy",
        ),
        ({"stepwise_param": {"need_stepwise": True}}, "stepwise_param"),
        ({"batch_size": 5}, "batch_size"),
        ({"encrypt_param": {"method": None}}, "method"),
        ({"multi_class": "ovo"}, "multi_class"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], where: str) -> None:
    with pytest.raises(BadParameter, match=where):
        check_params(HeteroSSHELRParams, params, path="$")


def test_what_is_possible_with_known_weights_is_accepted() -> None:
    for optimizer in ("sgd", "rmsprop", "Adam", "adagrad", "nesterov_momentum_sgd"):
        given = {"optimizer": optimizer, "penalty": "L1", "reveal_every_iter": True}
        check_params(HeteroSSHELRParams, given, path="$")
    check_params(HeteroSSHELRParams, {"optimizer": "nesterov_momentum_sgd"}, path="$")
    with pytest.raises(BadParameter, match="optimizer"):
        check_params(HeteroSSHELinRParams, {"optimizer": "nesterov_momentum_sgd"}, path="$")


def test_a_second_host_is_refused_before_the_start() -> None:
    run_of = PlannedRun(site=GUEST, sites=(GUEST, HOST, HOST_2), data_ports=("train_data",))
    with pytest.raises(BadParameter, match="1 host, not with 2"):
        check_params(HeteroSSHELRParams, {}, path="$", run=run_of)
    check_params(HeteroSSHELRParams, {}, path="$", run=replace(run_of, sites=(GUEST, HOST)))


def test_defaults_are_fates() -> None:
    one = check_params(HeteroSSHELRParams, {}, path="$")
    two = check_params(HeteroSSHELinRParams, {}, path="$")
    assert (one.max_iter, two.max_iter) == (100, 20)
    for params in (one, two):
        assert params.optimizer == "sgd"
        assert params.use_mix_rand is True
        assert params.reveal_every_iter is False
        assert params.reveal_strategy == "respectively"


# --- hostile messages -----------------------------------------------------------------------------


class Falsifying(LocalFederation):
    """Replaces the values of one message."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(SITES)
        self._name, self._value = name, value

    def _put(self, key: Any, value: Any, size: int) -> None:
        super()._put(key, self._value if key.name == self._name else value, size)


def falsified(name: str, value: Any, tmp_path: Path, **params: Any) -> dict[Any, RunResult]:
    federation = Falsifying(name, value)
    return run(small(), tmp_path, federation=federation, max_iter=1, **{**HIDDEN, **params})


@pytest.mark.parametrize(
    ("name", "value", "params"),
    [
        ("sshe_session", {"module": 1}, {}),
        ("sshe_session", 7, {}),
        ("paillier_pubkey", {"n": "0x23", "size": 3}, {}),
        ("paillier_pubkey", {"n": hex(KEY.public.n), "size": -1}, {}),
        ("paillier_pubkey", {"n": hex(KEY.public.n), "size": 1 << 40}, {}),
        ("initial_share", b"short", {}),
        ("encrypted_share", b"", {}),
        ("score_product", b"\x00" * 50, {}),
        ("residual_share", 5, {}),
        ("gradient_product", b"", {}),
        ("loss_product", "text", {}),
        ("norm_product", b"x" * 300, {}),
        ("loss", b"x" * 23, {}),
        ("is_converged", [1], {}),
        ("final_share", {}, {}),
        ("final_weight", b"", {"reveal_strategy": "encrypted_reveal_in_host"}),
        ("host_prob", b"", {"reveal_strategy": "encrypted_reveal_in_host"}),
        ("host_prob", np.array([np.nan] * 40), {}),
        ("gradient", b"", {"reveal_every_iter": True}),
        ("update_norm", b"", {"early_stop": "weight_diff"}),
        ("update_share", b"", {"early_stop": "weight_diff"}),
    ],
)
def test_bad_messages_end_the_run(
    name: str, value: Any, params: dict[str, Any], tmp_path: Path
) -> None:
    results = falsified(name, value, tmp_path, **params)
    assert isinstance(first_error(results), CodecError | BadParameter)
    assert all(result.error is not None for result in results.values()) or name == "host_prob"


def test_a_guest_that_goes_on_past_max_iter_is_refused(tmp_path: Path) -> None:
    results = falsified("is_converged", {"converged": False, "stop": False}, tmp_path)
    assert isinstance(results[HOST].error, CodecError)
    assert GUEST in results


def test_random_shares_in_place_of_weights_are_noticed(tmp_path: Path) -> None:
    results = falsified("final_share", b"\x55" * 24 * 4, tmp_path)
    assert "diverged" in str(first_error(results))
