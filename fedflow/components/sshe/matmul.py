"""Products of one party's features with what the other party holds, under Paillier encryption.

The owner of a share sends it encrypted with its own key; the other party multiplies with its plain
integers, adds a random mask and sends the masked products back, which the owner opens. Then both
have a share of the product: the opened number, and minus the mask. What the owner opens is as good
as random: masks are drawn from a range 2**64 times as wide as the products, so that its
distribution is within 2**-64 of one that does not depend on them. Whatever is sent back is blinded
anew with owner-grade randomness (`crypto/paillier.py`), as the owner knows that of its ciphertexts.

Products of a row or column with ring elements stay below 2**(192 + 72), which the bounds of
features ensure (`linear/arithmetic.py`: a feature below 2**20, a column's sizes below 2**48 in sum,
with 24 fraction bits). They travel several to a ciphertext, in slots of 330 bits. Inner products of
two ring vectors have a ciphertext each.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.packed_rows import packed_rows
from fedflow.components.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.components.linear.arithmetic import blocks, dot
from fedflow.components.sshe.shares import RING_BITS, Ring, centered, ring

STATISTICAL_BITS: Final = 64
PRODUCT_BITS: Final = 72  #: sum of the sizes of the integers that one product adds up
_MASK_BITS: Final = RING_BITS + PRODUCT_BITS + STATISTICAL_BITS  # a multiple of 8
SLOT_BITS: Final = _MASK_BITS + 2
_INNER_MASK_BITS: Final = 2 * RING_BITS + 32 + STATISTICAL_BITS  # up to 2**32 rows
_LIMB_BITS: Final = 48
_LIMBS: Final = RING_BITS // _LIMB_BITS

Ints = NDArray[np.int64]


def encrypt(key: PrivateKey, values: Ring) -> bytes:
    """Return the message of ring elements under the own key."""
    public = key.public
    return public.to_bytes(public.encrypt(int(v) for v in values))


def count_packed(key: PublicKey, count: int) -> int:
    """Return how many ciphertexts `count` masked products take."""
    return -(-count // key.slots(SLOT_BITS))


def row_products(key: PublicKey, payload: object, matrix: Ints) -> tuple[bytes, Ring]:
    """Return the masked message of each row's product with an encrypted vector, and the own share.

    `matrix` is rows x columns, the message one ciphertext per column under the peer's `key`.
    Raises: CodecError: the message is not that.
    """
    vector = key.from_bytes(payload, count=matrix.shape[1])
    packed = packed_rows(
        vector, matrix, key.modulus, slot_bits=SLOT_BITS, slots=key.slots(SLOT_BITS)
    )
    return _masked(key, packed, matrix.shape[0])


def column_products(key: PublicKey, payload: object, matrix: Ints) -> tuple[bytes, Ring]:
    """Return the masked message of each column's product with an encrypted vector, and the share.

    `matrix` is rows x columns, the message one ciphertext per row under the peer's `key`.
    Raises: CodecError: the message is not that.
    """
    sums = dot(key, payload, matrix)
    return _masked(key, key.pack(sums, SLOT_BITS), len(sums))


def element_products(key: PublicKey, payload: object, factors: Ints) -> tuple[bytes, Ring]:
    """Return the masked message of an encrypted vector times one factor each, and the own share.

    Raises: CodecError: the message is not one ciphertext per factor.
    """
    products: list[mpz] = []
    for rows, ciphertexts in blocks(key, payload, count=len(factors)):
        parts = zip(ciphertexts, factors[rows].tolist(), strict=True)
        products.extend(key.multiply_plain(ciphertext, factor) for ciphertext, factor in parts)
    return _masked(key, key.pack(products, SLOT_BITS), len(products))


def mask_vector(key: PublicKey, ciphertexts: Sequence[int]) -> tuple[bytes, Ring]:
    """Return the masked message of numbers encrypted for the peer, and the own share of them."""
    packed = key.pack([mpz(c) for c in ciphertexts], SLOT_BITS)
    return _masked(key, packed, len(ciphertexts))


def open_products(key: PrivateKey, payload: object, *, count: int) -> Ring:
    """Return the own share of `count` products that the peer masked. Raises: CodecError."""
    ciphertexts = key.public.from_bytes(payload, count=count_packed(key.public, count))
    slots = key.public.slots(SLOT_BITS)
    return ring(unpack(key.decrypt(ciphertexts), SLOT_BITS, slots=slots, count=count))


def inner_product(key: PublicKey, parts: Sequence[tuple[object, Ring]]) -> tuple[bytes, int]:
    """Return the masked message of a sum of inner products, and the own share of it.

    Each part is a message of encrypted ring elements and the own elements, of one length.
    Raises: CodecError: a message has another length or is no ciphertexts of `key`.
    """
    total = mpz(1)
    for payload, values in parts:
        for limb in reversed(dot_limbs(key, payload, values)):
            total = key.add(total, limb)
    mask = secrets.randbits(_INNER_MASK_BITS)
    (blinded,) = key.blind([key.add_plain(total, mask)], to_owner=True)
    return key.to_bytes([blinded]), centered(-mask)


def dot_limbs(key: PublicKey, payload: object, values: Ring) -> list[mpz]:
    """Return ciphertexts that add up to the inner product of a message with ring elements.

    Exponents are cut into limbs of 48 bits, the columns of one multi-exponentiation.
    """
    limbs = np.empty((len(values), _LIMBS), dtype=np.int64)
    rest = values
    for index in range(_LIMBS - 1):
        limbs[:, index] = (rest & ((1 << _LIMB_BITS) - 1)).astype(np.int64)
        rest = rest >> _LIMB_BITS
    limbs[:, -1] = rest.astype(np.int64)
    sums = dot(key, payload, limbs)
    return [key.multiply_plain(c, 1 << (_LIMB_BITS * i)) for i, c in enumerate(sums)]


def open_inner(key: PrivateKey, payload: object) -> int:
    """Return the own share of a sum of inner products that the peer masked. Raises: CodecError."""
    (opened,) = key.decrypt(key.public.from_bytes(payload, count=1))
    return centered(opened)


def _masked(key: PublicKey, packed: Sequence[mpz], count: int) -> tuple[bytes, Ring]:
    """Return the message of packed products with a mask each, and the shares that undo them."""
    width = _MASK_BITS // 8
    noise = secrets.token_bytes(width * count)
    masks = [int.from_bytes(noise[i : i + width], "little") for i in range(0, width * count, width)]
    slots = key.slots(SLOT_BITS)
    sums = []
    for number, ciphertext in enumerate(packed):
        plain = 0
        for mask in reversed(masks[number * slots : (number + 1) * slots]):
            plain = (plain << SLOT_BITS) + mask
        sums.append(key.add_plain(ciphertext, plain))
    return key.to_bytes(key.blind(sums, to_owner=True)), ring(-mask for mask in masks)
