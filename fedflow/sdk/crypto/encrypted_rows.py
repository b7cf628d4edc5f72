"""Ciphertexts of rows, made and summed up by a task's workers.

A message with a ciphertext per row is cut into blocks as the bytes that it is; whoever works on a
block reads and checks its ciphertexts, so that this costs the caller nothing. The functions that
are sent to workers are of modules and capture a key and numbers only; randomness is drawn where
they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto.fixed_point import scaled
from fedflow.sdk.crypto.multi_exponent import longest_exponent
from fedflow.sdk.crypto.paillier import PublicKey
from fedflow.sdk.crypto.schemes import PublicScheme
from fedflow.sdk.workers import BlockWork, PlacedRows, Progress, Rows, Workers, no_progress

ROWS_PER_BLOCK: Final = 16_384  #: ciphertexts that a process has in memory as numbers at a time
#: of decrypting with a key of 2048 bits, in `Workers`' unit; grows with the cube of the bits
DECRYPTION_COST: Final = 70.0

_PRODUCT_COST: Final = 0.12  #: of a product modulo n**2 with a key of 2048 bits, in `Workers`' unit
_DIGIT_BITS: Final = 10  #: of an exponent, about what one product takes care of
_SHORT: Final = 0.6  #: of a product's cost, if one factor is in short form

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class IntegerRows:
    """A matrix of integers (rows x columns, int64) to multiply with ciphertexts."""

    rows: Ints | PlacedRows
    columns: int
    bits: int  #: of the largest |x|

    @staticmethod
    def of(matrix: Ints, workers: Workers | None = None) -> IntegerRows:
        """Return `matrix`, placed near `workers` if it is to be used several times.

        Raises: ValueError: a number reaches 2**62.
        """
        bits = longest_exponent(matrix) if matrix.size else 0
        rows = matrix if workers is None else workers.pin(np.ascontiguousarray(matrix))
        return IntegerRows(rows=rows, columns=matrix.shape[1], bits=bits)

    def select(self, rows: slice | Ints) -> IntegerRows:
        """Return some of the rows."""
        own = self.rows
        found = own[rows] if isinstance(own, np.ndarray) else own.select(rows)
        return replace(self, rows=cast("Ints | PlacedRows", found))

    @property
    def products(self) -> float:
        """Return about how many products modulo n**2 a row costs."""
        return 4 + _SHORT * self.columns * (1 + self.bits / _DIGIT_BITS)


def cost_of(key: PublicScheme, products: float) -> float:
    """Return the cost, in the unit of `Workers`, of so many products of ciphertexts per row."""
    return _PRODUCT_COST * products * (key.width / 512) ** 2


def blinding_products(key: PublicScheme, *, to_owner: bool = False) -> float:
    """Return about how many products of ciphertexts a fresh blinding takes."""
    return key.blinding_products(to_owner=to_owner)


# --- one ciphertext per row -----------------------------------------------------------------------


def encrypt_integers(workers: Workers, key: PublicKey, values: Ints) -> bytes:
    """Return the message of encrypted integers."""
    return encrypted(workers, key, partial(_integers, key), (values,))


def encrypt_numbers(workers: Workers, key: PublicKey, values: Floats, *, scale: int) -> bytes:
    """Return the message of encrypted numbers, each as round(x * 2**scale), all finite."""
    return encrypted(workers, key, partial(_numbers, key, scale), (values,))


def encrypted(
    workers: Workers,
    key: PublicKey,
    work: BlockWork,
    inputs: Sequence[Rows],
    *,
    products: float = 0.0,
    progress: Progress = no_progress,
) -> bytes:
    """Return the message of what `work` makes of rows: one ciphertext each, blinded for peers.

    Args:
        products: how many products modulo n**2 a row takes beside the blinding.

    Raises: as `Workers.fill_rows`.
    """
    key.prepare()
    rows = workers.fill_rows(
        work,
        inputs,
        width=key.width,
        cost=cost_of(key, products + blinding_products(key)),
        progress=progress,
    )
    return key.message_of(rows)


def _integers(key: PublicKey, values: Ints) -> bytes:
    return key.body(key.encrypt(values.tolist()))


def _numbers(key: PublicKey, scale: int, values: Floats) -> bytes:
    return key.body(key.encrypt(scaled(value, scale) for value in values.tolist()))


# --- sums over rows -------------------------------------------------------------------------------


def column_sums(
    workers: Workers,
    key: PublicKey,
    payload: object,
    matrix: IntegerRows,
    *,
    more: Ints | None = None,
    kept: NDArray[np.bool_] | None = None,
    with_total: bool = False,
) -> list[mpz]:
    """Return ciphertexts of the inner products of a message with each column of `matrix`.

    Args:
        payload: one ciphertext per row.
        more: one more column.
        kept: which rows count; None = all. The others' ciphertexts are not read.
        with_total: the sum of all plaintexts follows as last entry.

    Not blinded. Raises: CodecError: the message is not one valid ciphertext per row.
    """
    ciphertexts = key.rows_of(payload, count=len(matrix.rows))
    if kept is not None:
        ciphertexts, matrix = ciphertexts[kept], matrix.select(np.flatnonzero(kept))
        more = None if more is None else more[kept]
    inputs: list[Rows] = [ciphertexts, matrix.rows]
    inputs += [] if more is None else [more]
    count = matrix.columns + (more is not None) + with_total
    work = partial(sums_of_block, key, with_total=with_total)
    found = workers.fold_rows(
        work, inputs, most=count * key.width, cost=cost_of(key, matrix.products + with_total)
    )
    return merged(key, found, count=count)


def sums_of_block(
    key: PublicKey,
    rows: Bytes,
    matrix: Ints,
    more: Ints | None = None,
    *,
    with_total: bool = False,
) -> bytes:
    """Return the sums of a block of rows as `column_sums` wants them, `key.width` bytes each."""

    def block(part: slice) -> Ints:
        return matrix[part] if more is None else np.column_stack((matrix[part], more[part]))

    count = matrix.shape[1] + (more is not None) + with_total
    sums = [mpz(1)] * count
    for part in parts_of(len(rows)):
        ciphertexts = key.read_rows(rows[part])
        found = key.dot_columns(ciphertexts, block(part))
        if with_total:
            found.append(key.total(ciphertexts))
        sums = [key.add(old, new) for old, new in zip(sums, found, strict=True)]
    return key.body(sums)


def merged(key: PublicKey, found: Sequence[bytes], *, count: int) -> list[mpz]:
    """Return the sums of what several blocks gave, `count` ciphertexts each."""
    sums = [mpz(1)] * count
    for body in found:
        width = key.width
        parts = (
            mpz.from_bytes(body[i : i + width], "little") for i in range(0, count * width, width)
        )
        sums = [key.add(old, new) for old, new in zip(sums, parts, strict=True)]
    return sums


def parts_of(rows: int) -> Iterator[slice]:
    """Yield the rows of a block in parts of at most ROWS_PER_BLOCK."""
    for start in range(0, rows, ROWS_PER_BLOCK):
        yield slice(start, min(start + ROWS_PER_BLOCK, rows))
