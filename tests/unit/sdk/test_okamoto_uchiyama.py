"""Okamoto-Uchiyama: known answers, weak keys of others, and what an unchecked opening gives away.

What all schemes do alike is tested in `test_schemes.py`.
"""

from __future__ import annotations

import hashlib
import math

import gmpy2
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.data_plane import CodecError
from fedflow.sdk.crypto.modulus import random_prime
from fedflow.sdk.crypto.okamoto_uchiyama import OUPrivateKey, OUPublicKey, new_private_key
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.sdk.crypto.power_tables import RandomElements, SignedPowers
from fedflow.sdk.crypto.random_powers import Blinding

P, Q = 1_000_003, 1_000_039  # both 3 modulo 4
N = P * P * Q
G = 123_456_789**2
KEY = new_private_key(768)  # short: for arithmetic, not for secrets
PUBLIC = KEY.public


def textbook_decrypt(c: int, p: int, g: int) -> int:
    """Decrypt as in the paper, with Python's own integers."""

    def part(x: int) -> int:
        return (pow(x, p - 1, p * p) - 1) // p

    m = part(c) * pow(part(g), -1, p) % p
    return m - p if m > p // 2 else m


# --- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "ciphertext"), [(1, 207), (3, 289)])
def test_decrypts_a_ciphertext_computed_by_hand(m: int, ciphertext: int) -> None:
    # p = 7, q = 11, n = 539, g = 2, h = 2**539 = 116, r = 5
    assert pow(2, 539, 539) == 116
    assert pow(2, m, 539) * pow(116, 5, 539) % 539 == ciphertext
    assert OUPrivateKey(7, 11, 2).decrypt([mpz(ciphertext)]) == [m]


@pytest.mark.parametrize("value", [0, 1, -1, 123_456, -499_999])
def test_decrypts_what_independent_arithmetic_encrypted(value: int) -> None:
    c = pow(G, value, N) * pow(pow(G, N, N), 987_654_321, N) % N
    assert OUPrivateKey(P, Q, G).decrypt([mpz(c)]) == [value]


@pytest.mark.parametrize("blinding", list(Blinding))
@pytest.mark.parametrize("to_owner", [False, True])
def test_encryption_decrypts_by_the_textbook(blinding: Blinding, to_owner: bool) -> None:
    values = [0, 7, -7, 262_143, -262_143]  # 18 bits
    key = OUPrivateKey(P, Q, G, blinding=blinding)
    found = [textbook_decrypt(int(c), P, G) for c in key.public.encrypt(values, to_owner=to_owner)]
    assert found == values
    assert [textbook_decrypt(int(c), P, G) for c in key.encrypt(values)] == values


def test_new_keys_have_the_asked_length_and_good_parts() -> None:
    p, q = KEY.primes
    assert PUBLIC.bits == 768
    assert PUBLIC.width == 96
    assert PUBLIC.plaintext_bits == 254
    assert p // 2 > 2**254
    assert p % 4 == q % 4 == 3
    assert math.gcd(p - 1, q - 1) == 2
    assert math.gcd(p * p * q, (p - 1) * (q - 1)) == 1
    assert gmpy2.jacobi(PUBLIC.g, PUBLIC.n) == 1
    with pytest.raises(ValueError, match="at least 2048"):
        OUPrivateKey.generate(1024)


@pytest.mark.parametrize(
    ("p", "q", "g"),
    [(P, P, G), (7, 29, 2), (1_019, P, G), (P, Q, (1 + P * P) ** 2)],
    ids=["equal primes", "p divides q - 1", "p too short", "g without a part of order p"],
)
def test_no_key_is_made_of_unsuitable_numbers(p: int, q: int, g: int) -> None:
    with pytest.raises(ValueError):
        OUPrivateKey(p, q, g)


def test_slots_are_those_of_the_design() -> None:
    assert OUPublicKey((1 << 2047) + 1, 4).slots(128) == 5


def test_the_wire_form_is_fixed() -> None:
    key_id = hashlib.sha256(b"ou 0x21b 0x2").digest()[:8]
    header = b"FOU\x01" + key_id + b"\x02\0\0\0" + b"\x02\0\0\0\0\0\0\0"
    public = OUPublicKey(539, 2)
    assert public.to_bytes([mpz(207), mpz(289)]) == header + b"\xcf\0\x21\x01"
    assert public.to_wire() == {"n": "0x21b", "g": "0x2"}


# --- the owner's ciphertexts ----------------------------------------------------------------------


def test_owners_ciphertexts_do_not_show_the_value_by_their_jacobi_symbol() -> None:
    for value in (0, 1, -(2**100)):
        symbols = [gmpy2.jacobi(c, PUBLIC.n) for c in KEY.encrypt([value] * 60)]
        assert set(symbols) == {1, -1}
        assert 10 < symbols.count(1) < 50


