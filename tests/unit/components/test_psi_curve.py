"""Hashing to the curve, against RFC 9380 and independent arithmetic."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from fedflow.components.intersection.curve import elligator2, points_of
from fedflow.components.intersection.hashing import domain_of, hash_of, is_available, spread

P = 2**255 - 19

#: RFC 9380, appendix J.4.2: u[0] and Q.x
VECTORS = [
    (
        "608d892b641f0328523802a6603427c26e55e6f27e71a91a478148d45b5093cd",
        "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b",
    ),
    (
        "46f5b22494bfeaa7f232cc8d054be68561af50230234d7d1d63d1d9abeca8da5",
        "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb",
    ),
    (
        "235fe40c443766ce7e18111c33862d66c3b33267efa50d50f9e8e5d252a40aaa",
        "3fbe66b9c9883d79e8407150e7c2a1c8680bee496c62fabe4619a72b3cabe90f",
    ),
    (
        "001e92a544463bda9bd04ddbe3d6eed248f82de32f522669efc5ddce95f46f5b",
        "227e0bb89de700385d19ec40e857db6e6a3e634b1c32962f370d26f84ff19683",
    ),
    (
        "1a68a1af9f663592291af987203393f707305c7bac9c8d63d6a729bdc553dc19",
        "3bcd651ee54d5f7b6013898aab251ee8ecc0688166fce6e9548d38472f6bd196",
    ),
]


@pytest.mark.parametrize(("element", "expected"), VECTORS)
def test_the_map_gives_the_vectors_of_rfc_9380(element: str, expected: str) -> None:
    assert elligator2(int(element, 16)) == int(expected, 16)


@given(st.integers(min_value=0, max_value=P - 1))
def test_every_mapped_point_is_on_the_curve(element: int) -> None:
    u = int(elligator2(element))
    v_squared = (u**3 + 486662 * u**2 + u) % P
    assert 0 <= u < P
    assert v_squared == 0 or pow(v_squared, (P - 1) // 2, P) == 1
    assert u == elligator2(-element % P)


def test_an_id_is_hashed_behind_its_length_and_domain() -> None:
    domain = domain_of("job", "guest")
    text = "Zoë-1"
    data = text.encode()
    digest = hashlib.sha512(domain + bytes(4) + len(data).to_bytes(4, "big") + data).digest()
    element = int.from_bytes(digest, "big") % P
    assert list(points_of([text], domain)) == [int(elligator2(element)).to_bytes(32, "little")]


@given(
    st.lists(st.text(max_size=4), max_size=4),
    st.lists(st.text(max_size=4), max_size=4),
)
def test_different_parts_give_different_domains(one: list[str], other: list[str]) -> None:
    assert (domain_of(*one) == domain_of(*other)) == (one == other)
    assert domain_of(*one).startswith(domain_of(*other)) == (one == other)


@pytest.mark.parametrize("method", ["sha256", "sha512", "sha1"])
def test_long_hashes_are_blocks_with_a_counter(method: str) -> None:
    (digest,) = spread(["ab"], b"domain", method=method, size=100)
    blocks = [b"domain" + bytes([0, 0, 0, i]) + b"\0\0\0\x02ab" for i in range(5)]
    assert digest == b"".join(hashlib.new(method, block).digest() for block in blocks)[:100]


def test_an_unknown_hash_is_not_available() -> None:
    assert is_available("sha256")
    assert not is_available("no-such-hash")


@pytest.mark.skipif(not is_available("sm3"), reason="OpenSSL without sm3")
def test_sm3_gives_the_vector_of_its_standard() -> None:
    # GB/T 32905-2016, appendix A.1
    assert hash_of("sm3", b"abc").hexdigest().startswith("66c7f0f462eeedd9")


def test_blinding_commutes() -> None:
    a, b = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    for point in points_of(map(str, range(50)), b"d"):
        one = b.exchange(X25519PublicKey.from_public_bytes(a.exchange(_load(point))))
        other = a.exchange(X25519PublicKey.from_public_bytes(b.exchange(_load(point))))
        assert one == other != point


def _load(point: bytes) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(point)
