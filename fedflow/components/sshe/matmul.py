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

All that grows with the rows is done by the task's workers. Ring elements go there as the 24 bytes
of their wire form, and masks are drawn there, with the ciphertexts that they hide.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.packed_rows import PackedMatrix, packed_products, slots_in_use
from fedflow.components.sshe.session import Batches
from fedflow.components.sshe.shares import (
    ELEMENT_BYTES,
    RING_BITS,
    Ring,
    center,
    centered,
    from_rows,
    matrix_vector,
    ring,
    to_bytes,
    to_rows,
    vector_matrix,
)
from fedflow.sdk.crypto.encrypted_rows import (
    DECRYPTION_COST,
    IntegerRows,
    blinding_products,
    column_sums,
    cost_of,
    encrypted,
    merged,
    sums_of_block,
)
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.sdk.workers import PlacedRows, Workers

STATISTICAL_BITS: Final = 64
PRODUCT_BITS: Final = 72  #: sum of the sizes of the integers that one product adds up
_MASK_BITS: Final = RING_BITS + PRODUCT_BITS + STATISTICAL_BITS  # a multiple of 8
SLOT_BITS: Final = _MASK_BITS + 2
_INNER_MASK_BITS: Final = 2 * RING_BITS + 32 + STATISTICAL_BITS  # up to 2**32 rows
_LIMB_BYTES: Final = 6
_LIMBS: Final = ELEMENT_BYTES // _LIMB_BYTES
_CLEAR_COST: Final = 0.006  # of a product of an int64 and a ring element, in `Workers`' unit

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchMatrix:
    """A batch's own columns as integers, for products of both directions."""

    columns: IntegerRows
    packed: PackedMatrix | None  #: None: nobody multiplies rows


