"""The groups of RFC 7919, blinding in them, and elements that a hostile peer may send."""

from __future__ import annotations

import gmpy2
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.components.intersection.prime_group import (
    GROUPS,
    PrimeGroupCipher,
    group_bits,
    prime_of,
)
from fedflow.cores import forked as processes
from fedflow.cores.workers import LocalWorkers

#: RFC 7919, appendix A: the last digits before the 64 ones that end every prime
ENDINGS = {
    2048: "886b423861285c97",
    3072: "25e41d2b66c62e37",
    4096: "c68a007e5e655f6a",
    6144: "a40e329cd0e40e65",
    8192: "d68c8bb7c5c6424c",
}
P = int(prime_of(2048))


def encode(number: int) -> bytes:
    return number.to_bytes(256, "big")


@pytest.mark.parametrize("bits", GROUPS)
def test_the_primes_are_those_of_the_rfc(bits: int) -> None:
    text = f"{int(prime_of(bits)):x}"
    assert text.startswith("ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1")
    assert text.endswith(ENDINGS[bits] + "f" * 16)
    assert prime_of(bits).bit_length() == bits


@pytest.mark.parametrize("bits", [2048, 3072])
def test_the_primes_are_safe(bits: int) -> None:
    assert gmpy2.is_prime(prime_of(bits), 3)
    assert gmpy2.is_prime((prime_of(bits) - 1) // 2, 3)


@pytest.mark.parametrize(
    ("asked", "given"), [(1024, 2048), (2048, 2048), (2049, 3072), (5000, 6144), (8192, 8192)]
)
def test_a_key_length_gets_the_next_larger_group(asked: int, given: int) -> None:
    assert group_bits(asked) == given
    assert PrimeGroupCipher(LocalWorkers(1), key_length=asked).width == given // 8


@pytest.mark.parametrize("bits", [2048, 3072])
def test_two_parties_reach_the_same_value_for_the_same_id(bits: int) -> None:
    ids = pa.array(["7", "8", "Zoë"])
    a, b = (
        PrimeGroupCipher(LocalWorkers(1), key_length=bits),
        PrimeGroupCipher(LocalWorkers(1), key_length=bits),
    )
    one = b.blind_elements(a.blind_ids(ids, b"d"))
    assert one.tobytes() == a.blind_elements(b.blind_ids(ids, b"d")).tobytes()
    assert one.shape == (3, bits // 8)
    again = PrimeGroupCipher(LocalWorkers(1), key_length=bits, secret=a.secret)
    assert again.blind_ids(ids, b"d").tobytes() == a.blind_ids(ids, b"d").tobytes()
    assert a.blind_ids(ids, b"d").tobytes() != a.blind_ids(ids, b"e").tobytes()


def test_an_id_is_hashed_to_a_square_and_raised() -> None:
    cipher = PrimeGroupCipher(LocalWorkers(1), secret="1")
    for row in cipher.blind_ids(pa.array(["1", "2", "3", "4"]), b"d"):
        value = int.from_bytes(row.tobytes(), "big")
        assert gmpy2.jacobi(value, P) == 1
        cubed = PrimeGroupCipher(LocalWorkers(1), secret="3").blind_elements(row[None])
        assert int.from_bytes(cubed.tobytes(), "big") == pow(value, 3, P)


@pytest.mark.parametrize("number", [0, 1, P - 1, P, P + 4, 2**2048 - 1, 11])
def test_what_is_not_in_the_group_is_refused(number: int) -> None:
    """11 is no square modulo P; 4 is."""
    elements = PrimeGroupCipher(LocalWorkers(1)).parse(encode(4) + encode(number), count=2)
    with pytest.raises(CodecError, match="group"):
        PrimeGroupCipher(LocalWorkers(1)).blind_elements(elements)


def test_squares_are_accepted() -> None:
    elements = PrimeGroupCipher(LocalWorkers(1)).parse(encode(4) + encode(9), count=2)
    assert len(PrimeGroupCipher(LocalWorkers(1)).blind_elements(elements)) == 2


@pytest.mark.parametrize("value", [b"", b"x" * 511, "x" * 512, None, [4]])
def test_another_length_or_type_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        PrimeGroupCipher(LocalWorkers(1)).parse(value, count=2)


@pytest.mark.parametrize("secret", ["0", f"{2**256:x}", "x", "-1"])
def test_what_is_no_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError):
        PrimeGroupCipher(LocalWorkers(1), secret=secret)


def test_several_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FORK_FROM", 10)
    ids = pa.array([f"id-{i}" for i in range(50)])
    alone = PrimeGroupCipher(LocalWorkers(1), secret="abc").blind_ids(ids, b"d")
    forked = PrimeGroupCipher(LocalWorkers(3), secret="abc").blind_ids(ids, b"d")
    assert forked.tobytes() == alone.tobytes()
    damaged = forked.copy()
    damaged[40] = 0
    with pytest.raises(CodecError):
        PrimeGroupCipher(LocalWorkers(3)).blind_elements(damaged)
