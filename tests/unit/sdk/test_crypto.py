"""The cryptography that authors may rely on: results, checked input, blinding."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.cores.workers import LocalWorkers
from fedflow.sdk.crypto import (
    EncryptedVector,
    PaillierKeyPair,
    PaillierPublicKey,
    decode_ring,
    encode_ring,
    hash_ids,
    list_digest,
    new_seed,
    random_integers,
    random_permutation,
    random_ring,
    random_uniform,
    read_share,
    reconstruct,
    share,
)
from fedflow.sdk.errors import CodecError, NotEncodable
from fedflow.testing.workers import PicklingWorkers

KEYS = PaillierKeyPair.generate(1024)
PUBLIC = PaillierPublicKey.from_wire(KEYS.public.to_wire(), bits=1024)
FLOATS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5)


def sent(vector: EncryptedVector, *, packed: bool = False) -> EncryptedVector:
    """Return what the key's owner reads of a vector that went over the wire."""
    return KEYS.public.read(vector.to_bytes(packed=packed), count=len(vector))


@settings(max_examples=20, deadline=None)
@given(values=FLOATS, factor=st.floats(-1e3, 1e3), added=st.floats(-1e6, 1e6))
def test_computing_on_ciphertexts_is_computing_on_numbers(
    values: list[float], factor: float, added: float
) -> None:
    x = np.array(values)
    vector = PUBLIC.encrypt(x)
    for result, wanted in (
        (vector * factor + added, x * factor + added),
        (added - x * vector, added - x * x),
        (vector - vector * 2, -x),
        (vector.sum() - x[0], [x.sum() - x[0]]),
        (vector[::-1] + x, x[::-1] + x),
        (vector.dot(np.column_stack((x, 0 * x, x + 1))), [x @ x, 0, x @ (x + 1)]),
    ):
        decrypted = KEYS.decrypt(sent(result))
        scale = 1 + np.abs(x).sum() * (1 + abs(factor))
        assert decrypted == pytest.approx(np.array(wanted), abs=1e-9 * scale)


def test_integers_are_exact() -> None:
    large = np.array([2**61, -(2**61), 3])
    vector = PUBLIC.encrypt(large) * np.array([2**61, 5, 0]) + 7
    assert KEYS.decrypt_integers(sent(vector)) == [2**122 + 7, -5 * 2**61 + 7, 7]
    counts = PUBLIC.encrypt([True, False, True]).dot(np.array([[1, 0], [1, 1], [1, 1]]))
    assert KEYS.decrypt_integers(sent(counts, packed=True)) == [2, 1]
    with pytest.raises(ValueError, match="floats took part"):
        KEYS.decrypt_integers(vector * 0.5)


@pytest.mark.parametrize("make", [lambda: LocalWorkers(2), PicklingWorkers])
def test_workers_compute_the_same(make: Callable[[], Any]) -> None:
    workers = make()
    x = np.linspace(-3, 3, 40)
    matrix = np.column_stack((x, x**2, np.ones(40)))
    vector = sent(PUBLIC.encrypt(x, workers=workers))
    assert KEYS.decrypt(vector, workers=workers) == pytest.approx(x, abs=1e-11)
    found = KEYS.decrypt(sent(vector.dot(matrix, workers=workers)))
    assert found == pytest.approx(matrix.T @ x, abs=1e-7)


def test_what_was_computed_leaves_with_another_blinding_each_time() -> None:
    fresh = PUBLIC.encrypt([1.0, 2.0])
    assert fresh.to_bytes() == fresh.to_bytes()  # random already
    assert PUBLIC.encrypt([1.0, 2.0]).to_bytes() != fresh.to_bytes()
    received = KEYS.public.read(fresh.to_bytes(), count=2)
    for computed in (fresh + fresh, fresh * 1, fresh + 0, fresh.sum(), received, received[:1]):
        assert computed.to_bytes() != computed.to_bytes()
    # multiplied by 0, a ciphertext alone would show that
    assert KEYS.decrypt(sent(fresh * 0)).tolist() == [0, 0]
    assert b"\x01" + bytes(255) not in (fresh * 0).to_bytes()


def test_a_mask_hides_numbers_from_the_owner_and_comes_off_exactly() -> None:
    x = np.array([1.5, -2.25, 0.0])
    vector = PUBLIC.encrypt(x) * np.array([0.5, 0.5, 0.5])
    for packed in (False, True):
        masked, mask = vector.masked()
        seen = sent(masked, packed=packed)
        assert np.all(np.abs(KEYS.decrypt(seen)) > 2**60)
        assert mask.remove(KEYS.open_masked(seen)).tolist() == (x * 0.5).tolist()
        again, _ = vector.masked()
        assert KEYS.decrypt(sent(again)).tolist() != KEYS.decrypt(seen).tolist()
    for wrong in (None, b"", KEYS.open_masked(seen)[:-1], KEYS.open_masked(sent(vector))):
        with pytest.raises(CodecError):
            mask.remove(wrong)


