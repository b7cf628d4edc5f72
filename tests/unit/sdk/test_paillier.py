"""Paillier: known answers, exact arithmetic, packing, and messages from hostile parties."""

from __future__ import annotations

import hashlib
import math
import pickle
import struct

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors.components import NotEncodable
from fedflow.base.errors.data_plane import CodecError
from fedflow.sdk.crypto.fixed_point import FixedPoint
from fedflow.sdk.crypto.multi_exponent import cheapest_window, dot_columns
from fedflow.sdk.crypto.paillier import Blinding, PrivateKey, PublicKey, unpack
from fedflow.sdk.crypto.short_form import Short, ShortFactors, powers

P, Q = 1_000_003, 1_000_039  # both 3 modulo 4, gcd(P - 1, Q - 1) = 6
KEY = PrivateKey.generate(512)  # short: for arithmetic, not for secrets
PUBLIC = KEY.public


def encrypted(values: list[int], *, key: PublicKey = PUBLIC) -> list[mpz]:
    return list(key.encrypt(values))


# --- known answers --------------------------------------------------------------------------------


def textbook_decrypt(c: int, p: int, q: int) -> int:
    """Decrypt as in Paillier's paper, with Python's own integers."""
    n = p * q
    lam = math.lcm(p - 1, q - 1)
    m = (pow(c, lam, n * n) - 1) // n * pow(lam, -1, n) % n
    return m - n if m > n // 2 else m


def test_decrypts_a_ciphertext_computed_by_hand() -> None:
    # p = 7, q = 11, n = 77, m = 42, r = 23: (1 + 42 * 77) * 23**77 mod 5929 = 3840
    assert (1 + 42 * 77) * pow(23, 77, 5929) % 5929 == 3840
    assert KEY_77.decrypt([mpz(3840)]) == [42 - 77]


KEY_77 = PrivateKey(7, 11)


@pytest.mark.parametrize("value", [0, 1, -1, 123_456_789, -499_999_999_999])
def test_decrypts_what_independent_arithmetic_encrypted(value: int) -> None:
    n = P * Q
    c = pow(1 + n, value % n, n * n) * pow(987_654_321, n, n * n) % (n * n)
    assert PrivateKey(P, Q).decrypt([mpz(c)]) == [value]


@pytest.mark.parametrize("blinding", list(Blinding))
@pytest.mark.parametrize("to_owner", [False, True])
def test_encryption_decrypts_by_the_textbook(blinding: Blinding, to_owner: bool) -> None:
    key = PublicKey(P * Q, blinding=blinding)
    values = [0, 7, -7, 400_000_000_000]
    found = [textbook_decrypt(int(c), P, Q) for c in key.encrypt(values, to_owner=to_owner)]
    assert found == values


def test_new_keys_have_the_asked_length_and_good_primes() -> None:
    key = PrivateKey.generate(256)
    assert key.public.bits == 256
    assert key._p % 4 == key._q % 4 == 3
    assert math.gcd(int(key._p) - 1, int(key._q) - 1) == 2
    with pytest.raises(ValueError):
        PrivateKey.generate(257)


# --- arithmetic -----------------------------------------------------------------------------------


def test_sums_and_multiples_are_exact() -> None:
    a, b = encrypted([10**30, -5])
    assert KEY.decrypt([PUBLIC.add(a, b)]) == [10**30 - 5]
    assert KEY.decrypt([PUBLIC.add_plain(a, -(10**31))]) == [10**30 - 10**31]
    assert KEY.decrypt([PUBLIC.multiply_plain(b, 3), PUBLIC.multiply_plain(b, -3)]) == [-15, 15]
    assert KEY.decrypt([PUBLIC.total([a, b, b]), PUBLIC.total([])]) == [10**30 - 10, 0]


def test_blinding_changes_the_ciphertext_and_not_the_plaintext() -> None:
    ciphertexts = encrypted([1, 1, 1])
    again = [*PUBLIC.blind(ciphertexts), *PUBLIC.blind(ciphertexts, to_owner=True)]
    assert len({*ciphertexts, *again}) == 9
    assert KEY.decrypt(again) == [1] * 6


