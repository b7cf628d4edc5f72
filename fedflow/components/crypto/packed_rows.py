"""Encrypted inner products of one short encrypted vector with many rows, several to a ciphertext.

For ciphertexts c_1 .. c_d and an integer matrix (rows x d), packed result k is the product over all
columns j and the rows i that share it of c_j ** (x_ij * 2**(slot_bits * place of i)): under an
additively homomorphic scheme the inner product of the encrypted vector with row i, in its slot.
`multi_exponent.dot_columns` does the opposite case, long vectors and few columns.

Every base serves all rows, so its powers by digit * 2**(w * position) * 2**(slot_bits * place) are
tabled, for signed digits of w bits; a row then costs one product per column and digit that is not
0. w is chosen by counting products. Each process that works on rows makes its own tables, and
columns whose tables would take too much memory together have a pass each.

Source: Brickell, Gordon, McCurley, Wilson 1992 (fixed bases), with signed digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import gmpy2
import numpy as np
from gmpy2 import mpz

from fedflow.sdk.crypto.encrypted_rows import Bytes, Ints, cost_of
from fedflow.sdk.crypto.multi_exponent import longest_exponent, signed_digits
from fedflow.sdk.crypto.paillier import PublicKey
from fedflow.sdk.workers import Rows, Workers

WINDOWS = range(2, 13)  #: digit widths, bits

_SIGN_BITS = 2  # negative digits reach less far than positive ones, least with two bits each
_TABLE_BYTES: Final = 64 << 20  # of the tables of all columns of one pass
_MOST_COLUMNS: Final = 256  # of one pass: their ciphertexts are sent with the work
_ONE = mpz(1)

Finish = Callable[[list[mpz], list[int]], bytes]
"""Gets ciphertexts and how many slots of each are in use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedMatrix:
    """Rows of integers in groups that share a ciphertext, groups x (slots * columns), int64."""

    groups: Rows
    rows: int  #: without the zeros that fill the last group
    columns: int
    slots: int  #: rows in a group
    bits: int  #: of the largest |x|

    @staticmethod
    def of(matrix: Ints, *, slots: int) -> PackedMatrix:
        """Return the rows of `matrix` (rows x columns) in groups of `slots`.

        Raises: ValueError: a number reaches 2**62.
        """
        rows, columns = matrix.shape
        bits = longest_exponent(matrix) if matrix.size else 0
        count = -(-rows // slots)
        if missing := count * slots - rows:
            matrix = np.vstack((matrix, np.zeros((missing, columns), dtype=np.int64)))
        groups = np.ascontiguousarray(matrix).reshape(count, slots * columns)
        return PackedMatrix(groups=groups, rows=rows, columns=columns, slots=slots, bits=bits)


def packed_products(
    workers: Workers,
    key: PublicKey,
    vector: Sequence[mpz],
    matrix: PackedMatrix,
    *,
    slot_bits: int,
    finish: Finish,
    width: int,
    products: float,
) -> Bytes:
    """Return what `finish` makes of the packed inner products of an encrypted vector with all rows.

    That no inner product leaves its slot is the caller's duty.

    Args:
        vector: one ciphertext per column, valid ones of `key`.
        finish: it is sent to workers; returns `width` bytes per ciphertext.
        products: how many products modulo n**2 it takes per ciphertext.

    Raises: as `Workers.fill_rows`.
    """
    used = slots_in_use(matrix.rows, matrix.slots)
    share = -(-matrix.rows // workers.cores)
    window = cheapest_window(matrix.bits + _SIGN_BITS, rows=share, slots=matrix.slots)
    before: list[Rows] = []
    passes = list(_passes(key, matrix, window=window))
    for number, part in enumerate(passes):
        is_last = number + 1 == len(passes)
        tables = PowerTables(
            ciphertexts=tuple(vector[part]),
            modulus=key.modulus,
            slot_bits=slot_bits,
            slots=matrix.slots,
            bits=matrix.bits,
            window=window,
        )
        work = partial(_block, key, tables, part, finish if is_last else None)
        found = workers.fill_rows(
            work,
            [matrix.groups, used, *before],
            width=width if is_last else key.width,
            cost=cost_of(key, tables.products + (products if is_last else 0.0)),
        )
        before = [found]
    _made.cache_clear()  # as many bytes as _TABLE_BYTES, which this process needs no more
    return found


def slots_in_use(count: int, slots: int) -> Ints:
    """Return for each ciphertext how many of its slots are in use if there are `count` values."""
    used = np.full(-(-count // slots), slots, dtype=np.int64)
    used[-1:] -= len(used) * slots - count
    return used


def _passes(key: PublicKey, matrix: PackedMatrix, *, window: int) -> Iterator[slice]:
    """Yield the columns of each pass; there is one, even without columns."""
    digits = -(-(matrix.bits + _SIGN_BITS) // window)
    table = (digits * matrix.slots << window) * (key.width + 64)
    step = max(1, min(_MOST_COLUMNS, _TABLE_BYTES // table))
    for start in range(0, max(1, matrix.columns), step):
        yield slice(start, min(start + step, matrix.columns))


def _block(
    key: PublicKey,
    tables: PowerTables,
    columns: slice,
    finish: Finish | None,
    groups: Ints,
    used: Ints,
    before: Bytes | None = None,
) -> bytes:
    """Return what a pass makes of a block of groups; `before` is what the passes before made."""
    columns_of_all = groups.shape[1] // tables.slots
    rows = groups.reshape(len(groups) * tables.slots, columns_of_all)
    packed = tables.multiply(rows[:, columns])
    if before is not None:
        parts = (mpz.from_bytes(row.tobytes(), "little") for row in before)
        packed = [key.add(own, part) for own, part in zip(packed, parts, strict=True)]
    return key.body(packed) if finish is None else finish(packed, used.tolist())


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerTables:
    """The powers of some ciphertexts, made in each process that uses them.

    The ciphertexts are invertible modulo `modulus`. The products do not depend on the window.
    Raises: ValueError: there is no such window.
    """

    ciphertexts: tuple[mpz, ...]
    modulus: mpz
    slot_bits: int
    slots: int
    bits: int  #: of the largest |x|
    window: int  #: bits of a digit, 2 to 12

    def __post_init__(self) -> None:
        if self.window not in WINDOWS:
            raise ValueError(f"digits cannot have {self.window} bits")

    @property
    def digits(self) -> int:
        """Return how many digits an exponent has."""
        return -(-(self.bits + _SIGN_BITS) // self.window)

    @property
    def products(self) -> float:
        """Return about how many products modulo n**2 a packed result costs."""
        return 2.0 + self.slots * len(self.ciphertexts) * self.digits

    def multiply(self, matrix: Ints) -> list[mpz]:
        """Return the inner products of rows (rows x ciphertexts), packed.

        Row i is in slot i % slots of number i // slots; that it does not leave it is the caller's
        duty. Not blinded. Raises: ZeroDivisionError: a ciphertext is not invertible. ValueError:
        another number of columns.
        """
        rows, columns = matrix.shape
        if columns != len(self.ciphertexts):
            raise ValueError(f"{len(self.ciphertexts)} ciphertexts for {columns} columns")
        modulus = self.modulus
        packed = [_ONE] * (-(-rows // self.slots))
        targets = np.arange(rows) // self.slots
        places = np.arange(rows) % self.slots
        for column, table in enumerate(_made(self)):
            for position, digit in enumerate(signed_digits(matrix[:, column], self.window)):
                used = np.flatnonzero(digit)
                for target, place, value in zip(
                    targets[used].tolist(), places[used].tolist(), digit[used].tolist(), strict=True
                ):
                    packed[target] = packed[target] * table[place][position][value] % modulus
        return packed


@lru_cache(maxsize=2)
def _made(tables: PowerTables) -> list[list[list[list[mpz]]]]:
    """Return each ciphertext's table; a process keeps them for its next block of rows."""
    return [
        _table(
            ciphertext,
            tables.modulus,
            slot_bits=tables.slot_bits,
            slots=tables.slots,
            shape=(tables.digits, tables.window),
        )
        for ciphertext in tables.ciphertexts
    ]


def cheapest_window(bits: int, *, rows: int, slots: int) -> int:
    """Return the digit width that needs the fewest products per column (an estimate).

    Args:
        bits: of the largest |x|, and two for the sign.
    """

    def products(width: int) -> float:
        digits = -(-bits // width)
        return digits * (min(slots, rows) * 2.0**width + rows * (1.0 - 2.0**-width))

    return min(WINDOWS, key=products)


def _table(
    base: mpz, modulus: mpz, *, slot_bits: int, slots: int, shape: tuple[int, int]
) -> list[list[list[mpz]]]:
    """Return table[place][position][digit], the base's power; negative digits index from the end.

    `shape` is (digits, bits of a digit).
    """
    digits, width = shape
    table = []
    for place in range(slots):
        powers = base if place == 0 else gmpy2.powmod(base, _ONE << (slot_bits * place), modulus)
        inverse = gmpy2.invert(powers, modulus)
        rows = []
        for _ in range(digits):
            rows.append(_signed_powers(powers, inverse, width, modulus))
            half = rows[-1][1 << (width - 1)]
            powers = half * half % modulus
            inverse = gmpy2.invert(powers, modulus)
        table.append(rows)
    return table


def _signed_powers(base: mpz, inverse: mpz, width: int, modulus: mpz) -> list[mpz]:
    """Return base ** 0 to base ** 2**(width - 1), then the powers -(2**(width - 1) - 1) to -1."""
    half = 1 << (width - 1)
    positive, negative = [_ONE], [_ONE]
    for _ in range(half):
        positive.append(positive[-1] * base % modulus)
    for _ in range(half - 1):
        negative.append(negative[-1] * inverse % modulus)
    return positive + negative[:0:-1]