class EncodedMatrix:
    """The own columns of all rows, placed near the workers.

    Each batch is filled with rows of zeros to whole groups of rows that share a ciphertext, so that
    one copy serves both directions.
    """

    def __init__(
        self, matrix: Ints, batches: Batches, *, slots: int, packed: bool, workers: Workers
    ) -> None:
        """Place `matrix` (rows x columns).

        Args:
            slots: number of rows in a group.
            packed: rows are multiplied too.
        """
        self._slots = slots
        self._batch_rows = batches.size
        self._batch_groups = -(-batches.size // slots)
        filled = _filled(matrix, batches, height=self._batch_groups * slots, slots=slots)
        self._columns = IntegerRows.of(filled, workers)
        self._groups: PlacedRows | None = None
        if packed:
            shape = (len(filled) // slots, slots * filled.shape[1])
            self._groups = workers.pin(filled.reshape(shape))

    def batch(self, rows: slice) -> BatchMatrix:
        """Return the part of one batch."""
        first = rows.start // self._batch_rows * self._batch_groups
        count = rows.stop - rows.start
        start = first * self._slots
        own = self._columns.select(slice(start, start + count))
        if self._groups is None:
            return BatchMatrix(columns=own, packed=None)
        packed = PackedMatrix(
            groups=self._groups.select(slice(first, first - (-count // self._slots))),
            rows=count,
            columns=own.columns,
            slots=self._slots,
            bits=own.bits,
        )
        return BatchMatrix(columns=own, packed=packed)


def _filled(matrix: Ints, batches: Batches, *, height: int, slots: int) -> Ints:
    """Return the rows, those of each batch on `height` rows, the last batch on full groups."""
    last = -(-batches.last // slots) * slots
    if height == batches.size and last == batches.last:
        return np.ascontiguousarray(matrix)
    filled = np.zeros(((batches.count - 1) * height + last, matrix.shape[1]), dtype=np.int64)
    for number, rows in enumerate(batches.slices()):
        start = number * height
        filled[start : start + rows.stop - rows.start] = matrix[rows]
    return filled


def encrypt(workers: Workers, key: PrivateKey, values: Ring) -> bytes:
    """Return the message of ring elements under the own key."""
    work = partial(_encrypt_block, key.public)
    return encrypted(workers, key.public, work, (to_rows(values),))


def _encrypt_block(key: PublicKey, elements: Bytes) -> bytes:
    return key.body(key.encrypt(from_rows(elements).tolist()))


# --- products under encryption --------------------------------------------------------------------


def row_products(
    workers: Workers, key: PublicKey, payload: object, matrix: PackedMatrix
) -> tuple[bytes, Ring]:
    """Return the masked message of each row's product with an encrypted vector, and the own share.

    The message is one ciphertext per column under the peer's `key`. Raises: CodecError: it is not.
    """
    vector = key.from_bytes(payload, count=matrix.columns)
    key.prepare(to_owner=True)
    found = packed_products(
        workers,
        key,
        vector,
        matrix,
        slot_bits=SLOT_BITS,
        finish=partial(_mask_block, key),
        width=_masked_width(key),
        products=blinding_products(key, to_owner=True),
    )
    return _masked_message(key, found, matrix.rows)


def column_products(
    workers: Workers, key: PublicKey, payload: object, matrix: IntegerRows
) -> tuple[bytes, Ring]:
    """Return the masked message of each column's product with an encrypted vector, and the share.

    The message is one ciphertext per row under the peer's `key`. Raises: CodecError: it is not.
    """
    sums = column_sums(workers, key, payload, matrix)
    return _masked(key, key.pack(sums, SLOT_BITS), len(sums))


def element_products(
    workers: Workers, key: PublicKey, payload: object, factors: Ints
) -> tuple[bytes, Ring]:
    """Return the masked message of an encrypted vector times one factor each, and the own share.

    Raises: CodecError: the message is not one ciphertext per factor.
    """
    count, slots = len(factors), key.slots(SLOT_BITS)
    used = slots_in_use(count, slots)
    rows = key.rows_of(payload, count=count)
    if missing := len(used) * slots - count:
        ones = np.frombuffer(key.body([mpz(1)] * missing), np.uint8).reshape(missing, key.width)
        rows = np.vstack((rows, ones))
        factors = np.append(factors, np.zeros(missing, dtype=np.int64))
    key.prepare(to_owner=True)
    found = workers.fill_rows(
        partial(_element_block, key),
        (rows.reshape(len(used), -1), factors.reshape(len(used), slots), used),
        width=_masked_width(key),
        cost=cost_of(key, slots * (SLOT_BITS + 64) + blinding_products(key, to_owner=True)),
    )
    return _masked_message(key, found, count)


def _element_block(key: PublicKey, rows: Bytes, factors: Ints, used: Ints) -> bytes:
    numbers = key.read_rows(rows.reshape(-1, key.width))
    parts = zip(numbers, factors.ravel().tolist(), strict=True)
    products = [key.multiply_plain(ciphertext, factor) for ciphertext, factor in parts]
    slots = factors.shape[1]
    packed = [
        key.pack(products[i : i + slots], SLOT_BITS)[0] for i in range(0, len(products), slots)
    ]
    return _mask_block(key, packed, used.tolist())


def mask_vector(key: PublicKey, ciphertexts: Sequence[int]) -> tuple[bytes, Ring]:
    """Return the masked message of numbers encrypted for the peer, and the own share of them."""
    packed = key.pack([mpz(c) for c in ciphertexts], SLOT_BITS)
    return _masked(key, packed, len(ciphertexts))


def open_products(workers: Workers, key: PrivateKey, payload: object, *, count: int) -> Ring:
    """Return the own share of `count` products that the peer masked. Raises: CodecError."""
    slots = key.public.slots(SLOT_BITS)
    used = slots_in_use(count, slots)
    found = workers.fill_rows(
        partial(_open_block, key, slots),
        (key.public.rows_of(payload, count=len(used)), used),
        width=slots * ELEMENT_BYTES,
        cost=DECRYPTION_COST * (key.public.bits / 2048) ** 3,
    )
    return from_rows(found.reshape(len(used) * slots, ELEMENT_BYTES)[:count])


def _open_block(key: PrivateKey, slots: int, rows: Bytes, used: Ints) -> bytes:
    elements = []
    plaintexts = key.decrypt(key.public.read_rows(rows))
    for plaintext, count in zip(plaintexts, used.tolist(), strict=True):
        values = unpack([plaintext], SLOT_BITS, slots=slots, count=count)
        elements += [centered(value) for value in values] + [0] * (slots - count)
    return to_bytes(elements)


def inner_product(
    workers: Workers, key: PublicKey, parts: Sequence[tuple[object, Ring]]
) -> tuple[bytes, int]:
    """Return the masked message of a sum of inner products, and the own share of it.

    Each part is a message of encrypted ring elements and the own elements, of one length.
    Raises: CodecError: a message has another length or is no ciphertexts of `key`.
    """
    total = mpz(1)
    for payload, values in parts:
        for limb in reversed(dot_limbs(workers, key, payload, values)):
            total = key.add(total, limb)
    mask = secrets.randbits(_INNER_MASK_BITS)
    (blinded,) = key.blind([key.add_plain(total, mask)], to_owner=True)
    return key.to_bytes([blinded]), centered(-mask)


def dot_limbs(workers: Workers, key: PublicKey, payload: object, values: Ring) -> list[mpz]:
    """Return ciphertexts that add up to the inner product of a message with ring elements.

    Exponents are cut into limbs of 48 bits, the columns of one multi-exponentiation.
    """
    bits = 8 * _LIMB_BYTES
    found = workers.fold_rows(
        partial(_limbs_block, key),
        (key.rows_of(payload, count=len(values)), to_rows(values)),
        most=_LIMBS * key.width,
        cost=cost_of(key, _LIMBS * (1 + bits / 10)),
    )
    sums = merged(key, found, count=_LIMBS)
    return [key.multiply_plain(c, 1 << (bits * i)) for i, c in enumerate(sums)]


def _limbs_block(key: PublicKey, rows: Bytes, elements: Bytes) -> bytes:
    parts = np.zeros((len(elements), _LIMBS, 8), dtype=np.uint8)
    parts[:, :, :_LIMB_BYTES] = elements.reshape(len(elements), _LIMBS, _LIMB_BYTES)
    limbs = parts.view("<i8").reshape(len(elements), _LIMBS).astype(np.int64)
    top = limbs[:, -1]
    top[top >= 1 << (8 * _LIMB_BYTES - 1)] -= 1 << (8 * _LIMB_BYTES)  # the sign
    return sums_of_block(key, rows, limbs)


def open_inner(key: PrivateKey, payload: object) -> int:
    """Return the own share of a sum of inner products that the peer masked. Raises: CodecError."""
    (opened,) = key.decrypt(key.public.from_bytes(payload, count=1))
    return centered(opened)


# --- products of own columns with own shares ------------------------------------------------------


def own_row_products(workers: Workers, matrix: IntegerRows, vector: Ring) -> Ring:
    """Return each row's product with a vector in the ring, one element per row."""
    found = workers.fill_rows(
        partial(_own_rows_block, vector),
        (matrix.rows,),
        width=ELEMENT_BYTES,
        cost=_CLEAR_COST * (1 + matrix.columns),
    )
    return from_rows(found)


def _own_rows_block(vector: Ring, matrix: Ints) -> bytes:
    return to_bytes(matrix_vector(matrix, vector))


def own_column_products(workers: Workers, vector: Ring, matrix: IntegerRows) -> Ring:
    """Return each column's product with a vector in the ring, one element per column."""
    found = workers.fold_rows(
        _own_columns_block,
        (to_rows(vector), matrix.rows),
        most=matrix.columns * ELEMENT_BYTES,
        cost=_CLEAR_COST * (1 + matrix.columns),
    )
    shape = (len(found), matrix.columns, ELEMENT_BYTES)
    parts = np.frombuffer(b"".join(found), np.uint8).reshape(shape)
    total = sum((from_rows(part) for part in parts), ring([0] * matrix.columns))
    return center(np.asarray(total, dtype=object))


def _own_columns_block(elements: Bytes, matrix: Ints) -> bytes:
    return to_bytes(vector_matrix(from_rows(elements), matrix))


# --- masks ----------------------------------------------------------------------------------------


def _masked(key: PublicKey, packed: Sequence[mpz], count: int) -> tuple[bytes, Ring]:
    """Return the message of packed products with a mask each, and the shares that undo them."""
    used = slots_in_use(count, key.slots(SLOT_BITS))
    found = np.frombuffer(_mask_block(key, list(packed), used.tolist()), np.uint8)
    return _masked_message(key, found.reshape(len(used), _masked_width(key)), count)


def _masked_width(key: PublicKey) -> int:
    """Return the bytes of a ciphertext and of the shares that undo its masks."""
    return key.width + key.slots(SLOT_BITS) * ELEMENT_BYTES


def _mask_block(key: PublicKey, packed: list[mpz], used: list[int]) -> bytes:
    """Return masked, blinded ciphertexts, each with the shares that undo its masks."""
    slots, size = key.slots(SLOT_BITS), _MASK_BITS // 8
    sums, shares = [], []
    for ciphertext, count in zip(packed, used, strict=True):
        noise = secrets.token_bytes(size * count)
        masks = [int.from_bytes(noise[i : i + size], "little") for i in range(0, len(noise), size)]
        plain = 0
        for mask in reversed(masks):
            plain = (plain << SLOT_BITS) + mask
        sums.append(key.add_plain(ciphertext, plain))
        shares.append(to_bytes([*(centered(-mask) for mask in masks), *[0] * (slots - count)]))
    blinded = (key.body([ciphertext]) for ciphertext in key.blind(sums, to_owner=True))
    return b"".join(part for row in zip(blinded, shares, strict=True) for part in row)


def _masked_message(key: PublicKey, found: Bytes, count: int) -> tuple[bytes, Ring]:
    """Return the message of what `_mask_block` made, and the shares of `count` products."""
    shares = np.ascontiguousarray(found[:, key.width :]).reshape(-1, ELEMENT_BYTES)[:count]
    return key.message_of(found[:, : key.width]), from_rows(shares)