def test_a_plaintext_that_does_not_fit_is_not_encrypted() -> None:
    for value in (1 << PUBLIC.plaintext_bits, -(1 << PUBLIC.plaintext_bits)):
        for encryption in (KEY.encrypt, PUBLIC.encrypt):
            with pytest.raises(ValueError, match="254 bits"):
                list(encryption([0, value]))
        with pytest.raises(ValueError, match="254 bits"):
            PUBLIC.add_plain(mpz(1), value)


# --- opening --------------------------------------------------------------------------------------


def test_an_overflow_that_is_opened_unchecked_gives_the_key_away() -> None:
    p, _ = KEY.primes
    large = 1 << 300  # its sender knows it; more than p
    ciphertext = PUBLIC.multiply_plain(next(PUBLIC.encrypt([1])), large)
    (opened,) = KEY.decrypt([ciphertext])
    assert math.gcd(large - opened, int(PUBLIC.n)) == p
    with pytest.raises(CodecError, match="more than 200 bits"):
        KEY.open([ciphertext], limit_bits=200)


# --- keys of other parties ------------------------------------------------------------------------


def test_a_public_key_is_read_back_with_the_same_id() -> None:
    key = OUPublicKey.parse(hex(PUBLIC.n), hex(PUBLIC.g), bits=768)
    assert (key.n, key.g, key.key_id) == (PUBLIC.n, PUBLIC.g, PUBLIC.key_id)
    assert OUPublicKey(int(PUBLIC.n), 4).key_id != key.key_id


PRIME = int(random_prime(768))


@pytest.mark.parametrize(
    "n",
    [
        None,
        12,
        "",
        "xyz",
        "f" * 9000,
        pytest.param(hex(new_private_key(384).public.n), id="short"),
        pytest.param(hex(PUBLIC.n + 1), id="even"),
        pytest.param(hex(PRIME), id="prime"),
        pytest.param(hex(3 * PRIME), id="small factor"),
        pytest.param(hex(KEY.primes[0] ** 3), id="power"),
        pytest.param("-" + hex(PUBLIC.n), id="negative"),
    ],
)
def test_a_bad_modulus_is_refused(n: object) -> None:
    with pytest.raises(CodecError):
        OUPublicKey.parse(n, hex(PUBLIC.g), bits=768)


def crooked(p: int, q: int) -> dict[str, object]:
    """Return bad generators of a key."""
    n = p * p * q
    times_p = p * int(gmpy2.powmod(3, 2, n)) % n

    def joined(modulo_p2: int, modulo_q: int) -> int:
        return (modulo_q + q * ((modulo_p2 - modulo_q) * pow(q, -1, p * p))) % (p * p * q)

    return {
        "none": None,
        "no text": 4,
        "no number": "g",
        "0": hex(0),
        "1": hex(1),
        "-1": hex(n - 1),
        "as large as n": hex(n + 4),
        "negative": "-4",
        "no unit": hex(times_p),
        "another symbol": hex(next(g for g in range(2, 1000) if gmpy2.jacobi(g, n) == -1)),
        "nothing but the part of order p": hex(joined(1 + p, 1)),
        "of order 1 modulo q": hex(joined(9, 1)),
        "of order 2 modulo p": hex(joined(p * p - 1, 9)),
    }


@pytest.mark.parametrize("name", list(crooked(*KEY.primes)))
def test_a_bad_generator_is_refused(name: str) -> None:
    with pytest.raises(CodecError):
        OUPublicKey.parse(hex(PUBLIC.n), crooked(*KEY.primes)[name], bits=768)


def test_a_key_without_a_square_in_it_is_accepted() -> None:
    # Nobody can see that n is p q and not p**2 q; its owner opens nothing then.
    n = int(PrivateKey.generate(768).public.n)
    key = OUPublicKey.parse(hex(n), hex(4), bits=768)
    assert len(set(key.encrypt([5, 5]))) == 2


# --- tables ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**80), 2**80), max_size=5), st.integers(2, N - 1))
def test_signed_powers_are_the_powers(exponents: list[int], base: int) -> None:
    if math.gcd(base, N) != 1:
        return
    powers = SignedPowers(mpz(N), mpz(base))
    for some in (exponents, exponents[:1], [0], []):
        assert powers.of(some) == [pow(base, exponent, N) for exponent in some]


def test_random_elements_take_all_digits_of_the_first_base_and_one_of_the_others() -> None:
    n, ones, tens = mpz(10**9 + 7), mpz(3), mpz(5)
    exponents = {pow(3, a, int(n)) * pow(5, b, int(n)) % n for a in range(16) for b in range(4)}
    table = RandomElements(n, ones, [tens], exponent_bits=3, window=2)
    drawn = table.draw(3000)
    assert set(drawn) == exponents
    assert table.draw(0) == []
