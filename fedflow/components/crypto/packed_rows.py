"""Encrypted inner products of one short encrypted vector with many rows, several to a ciphertext.

For ciphertexts c_1 .. c_d and an integer matrix (rows x d), packed result k is the product over all
columns j and the rows i that share it of c_j ** (x_ij * 2**(slot_bits * place of i)): under an
additively homomorphic scheme the inner product of the encrypted vector with row i, in its slot.
`multi_exponent.dot_columns` does the opposite case, long vectors and few columns.

Every base serves all rows, so its powers by digit * 2**(w * position) * 2**(slot_bits * place) are
tabled, for signed digits of w bits; a row then costs one product per column and digit that is not
0. w is chosen by counting products.

Source: Brickell, Gordon, McCurley, Wilson 1992 (fixed bases), with signed digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.multi_exponent import longest_exponent, signed_digits

WINDOWS = range(2, 13)  #: digit widths, bits

_SIGN_BITS = 2  # negative digits reach less far than positive ones, least with two bits each
_ONE = mpz(1)


def packed_rows(
    ciphertexts: Sequence[mpz],
    matrix: NDArray[np.int64],
    modulus: mpz,
    *,
    slot_bits: int,
    slots: int,
    window: int | None = None,
) -> list[mpz]:
    """Return ceil(rows / slots) ciphertexts; row i is in slot i % slots of number i // slots.

    That no inner product leaves its slot is the caller's duty. Not blinded.

    Args:
        ciphertexts: one per column, invertible modulo `modulus`.
        matrix: rows x columns, int64, every |x| < 2**62.
        window: digit width in bits, 2 to 12; None chooses the cheapest. The result does not
            depend on it.

    Raises: ValueError: the shapes or the window do not fit, or an exponent is too large.
        ZeroDivisionError: a ciphertext is not invertible.
    """
    rows, columns = matrix.shape
    if columns != len(ciphertexts):
        raise ValueError(f"{len(ciphertexts)} ciphertexts for a matrix of {columns} columns")
    packed = [_ONE] * (-(-rows // slots))
    if matrix.size == 0:
        return packed
    bits = longest_exponent(matrix) + _SIGN_BITS
    width = window or cheapest_window(bits, rows=rows, slots=slots)
    if width not in WINDOWS:
        raise ValueError(f"digits cannot have {width} bits")
    digits = -(-bits // width)
    targets = np.arange(rows) // slots
    places = np.arange(rows) % slots
    for column, ciphertext in enumerate(ciphertexts):
        table = _table(ciphertext, modulus, slot_bits=slot_bits, slots=slots, shape=(digits, width))
        for position, digit in enumerate(signed_digits(matrix[:, column], width)):
            used = np.flatnonzero(digit)
            for target, place, value in zip(
                targets[used].tolist(), places[used].tolist(), digit[used].tolist(), strict=True
            ):
                packed[target] = packed[target] * table[place][position][value] % modulus
    return packed


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