def test_a_packed_vector_is_short_and_only_for_decryption() -> None:
    x = np.arange(20.0)
    vector = PUBLIC.encrypt(x)
    assert len(vector.to_bytes(packed=True)) < len(vector.to_bytes()) / 5
    seen = sent(vector * 0.5, packed=True)
    assert KEYS.decrypt(seen).tolist() == (x * 0.5).tolist()
    for use in (lambda: seen + 1, lambda: seen[:1], seen.sum, seen.masked):
        with pytest.raises(ValueError, match="decrypted, not computed with"):
            use()


def test_numbers_that_do_not_fit_are_refused_and_never_wrap() -> None:
    vector = PUBLIC.encrypt([1.0])
    for _ in range(15):
        vector = vector * 2.0
    with pytest.raises(NotEncodable, match="do not fit a key of 1024"):
        vector * 2.0
    for values in ([np.nan], [np.inf], [2.0**40], np.array([2**62]), np.array([2**63], np.uint64)):
        with pytest.raises(NotEncodable):
            PUBLIC.encrypt(values)
    for factor in (2.0**30, np.nan, 2**62):
        with pytest.raises(NotEncodable):
            PUBLIC.encrypt([1.0]) * factor
    with pytest.raises(NotEncodable):
        PUBLIC.encrypt([1.0]) + 2.0**41


def test_wrong_uses_say_so() -> None:
    vector = PUBLIC.encrypt([1.0, 2.0])
    other = PaillierKeyPair.generate(1024)
    with pytest.raises(ValueError, match="different keys"):
        vector + other.public.encrypt([1.0, 2.0])
    with pytest.raises(CodecError, match="another key"):
        other.decrypt(vector)
    with pytest.raises(TypeError, match="cannot be multiplied"):
        vector * vector  # type: ignore[operator]
    with pytest.raises(TypeError, match="take a slice"):
        vector[0]  # type: ignore[index]
    with pytest.raises(TypeError, match="where numbers were due"):
        PUBLIC.encrypt(["a"])  # type: ignore[list-item]
    for wrong in (np.ones(3), np.ones((2, 1))):
        with pytest.raises(ValueError, match="shape"):
            vector + wrong
    with pytest.raises(ValueError, match="for 2 encrypted rows"):
        vector.dot(np.ones((3, 1)))
    with pytest.raises(ValueError, match="not safe"):
        PaillierKeyPair.generate(512)
    assert repr(vector) == f"EncryptedVector(2 numbers, key {vector._key.key_id.hex()})"


def test_messages_of_other_parties_are_checked() -> None:
    payload = PUBLIC.encrypt([1.0, 2.0]).to_bytes()
    other = PaillierKeyPair.generate(1024).public.encrypt([1.0, 2.0]).to_bytes()
    head, body = payload[:24], payload[24:]
    forms = [
        (b"XXXX" + payload[4:], "unknown format"),
        (payload[:-1], "bytes are not 2 ciphertexts"),
        (other, "another key"),
        (head[:8] + b"\xff\xff\0\0" + head[12:] + body, "do not fit its key"),
        (head[:12] + b"\0\0\0\0" + head[16:] + body, "do not fit its key"),
        (head[:4] + b"\xff\xff\0\0" + head[8:] + body, "do not fit its key"),
        (b"", "no encrypted vector"),
        ({"n": 1}, "no encrypted vector"),
    ]
    for wrong, words in forms:
        with pytest.raises(CodecError, match=words):
            PUBLIC.read(wrong, count=2)
    with pytest.raises(CodecError, match="2 encrypted numbers where 3"):
        PUBLIC.read(payload, count=3)
    for key in (None, {}, {"n": "0x10"}, {"n": hex(2**1024)}, "0x10"):
        with pytest.raises(CodecError):
            PaillierPublicKey.from_wire(key, bits=1024)
    with pytest.raises(CodecError, match="not 2048"):
        PaillierPublicKey.from_wire(KEYS.public.to_wire())


# --- shares, randomness, ids ----------------------------------------------------------------------


@given(values=FLOATS, parties=st.integers(2, 5))
def test_shares_add_up_and_so_do_sums_of_shares(values: list[float], parties: int) -> None:
    x = np.array(values)
    shares, more = share(x, parties), share(2 * x, parties)
    assert reconstruct(shares) == pytest.approx(x, abs=2**-24)
    sums = [one + two for one, two in zip(shares, more, strict=True)]
    assert reconstruct(sums) == pytest.approx(3 * x, abs=2**-23)
    assert all(read_share(one, shape=x.shape) is one for one in shares)


def test_a_share_says_nothing_alone() -> None:
    zeros = share(np.zeros(4000), 2)
    for one in zeros:
        assert len(np.unique(one)) == 4000
        assert abs(float(np.mean(one >> np.uint64(63))) - 0.5) < 0.05