def test_an_owner_sees_no_coset_of_what_was_blinded(monkeypatch: pytest.MonkeyPatch) -> None:
    cubes = [mpz(123) ** 3]  # the table's base generates cubes modulo P only, as 3 divides P - 1
    draw = PublicKey.random_unit
    key = PublicKey(P * Q)
    monkeypatch.setattr(PublicKey, "random_unit", lambda k: cubes.pop() if cubes else draw(k))
    blinded = list(key.blind([mpz(1)] * 300, to_owner=True))
    assert not cubes
    characters = [pow(int(c), (P - 1) // 3, P) for c in blinded]
    assert len(set(characters)) == 3
    assert all(characters.count(c) > 50 for c in set(characters))


@pytest.mark.parametrize("to_owner", [False, True])
def test_no_blinding_is_used_twice(to_owner: bool) -> None:
    zeros = list(PUBLIC.encrypt([0] * 600, to_owner=to_owner))  # more than are drawn together
    assert len(set(zeros)) == 600
    assert KEY.decrypt(zeros) == [0] * 600


numbers_coprime_to_n = st.integers(1, int(PUBLIC.modulus) - 1).filter(
    lambda c: math.gcd(c, int(PUBLIC.n)) == 1
)


@settings(deadline=None)
@given(numbers_coprime_to_n)
def test_powers_in_short_form_are_the_powers(number: int) -> None:
    n = PUBLIC.n
    units, lifts, following = powers(Short.of(mpz(number), n), 4, n)
    assert max(*units, *lifts, following.unit, following.lift, following.unit_inverse) < n
    assert following.unit * following.unit_inverse % n == 1
    parts = [*zip(units, lifts, strict=True), (following.unit, following.lift)]
    found = [unit * (1 + lift * n) % n**2 for unit, lift in parts]
    assert found == [pow(number, exponent, int(n**2)) for exponent in range(5)]


@settings(deadline=None)
@given(st.lists(numbers_coprime_to_n, max_size=4))
def test_numbers_and_their_inverses_have_a_short_form(numbers: list[int]) -> None:
    n = PUBLIC.n
    factors = ShortFactors.of([mpz(number) for number in numbers], n)
    lifts = [*factors.lifts, *(-k - t for k, t in zip(factors.lifts, factors.corrections))]
    found = [u * (1 + k * n) % n**2 for u, k in zip(factors.units, lifts, strict=True)]
    assert found == [*numbers, *(pow(number, -1, int(n**2)) for number in numbers)]


def test_a_number_that_shares_a_factor_with_n_has_no_short_form() -> None:
    with pytest.raises(ZeroDivisionError):
        Short.of(KEY._p * 5, PUBLIC.n)
    with pytest.raises(ZeroDivisionError):
        ShortFactors.of([mpz(2), KEY._p * 5], PUBLIC.n)


matrices = st.integers(1, 12).flatmap(
    lambda rows: st.tuples(
        st.lists(st.integers(-(2**60), 2**60), min_size=rows, max_size=rows),
        st.lists(
            st.lists(
                st.one_of(st.integers(-3, 3), st.integers(-(2**50), 2**50)),
                min_size=rows,
                max_size=rows,
            ),
            min_size=1,
            max_size=4,
        ),
    )
)


@settings(max_examples=60, deadline=None)
@given(case=matrices, window=st.sampled_from([None, 2, 3, 8]))
def test_dot_columns_equal_integer_dot_products(
    case: tuple[list[int], list[list[int]]], window: int | None
) -> None:
    values, columns = case
    matrix = np.array(columns, dtype=np.int64).T
    found = dot_columns(encrypted(values), matrix, PUBLIC.n, window=window)
    expected = [sum(v * x for v, x in zip(values, column, strict=True)) for column in columns]
    assert KEY.decrypt(found) == expected


def test_dot_columns_of_many_rows_are_exact_and_use_a_wide_window() -> None:
    generator = np.random.default_rng(7)
    matrix = np.rint(generator.normal(size=(500, 3)) * 2**23).astype(np.int64)
    values = [int(v) for v in generator.integers(-(2**30), 2**30, 500)]
    assert 6 <= cheapest_window(matrix) <= 9
    found = KEY.decrypt(PUBLIC.dot_columns(encrypted(values), matrix))
    assert found == [sum(v * int(x) for v, x in zip(values, c, strict=True)) for c in matrix.T]


def test_dot_columns_of_edge_shapes() -> None:
    two = encrypted([3, 4])
    ones = np.array([[-1, 1, 0], [-1, 0, -1]], dtype=np.int64)
    assert KEY.decrypt(PUBLIC.dot_columns(two, ones)) == [-7, 3, -4]
    extreme = np.array([[2**62 - 1], [-(2**62 - 1)]], dtype=np.int64)
    assert KEY.decrypt(PUBLIC.dot_columns(two, extreme)) == [-(2**62 - 1)]
    assert KEY.decrypt(PUBLIC.dot_columns(two, np.zeros((2, 2), dtype=np.int64))) == [0, 0]
    assert PUBLIC.dot_columns(two, np.zeros((2, 0), dtype=np.int64)) == []
    assert KEY.decrypt(PUBLIC.dot_columns([], np.zeros((0, 2), dtype=np.int64))) == [0, 0]
    with pytest.raises(ValueError, match="3 rows"):
        PUBLIC.dot_columns(two, np.zeros((3, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="digits"):
        dot_columns(two, ones, PUBLIC.n, window=1)
    with pytest.raises(ValueError, match="2\\*\\*62"):
        PUBLIC.dot_columns(two, np.array([[2**62], [0]], dtype=np.int64))


# --- packing --------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.integers(-(2**127) + 1, 2**127 - 1), min_size=1, max_size=9))
def test_packed_values_come_back(values: list[int]) -> None:
    slots = PUBLIC.slots(128)
    assert slots == 3
    packed = PUBLIC.pack(encrypted(values), 128)
    assert len(packed) == -(-len(values) // slots)
    assert unpack(KEY.decrypt(packed), 128, slots=slots, count=len(values)) == values


def test_slots_per_key_length_are_those_of_the_design() -> None:
    assert PublicKey((1 << 1023) + 1).slots(128) == 7
    assert PublicKey((1 << 2047) + 1).slots(128) == 15
    with pytest.raises(ValueError):
        PublicKey((1 << 127) + 1).slots(128)


def test_a_value_outside_its_slot_is_found_if_it_is_the_last() -> None:
    with pytest.raises(CodecError, match="slot"):
        unpack([2**140], 128, slots=3, count=1)
    with pytest.raises(CodecError, match="packed plaintexts"):
        unpack([1, 2], 128, slots=3, count=3)


# --- messages -------------------------------------------------------------------------------------


def test_messages_round_trip() -> None:
    ciphertexts = encrypted([1, 2, 3])
    payload = PUBLIC.to_bytes(iter(ciphertexts))
    assert len(payload) == struct.calcsize("<4s8sIQ") + 3 * 128
    assert PUBLIC.from_bytes(payload, count=3) == ciphertexts
    assert PUBLIC.from_bytes(PUBLIC.to_bytes([]), count=0) == []


def test_the_wire_form_is_fixed() -> None:
    key_id = hashlib.sha256(b"0x4d").digest()[:8]
    header = b"FPA\x01" + key_id + b"\x02\0\0\0" + b"\x02\0\0\0\0\0\0\0"
    assert KEY_77.public.to_bytes([mpz(3840), mpz(1)]) == header + b"\x00\x0f\x01\x00"


def hostile_messages() -> dict[str, object]:
    good = PUBLIC.to_bytes(encrypted([1, 2]))
    other = PrivateKey.generate(512).public
    return {
        "text": "no bytes",
        "empty": b"",
        "cut off": good[:-1],
        "longer": good + b"\0",
        "header only": good[:20],
        "other version": b"FPA\x02" + good[4:],
        "huge count": good[:16] + struct.pack("<Q", 2**63) + good[24:],
        "other key": other.to_bytes(other.encrypt([1, 2])),
        "other count": PUBLIC.to_bytes(encrypted([1, 2, 3])),
        "zero": PUBLIC.to_bytes([mpz(0), mpz(1)]),
        "too large": PUBLIC.to_bytes([PUBLIC.modulus, mpz(1)]),
        "factor of n": PUBLIC.to_bytes([mpz(1), KEY._p * 2]),
        "multiple of n": PUBLIC.to_bytes([PUBLIC.n, mpz(1)]),
    }


@pytest.mark.parametrize("name", list(hostile_messages()))
def test_hostile_messages_are_refused(name: str) -> None:
    with pytest.raises(CodecError):
        PUBLIC.from_bytes(hostile_messages()[name], count=2)


@settings(max_examples=100, deadline=None)
@given(payload=st.binary(max_size=400))
def test_any_bytes_are_refused_or_valid(payload: bytes) -> None:
    with pytest.raises(CodecError):
        PUBLIC.from_bytes(payload, count=2)


def test_a_public_key_is_read_back_with_the_same_id() -> None:
    key = PublicKey.parse(hex(PUBLIC.n), bits=512)
    assert (key.n, key.key_id) == (PUBLIC.n, PUBLIC.key_id)


@pytest.mark.parametrize(
    "text",
    [
        None,
        12,
        "",
        "xyz",
        "f" * 9000,
        pytest.param(hex(PrivateKey.generate(256).public.n), id="another size"),
        hex((1 << 600) + 2),
        hex(3 * ((1 << 600) + 1)),
        hex(KEY._p**2),
        hex((1 << 521) - 1),  # a Mersenne prime
        "-" + hex(PUBLIC.n),
    ],
)
def test_a_bad_public_key_is_refused(text: object) -> None:
    with pytest.raises(CodecError):
        PublicKey.parse(text, bits=512)


# --- fixed point ----------------------------------------------------------------------------------


@given(st.floats(-1000, 1000), st.integers(0, 40))
def test_fixed_point_is_within_half_a_unit(value: float, bits: int) -> None:
    fixed = FixedPoint(bits=bits)
    (encoded,) = fixed.encode(np.array([value]), limit_bits=10, what="values").tolist()
    assert abs(fixed.decode([encoded])[0] - value) <= 2.0 ** -(bits + 1)


def test_fixed_point_products_keep_more_than_64_bits() -> None:
    fixed = FixedPoint(bits=23)
    (number,) = fixed.encode_products([2.0**60 + 2.0**10], factors=2, limit_bits=79, what="sums")
    assert number == (2**60 + 2**10) * 2**46
    assert fixed.encode_products([-0.75, 1e-30], factors=2, limit_bits=9, what="sums") == [
        -3 * 2**44,
        0,
    ]
    assert fixed.decode([number], factors=2)[0] == 2.0**60 + 2.0**10


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1024.0, -1024.0])
def test_fixed_point_refuses_what_it_cannot_hold(bad: float) -> None:
    fixed = FixedPoint(bits=23)
    with pytest.raises(NotEncodable, match="1 of 2 values"):
        fixed.encode(np.array([0.0, bad]), limit_bits=10, what="values")
    with pytest.raises(NotEncodable):
        fixed.encode_products([bad], factors=2, limit_bits=10, what="sums")
    with pytest.raises(ValueError, match="int64"):
        fixed.encode(np.zeros(1), limit_bits=40, what="values")


# --- on its way to other machines -----------------------------------------------------------------


@pytest.mark.parametrize("blinding", Blinding)
def test_a_key_is_sent_without_its_tables_and_kept_by_who_gets_it(blinding: Blinding) -> None:
    key = PUBLIC.with_blinding(blinding)
    encrypted([1], key=key)
    list(key.encrypt([1], to_owner=True))
    sent = pickle.dumps(key)
    assert len(sent) < 300
    got = pickle.loads(sent)
    assert (got.n, got.blinding) == (key.n, blinding)
    assert pickle.loads(sent) is got  # so its tables are built once
    assert KEY.decrypt(got.encrypt([5, -5])) == [5, -5]
    if blinding is Blinding.TABLE:
        assert got._to_peer._units != key._to_peer._units  # it draws bases of its own


def test_rows_of_a_message_are_checked_where_they_are_read() -> None:
    message = PUBLIC.to_bytes(encrypted([1, 2, 3]))
    rows = PUBLIC.rows_of(message, count=3)
    assert rows.shape == (3, PUBLIC.width)
    assert KEY.decrypt(PUBLIC.read_rows(rows[1:])) == [2, 3]
    assert PUBLIC.message(PUBLIC.body(PUBLIC.read_rows(rows))) == message
    with pytest.raises(CodecError, match="2 were due"):
        PUBLIC.rows_of(message, count=2)
    damaged = rows.copy()
    damaged[2] = 0xFF
    assert len(PUBLIC.read_rows(damaged[:2])) == 2
    with pytest.raises(CodecError, match="out of range"):
        PUBLIC.read_rows(damaged)
    damaged[2] = 0
    with pytest.raises(CodecError, match="out of range"):
        PUBLIC.read_rows(damaged)
