"""Additively homomorphic schemes: what components may expect of each of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors.data_plane import CodecError
from fedflow.sdk.crypto import paillier
from fedflow.sdk.crypto.ciphertexts import unpack
from fedflow.sdk.crypto.okamoto_uchiyama import new_private_key
from fedflow.sdk.crypto.random_powers import Blinding
from fedflow.sdk.crypto.schemes import (
    Cryptosystem,
    PrivateScheme,
    PublicScheme,
    generate_key,
    parse_key,
)

# Short keys: for arithmetic, not for secrets.
KEYS: dict[str, Callable[[Blinding], PrivateScheme]] = {
    "paillier": lambda blinding: paillier.PrivateKey.generate(512, blinding=blinding),
    "ou": lambda blinding: new_private_key(768, blinding=blinding),
}
MADE = {(name, blinding): make(blinding) for name, make in KEYS.items() for blinding in Blinding}
NAMES = {f"{name}-{blinding.value}": key for (name, blinding), key in MADE.items()}


@pytest.fixture(params=NAMES)
def key(request: pytest.FixtureRequest) -> PrivateScheme:
    return NAMES[request.param]


@pytest.fixture(params=[name for name in NAMES if name.endswith("-table")])
def quick(request: pytest.FixtureRequest) -> PrivateScheme:
    """Return a key that encrypts fast, where the way of blinding does not matter."""
    return NAMES[request.param]


def edges(key: PrivateScheme) -> list[int]:
    largest = (1 << key.public.plaintext_bits) - 1
    return [0, 1, -1, 255, 256, -255, -256, -257, 1 << 64, -(1 << 64), largest, -largest]


# --- encryption -----------------------------------------------------------------------------------


def test_what_everybody_encrypts_is_opened_with_its_sign(key: PrivateScheme) -> None:
    for to_owner in (False, True):
        key.public.prepare(to_owner=to_owner)
        found = list(key.public.encrypt(edges(key), to_owner=to_owner))
        assert key.decrypt(found) == edges(key)
        assert key.public.from_bytes(key.public.to_bytes(found), count=len(found)) == found


def test_what_the_owner_encrypts_is_opened_with_its_sign(key: PrivateScheme) -> None:
    key.prepare()
    found = list(key.encrypt(iter(edges(key))))
    assert key.decrypt(found) == edges(key)
    assert key.public.from_bytes(key.public.to_bytes(found), count=len(found)) == found
    assert list(key.encrypt([])) == []


def test_owners_ciphertexts_and_others_add_up(key: PrivateScheme) -> None:
    own, other = next(key.encrypt([-70])), next(key.public.encrypt([7]))
    assert key.decrypt([key.public.add(own, other), key.public.multiply_plain(own, -3)]) == [
        -63,
        210,
    ]


def test_no_randomness_is_used_twice(quick: PrivateScheme) -> None:
    public = quick.public
    zeros = [
        *quick.encrypt([0] * 600),  # more than are made together
        *public.encrypt([0] * 600),
        *public.encrypt([0] * 20, to_owner=True),
        *public.blind([mpz(1)] * 20),
        *public.blind([mpz(1)] * 20, to_owner=True),
    ]
    assert len(set(zeros)) == len(zeros) == 1260
    assert quick.decrypt(zeros) == [0] * 1260


def test_an_owner_with_conservative_blinding_uses_no_randomness_twice(key: PrivateScheme) -> None:
    zeros = list(key.encrypt([0] * 50))
    assert len(set(zeros)) == 50


def test_owners_ciphertexts_are_random_modulo_each_prime(key: PrivateScheme) -> None:
    zeros = list(key.encrypt([0] * 50))
    for prime in key.primes:
        assert len({c % prime for c in zeros}) == 50


# --- arithmetic -----------------------------------------------------------------------------------

numbers = st.integers(-(2**100), 2**100)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from([n for n in NAMES if n.endswith("-table")]),
    values=st.lists(numbers, min_size=1, max_size=6),
    plain=numbers,
    factor=st.integers(-(2**20), 2**20),
)
def test_sums_and_multiples_are_exact(
    name: str, values: list[int], plain: int, factor: int
) -> None:
    key = NAMES[name]
    public = key.public
    ciphertexts = list(key.encrypt(values))
    total = public.total(ciphertexts)
    computed = [
        total,
        public.add_plain(total, plain),
        public.multiply_plain(total, factor),
        public.total([]),
    ]
    assert key.decrypt(computed) == [sum(values), sum(values) + plain, sum(values) * factor, 0]
    assert key.decrypt(public.blind(computed, to_owner=True)) == key.decrypt(computed)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from([n for n in NAMES if n.endswith("-table")]),
    bits=st.integers(2, 64),
    data=st.data(),
)
def test_packed_values_come_back(name: str, bits: int, data: st.DataObject) -> None:
    key = NAMES[name]
    edge = (1 << (bits - 1)) - 1
    one = st.one_of(st.integers(-edge, edge), st.sampled_from([edge, -edge, 0]))
    values = data.draw(st.lists(one, min_size=1, max_size=8))
    slots = key.public.slots(bits)
    packed = key.public.pack(list(key.encrypt(values)), bits)
    assert len(packed) == -(-len(values) // slots)
    opened = key.open(packed, limit_bits=key.public.plaintext_bits)
    assert unpack(opened, bits, slots=slots, count=len(values)) == values


def test_a_full_ciphertext_of_the_largest_slots_comes_back(quick: PrivateScheme) -> None:
    public = quick.public
    for bits in (8, 13, public.plaintext_bits // 2, public.plaintext_bits):
        edge = (1 << (bits - 1)) - 1
        for value in (edge, -edge):
            values = [value] * public.slots(bits)
            (packed,) = public.pack(list(quick.encrypt(values)), bits)
            opened = quick.open([packed], limit_bits=public.plaintext_bits)
            assert unpack(opened, bits, slots=len(values), count=len(values)) == values
    with pytest.raises(ValueError, match="does not fit"):
        public.slots(public.plaintext_bits + 1)


# --- opening what others computed -----------------------------------------------------------------


def test_a_value_outside_of_what_is_expected_is_not_opened(quick: PrivateScheme) -> None:
    inside = list(quick.encrypt([2**40 - 1, -(2**40) + 1, 0]))
    assert quick.open(inside, limit_bits=40) == [2**40 - 1, -(2**40) + 1, 0]
    for value in (2**40, -(2**40)):
        with pytest.raises(CodecError, match="more than 40 bits"):
            quick.open([*inside, *quick.encrypt([value])], limit_bits=40)


def test_a_value_that_wrapped_around_is_not_opened(quick: PrivateScheme) -> None:
    bits = quick.public.plaintext_bits
    overflow = quick.public.multiply_plain(next(quick.encrypt([1])), 9 << (bits - 1))
    assert quick.decrypt([overflow]) != [9 << (bits - 1)]
    with pytest.raises(CodecError, match="opened value"):
        quick.open([overflow], limit_bits=bits - 16)


def test_a_limit_that_checks_nothing_is_refused(quick: PrivateScheme) -> None:
    for bits in (0, quick.public.plaintext_bits + 1):
        with pytest.raises(ValueError, match="plaintexts have"):
            quick.open([], limit_bits=bits)


# --- messages -------------------------------------------------------------------------------------


def hostile(key: PrivateScheme, other: PublicScheme) -> dict[str, object]:
    public = key.public
    good = public.to_bytes(key.encrypt([1, 2]))
    p, q = (mpz(prime) for prime in key.primes)
    return {
        "nothing": None,
        "cut": good[:-1],
        "longer": good + b"\0",
        "too few": public.to_bytes(key.encrypt([1])),
        "another version": good[:3] + b"\x02" + good[4:],
        "another scheme": b"FXX\x01" + good[4:],
        "another key": other.to_bytes(other.encrypt([1, 2])),
        "zero": public.to_bytes([mpz(0), mpz(1)]),
        "too large": public.to_bytes([public.modulus, mpz(1)]),
        "not coprime": public.to_bytes([mpz(1), p * 2]),
        "not coprime either": public.to_bytes([q, mpz(1)]),
    }


def test_bad_messages_are_refused(quick: PrivateScheme) -> None:
    (name,) = (name for name, made in NAMES.items() if made is quick)
    other = KEYS[name.removesuffix("-table")](Blinding.TABLE).public
    for payload in hostile(quick, other).values():
        with pytest.raises(CodecError):
            quick.public.from_bytes(payload, count=2)


def test_rows_are_checked_where_they_are_read(quick: PrivateScheme) -> None:
    public = quick.public
    message = public.to_bytes(quick.encrypt([1, 2, 3]))
    rows = public.rows_of(message, count=3)
    assert rows.shape == (3, public.width)
    assert quick.decrypt(public.read_rows(rows[1:])) == [2, 3]
    assert quick.decrypt(public.read(message, 0, 2)) == [1, 2]
    assert public.message_of(rows) == message == public.message(public.body(public.read_rows(rows)))
    damaged = rows.copy()
    damaged[2] = 0xFF
    with pytest.raises(CodecError, match="out of range"):
        public.read_rows(damaged)


@settings(max_examples=50, deadline=None)
@given(name=st.sampled_from(list(NAMES)), payload=st.binary(max_size=300))
def test_any_bytes_are_refused(name: str, payload: bytes) -> None:
    with pytest.raises(CodecError):
        NAMES[name].public.from_bytes(payload, count=2)


# --- keys -----------------------------------------------------------------------------------------


def test_keys_are_sent_without_their_tables_and_kept_by_who_gets_them(key: PrivateScheme) -> None:
    list(key.public.encrypt([1])), list(key.encrypt([1]))
    for one in (key, key.public):
        sent = pickle.dumps(one)
        assert len(sent) < 1000
        assert pickle.loads(sent) is pickle.loads(sent)  # so its tables are built once
    private: PrivateScheme = pickle.loads(pickle.dumps(key))
    assert private.public.key_id == key.public.key_id
    assert key.decrypt(private.encrypt([5, -5])) == [5, -5]


@pytest.mark.parametrize("method", Cryptosystem)
def test_a_new_key_is_read_back_by_others(method: Cryptosystem) -> None:
    key = generate_key(method, 2048)
    assert key.public.bits == 2048
    wire = key.public.to_wire()
    found = parse_key(wire, method, 2048)
    assert found.key_id == key.public.key_id
    assert found.plaintext_bits == key.public.plaintext_bits
    values = [1 << (found.plaintext_bits - 1), -5]
    assert key.decrypt(found.encrypt(values)) == values
    with pytest.raises(CodecError):
        parse_key(wire, method, 3072)
    for value in (None, [], "", {}, {"n": 5}, {**wire, "n": "xyz"}):
        with pytest.raises(CodecError):
            parse_key(value, method, 2048)


def test_the_owner_encrypts_at_less_cost(key: PrivateScheme) -> None:
    public = key.public
    assert 0 < public.blinding_products() <= public.blinding_products(to_owner=True)
    if public.blinding is Blinding.CONSERVATIVE:
        assert 0 < key.encryption_products() < public.blinding_products() / 2
    else:
        assert 0 < key.encryption_products() < public.blinding_products(to_owner=True)