@pytest.mark.parametrize(
    ("values", "bits", "error"),
    [
        (np.array([2.0**39]), 24, NotEncodable),
        (np.array([np.nan]), 24, NotEncodable),
        (np.array([2**40]), 24, NotEncodable),
        (np.array([-(2**63)]), 0, NotEncodable),
        (np.array([2**63], np.uint64), 0, NotEncodable),
        (np.array([1.0]), 63, ValueError),
        (np.array(["1"]), 24, TypeError),
    ],
)
def test_what_cannot_be_shared_is_refused(values: Any, bits: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        encode_ring(values, fraction_bits=bits)


def test_ring_numbers_keep_sign_and_size() -> None:
    for kind in (np.int64, np.int8, np.float32, bool):
        values = np.array([0, 1], kind)
        assert decode_ring(encode_ring(values)).tolist() == [0.0, 1.0]
    assert decode_ring(encode_ring(np.array([-3, 5]), fraction_bits=0), fraction_bits=0)[0] == -3
    with pytest.raises(ValueError, match="cannot share"):
        share(np.ones(1), 1)
    with pytest.raises(ValueError, match="one shape"):
        reconstruct([random_ring(1), random_ring(2)])
    for wrong in (None, np.ones(2), random_ring(3)):
        with pytest.raises(CodecError):
            read_share(wrong, shape=(2,))


def test_a_seed_gives_the_same_numbers_and_each_purpose_others() -> None:
    seed = new_seed()
    for draw in (random_ring, random_uniform):
        one = draw((3, 4), seed=seed, purpose="a")
        assert one.shape == (3, 4)
        assert np.array_equal(one, draw((3, 4), seed=seed, purpose="a"))
        assert not np.array_equal(one, draw((3, 4), seed=seed, purpose="b"))
        assert not np.array_equal(draw((3, 4)), draw((3, 4)))
    for wrong in ({"seed": b"short", "purpose": "a"}, {"seed": seed}):
        with pytest.raises(ValueError, match="seed"):
            random_ring(1, **wrong)


def test_random_numbers_are_within_their_limits_and_spread() -> None:
    seed = bytes(32)
    uniform = random_uniform(20_000, seed=seed, purpose="u")
    assert 0 <= uniform.min() < 0.001 < 0.999 < uniform.max() < 1
    for limit in (1, 3, 1000, 2**31):
        found = random_integers(limit, 20_000, seed=seed, purpose="i")
        assert 0 <= found.min() <= found.max() < limit
        assert abs(found.mean() / limit - (limit - 1) / (2 * limit)) < 0.02
    exact = [int(d) * 7 >> 64 for d in random_ring(100, seed=seed, purpose="i").tolist()]
    assert random_integers(7, 100, seed=seed, purpose="i").tolist() == exact
    assert sorted(random_permutation(500).tolist()) == list(range(500))
    for limit in (0, 2**31 + 1):
        with pytest.raises(ValueError, match="limit"):
            random_integers(limit, 1)


def test_hashed_ids_depend_on_key_and_purpose_and_need_both() -> None:
    key = new_seed()
    ids = ["a", "ab", "", "é"]
    found = hash_ids(ids, key=key, purpose="match")
    assert [len(one) for one in found] == [32] * 4
    assert len(set(found)) == 4
    assert hash_ids(iter(ids), key=key, purpose="match") == found
    assert not set(found) & set(hash_ids(ids, key=key, purpose="other"))
    assert not set(found) & set(hash_ids(ids, key=new_seed(), purpose="match"))
    assert not set(found) & set(hash_ids(["match" + one for one in ids], key=key, purpose="m"))
    for wrong in ({"key": b"short", "purpose": "x"}, {"key": key, "purpose": ""}):
        with pytest.raises(ValueError, match=r"key|purpose"):
            hash_ids(ids, **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an id is a text, not a int"):
        hash_ids([1], key=key, purpose="x")  # type: ignore[list-item]


def test_the_digest_of_a_list_knows_its_order_and_where_ids_end() -> None:
    key = new_seed()

    def digest(*ids: str) -> bytes:
        return list_digest(ids, key=key, purpose="rows")

    assert digest("a", "b") == digest("a", "b")
    assert len({digest("a", "b"), digest("b", "a"), digest("ab"), digest(), digest("")}) == 5


def test_keys_and_vectors_say_no_secret_in_their_texts() -> None:
    primes = {str(prime) for prime in KEYS._key.primes} | {hex(p) for p in KEYS._key.primes}
    _, mask = PUBLIC.encrypt([1.0]).masked()
    for text in (repr(KEYS), repr(PUBLIC), repr(mask), str(KEYS)):
        assert not any(prime in text for prime in primes)
        assert len(text) < 90
    assert pickle.loads(pickle.dumps(PUBLIC)).bits == 1024
